package tokenizer

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
)

// A definition is all that makes a tokenizer, as the files have it.
type definition struct {
	model modelFile
	vocab *vocabulary

	bert       *bertSettings // the normalizer, if it is BERT's
	normalizer normalizer
	pre        preTokenizer
	post       postProcessor
	decoder    decoder

	added     []addedToken
	roles     map[string]string
	maxLength int // 0: the files name none

	lowerFirst   bool
	fromJSON     bool     // from a tokenizer.json, whose settings the config beside it may change
	splitSpecial bool     // special tokens in a text are text
	notes        []string // result of Notes
	config       *config  // settings in the files beside tokenizer.json; nil for none
	cutSide      Side
	padSide      Side
}

// A component's file names the parts of tokenizer.json by these keys; the others ("version", "truncation" and "padding", which are the
// caller's choice) say nothing that matters.
const (
	addedKey      = "added_tokens"
	normalizerKey = "normalizer"
	preKey        = "pre_tokenizer"
	postKey       = "post_processor"
	decoderKey    = "decoder"
)

// define reads the components of a tokenizer.json.
func (f *tokenizerFile) define() (*definition, error) {
	d := &definition{model: f.model, roles: map[string]string{}}
	if raw := f.parts[addedKey]; len(raw) > 0 {
		if err := json.Unmarshal(raw, &d.added); err != nil {
			return nil, fmt.Errorf("%s: %w", addedKey, err)
		}
	}
	fillClasses()
	var err error
	if d.normalizer, err = readComponent("normalizer", normalizers, f.parts[normalizerKey], 0); err != nil {
		return nil, err
	}
	if _, ok := d.normalizer.(*bertNormalizer); ok {
		settings := uncased
		_ = json.Unmarshal(f.parts[normalizerKey], &settings) // as it went before
		d.bert = &settings
	}
	if d.pre, err = readComponent("pre_tokenizer", preTokenizers, f.parts[preKey], 0); err != nil {
		return nil, err
	}
	if d.post, err = readPostProcessor(f.parts[postKey]); err != nil {
		return nil, err
	}
	if d.decoder, err = readComponent("decoder", decoders, f.parts[decoderKey], 0); err != nil {
		return nil, err
	}
	var padding struct {
		Token string `json:"pad_token"`
	}
	if raw := f.parts["padding"]; len(raw) > 0 && json.Unmarshal(raw, &padding) == nil && padding.Token != "" {
		d.roles["pad"] = padding.Token
	}
	return d, nil
}

// models are the types of tokenizer.json's model.
var models = map[string]func(d *definition) (model, error){
	"WordPiece": func(d *definition) (model, error) {
		var s wordPieceSettings
		if err := json.Unmarshal(d.model.rest, &s); err != nil {
			return nil, err
		}
		return newWordPiece(s, d.vocab)
	},
	"WordLevel": func(d *definition) (model, error) {
		s := struct {
			Unknown string `json:"unk_token"`
		}{"<unk>"}
		if err := json.Unmarshal(d.model.rest, &s); err != nil {
			return nil, err
		}
		return newWordLevel(s.Unknown, d.vocab)
	},
	"BPE": func(d *definition) (model, error) {
		var s bpeSettings
		if err := json.Unmarshal(d.model.rest, &s); err != nil {
			return nil, err
		}
		level := lastByteLevel(d.pre)
		// A byte without a token and without an unk_token is dropped. The offsets after it then count characters of the alphabet.
		asBytes := level != nil && s.Prefix == nil && s.Suffix == nil && (s.Fallback == nil || !*s.Fallback) &&
			(s.Unknown != nil || spellsBytes(d.vocab))
		m, err := newBPE(s, d.vocab, d.model.merges, asBytes)
		if err != nil {
			return nil, err
		}
		if asBytes {
			level.asBytes = true
		} else {
			m.cutAt(metaspaceRune)
		}
		return m, nil
	},
	"Unigram": func(d *definition) (model, error) {
		var s struct {
			Unknown  *int64 `json:"unk_id"`
			Fallback bool   `json:"byte_fallback"`
		}
		if err := json.Unmarshal(d.model.rest, &s); err != nil {
			return nil, err
		}
		if len(d.model.scores) != len(d.model.entries) || len(d.model.scores) == 0 {
			return nil, errors.New("its vocabulary is not an array of pieces and scores")
		}
		return newUnigram(d.vocab, d.model.scores, s.Unknown, s.Fallback)
	},
}

