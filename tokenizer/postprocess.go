package tokenizer

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
)

// A postProcessor makes sequences of the tokens of texts.
type postProcessor struct {
	single, pair template
	trims        []bool // trim_offsets, each with its add_prefix_space
	// ownTypes: in all windows of a text but the first its tokens have the type id 0 or 1, whatever the template says: tokenizers applies
	// a TemplateProcessing to the first alone.
	ownTypes bool
}

// sequence returns the template of a sequence.
func (p *postProcessor) template(pair, bare bool) template {
	if bare {
		return bareTemplates[pair]
	}
	if pair {
		return p.pair
	}
	return p.single
}

// bareTemplates are the templates without special tokens, of a text and of a pair.
var bareTemplates = map[bool]template{false: {{text: 0}}, true: {{text: 0}, {text: 1, segment: 1}}}

// A template is the order in which special tokens and texts make a sequence: [CLS] A [SEP] B [SEP].
type template []slot

// A slot stands for one of the texts, or for special tokens.
type slot struct {
	text    int // 0 or 1: the text or its pair; special: ids
	ids     []int64
	segment int64 // the token type id of all of the slot
}

const special = -1

// specials returns how many special tokens the template adds.
func (t template) specials() int {
	n := 0
	for _, s := range t {
		n += len(s.ids)
	}
	return n
}

// swapped reports whether the second text comes first.
func (t template) swapped() bool {
	i := slices.IndexFunc(t, func(s slot) bool { return s.text != special })
	return i >= 0 && t[i].text == 1
}

// plain are sequences without special tokens.
func plain() postProcessor {
	return postProcessor{single: template{{text: 0}}, pair: template{{text: 0}, {text: 1, segment: 1}}}
}

// postProcessors are readers for the types of tokenizer.json's post_processor. Their results change a postProcessor.
var postProcessors map[string]func(raw json.RawMessage, depth int) (func(*postProcessor) error, error)

func init() { // a Sequence refers to the table
	postProcessors = map[string]func(json.RawMessage, int) (func(*postProcessor) error, error){
		"Sequence":           readPostProcessors,
		"TemplateProcessing": readTemplate,
		"BertProcessing": ends(func(cls, sep int64) (template, template) {
			single := template{{special, []int64{cls}, 0}, {text: 0}, {special, []int64{sep}, 0}}
			return single, append(slices.Clone(single), slot{text: 1, segment: 1}, slot{special, []int64{sep}, 1})
		}),
		"RobertaProcessing": ends(func(cls, sep int64) (template, template) {
			single := template{{special, []int64{cls}, 0}, {text: 0}, {special, []int64{sep}, 0}}
			return single, append(slices.Clone(single), slot{special, []int64{sep}, 0}, slot{text: 1}, slot{special, []int64{sep}, 0})
		}),
		"ByteLevel": readTrim,
	}
}

// readPostProcessor reads tokenizer.json's post_processor; null adds no special tokens.
func readPostProcessor(raw json.RawMessage) (postProcessor, error) {
	p := plain()
	apply, err := readComponent("post_processor", postProcessors, raw, 0)
	if err == nil && apply != nil {
		err = apply(&p)
	}
	return p, err
}

func readPostProcessors(raw json.RawMessage, depth int) (func(*postProcessor) error, error) {
	var f struct {
		Processors []json.RawMessage `json:"processors"`
	}
	if err := json.Unmarshal(raw, &f); err != nil {
		return nil, err
	}
	var list []func(*postProcessor) error
	for _, raw := range f.Processors {
		apply, err := readComponent("post_processor", postProcessors, raw, depth)
		if err != nil {
			return nil, err
		}
		if apply != nil {
			list = append(list, apply)
		}
	}
	return func(p *postProcessor) error {
		for _, apply := range list {
			if err := apply(p); err != nil {
				return err
			}
		}
		return nil
	}, nil
}

// setTemplates adds special tokens to sequences, which only one component may do.
func (p *postProcessor) setTemplates(single, pair template) error {
	if p.single.specials() > 0 || p.pair.specials() > 0 {
		return errors.New("post_processor Sequence: two of its components add special tokens")
	}
	p.single, p.pair = single, pair
	return nil
}

