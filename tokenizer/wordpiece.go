package tokenizer

import (
	"iter"
	"unicode/utf8"
)

// A wordPiece turns normal text into ids: it splits the text into words and each word into the longest pieces of the vocabulary, from
// left to right (Wu et al. 2016, "Google's Neural Machine Translation System", section 4.1; the greedy form that BERT uses).
type wordPiece struct {
	vocab      *trie
	continuing int32 // the node from which pieces inside a word are read: behind the prefix "##"; or none
	unknown    int64 // the id of a word that the vocabulary cannot spell
	maxChars   int   // a longer word is unknown
}

// append appends the ids of text to ids, and stops after a word once there are limit of them.
func (w *wordPiece) append(ids []int64, text []byte, limit int) []int64 {
	for word := range words(text) {
		if ids = w.appendWord(ids, word); len(ids) >= limit {
			break
		}
	}
	return ids
}

// appendWord appends the ids of the pieces of a word, or one for the whole if a piece is missing.
func (w *wordPiece) appendWord(ids []int64, word []byte) []int64 {
	if len(word) > w.maxChars && utf8.RuneCount(word) > w.maxChars {
		return append(ids, w.unknown)
	}
	whole := len(ids)
	for node := int32(0); len(word) > 0; node = w.continuing {
		id, size := longest(w.vocab, node, word)
		if size == 0 {
			return append(ids[:whole], w.unknown)
		}
		ids = append(ids, int64(id))
		word = word[size:]
	}
	return ids
}

// words yields what stands between the white space of text, and each punctuation character alone, as BertPreTokenizer does.
func words(text []byte) iter.Seq[[]byte] {
	return func(yield func([]byte) bool) {
		word := 0 // where the current word begins
		for i := 0; i < len(text); {
			r, size := rune(text[i]), 1
			if r >= utf8.RuneSelf {
				r, size = utf8.DecodeRune(text[i:])
			}
			if k := classOf(r); k&(space|punct) != 0 {
				if word < i && !yield(text[word:i]) {
					return
				}
				if k&punct != 0 && !yield(text[i:i+size]) {
					return
				}
				word = i + size
			}
			i += size
		}
		if word < len(text) {
			yield(text[word:])
		}
	}
}
