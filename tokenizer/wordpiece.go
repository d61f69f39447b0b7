package tokenizer

import (
	"fmt"
	"unicode/utf8"
)

// A wordPiece turns each word into the longest pieces of the vocabulary, from left to right (Wu et al. 2016, "Google's Neural Machine
// Translation System", section 4.1; the greedy form that BERT uses).
type wordPiece struct {
	trie       *trie
	continuing int32 // the node from which pieces inside a word are read: after the prefix "##"; or none
	unknown    int32 // the id of a word that the vocabulary cannot spell
	maxChars   int   // a longer word is unknown
}

// wordPieceSettings are those of a WordPiece model in tokenizer.json.
type wordPieceSettings struct {
	Unknown  *string `json:"unk_token"`
	Prefix   *string `json:"continuing_subword_prefix"`
	MaxChars *uint32 `json:"max_input_chars_per_word"`
}

func newWordPiece(s wordPieceSettings, vocab *vocabulary) (*wordPiece, error) {
	unknown, prefix, maxChars := "[UNK]", "##", uint32(100)
	set(&unknown, s.Unknown)
	set(&prefix, s.Prefix)
	set(&maxChars, s.MaxChars)
	w := &wordPiece{trie: vocab.trie(), unknown: vocab.find([]byte(unknown)), maxChars: int(maxChars)}
	if w.unknown == none {
		return nil, fmt.Errorf("the vocabulary of %d tokens lacks %q, the token of unknown words", vocab.count, unknown)
	}
	w.continuing = w.trie.walk(prefix)
	return w, nil
}

func (w *wordPiece) pieces(dst []piece, word []byte, m *memory) ([]piece, error) {
	return cached(dst, word, m, w.longest)
}

// longest appends the longest pieces from left to right.
func (w *wordPiece) longest(dst []piece, word []byte, m *memory) ([]piece, error) {
	length := int32(len(word))
	if len(word) > w.maxChars && utf8.RuneCount(word) > w.maxChars {
		return append(dst, piece{w.unknown, 0, length}), nil
	}
	whole := len(dst)
	node, start := int32(0), int32(0)
	for start < length {
		id, size := longest(w.trie, node, word[start:], m.budget)
		if m.budget.err != nil {
			return dst, m.budget.err
		}
		if size == 0 {
			return append(dst[:whole], piece{w.unknown, 0, length}), nil
		}
		dst = append(dst, piece{id, start, start + int32(size)})
		start += int32(size)
		node = w.continuing
	}
	return dst, nil
}

// A wordLevel has words as its tokens.
type wordLevel struct {
	vocab   *vocabulary
	unknown int32
}

func newWordLevel(unknown string, vocab *vocabulary) (*wordLevel, error) {
	w := &wordLevel{vocab, vocab.find([]byte(unknown))}
	if w.unknown == none {
		return nil, fmt.Errorf("the vocabulary of %d tokens lacks %q, the token of unknown words", vocab.count, unknown)
	}
	return w, nil
}

func (w *wordLevel) pieces(dst []piece, word []byte, _ *memory) ([]piece, error) {
	id := w.vocab.find(word)
	if id == none {
		id = w.unknown
	}
	return append(dst, piece{id, 0, int32(len(word))}), nil
}
