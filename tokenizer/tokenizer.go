// Package tokenizer turns text into the ids that BERT-style models take. It reads the files that come with such a model, tokenizer.json
// or vocab.txt, and gives, id for id, what Hugging Face's tokenizers gives.
//
// It departs from tokenizers in three places. An added token that is looked for in normal text, and whose own normal form is empty, is
// not found; tokenizers splits the text at every character then. An added token outside the vocabulary has the id that the file gives
// it; tokenizers counts on from the size of the vocabulary, which is the same in each file that it wrote. And a vocabulary without
// the unknown token is an error of Open, not of the first unknown word.
package tokenizer

import (
	"fmt"
	"math"
	"strings"
	"sync"
)

// A Tokenizer is a BERT WordPiece tokenizer. Open makes one; it does not change, and many goroutines may use it at once.
type Tokenizer struct {
	raw        *finder // added tokens that are found in the text as it came
	normalizer *normalizer
	normal     *finder // added tokens that are found in the normal text
	words      wordPiece
	templates  templates
	pad        int64
	maxLength  int
	size       int

	scratch sync.Pool // of *scratch
}

// scratch is memory that encoding needs for a while.
type scratch struct {
	text []byte
	ids  [2][]int64
}

// MaxLength returns the longest row that the model takes, in tokens, as tokenizer_config.json says (model_max_length); 0 if it does
// not say.
func (t *Tokenizer) MaxLength() int { return t.maxLength }

// Size returns the number of ids: each is at least 0 and less than Size. A model whose table of embeddings has fewer rows belongs to
// another tokenizer.
func (t *Tokenizer) Size() int { return t.size }

// An Input is what one row is made of. The zero value is the empty text.
type Input struct {
	texts [2]string
	pair  bool
}

// Text is a row of one text.
func Text(text string) Input { return Input{texts: [2]string{text}} }

// Pair is a row of two texts, such as a question and a passage.
func Pair(text, second string) Input { return Input{texts: [2]string{text, second}, pair: true} }

// Texts are rows of one text each.
func Texts(texts ...string) []Input {
	inputs := make([]Input, len(texts))
	for i, text := range texts {
		inputs[i] = Text(text)
	}
	return inputs
}

// An Encoding is one row.
type Encoding struct {
	InputIDs     []int64 // special tokens among them
	TokenTypeIDs []int64 // as many: 0 for the first text, 1 for its pair
	Truncated    bool    // whether tokens were cut off
}

// Encode returns the ids of a row. A row of more than maxLength tokens is cut, each text at its end and the longer one first;
// a maxLength of 0 cuts nothing. An invalid UTF-8 byte counts as U+FFFD. It is an error if maxLength has no room for the special
// tokens.
func (t *Tokenizer) Encode(input Input, maxLength int) (Encoding, error) {
	row := t.templates.single
	if input.pair {
		row = t.templates.pair
	}
	room := math.MaxInt - 1
	if maxLength != 0 {
		if room = maxLength - row.specials(); room < 0 {
			return Encoding{}, fmt.Errorf("tokenizer: a maximum length of %d has no room for the %d special tokens of a row", maxLength, row.specials())
		}
	}

	s := t.scratch.Get().(*scratch)
	defer t.scratch.Put(s)
	texts := [2][]int64{s.ids[0][:0], s.ids[1][:0]}
	if input.pair {
		// The odd token goes to the longer text: the second is read on until it is known whether that is the second.
		texts[0] = t.appendText(texts[0], s, input.texts[0], math.MaxInt)
		texts[1] = t.appendText(texts[1], s, input.texts[1], max(room, len(texts[0]))+1)
	} else {
		texts[0] = t.appendText(texts[0], s, input.texts[0], room+1) // one too many shows that there are too many
	}
	s.ids = texts

	keep := [2]int{len(texts[0]), len(texts[1])}
	keep[0], keep[1] = truncate(keep[0], keep[1], room)
	length := row.specials() + keep[0] + keep[1]
	e := Encoding{
		InputIDs:     make([]int64, 0, length),
		TokenTypeIDs: make([]int64, 0, length),
		Truncated:    keep[0] < len(texts[0]) || keep[1] < len(texts[1]),
	}
	for _, slot := range row {
		ids := slot.ids
		if slot.text != special {
			ids = texts[slot.text][:keep[slot.text]]
		}
		e.InputIDs = append(e.InputIDs, ids...)
		for range ids {
			e.TokenTypeIDs = append(e.TokenTypeIDs, slot.segment)
		}
	}
	return e, nil
}

