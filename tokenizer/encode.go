package tokenizer

import (
	"errors"
	"fmt"
	"math"
	"unicode/utf8"
	"unsafe"
)

// A Side is an end of a text or of a sequence.
type Side uint8

const (
	Right Side = iota + 1
	Left
)

// A Strategy is which text of a pair is truncated when the sequence is too long.
type Strategy uint8

const (
	LongestFirst Strategy = iota // token by token whichever is longer, the second of equal ones
	OnlyFirst
	OnlySecond
)

// An EncodeOption changes how texts are encoded.
type EncodeOption func(*encodeOptions)

type encodeOptions struct {
	strategy Strategy
	side     Side
	windows  bool
	stride   int
	padSide  Side
	multiple int
	spans    bool
	bare     bool
	most     int // tokens of a sequence; 0 for no such bound
	ask      func(bytes int64) error
}

// Truncate sets which text is truncated when a sequence is too long, and at which side. The default is LongestFirst and the side in
// tokenizer_config.json (truncation_side), or else Right.
func Truncate(strategy Strategy, side Side) EncodeOption {
	return func(o *encodeOptions) { o.strategy, o.side = strategy, side }
}

// ErrRoom: the maximum length is too small for the special tokens, a text that may not be truncated, or the overlap of windows.
var ErrRoom = errors.New("the maximum length is too small for the special tokens")

// A roomError is an ErrRoom, which its text does not repeat.
type roomError string

func noRoom(format string, args ...any) error {
	return roomError(fmt.Sprintf("tokenizer: "+format, args...))
}

// Error implements error.
func (e roomError) Error() string { return string(e) }

// Is implements the interface of errors.Is.
func (roomError) Is(target error) bool { return target == ErrRoom }

// Windows splits an input that is too long into several sequences instead of truncating it. Each sequence holds the next tokens of the
// text. Its first stride tokens are the last ones of the sequence before. With LongestFirst and a pair of long texts, each window of one
// text is combined with each window of the other.
func Windows(stride int) EncodeOption {
	return func(o *encodeOptions) { o.windows, o.stride = true, stride }
}

// Pad sets the side of padding in shorter sequences, and a number of which the length is a multiple. 0 and 1 allow any length. The
// default side is that in tokenizer_config.json (padding_side), or else Right.
func Pad(side Side, multiple int) EncodeOption {
	return func(o *encodeOptions) { o.padSide, o.multiple = side, multiple }
}

// Bare leaves out the special tokens, as add_special_tokens=False does.
func Bare() EncodeOption { return func(o *encodeOptions) { o.bare = true } }

// AtMost lowers the maximum length of sequences to n tokens, special tokens included. It does not raise it. n is above 0.
func AtMost(n int) EncodeOption { return func(o *encodeOptions) { o.most = n } }

// Spans fills in the Offsets, CharOffsets, Words, Sequences and Special of an encoding.
func Spans() EncodeOption { return func(o *encodeOptions) { o.spans = true } }

func (t *Tokenizer) options(options []EncodeOption) encodeOptions {
	if len(options) == 0 {
		return encodeOptions{side: t.cutSide, padSide: t.padSide}
	}
	s := t.scratch.Get().(*scratch) // whose memory options may point to without more being allocated
	defer t.scratch.Put(s)
	s.options = encodeOptions{side: t.cutSide, padSide: t.padSide}
	for _, option := range options {
		option(&s.options)
	}
	return s.options
}

// A Span is a range of a text, from Start to before End.
type Span struct{ Start, End int }

// An Encoding is one sequence. Each of its slices has an element per token. Without Spans, the slices that Spans fills in are nil.
type Encoding struct {
	InputIDs      []int64 // special tokens among them
	TokenTypeIDs  []int64 // 0 for the first text, 1 for its pair, or what the tokenizer's template says
	AttentionMask []int64 // 1

	// Offsets holds the bytes of the text that each token came from, and 0 to 0 for a special token. With a BPE model that spells unknown
	// characters in bytes and marks subwords by a prefix or suffix, a token may end beyond the text, as with tokenizers: the bytes of the
	// prefix count, though no text stands for them.
	Offsets     []Span
	CharOffsets []Span // the same in characters: code points, and bytes that are not UTF-8; of ASCII it is the slice Offsets
	Words       []int  // the number of the word in its text, as the tokenizer splits words; -1 for a special token
	Sequences   []int  // 0 for the first text, 1 for its pair, -1 for a special token
	Special     []bool // whether the token was put there by the template

	Input     int  // the index of the input among those of Encodings or Batch
	Truncated bool // whether tokens of the input are missing
}

