package tokenizer

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"
)

// readVocab reads a vocab.txt: a token a line, the id of which is the number of the line, from 0. It is BERT's, uncased if the config
// does not say otherwise.
func readVocab(data []byte, c *config) (*definition, error) {
	if !utf8.Valid(data) || bytes.IndexByte(data, 0) >= 0 {
		return nil, errors.New("it is not a text file: want a vocab.txt, with a token on each line")
	}
	fillClasses()
	settings := uncased
	d := &definition{bert: &settings, pre: bertWords{}, roles: map[string]string{}}
	unknown, cls, sep := c.Unk.or("[UNK]"), c.Cls.or("[CLS]"), c.Sep.or("[SEP]")
	named := map[string]int32{unknown: none, c.Pad.or("[PAD]"): none, cls: none, sep: none, c.Mask.or("[MASK]"): none}
	for line := range strings.Lines(string(data)) {
		e := entry{[]byte(strings.TrimRightFunc(line, unicode.IsSpace)), int32(len(d.model.entries))}
		d.model.entries = append(d.model.entries, e)
		if _, ok := named[string(e.token)]; ok {
			named[string(e.token)] = e.id
		}
	}
	if named[cls] == none || named[sep] == none {
		return nil, fmt.Errorf("its %d lines lack %q or %q, which begin and end a sequence", len(d.model.entries), cls, sep)
	}
	d.model.kind = "WordPiece"
	d.model.rest, _ = json.Marshal(wordPieceSettings{Unknown: &unknown})
	single := template{{special, []int64{int64(named[cls])}, 0}, {text: 0}, {special, []int64{int64(named[sep])}, 0}}
	d.post = postProcessor{single: single, pair: append(slices.Clone(single), slot{text: 1, segment: 1},
		slot{special, []int64{int64(named[sep])}, 1})}
	d.decoder, _ = readWordPieceDecoder([]byte("{}"), 0)
	if err := c.addTokens(d); err != nil {
		return nil, err
	}
	for _, a := range d.added {
		delete(named, a.Content)
	}
	for token, id := range named {
		if id != none {
			d.added = append(d.added, addedToken{ID: id, Content: token, Special: true})
		}
	}
	slices.SortFunc(d.added, func(a, b addedToken) int { return cmp.Compare(a.ID, b.ID) })
	return d, nil
}