// metaspaceRune stands for a space in the vocabularies of SentencePiece.
const metaspaceRune = '▁'

// lastByteLevel returns the pre-tokenizer that writes the text as bytes, if that is the last thing done to the text, and done once.
func lastByteLevel(p preTokenizer) *byteLevel {
	if s, ok := p.(preSequence); ok && len(s) > 0 {
		for _, p := range s[:len(s)-1] {
			if lastByteLevel(p) != nil {
				return nil
			}
		}
		return lastByteLevel(s[len(s)-1])
	}
	b, _ := p.(*byteLevel)
	return b
}

// typeOf returns the type of the model; old files leave it out.
func (m *modelFile) typeOf() string {
	if m.kind != "" {
		return m.kind
	}
	var fields map[string]json.RawMessage
	_ = json.Unmarshal(m.rest, &fields)
	switch {
	case m.scores != nil:
		return "Unigram"
	case m.merges != nil:
		return "BPE"
	case fields["continuing_subword_prefix"] != nil && fields["max_input_chars_per_word"] != nil:
		return "WordPiece"
	case fields["unk_token"] != nil:
		return "WordLevel"
	}
	return ""
}

// addedTokens are tables of the added tokens.
type addedTokens struct {
	byID      map[int64]*shownToken
	byContent map[string]*shownToken
	special   map[string]bool
}

// A shownToken is an added token with its form in decoded text, which is the normal form if the tokenizer finds the token in normalised
// text.
type shownToken struct {
	addedToken
	shown string
}

// build checks the parts of a definition against each other and makes the tokenizer.
func (d *definition) build() (*Tokenizer, error) {
	kind := d.model.typeOf()
	makeModel := models[kind]
	if makeModel == nil {
		return nil, fmt.Errorf("unknown model %q; known are %s", kind, names(models))
	}
	var err error
	if d.vocab, err = newVocabulary(d.model.entries); err != nil {
		return nil, fmt.Errorf("model %s: %w", kind, err)
	}
	if d.bert != nil {
		d.normalizer = d.bert.normalizer()
	}
	if d.lowerFirst {
		if err := d.lowercaseFirst(); err != nil {
			return nil, err
		}
	}
	if s, ok := d.normalizer.(sequence); ok {
		d.normalizer = s.fused()
	}
	t := &Tokenizer{
		normalizer: d.normalizer, pre: d.pre, post: d.post, decoder: d.decoder, vocab: d.vocab, roles: d.roles,
		maxLength: d.maxLength, cutSide: cmp.Or(d.cutSide, Right), padSide: cmp.Or(d.padSide, Right),
		size: d.vocab.size(), notes: d.notes,
		scratch: sync.Pool{New: func() any { return &scratch{} }},
	}
	if t.model, err = makeModel(d); err != nil {
		return nil, fmt.Errorf("model %s: %w", kind, err)
	}
	t.spelt = none
	switch m := t.model.(type) {
	case *bpe:
		t.overruns = m.overruns()
	case *unigram:
		t.spelt = int64(m.unknown)
	}
	if err := t.add(d.added, d.splitSpecial); err != nil {
		return nil, fmt.Errorf("%s: %w", addedKey, err)
	}
	for _, tmpl := range []template{d.post.single, d.post.pair} {
		for _, slot := range tmpl {
			for _, id := range slot.ids {
				if id < 0 || id >= int64(t.size) {
					return nil, fmt.Errorf("%s adds the id %d, but the ids of the vocabulary end at %d", postKey, id, t.size-1)
				}
			}
		}
	}
	_, t.pad, _ = t.Role("pad") // no model looks at what is padded: without such a token any id serves
	if len(t.post.trims) > 0 {
		t.edges = edgeTable(t.vocab)
	}
	t.track = needsOrigins(t.pre)
	for i := range t.local {
		t.local[i] = t.normal == nil && isLocal(t.normalizer, t.track || i == 1) && isLocalSplit(t.pre)
	}
	return t, nil
}

