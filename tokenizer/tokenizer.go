// Package tokenizer turns text into the ids that encoders take, and ids into text. It reads the files that come with a model. Its ids and
// offsets are those of Hugging Face's tokenizers.
//
// It differs from tokenizers in three ways. An added token that is matched in normalised text, and whose normal form is empty, is never
// found; tokenizers splits the text at every character. An added token outside the vocabulary has the id in the file, unless another token
// has it; tokenizers numbers it after the vocabulary, with the same result for each file that it wrote. A vocabulary without the unknown
// token, or with two tokens of the same id, is an error of Open, not of the first unknown word.
package tokenizer

import (
	"fmt"
	"math"
	"sync"
	"unicode"
	"unicode/utf8"
)

// A Tokenizer is made by Open or New. It does not change, and many goroutines may use it at once.
type Tokenizer struct {
	own        Interface    // nil unless New made the tokenizer; otherwise normalizer, pre, model, decoder and the finders are nil
	raw        *finder      // added tokens that are found in the text as it came
	normalizer normalizer   // may be nil
	normal     *finder      // added tokens that are found in the normal text
	pre        preTokenizer // may be nil
	model      model
	post       postProcessor
	decoder    decoder // may be nil
	vocab      *vocabulary
	added      addedTokens
	roles      map[string]string

	edges     []uint8 // see edgeTable; nil where offsets are not trimmed
	pad       int64
	spelt     int64 // the id of a Unigram's unknown characters; none for other models
	maxLength int
	size      int
	cutSide   Side
	padSide   Side
	track     bool    // origins are needed whether they are asked for or not
	local     [2]bool // a long text may be cut into chunks (see chunkLen): without and with spans
	overruns  bool    // the pieces of a word may be longer than the word (see bpe.overruns)

	notes   []string
	scratch sync.Pool // unused values of type *scratch
}

// scratch is memory that encoding needs for a while.
type scratch struct {
	work
	memory
	texts   [2]tokens
	words   []piece
	windows [2][]window
	options encodeOptions
}

// tokens are those of one text.
type tokens struct {
	ids   []int64
	spans []span  // place of each token in the text, if offsets are requested; otherwise nil
	words []int32 // number of each token's word, or ^number for an added token, if offsets are requested; otherwise nil
	own   []edges // edges of the tokens whose text differs from the vocabulary's, in order, if offsets are trimmed; otherwise nil
	asked int     // bytes that were requested from the memory account
}

// edges are the numbers of white space characters at both ends of a token. at is the index of the token.
type edges struct{ at, leading, trailing int32 }

// noteEdges notes the white space of the last token, which stands for text.
func (t *tokens) noteEdges(text []byte) {
	leading, trailing := blanksOf(text)
	t.own = append(t.own, edges{int32(len(t.ids) - 1), int32(leading), int32(trailing)})
}

// tokenBytes is what a token takes of these.
const tokenBytes = 20

func (t *tokens) reset() {
	t.ids, t.spans, t.words, t.own, t.asked = t.ids[:0], t.spans[:0], t.words[:0], t.own[:0], 0
}

// free gives the requested bytes back to the memory account.
func (t *tokens) free(ask func(bytes int64) error) {
	if ask != nil {
		ask(int64(-t.asked)) //nolint:errcheck // a negative request cannot fail
	}
}

// MaxLength returns the maximum number of tokens per sequence in tokenizer_config.json (model_max_length), or 0 if it has none.
func (t *Tokenizer) MaxLength() int { return t.maxLength }

// Notes returns a sentence for each setting of tokenizer_config.json that versions 4 and 5 of transformers apply differently. It states
// which version the tokenizer follows.
func (t *Tokenizer) Notes() []string { return t.notes }

// Size returns the number of ids. Each id is at least 0 and less than Size. A model whose embedding table has fewer rows does not fit the
// tokenizer.
func (t *Tokenizer) Size() int { return t.size }

// ID returns the id of a token as the vocabulary spells it, such as "[MASK]" or "▁the".
func (t *Tokenizer) ID(token string) (id int64, ok bool) {
	if a, ok := t.added.byContent[token]; ok {
		return int64(a.ID), true
	}
	if id := t.vocab.find([]byte(token)); id != none {
		return int64(id), true
	}
	return 0, false
}

