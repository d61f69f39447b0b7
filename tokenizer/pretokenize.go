package tokenizer

import (
	"encoding/json"
	"fmt"
	"unicode/utf8"
)

// A part is a range of the normal text: a word for the model, or an added token.
type part struct {
	start, end int32
	id         int32 // id of the added token; none for text
}

// work is a text in parts.
type work struct {
	text
	parts, spare []part
	found        []match
}

// A match is a range that a pattern found, or one between two of those.
type match struct {
	start, end int
	hit        bool
}

// A preTokenizer splits the parts of a text, but for added tokens.
type preTokenizer interface {
	split(w *work) error
}

// preTokenizers are the types of tokenizer.json's pre_tokenizer.
var preTokenizers map[string]func(raw json.RawMessage, depth int) (preTokenizer, error)

func init() { // a Sequence refers to the table

	preTokenizers = map[string]func(json.RawMessage, int) (preTokenizer, error){
		"Sequence": func(raw json.RawMessage, depth int) (preTokenizer, error) {
			list, err := readSequence("pretokenizers", "pre_tokenizer", preTokenizers, raw, depth)
			return preSequence(list), err
		},
		"BertPreTokenizer": func(json.RawMessage, int) (preTokenizer, error) { return bertWords{}, nil },
		"ByteLevel":        readByteLevel,
		"Metaspace":        readMetaspace,
		"Whitespace": func(json.RawMessage, int) (preTokenizer, error) {
			return splitter{scanner(scanWhitespace), removed, true}, nil
		},
		"WhitespaceSplit": func(json.RawMessage, int) (preTokenizer, error) {
			return splitter{hasClass(space), removed, false}, nil
		},
		"Punctuation":        readPunctuation,
		"Digits":             readDigits,
		"Split":              readSplit,
		"UnicodeScripts":     func(json.RawMessage, int) (preTokenizer, error) { return scriptWords{}, nil },
		"CharDelimiterSplit": readDelimiter,
		"Delimiter":          readDelimiter,
		"FixedLength":        readFixedLength,
	}
}

// preSequence is pre-tokenizers one after another.
type preSequence []preTokenizer

func (s preSequence) split(w *work) error {
	for _, p := range s {
		if err := p.split(w); err != nil {
			return err
		}
		if !w.budget.spend(len(w.bytes)) {
			return w.budget.err
		}
	}
	return nil
}

// each calls do for each part that is not an added token, which appends to out what replaces it.
func (w *work) each(do func(p part, out []part) ([]part, error)) error {
	out := w.spare[:0]
	var err error
	for _, p := range w.parts {
		if p.id != none {
			out = append(out, p)
		} else if out, err = do(p, out); err != nil {
			return err
		}
	}
	w.parts, w.spare = out, w.parts
	return nil
}

// rewrite rewrites the text part by part: do adds what becomes of a part that is not an added token.
func (w *work) rewrite(do func(e *edit, p part)) {
	e := w.edit()
	for i := range w.parts {
		p := &w.parts[i]
		start := int32(len(e.out))
		if p.id != none {
			e.copy(int(p.start), int(p.end))
		} else {
			do(&e, *p)
		}
		p.start, p.end = start, int32(len(e.out))
	}
	e.done()
}

// bertWords are what is between the white space of a text, and each punctuation character alone.
type bertWords struct{}

func (bertWords) split(w *work) error {
	return w.each(func(p part, out []part) ([]part, error) {
		text := w.bytes[:p.end]
		begin := int(p.start) // of the current word
		for i := begin; i < len(text); {
			if i = scanWithout(text, i, space|punct); i == len(text) {
				break
			}
			r, size := decodeRune(text[i:])
			if begin < i {
				out = append(out, part{int32(begin), int32(i), none})
			}
			if classOf(r)&punct != 0 {
				out = append(out, part{int32(i), int32(i + size), none})
			}
			i += size
			begin = i
		}
		if begin < len(text) {
			out = append(out, part{int32(begin), p.end, none})
		}
		return out, nil
	})
}

// fixedLength splits a text into parts of that many characters.
type fixedLength int

func readFixedLength(raw json.RawMessage, _ int) (preTokenizer, error) {
	f := struct {
		Length int `json:"length"`
	}{5}
	if err := json.Unmarshal(raw, &f); err != nil {
		return nil, err
	}
	if f.Length < 1 {
		return nil, fmt.Errorf("invalid length %d: want at least 1", f.Length)
	}
	return fixedLength(f.Length), nil
}