// A trimField says whether white space at the ends of tokens is left out of their offsets.
type trimField struct {
	Trim        *bool `json:"trim_offsets"`
	PrefixSpace *bool `json:"add_prefix_space"`
}

// apply adds the trimming to p. Both settings are true if the file lacks them.
func (f trimField) apply(p *postProcessor) {
	if f.Trim == nil || *f.Trim {
		p.trims = append(p.trims, f.PrefixSpace == nil || *f.PrefixSpace)
	}
}

func readTrim(raw json.RawMessage, _ int) (func(*postProcessor) error, error) {
	var f trimField
	err := json.Unmarshal(raw, &f)
	return func(p *postProcessor) error { f.apply(p); return nil }, err
}

// ends makes sequences of two tokens, at the ends of texts.
func ends(templates func(cls, sep int64) (single, pair template)) func(json.RawMessage, int) (func(*postProcessor) error, error) {
	return func(raw json.RawMessage, _ int) (func(*postProcessor) error, error) {
		var f struct {
			Type string       `json:"type"`
			Cls  specialToken `json:"cls"`
			Sep  specialToken `json:"sep"`
			trimField
		}
		if err := json.Unmarshal(raw, &f); err != nil {
			return nil, err
		}
		if f.Cls.content == "" || f.Sep.content == "" {
			return nil, errors.New("it lacks cls or sep")
		}
		return func(p *postProcessor) error {
			if f.Type == "RobertaProcessing" {
				f.trimField.apply(p)
			}
			return p.setTemplates(templates(f.Cls.id, f.Sep.id))
		}, nil
	}
}

// A templateFile is a TemplateProcessing.
type templateFile struct {
	Single        []templatePiece `json:"single"`
	Pair          []templatePiece `json:"pair"`
	SpecialTokens specialIDs      `json:"special_tokens"`
}

type templatePiece struct {
	SpecialToken, Sequence *struct {
		ID     string `json:"id"`
		TypeID int64  `json:"type_id"`
	}
}

type specialIDs map[string]struct {
	IDs []int64 `json:"ids"`
}

// A specialToken is written ["[CLS]", 101].
type specialToken struct {
	content string
	id      int64
}

func (s *specialToken) UnmarshalJSON(data []byte) error {
	pair := []any{&s.content, &s.id}
	if err := json.Unmarshal(data, &pair); err != nil || len(pair) != 2 || s.content == "" {
		return fmt.Errorf(`%s is not a token and its id, such as ["[CLS]", 101]`, data)
	}
	return nil
}

func readTemplate(raw json.RawMessage, _ int) (func(*postProcessor) error, error) {
	var f templateFile
	if err := json.Unmarshal(raw, &f); err != nil {
		return nil, err
	}
	single, err := f.template(f.Single, 1)
	if err != nil {
		return nil, fmt.Errorf("single: %w", err)
	}
	pair, err := f.template(f.Pair, 2)
	if err != nil {
		return nil, fmt.Errorf("pair: %w", err)
	}
	return func(p *postProcessor) error {
		p.ownTypes = true
		return p.setTemplates(single, pair)
	}, nil
}

// template reads a template that must hold each of that many texts once.
func (p *templateFile) template(pieces []templatePiece, texts int) (template, error) {
	var t template
	seen := make([]int, texts)
	for _, piece := range pieces {
		switch {
		case piece.SpecialToken != nil:
			known, ok := p.SpecialTokens[piece.SpecialToken.ID]
			if !ok {
				return nil, fmt.Errorf("special token %q is not among special_tokens", piece.SpecialToken.ID)
			}
			t = append(t, slot{special, known.IDs, piece.SpecialToken.TypeID})
		case piece.Sequence != nil:
			i := slices.Index([]string{"A", "B"}[:texts], piece.Sequence.ID)
			if i < 0 {
				return nil, fmt.Errorf("sequence %q has no text", piece.Sequence.ID)
			}
			seen[i]++
			t = append(t, slot{text: i, segment: piece.Sequence.TypeID})
		default:
			return nil, errors.New("a piece is neither a SpecialToken nor a Sequence")
		}
	}
	if slices.ContainsFunc(seen, func(n int) bool { return n != 1 }) {
		return nil, fmt.Errorf("it must hold each of its %d texts once", texts)
	}
	return t, nil
}