// Token returns the token that has an id, as the vocabulary spells it.
func (t *Tokenizer) Token(id int64) (token string, ok bool) {
	if a, ok := t.added.byID[id]; ok {
		return a.shown, true
	}
	return t.vocab.token(id)
}

// Role returns the special token of a role, and its id. The roles are "pad", "unk", "cls", "sep", "mask", "bos" and "eos". The files name
// the token, or it has a usual name ("[CLS]" or "<s>" for cls).
func (t *Tokenizer) Role(role string) (token string, id int64, ok bool) {
	for _, name := range append([]string{t.roles[role]}, usualNames[role]...) {
		if id, ok := t.ID(name); ok && name != "" {
			return name, id, true
		}
	}
	return "", 0, false
}

// usualNames are the usual names of special tokens, by role, in order of preference.
var usualNames = map[string][]string{
	"pad":  {"[PAD]", "<pad>"},
	"unk":  {"[UNK]", "<unk>"},
	"cls":  {"[CLS]", "<s>"},
	"sep":  {"[SEP]", "</s>"},
	"mask": {"[MASK]", "<mask>"},
	"bos":  {"<s>", "<bos>"},
	"eos":  {"</s>", "<eos>"},
}

// An Input is the text of one sequence. The zero value is the empty text.
type Input struct {
	texts [2]string
	words []Span // places of the first text's words, if the caller has split it; otherwise nil
	split bool
	pair  bool
}

// Text is the input of one text.
func Text(text string) Input { return Input{texts: [2]string{text}} }

// Pair is the input of two texts, such as a question and a passage.
func Pair(text, second string) Input { return Input{texts: [2]string{text, second}, pair: true} }

// Split is the input of a text that the caller has split into words, as byte ranges in order. Each word is encoded separately, and text
// between words is skipped. The Words of an Encoding are their indexes.
func Split(text string, words []Span) Input {
	return Input{texts: [2]string{text}, words: words, split: true}
}

// Texts returns an input for each text.
func Texts(texts ...string) []Input {
	inputs := make([]Input, len(texts))
	for i, text := range texts {
		inputs[i] = Text(text)
	}
	return inputs
}

// Count returns the number of tokens in the sequence of an input, special tokens included, without making the sequence. It fails if a
// part of the text has no token and the tokenizer has no unknown token, or if a pattern takes too long.
func (t *Tokenizer) Count(input Input, options ...EncodeOption) (int, error) {
	o := t.options(options)
	s := t.scratch.Get().(*scratch)
	defer t.scratch.Put(s)
	n := t.post.template(input.pair, o.bare).specials()
	for i := range input.texts {
		s.texts[i].reset()
		err := t.appendInput(&s.texts[i], s, input, i, math.MaxInt, false, o.ask)
		s.texts[i].free(o.ask)
		if err != nil {
			return 0, err
		}
		n += len(s.texts[i].ids)
	}
	return n, nil
}

// appendInput appends the tokens of one of the texts of an input, as appendText does.
func (t *Tokenizer) appendInput(dst *tokens, s *scratch, input Input, i, limit int, spans bool, ask func(bytes int64) error) error {
	text := input.texts[i]
	if i > 0 || !input.split {
		return t.appendText(dst, s, text, limit, spans, ask)
	}
	for n, word := range input.words {
		if word.Start < 0 || word.Start > word.End || word.End > len(text) {
			return fmt.Errorf("tokenizer: word %d is from %d to %d of a text of %d bytes", n, word.Start, word.End, len(text))
		}
		from := len(dst.ids)
		if from >= limit {
			break
		}
		if err := t.appendText(dst, s, text[word.Start:word.End], limit, spans, ask); err != nil {
			return err
		}
		for k := from; spans && k < len(dst.ids); k++ {
			dst.spans[k].start += int32(word.Start)
			dst.spans[k].end += int32(word.Start)
			if dst.words[k] < 0 {
				dst.words[k] = ^int32(n)
			} else {
				dst.words[k] = int32(n)
			}
		}
	}
	return nil
}

// longestText bounds texts: positions in them are 32-bit numbers, and normalisation may make a text longer.
const longestText = math.MaxInt32 / 4

