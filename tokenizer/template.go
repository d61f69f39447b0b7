package tokenizer

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
)

// A template is the order in which special tokens and texts make a row: [CLS] A [SEP] B [SEP].
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

// templates are those for one text and for a pair.
type templates struct{ single, pair template }

// A postProcessor is the part of tokenizer.json that says how rows are made.
type postProcessor struct {
	Type          string       `json:"type"`
	Single        []piece      `json:"single"`
	Pair          []piece      `json:"pair"`
	SpecialTokens specialIDs   `json:"special_tokens"`
	Cls           specialToken `json:"cls"`
	Sep           specialToken `json:"sep"`
}

type piece struct {
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

// templates returns the templates that p describes; no post-processor adds no special tokens.
func (p *postProcessor) templates() (templates, error) {
	if p == nil {
		return templates{template{{text: 0}}, template{{text: 0}, {text: 1, segment: 1}}}, nil
	}
	if process := processors[p.Type]; process != nil {
		return process(p)
	}
	return templates{}, fmt.Errorf("it has the type %q; %s", p.Type, supported)
}

// processors are the supported types.
var processors = map[string]func(*postProcessor) (templates, error){
	"TemplateProcessing": func(p *postProcessor) (t templates, err error) {
		if t.single, err = p.template(p.Single, 1); err != nil {
			return t, fmt.Errorf("single: %w", err)
		}
		if t.pair, err = p.template(p.Pair, 2); err != nil {
			return t, fmt.Errorf("pair: %w", err)
		}
		return t, nil
	},
	"BertProcessing": func(p *postProcessor) (templates, error) {
		return bertTemplates(p.Cls.id, p.Sep.id), p.complete()
	},
	// Of MPNet, whose words are BERT's.
	"RobertaProcessing": func(p *postProcessor) (templates, error) {
		cls, sep := slot{special, []int64{p.Cls.id}, 0}, slot{special, []int64{p.Sep.id}, 0}
		a, b := slot{text: 0}, slot{text: 1}
		return templates{template{cls, a, sep}, template{cls, a, sep, sep, b, sep}}, p.complete()
	},
}

// complete returns an error if the tokens at the ends of rows are not named.
func (p *postProcessor) complete() error {
	if p.Cls.content == "" || p.Sep.content == "" {
		return errors.New("it lacks cls or sep")
	}
	return nil
}

// bertTemplates are [CLS] A [SEP] and [CLS] A [SEP] B [SEP], in which B [SEP] is the second segment.
func bertTemplates(cls, sep int64) templates {
	single := template{{special, []int64{cls}, 0}, {text: 0}, {special, []int64{sep}, 0}}
	return templates{single, append(slices.Clone(single), slot{text: 1, segment: 1}, slot{special, []int64{sep}, 1})}
}

// template reads a template that must hold each of so many texts once.
func (p *postProcessor) template(pieces []piece, texts int) (template, error) {
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