// Encode returns the sequence of an input. A sequence of more than maxLength tokens is truncated. A maxLength of 0 means no limit. An
// invalid UTF-8 byte counts as U+FFFD. Encode fails with ErrRoom if maxLength has no room for the special tokens, and fails with Windows:
// see Encodings.
func (t *Tokenizer) Encode(input Input, maxLength int, options ...EncodeOption) (Encoding, error) {
	o := t.options(options)
	if o.windows {
		return Encoding{}, errors.New("tokenizer: Encode returns one sequence: use Encodings or Batch for Windows")
	}
	var one [1]Encoding
	encodings, err := t.appendEncodings(one[:0], input, maxLength, o)
	if err != nil {
		return Encoding{}, err
	}
	return encodings[0], nil
}

// Encodings returns the sequences of inputs, in their order: one for each input, or with Windows one or more. It fails as Encode does.
func (t *Tokenizer) Encodings(inputs []Input, maxLength int, options ...EncodeOption) ([]Encoding, error) {
	o := t.options(options)
	encodings := make([]Encoding, 0, len(inputs))
	for i, input := range inputs {
		before := len(encodings)
		var err error
		if encodings, err = t.appendEncodings(encodings, input, maxLength, o); err != nil {
			return nil, err
		}
		for j := before; j < len(encodings); j++ {
			encodings[j].Input = i
		}
	}
	return encodings, nil
}

// appendEncodings appends the sequences of an input.
func (t *Tokenizer) appendEncodings(encodings []Encoding, input Input, maxLength int, o encodeOptions) ([]Encoding, error) {
	tmpl := t.post.template(input.pair, o.bare)
	room := math.MaxInt - 1
	if o.most > 0 && (maxLength == 0 || o.most < maxLength) {
		maxLength = o.most
	}
	if maxLength != 0 {
		if room = maxLength - tmpl.specials(); room < 0 {
			return nil, noRoom("a maximum length of %d has no room for the %d special tokens of a sequence", maxLength, tmpl.specials())
		}
	}

	s := t.scratch.Get().(*scratch)
	defer t.scratch.Put(s)
	// Reading ends where it is known what is cut, if that is at the end.
	first, second := math.MaxInt, math.MaxInt
	early := o.side != Left && !o.windows
	if early && !input.pair {
		first = room + 1 // one too many shows that there are too many
	}
	s.texts[0].reset()
	s.texts[1].reset()
	defer func() {
		s.texts[0].free(o.ask)
		s.texts[1].free(o.ask)
	}()
	if err := t.appendInput(&s.texts[0], s, input, 0, first, o.spans, o.ask); err != nil {
		return nil, err
	}
	if input.pair {
		if early && o.strategy == LongestFirst {
			// The odd token goes to the longer text: the second is read on until it is known whether that is the second.
			second = max(room, len(s.texts[0].ids)) + 1
		}
		if err := t.appendInput(&s.texts[1], s, input, 1, second, o.spans, o.ask); err != nil {
			return nil, err
		}
	}

	have := [2]int{len(s.texts[0].ids), len(s.texts[1].ids)}
	keep, err := o.keep(have, room, input.pair)
	if err != nil {
		return nil, err
	}
	for i := range s.windows {
		if s.windows[i], err = o.split(s.windows[i][:0], have[i], keep[i]); err != nil {
			return nil, err
		}
	}
	truncated := !o.windows && (keep[0] < have[0] || keep[1] < have[1])
	a, b := s.windows[0], s.windows[1]
	if tmpl.swapped() {
		a, b = b, a
	}
	for i := range order(len(a), len(b)) {
		w := [2]window{a[i.first], b[i.second]}
		if tmpl.swapped() {
			w[0], w[1] = w[1], w[0]
		}
		if o.ask != nil {
			if err := o.ask(int64(w[0].end-w[0].start+w[1].end-w[1].start+tmpl.specials()) * o.bytes()); err != nil {
				return nil, err
			}
		}
		e := t.assemble(tmpl, input, s, w, o.spans)
		e.Truncated = truncated
		encodings = append(encodings, e)
	}
	return encodings, nil
}