// appendText appends the tokens of a text, and may stop when there are limit of them. Spans and words are kept if spans is set.
func (t *Tokenizer) appendText(dst *tokens, s *scratch, text string, limit int, spans bool, ask func(bytes int64) error) error {
	if len(text) > longestText {
		return fmt.Errorf("tokenizer: a text of %d bytes: at most %d can be encoded", len(text), longestText)
	}
	word, local := int32(0), t.local[0]
	if spans {
		local = t.local[1]
	}
	b := &s.work.budget
	b.begin(len(text), ask)
	s.memory.budget = b
	if err := b.take(0); err != nil {
		return err
	}
	if t.own != nil {
		return t.appendOwn(dst, b, text, limit, spans)
	}
	for stretch := range t.raw.parts(text, b) {
		if len(dst.ids) >= limit {
			break
		}
		if stretch.id != none {
			dst.ids = append(dst.ids, int64(stretch.id))
			if spans {
				dst.spans, dst.words = append(dst.spans, span{stretch.start, stretch.end}), append(dst.words, ^word)
				if len(t.post.trims) > 0 {
					dst.noteEdges([]byte(text[stretch.start:stretch.end]))
				}
			}
			word++
			continue
		}
		for start, end := int(stretch.start), int(stretch.end); start < end && len(dst.ids) < limit; {
			n := end - start
			if local {
				n = chunkLen(text[start:end])
			}
			var err error
			if word, err = t.appendStretch(dst, s, text[start:start+n], start, word, spans); err != nil {
				return err
			}
			more := tokenBytes * (len(dst.ids) - dst.asked/tokenBytes)
			if err := b.take(more); err != nil {
				return err
			}
			dst.asked += more
			start += n
		}
	}
	return b.err
}

// chunk is how much of a long text is normalised at once: what is beyond the limit of tokens is left alone, and memory stays small.
const chunk = 4096

// chunkLen returns how much of a text to take at once: up to a space between letters or digits of ASCII, where nothing reaches over in
// any tokenizer that is local.
func chunkLen(text string) int {
	for i := chunk; i+1 < len(text); i++ {
		if text[i] == ' ' && isAlphanumeric(text[i-1]) && isAlphanumeric(text[i+1]) {
			return i
		}
	}
	return len(text)
}

func isAlphanumeric(c byte) bool { return '0' <= c && c <= '9' || 'a' <= c|0x20 && c|0x20 <= 'z' }

// workBytes estimates the memory of the work on a stretch, for each byte of its normal form: two forms of the stretch with origins, its
// parts, and the memory of a model for a word of that length.
const workBytes = 64

// appendStretch appends the tokens of a stretch without added tokens that are found in the text as it came. The stretch begins at base,
// and its first word has the number word; it returns the number after its last.
func (t *Tokenizer) appendStretch(dst *tokens, s *scratch, stretch string, base int, word int32, spans bool) (int32, error) {
	w := &s.work
	w.reset(stretch, base, spans || t.track)
	if t.normalizer != nil {
		if err := w.normalize(t.normalizer); err != nil {
			return word, err
		}
	}
	need := workBytes * len(w.bytes)
	if err := w.budget.take(need); err != nil {
		return word, err
	}
	defer w.budget.take(-need)
	w.parts = w.parts[:0]
	for p := range t.normal.parts(w.string(), &w.budget) {
		w.parts = append(w.parts, p)
	}
	if t.pre != nil {
		if err := t.pre.split(w); err != nil {
			return word, err
		}
	}
	if w.budget.err != nil {
		return word, w.budget.err
	}
	// Local slices: to append to those of dst would store a pointer for each token.
	ids, offsets, words, unmoved := dst.ids, dst.spans, dst.words, w.unmoved()
	for _, p := range w.parts {
		if p.id != none {
			ids = append(ids, int64(p.id))
			if spans {
				offsets, words = append(offsets, w.spanOf(int(p.start), int(p.end))), append(words, ^word)
				if len(t.post.trims) > 0 {
					dst.ids = ids
					dst.noteEdges(w.bytes[p.start:p.end])
				}
			}
			word++
			continue
		}
		pieces, err := t.model.pieces(s.words[:0], w.bytes[p.start:p.end], &s.memory)
		if err != nil {
			return word, err
		}
		s.words = pieces
		for _, piece := range pieces {
			ids = append(ids, int64(piece.id))
			if spans && int64(piece.id) == t.spelt && len(t.post.trims) > 0 { // the token of unknown characters is these characters
				dst.ids = ids
				dst.noteEdges(w.bytes[p.start+piece.start : p.start+piece.end])
			}
		}
		longer := len(pieces) > 0 && pieces[len(pieces)-1].end > p.end-p.start
		switch {
		case longer && !t.overruns:
			return word, fmt.Errorf("tokenizer: the tokens of %q are longer than the word: this is a fault of rlxc",
				shorten(w.bytes[p.start:p.end]))
		case !spans:
		case longer:
			for _, piece := range pieces {
				offsets, words = append(offsets, w.pieceSpan(p, piece)), append(words, word)
			}
		case unmoved:
			for _, piece := range pieces {
				start := w.base + p.start
				offsets, words = append(offsets, span{start + piece.start, start + piece.end}), append(words, word)
			}
		default:
			from := w.from
			for _, piece := range pieces {
				start, end := int(p.start+piece.start), int(p.start+piece.end)
				if start < end && end <= len(from) { // spanOf's usual case, in line
					offsets = append(offsets, span{from[start].start, from[end-1].end})
				} else {
					offsets = append(offsets, w.spanOf(start, end))
				}
				words = append(words, word)
			}
		}
		word++
	}
	dst.ids, dst.spans, dst.words = ids, offsets, words
	return word, nil
}