func (n fixedLength) split(w *work) error {
	return w.each(func(p part, out []part) ([]part, error) {
		text := w.bytes[p.start:p.end]
		start, count := 0, 0
		for i := 0; i < len(text); {
			_, size := decodeRune(text[i:])
			i += size
			if count++; count == int(n) {
				out = appendPart(out, p, start, i)
				start, count = i, 0
			}
		}
		return appendPart(out, p, start, len(text)), nil
	})
}

// byteLevel splits by the pattern of GPT-2 and writes each byte as the alphabet of byte-level BPE does.
type byteLevel struct {
	AddPrefixSpace bool `json:"add_prefix_space"`
	UseRegex       bool `json:"use_regex"`

	// asBytes leaves the text as it is: the vocabulary of the model has been read as bytes.
	asBytes bool
}

func readByteLevel(raw json.RawMessage, _ int) (preTokenizer, error) {
	b := &byteLevel{UseRegex: true}
	err := json.Unmarshal(raw, b)
	return b, err
}

func (b *byteLevel) split(w *work) error {
	if b.AddPrefixSpace && w.wants(func(p part) bool { return w.bytes[p.start] != ' ' }) {
		w.rewrite(func(e *edit, p part) {
			if w.bytes[p.start] != ' ' {
				e.prepend(" ", int(p.start))
			}
			e.copy(int(p.start), int(p.end))
		})
	}
	if b.UseRegex {
		if err := (splitter{scanner(scanGPT2), isolated, false}).split(w); err != nil {
			return err
		}
	}
	if !b.asBytes {
		w.rewrite(func(e *edit, p part) { e.byteLevel(int(p.start), int(p.end)) })
	}
	return nil
}

// wants reports whether some part that is not an added token satisfies is.
func (w *work) wants(is func(p part) bool) bool {
	for _, p := range w.parts {
		if p.id == none && is(p) {
			return true
		}
	}
	return false
}

// A metaspace makes spaces visible, puts one in front, and splits before each.
type metaspace struct {
	replacement string
	scheme      prependScheme
	splits      bool
}

type prependScheme string

const (
	prependAlways prependScheme = "always"
	prependFirst  prependScheme = "first" // only where the original begins
	prependNever  prependScheme = "never"
)

func readMetaspace(raw json.RawMessage, _ int) (preTokenizer, error) { return newMetaspace(raw) }

func newMetaspace(raw json.RawMessage) (metaspace, error) {
	var f struct {
		Replacement    string        `json:"replacement"`
		AddPrefixSpace *bool         `json:"add_prefix_space"`
		Scheme         prependScheme `json:"prepend_scheme"`
		Split          *bool         `json:"split"`
	}
	f.Scheme = prependAlways
	if err := json.Unmarshal(raw, &f); err != nil {
		return metaspace{}, err
	}
	m := metaspace{f.Replacement, f.Scheme, f.Split == nil || *f.Split}
	if utf8.RuneCountInString(m.replacement) != 1 {
		return m, fmt.Errorf("invalid replacement %q: want one character", m.replacement)
	}
	if f.AddPrefixSpace != nil && !*f.AddPrefixSpace {
		m.scheme = prependNever
	}
	switch m.scheme {
	case prependAlways, prependFirst, prependNever:
		return m, nil
	}
	return m, fmt.Errorf("unknown prepend_scheme %q; known are always, first and never", m.scheme)
}

func (m metaspace) split(w *work) error {
	begins := func(p part) bool {
		text := w.bytes[p.start:p.end]
		return text[0] == ' ' || len(text) >= len(m.replacement) && string(text[:len(m.replacement)]) == m.replacement
	}
	w.rewrite(func(e *edit, p part) {
		if m.scheme == prependAlways || m.scheme == prependFirst && w.origin(int(p.start)).start == 0 {
			if !begins(p) {
				e.prepend(m.replacement, int(p.start))
			}
		}
		done := int(p.start)
		for i := done; i < int(p.end); i++ {
			if w.bytes[i] == ' ' {
				e.copy(done, i)
				e.insert(m.replacement, i+1)
				done = i + 1
			}
		}
		e.copy(done, int(p.end))
	})
	if !m.splits {
		return nil
	}
	return splitter{literal(m.replacement), mergedWithNext, false}.split(w)
}
