package tokenizer

import (
	"fmt"
	"slices"
	"sync"
)

// settings are all that makes a tokenizer, as the files have it.
type settings struct {
	clean, chinese, lower bool
	strip                 *bool // nil: as lower

	vocab    []entry
	unknown  string
	prefix   string // of a piece inside a word
	maxChars uint32

	added     []addedToken
	templates templates
	pad       string
	maxLength int // 0: the files name none
}

// defaults are those of uncased BERT.
func defaults() *settings {
	return &settings{clean: true, chinese: true, lower: true, unknown: "[UNK]", prefix: "##", maxChars: 100, pad: "[PAD]"}
}

// build checks the settings against each other and makes the tokenizer.
func (s *settings) build() (*Tokenizer, error) {
	size := 0
	for _, e := range s.vocab {
		size = max(size, int(e.id)+1)
	}
	vocab := newTrie(s.vocab)
	unknown := vocab.find(s.unknown)
	if unknown == none {
		return nil, fmt.Errorf("the vocabulary of %d tokens lacks %q, which stands for unknown words; %s", len(s.vocab), s.unknown, supported)
	}
	for _, a := range s.added {
		if id := vocab.find(a.Content); id != none && id != a.ID {
			return nil, fmt.Errorf("the added token %q has the id %d, but %d in the vocabulary", a.Content, a.ID, id)
		}
		if a.ID < 0 {
			return nil, fmt.Errorf("the added token %q has the id %d; an id is at least 0", a.Content, a.ID)
		}
		size = max(size, int(a.ID)+1)
	}
	for _, row := range []template{s.templates.single, s.templates.pair} {
		for _, slot := range row {
			for _, id := range slot.ids {
				if id < 0 || id >= int64(size) {
					return nil, fmt.Errorf("the post_processor adds the id %d, but the ids of the vocabulary end at %d", id, size-1)
				}
			}
		}
	}
	pad := vocab.find(s.pad)
	if i := slices.IndexFunc(s.added, func(a addedToken) bool { return a.Content == s.pad }); i >= 0 {
		pad = s.added[i].ID
	}

	fillClasses()
	strip := s.lower
	if s.strip != nil {
		strip = *s.strip
	}
	normalizer := newNormalizer(s.clean, s.chinese, strip, s.lower)
	var raw, normal []addedToken
	for _, a := range s.added {
		if a.Normalized {
			a.Content = string(normalizer.append(nil, a.Content))
			normal = append(normal, a)
		} else {
			raw = append(raw, a)
		}
	}
	return &Tokenizer{
		raw:        newFinder(raw),
		normalizer: normalizer,
		normal:     newFinder(normal),
		words:      wordPiece{vocab: vocab, continuing: vocab.walk(s.prefix), unknown: int64(unknown), maxChars: int(s.maxChars)},
		templates:  s.templates,
		pad:        int64(max(pad, 0)), // no model looks at what is padded: without such a token any id serves
		maxLength:  s.maxLength,
		size:       size,
		scratch:    sync.Pool{New: func() any { return &scratch{} }},
	}, nil
}