// pieceSpan returns where a piece of a word came from. A piece that ends after the word came from nowhere: its span is that in the word,
// as tokenizers returns it.
func (w *work) pieceSpan(word part, p piece) span {
	if p.end > word.end-word.start {
		return span{p.start, p.end}
	}
	return w.spanOf(int(word.start+p.start), int(word.start+p.end))
}

// edgesOf returns the white space at both ends of a token of the vocabulary.
func (t *Tokenizer) edgesOf(id int64) (leading, trailing int32) {
	if b := t.edges[id]; b != manyBlanks {
		return int32(b >> 4), int32(b & 0xf)
	}
	before, after := blanksOf(t.vocab.bytes(int32(id)))
	return int32(before), int32(after)
}

// trimmed takes the white space of a token off its span, as ByteLevel's trim_offsets does: a token that begins with " " begins where
// its word does. One space is left where it may have been put there.
func trimmed(text string, s span, leading, trailing int32, prefixed bool) span {
	if leading == 1 && prefixed {
		leading = 0
	}
	if int(s.end) > len(text) { // it came from nowhere, so each character counts as one
		start := min(s.start+leading, s.end)
		return span{start, max(s.end-trailing, start)}
	}
	for ; leading > 0 && s.start < s.end; leading-- {
		_, size := utf8.DecodeRuneInString(text[s.start:])
		s.start += int32(size)
	}
	for ; trailing > 0 && s.end > s.start; trailing-- {
		_, size := utf8.DecodeLastRuneInString(text[:s.end])
		s.end -= int32(size)
	}
	return s
}

// manyBlanks is the entry of Tokenizer.edges for a token with more white space than the entry can count.
const manyBlanks = 0xff

// edgeTable returns, for each id, the white space with which its token begins (the upper four bits) and ends.
func edgeTable(v *vocabulary) []uint8 {
	table := make([]uint8, v.size())
	v.each(func(id int32, token []byte) {
		leading, trailing := blanksOf(token)
		table[id] = manyBlanks
		if leading < 0xf && trailing < 0xf {
			table[id] = uint8(leading<<4 | trailing)
		}
	})
	return table
}

// blanksOf counts the characters of white space, or what stands for a space in byte-level BPE, with which a token begins and ends.
func blanksOf(token []byte) (leading, trailing int) {
	for at := 0; at < len(token); leading++ {
		r, size := decodeRune(token[at:])
		if r != byteRune[' '] && !unicode.IsSpace(r) {
			break
		}
		at += size
	}
	for end := len(token); end > 0; trailing++ {
		r, size := utf8.DecodeLastRune(token[:end])
		if r != byteRune[' '] && !unicode.IsSpace(r) {
			break
		}
		end -= size
	}
	return leading, trailing
}