// truncate returns how much stays of two texts of a and b tokens: the longer one, the second of equal ones, loses first.
func truncate(a, b, room int) (int, int) {
	switch {
	case a+b <= room:
		return a, b
	case a > b:
		b = min(b, room/2)
		return room - b, b
	default:
		a = min(a, room/2)
		return a, room - a
	}
}

// partBytes is how much of a long text is normalised at once.
const partBytes = 4096

// appendText appends the ids of a text to ids, and may stop when there are limit of them.
func (t *Tokenizer) appendText(ids []int64, s *scratch, text string, limit int) []int64 {
	for id, rest := range t.raw.parts(text) {
		if id != none {
			ids = append(ids, int64(id))
		}
		for len(rest) > 0 && len(ids) < limit {
			part := rest
			// Nothing reaches over a space, but for an added token: what lies beyond the limit need not be normalised.
			if t.normal == nil && len(rest) > partBytes {
				if i := strings.IndexByte(rest[partBytes:], ' '); i >= 0 {
					part = rest[:partBytes+i]
				}
			}
			rest = rest[len(part):]
			s.text = t.normalizer.append(s.text[:0], part)
			ids = t.appendNormal(ids, s.text, limit)
		}
		if len(ids) >= limit {
			break
		}
	}
	return ids
}

// appendNormal is appendText for normal text.
func (t *Tokenizer) appendNormal(ids []int64, text []byte, limit int) []int64 {
	if t.normal == nil {
		return t.words.append(ids, text, limit)
	}
	for id, rest := range t.normal.parts(string(text)) {
		if id != none {
			ids = append(ids, int64(id))
		} else {
			ids = t.words.append(ids, []byte(rest), limit)
		}
	}
	return ids
}

// A Batch is rows padded to the longest of them: Rows × Length matrices, row by row, as a model's inputs want them.
type Batch struct {
	Rows, Length  int
	InputIDs      []int64 // padded with the id of [PAD]
	AttentionMask []int64 // 1 for a token, 0 for padding
	TokenTypeIDs  []int64 // padded with 0
	Truncated     int     // how many rows were cut
}

// Batch encodes rows as Encode does and pads them to the longest.
func (t *Tokenizer) Batch(inputs []Input, maxLength int) (*Batch, error) {
	rows := make([]Encoding, len(inputs))
	b := &Batch{Rows: len(inputs)}
	for i, input := range inputs {
		var err error
		if rows[i], err = t.Encode(input, maxLength); err != nil {
			return nil, err
		}
		b.Length = max(b.Length, len(rows[i].InputIDs))
		if rows[i].Truncated {
			b.Truncated++
		}
	}
	b.InputIDs = make([]int64, b.Rows*b.Length)
	b.AttentionMask = make([]int64, b.Rows*b.Length)
	b.TokenTypeIDs = make([]int64, b.Rows*b.Length)
	for i, row := range rows {
		at := i * b.Length
		n := copy(b.InputIDs[at:], row.InputIDs)
		copy(b.TokenTypeIDs[at:], row.TokenTypeIDs)
		for j := range b.Length {
			if j < n {
				b.AttentionMask[at+j] = 1
			} else {
				b.InputIDs[at+j] = t.pad
			}
		}
	}
	return b, nil
}
