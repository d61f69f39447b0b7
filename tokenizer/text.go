package tokenizer

import (
	"encoding/binary"
	"slices"
	"unicode/utf8"
	"unsafe"
)

// A span is a range of bytes of the original text.
type span struct{ start, end int32 }

// A text is a stretch of the original on its way through normalisation. It is valid UTF-8.
type text struct {
	bytes []byte
	// from holds, for each byte, the character of the original that it came from. It is nil while every byte is where it was,
	// base bytes further in, and when origins are not tracked.
	from  []span
	base  int32
	track bool

	ascii   bool      // the original is ASCII
	current int       // which of the memory bytes and from are in, if they are not the caller's; the next edit takes the other
	outs    [2][]byte // memory of edits
	froms   [2][]span

	budget budget
}

// reset makes t the stretch of the original that begins at base.
func (t *text) reset(stretch string, base int, track bool) {
	t.bytes = unsafe.Slice(unsafe.StringData(stretch), len(stretch)) // read, and never written: an edit has separate memory
	t.from, t.base, t.track = nil, int32(base), track
	if t.ascii = isASCII(stretch); !t.ascii && !utf8.ValidString(stretch) {
		t.makeValid()
	}
}

// isASCII looks at eight bytes at a time.
func isASCII(text string) bool {
	const high = 0x8080808080808080
	b := unsafe.Slice(unsafe.StringData(text), len(text))
	for ; len(b) >= 8; b = b[8:] {
		if binary.LittleEndian.Uint64(b)&high != 0 {
			return false
		}
	}
	for _, c := range b {
		if c >= utf8.RuneSelf {
			return false
		}
	}
	return true
}

// normalize has the text normalized, within its budget.
func (t *text) normalize(n normalizer) error {
	err := n.normalize(t)
	if err == nil && !t.budget.spend(len(t.bytes)) {
		err = t.budget.err
	}
	return err
}

// string returns the text, which is valid until the next edit is done.
func (t *text) string() string { return unsafe.String(unsafe.SliceData(t.bytes), len(t.bytes)) }

// unmoved reports whether each character of the text is a byte, and is where it was in the original.
func (t *text) unmoved() bool { return t.ascii && t.from == nil }

// makeValid replaces each invalid byte by U+FFFD.
func (t *text) makeValid() {
	e := t.edit()
	for i := 0; i < len(t.bytes); {
		r, size := utf8.DecodeRune(t.bytes[i:])
		e.emit(r, span{t.base + int32(i), t.base + int32(i+size)})
		i += size
	}
	e.done()
}

// origin returns the place that the character of byte i has in the original text.
func (t *text) origin(i int) span {
	if t.from != nil {
		return t.from[i]
	}
	start := i
	for start > 0 && !utf8.RuneStart(t.bytes[start]) {
		start--
	}
	_, size := utf8.DecodeRune(t.bytes[start:])
	return span{t.base + int32(start), t.base + int32(start+size)}
}

// beginning returns the origin of what is inserted before the whole text. As in tokenizers, it is the beginning of the stretch, even if the
// first characters of the stretch have been removed.
func (t *text) beginning() span { return span{t.base, t.base} }

// spanOf returns where the bytes from start to end came from: from the beginning of the first one's origin to the end of the last one's.
func (t *text) spanOf(start, end int) span {
	if start >= end || end > len(t.bytes) {
		return span{t.base + int32(start), t.base + int32(end)} // tokenizers' answer for what has no origin
	}
	if t.from != nil {
		return span{t.from[start].start, t.from[end-1].end}
	}
	for start > 0 && !utf8.RuneStart(t.bytes[start]) {
		start--
	}
	for end < len(t.bytes) && !utf8.RuneStart(t.bytes[end]) {
		end++
	}
	return span{t.base + int32(start), t.base + int32(end)}
}

// An edit rewrites a text, character by character. Origins follow the rules of tokenizers' NormalizedString: a character that
// replaces another has its origin, one that is added has that of the character before it.
type edit struct {
	t       *text
	out     []byte
	from    []span
	unmoved bool // so far every character is where it was: from is not needed yet
	at      int  // the next byte of the old text, for put
}

func (t *text) edit() edit {
	return edit{t: t, out: t.outs[1-t.current][:0], from: t.froms[1-t.current][:0], unmoved: true}
}

// done makes the new text the text, if that is not too much.
func (e *edit) done() {
	t := e.t
	if !t.budget.spend(len(e.out)) {
		return
	}
	t.current = 1 - t.current
	t.outs[t.current], t.froms[t.current] = e.out, e.from
	t.bytes, t.from = e.out, nil
	if t.track && !e.unmoved { // else every byte is where it is in the original, as it did before
		t.from = e.from
	}
}

// emit adds a character with a known origin.
func (e *edit) emit(r rune, origin span) {
	n := len(e.out)
	e.out = utf8.AppendRune(e.out, r)
	if e.t.track {
		e.origins(n, origin)
	}
}

// origins says that the bytes of out from n on came from origin.
func (e *edit) origins(n int, origin span) {
	if e.unmoved {
		at := e.t.base + int32(n)
		if origin.start == at && origin.end == e.t.base+int32(len(e.out)) {
			return
		}
		e.unmoved = false
		e.from = appendIdentity(e.from[:0], e.out[:n], e.t.base)
	}
	for range len(e.out) - n {
		e.from = append(e.from, origin)
	}
}

// appendIdentity appends the origins of characters that are where they were.
func appendIdentity(from []span, bytes []byte, base int32) []span {
	from = slices.Grow(from, len(bytes))
	for i := 0; i < len(bytes); {
		if bytes[i] < utf8.RuneSelf {
			from = append(from, span{base + int32(i), base + int32(i) + 1})
			i++
			continue
		}
		_, size := utf8.DecodeRune(bytes[i:])
		for range size {
			from = append(from, span{base + int32(i), base + int32(i+size)})
		}
		i += size
	}
	return from
}

// copy adds bytes of the old text as they are.
func (e *edit) copy(start, end int) {
	t := e.t
	if t.track && !(e.unmoved && t.from == nil && len(e.out) == start) {
		if e.unmoved {
			e.unmoved = false
			e.from = appendIdentity(e.from[:0], e.out, t.base)
		}
		if t.from != nil {
			e.from = append(e.from, t.from[start:end]...)
		} else {
			e.from = appendIdentity(e.from, t.bytes[start:end], t.base+int32(start))
		}
	}
	e.out = append(e.out, t.bytes[start:end]...)
}

// put adds a character as NormalizedString.transform does: change 0 replaces the next character of the old text, a positive one adds,
// a negative one replaces the next character and removes as many after it.
func (e *edit) put(r rune, change int) {
	t := e.t
	if !t.track {
		e.out = utf8.AppendRune(e.out, r)
		return
	}
	var origin span
	switch {
	case change > 0 && e.at == 0:
		origin = t.beginning()
	case change > 0 || e.at >= len(t.bytes):
		origin = t.origin(e.at - 1)
	default:
		origin = t.origin(e.at)
		e.skip(1 - change)
	}
	e.emit(r, origin)
}

// skip passes over characters of the old text.
func (e *edit) skip(count int) {
	for ; count > 0 && e.at < len(e.t.bytes); count-- {
		_, size := utf8.DecodeRune(e.t.bytes[e.at:])
		e.at += size
	}
}
