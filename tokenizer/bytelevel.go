package tokenizer

import "unicode/utf8"

// The alphabet of byte-level BPE has a visible character for each byte (Radford et al. 2019, GPT-2): the byte's character in Latin-1 if
// that is visible, and otherwise the next unused character, beginning with U+0100.
var (
	byteRune [256]rune
	runeByte [0x144]int16 // byte of each character; -1 for none
)

func init() {
	for i := range runeByte {
		runeByte[i] = -1
	}
	next := rune(0x100)
	for b := range rune(256) {
		r := b
		if !('!' <= b && b <= '~' || 0xa1 <= b && b <= 0xac || 0xae <= b) {
			r = next
			next++
		}
		byteRune[b] = r
		runeByte[r] = int16(b)
	}
}

// bytesOf decodes a token that is written in the alphabet. ok is false if it has other characters.
func bytesOf(token []byte) ([]byte, bool) {
	out := make([]byte, 0, len(token))
	for i := 0; i < len(token); {
		r, size := decodeRune(token[i:])
		if int(r) >= len(runeByte) || runeByte[r] < 0 {
			return nil, false
		}
		out = append(out, byte(runeByte[r]))
		i += size
	}
	return out, true
}

// spellsBytes reports whether a vocabulary has a token for each byte of UTF-8: all but C0, C1 and F5 to FF.
func spellsBytes(v *vocabulary) bool {
	for b, r := range byteRune {
		if b != 0xc0 && b != 0xc1 && b < 0xf5 && v.find([]byte(string(r))) == none {
			return false
		}
	}
	return true
}

// byteLevelNormalizer writes each byte as the alphabet does.
type byteLevelNormalizer struct{}

func (byteLevelNormalizer) normalize(t *text) error {
	if len(t.bytes) > 0 {
		e := t.edit()
		e.byteLevel(0, len(t.bytes))
		e.done()
	}
	return nil
}

// byteLevel adds bytes of the old text, written in the alphabet.
func (e *edit) byteLevel(start, end int) {
	t := e.t
	for i := start; i < end; {
		_, size := decodeRune(t.bytes[i:])
		if !t.track {
			for _, b := range t.bytes[i : i+size] {
				e.out = utf8.AppendRune(e.out, byteRune[b])
			}
		} else {
			origin := t.origin(i)
			for _, b := range t.bytes[i : i+size] {
				e.emit(byteRune[b], origin)
			}
		}
		i += size
	}
}