// bytes is what a token of a sequence takes.
func (o encodeOptions) bytes() int64 {
	if o.spans {
		return 80
	}
	return 24
}

// A window is a range of the tokens of a text. later says that it is not the text's first one.
type window struct {
	start, end int
	later      bool
}

// indexes are those of the windows of two texts.
type indexes struct{ first, second int }

// order yields the sequences of the windows of two texts in tokenizers' order: the first of both; each other one of the first text with all
// of the second; the first with the others of the second.
func order(a, b int) func(yield func(indexes) bool) {
	return func(yield func(indexes) bool) {
		if !yield(indexes{}) {
			return
		}
		for i := 1; i < a; i++ {
			for j := range b {
				if !yield(indexes{i, j}) {
					return
				}
			}
		}
		for j := 1; j < b; j++ {
			if !yield(indexes{0, j}) {
				return
			}
		}
	}
}

// keep returns how many tokens of each text fit into a sequence.
func (o encodeOptions) keep(have [2]int, room int, pair bool) ([2]int, error) {
	excess := have[0] + have[1] - room
	if excess <= 0 {
		return have, nil
	}
	switch {
	case room == 0:
		return [2]int{}, nil
	case o.strategy == LongestFirst:
		have[0], have[1] = truncate(have[0], have[1], room)
		return have, nil
	case o.strategy == OnlySecond && !pair:
		return have, errors.New("tokenizer: OnlySecond truncates the second text, but the input has only one")
	}
	i := 0
	if o.strategy == OnlySecond {
		i = 1
	}
	if have[i] <= excess {
		return have, noRoom("the sequence is %d tokens too long, and the text to truncate has %d", excess, have[i])
	}
	have[i] -= excess
	return have, nil
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

// split appends the windows of that many tokens each.
func (o encodeOptions) split(out []window, have, keep int) ([]window, error) {
	switch {
	case keep >= have:
		return append(out, window{0, have, false}), nil
	case !o.windows && o.side == Left:
		return append(out, window{have - keep, have, false}), nil
	case !o.windows:
		return append(out, window{0, keep, false}), nil
	case o.stride < 0 || o.stride >= keep:
		return nil, noRoom("a stride of %d tokens leaves no step for windows of %d", o.stride, keep)
	}
	if o.side == Left {
		for end := have; ; end -= keep - o.stride {
			out = append(out, window{max(end-keep, 0), end, len(out) > 0})
			if end <= keep {
				return out, nil
			}
		}
	}
	for start := 0; ; start += keep - o.stride {
		out = append(out, window{start, min(start+keep, have), len(out) > 0})
		if start+keep >= have {
			return out, nil
		}
	}
}

// assemble makes a sequence of windows of its texts.
func (t *Tokenizer) assemble(tmpl template, input Input, s *scratch, windows [2]window, spans bool) Encoding {
	length := tmpl.specials() + windows[0].end - windows[0].start + windows[1].end - windows[1].start
	ascii := !t.overruns && isASCII(input.texts[0]) && isASCII(input.texts[1])
	e := newEncoding(length, spans, ascii)
	for _, slot := range tmpl {
		at := len(e.InputIDs)
		if slot.text == special {
			e.InputIDs = append(e.InputIDs, slot.ids...)
			for i := at; spans && i < len(e.InputIDs); i++ {
				e.Words[i], e.Sequences[i], e.Special[i] = -1, -1, true
			}
		} else {
			w, text := windows[slot.text], &s.texts[slot.text]
			e.InputIDs = append(e.InputIDs, text.ids[w.start:w.end]...)
			if spans {
				t.locate(&e, at, text, w, input, slot.text)
				if !ascii {
					e.countCharacters(at, input.texts[slot.text])
				}
			}
		}
		segment := slot.segment
		if slot.text != special && windows[slot.text].later && t.post.ownTypes {
			segment = int64(slot.text)
		}
		e.TokenTypeIDs = e.TokenTypeIDs[:len(e.InputIDs)]
		for i := at; segment != 0 && i < len(e.InputIDs); i++ {
			e.TokenTypeIDs[i] = segment
		}
	}
	return e
}

// newEncoding returns a sequence with room for that many tokens, all of whose memory is allocated at once: it has no pointers. Of texts of
// ASCII the offsets in characters are those in bytes.
func newEncoding(length int, spans, ascii bool) Encoding {
	n := 3 * length
	if spans {
		n += 4*length + length/8 + 1
	}
	if spans && !ascii {
		n += 2 * length
	}
	numbers := make([]int64, n)
	e := Encoding{InputIDs: numbers[:0:length], TokenTypeIDs: numbers[length : length : 2*length],
		AttentionMask: numbers[2*length : 3*length : 3*length]}
	for i := range e.AttentionMask {
		e.AttentionMask[i] = 1
	}
	if !spans {
		return e
	}
	rest := numbers[3*length:] // an int is no longer than an int64
	e.Offsets = unsafe.Slice((*Span)(unsafe.Pointer(&rest[0])), length)
	e.Words = unsafe.Slice((*int)(unsafe.Pointer(&rest[2*length])), length)
	e.Sequences = unsafe.Slice((*int)(unsafe.Pointer(&rest[3*length])), length)
	rest = rest[4*length:]
	e.CharOffsets = e.Offsets
	if !ascii {
		e.CharOffsets = unsafe.Slice((*Span)(unsafe.Pointer(&rest[0])), length)
		rest = rest[2*length:]
	}
	e.Special = unsafe.Slice((*bool)(unsafe.Pointer(&rest[0])), length)
	return e
}

// locate writes offsets, words and sequences of the tokens of a window. The first of them is token number at of the sequence.
func (t *Tokenizer) locate(e *Encoding, at int, from *tokens, w window, input Input, sequence int) {
	text := input.texts[sequence]
	spans, words := from.spans[w.start:w.end], from.words[w.start:w.end]
	own := from.own
	offsets, numbers, sequences := e.Offsets[at:at+len(spans)], e.Words[at:at+len(spans)], e.Sequences[at:at+len(spans)]
	for i, s := range spans {
		word := words[i]
		if word < 0 {
			word = ^word
		}
		if len(t.post.trims) > 0 {
			var leading, trailing int32
			for len(own) > 0 && int(own[0].at) < w.start+i {
				own = own[1:]
			}
			if len(own) > 0 && int(own[0].at) == w.start+i {
				leading, trailing = own[0].leading, own[0].trailing
			} else {
				leading, trailing = t.edgesOf(from.ids[w.start+i])
			}
			if t.overruns { // where such a span is in the text, it may be inside of characters
				s = span{runeStart(text, s.start), runeStart(text, s.end)}
			}
			for _, prefixSpace := range t.post.trims {
				first := i == 0 || s.start == 0 || input.split && int(s.start) == input.words[word].Start
				s = trimmed(text, s, leading, trailing, prefixSpace && first)
			}
		}
		offsets[i], numbers[i], sequences[i] = Span{int(s.start), int(s.end)}, int(word), sequence
	}
}

// runeStart returns the beginning of the character that holds byte i, and i itself after the text.
func runeStart(text string, i int32) int32 {
	for i > 0 && int(i) < len(text) && !utf8.RuneStart(text[i]) {
		i--
	}
	return i
}

// countCharacters writes the offsets in characters of the tokens from the at-th on, which are of a text. Offsets beyond the text become
// what tokenizers makes of them.
func (e *Encoding) countCharacters(at int, text string) {
	c := cursor{text: text}
	for i, o := range e.Offsets[at:len(e.InputIDs)] {
		switch {
		case o.End <= len(text):
			o = Span{c.chars(o.Start), c.chars(o.End)}
		case o.Start < len(text):
			start := c.chars(o.Start)
			o = Span{start, start + 2}
		}
		e.CharOffsets[at+i] = o
	}
}

// A cursor counts the characters that end at or before a position in a text. It is fast for positions near the last one.
type cursor struct {
	text         string
	bytes, runes int
}

func (c *cursor) chars(at int) int {
	for c.bytes < at {
		if c.text[c.bytes] < utf8.RuneSelf {
			c.bytes++
		} else {
			_, size := utf8.DecodeRuneInString(c.text[c.bytes:])
			c.bytes += size
		}
		c.runes++
	}
	for c.bytes > at {
		_, size := utf8.DecodeLastRuneInString(c.text[:c.bytes])
		c.bytes -= size
		c.runes--
	}
	return c.runes
}