// lowercaseFirst puts lower-casing before the normalizer, unless that does it.
func (d *definition) lowercaseFirst() error {
	if d.normalizer == nil {
		d.normalizer = mapping(lowercase)
		return nil
	}
	var x text
	x.reset("A", 0, false)
	x.budget.begin(1, nil)
	if err := x.normalize(d.normalizer); err != nil {
		return err
	}
	if !strings.ContainsRune(x.string(), 'a') {
		d.normalizer = sequence{mapping(lowercase), d.normalizer}
	}
	return nil
}

// add makes the finders of added tokens. With splitSpecial, special ones are not found.
func (t *Tokenizer) add(tokens []addedToken, splitSpecial bool) error {
	t.added = addedTokens{map[int64]*shownToken{}, map[string]*shownToken{}, map[string]bool{}}
	var raw, normal []addedToken
	next := int32(t.vocab.count) // the id of a new token
	for _, a := range tokens {
		id := t.vocab.find([]byte(a.Content))
		if id == none {
			id = a.ID
			if other, taken := t.vocab.token(int64(id)); taken && other != a.Content {
				id = next // the id is another token's
			}
		}
		if id != a.ID && a.ID >= 0 {
			t.notes = append(t.notes, fmt.Sprintf("the added token %q has the id %d, as in tokenizers: %d in the file contradicts the "+
				"vocabulary", a.Content, id, a.ID))
			a.ID = id
		}
		next = max(next, a.ID+1)
		if a.ID < 0 || a.ID >= maxID {
			return fmt.Errorf("the token %q has the id %d; an id is at least 0 and less than %d", a.Content, a.ID, maxID)
		}
		if a.Content == "" {
			continue
		}
		t.size = max(t.size, int(a.ID)+1)
		shown := &shownToken{a, a.Content}
		t.added.byID[int64(a.ID)] = shown
		t.added.byContent[shown.Content] = shown
		if a.Special {
			t.added.special[shown.Content] = true
		}
		if a.Special && splitSpecial {
			continue
		}
		if a.Normalized {
			if t.normalizer != nil {
				var x text
				x.reset(a.Content, 0, false)
				x.budget.begin(len(a.Content), nil)
				if err := x.normalize(t.normalizer); err != nil {
					return err
				}
				shown.shown = string(x.bytes)
				a.Content = shown.shown
			}
			normal = append(normal, a)
		} else {
			raw = append(raw, a)
		}
	}
	t.raw, t.normal = newFinder(raw), newFinder(normal)
	return nil
}

// needsOrigins reports whether a pre-tokenizer needs the origins of characters.
func needsOrigins(p preTokenizer) bool {
	if s, ok := p.(preSequence); ok {
		return slices.ContainsFunc(s, needsOrigins)
	}
	m, ok := p.(metaspace)
	return ok && m.scheme == prependFirst
}

// isLocal reports whether a normalizer treats what is on both sides of a space between letters or digits of ASCII on its own.
func isLocal(n normalizer, tracked bool) bool {
	switch n := n.(type) {
	case nil, *bertNormalizer, mapping, unicodeForm:
		return true
	case *charsmap:
		return !tracked // see charsmap.normalizeTracked
	case sequence:
		return !slices.ContainsFunc(n, func(n normalizer) bool { return !isLocal(n, tracked) })
	case replace:
		switch p := n.pattern.(type) {
		case spaces:
			return true
		case literal:
			return strings.LastIndexByte(string(p), ' ') <= 0
		}
	}
	return false
}

// isLocalSplit reports whether a pre-tokenizer always splits before such a space, and treats the parts on their own.
func isLocalSplit(p preTokenizer) bool {
	switch p := p.(type) {
	case bertWords:
		return true
	case *byteLevel:
		return p.UseRegex
	case metaspace:
		return p.splits
	case splitter:
		_, ok := p.pattern.(scanner)
		return ok && p.behavior == isolated
	case preSequence:
		return len(p) > 0 && isLocalSplit(p[0])
	}
	return false
}

// set sets what a file names.
func set[T any](to *T, value *T) {
	if value != nil {
		*to = *value
	}
}

// joinWords writes a list as text.
func joinWords(list []string) string {
	if len(list) < 2 {
		return strings.Join(list, "")
	}
	return strings.Join(list[:len(list)-1], ", ") + " and " + list[len(list)-1]
}
