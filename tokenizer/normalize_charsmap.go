package tokenizer

import (
	"bytes"
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"unicode/utf8"
)

// A charsmap is the normalizer that SentencePiece compiles its rules into: a double-array trie (Aoe 1989, in the form of the library
// darts-clone) from strings to their replacements.
//
// A unit of the array has the byte that leads to it in bits 0 to 7, in bit 8 whether a key ends with it, and in the others where its
// children are. The unit of an ended key, at the place of the child NUL, has bit 31 set and the place of the replacement below it.
type charsmap struct {
	units        []uint32
	replacements []byte              // each ends with NUL
	ascii        [utf8.RuneSelf]bool // which ASCII characters have a replacement
}

func readCharsmap(raw json.RawMessage, _ int) (normalizer, error) {
	var f struct {
		Charsmap *string `json:"precompiled_charsmap"`
	}
	if err := json.Unmarshal(raw, &f); err != nil {
		return nil, err
	}
	if f.Charsmap == nil {
		return nil, nil
	}
	data, err := base64.StdEncoding.DecodeString(*f.Charsmap)
	if err != nil {
		return nil, err
	}
	return newCharsmap(data)
}

// newCharsmap reads a charsmap; none for none.
func newCharsmap(data []byte) (normalizer, error) {
	if len(data) == 0 {
		return nil, nil
	}
	if len(data) < 4 {
		return nil, errors.New("its charsmap is truncated")
	}
	size := binary.LittleEndian.Uint32(data)
	data = data[4:]
	if size == 0 || size%4 != 0 || uint64(size) > uint64(len(data)) {
		return nil, fmt.Errorf("its charsmap has a trie of %d bytes, in a file of %d", size, len(data))
	}
	c := &charsmap{units: make([]uint32, size/4), replacements: data[size:]}
	for i := range c.units {
		c.units[i] = binary.LittleEndian.Uint32(data[4*i:])
	}
	if !utf8.Valid(c.replacements) {
		return nil, errors.New("its charsmap has a replacement that is not UTF-8")
	}
	for i, u := range c.units {
		if u>>31 != 0 {
			if int(u&^(1<<31)) > len(c.replacements) {
				return nil, errors.New("its charsmap points outside of its replacements")
			}
		} else if (uint32(i)^offsetOf(u))|0xff >= uint32(len(c.units)+0xff)&^0xff {
			return nil, errors.New("its charsmap points outside of its trie")
		}
	}
	for len(c.units)%0x100 != 0 {
		c.units = append(c.units, 0x80000001) // no byte leads here
	}
	for b := range c.ascii {
		_, c.ascii[b] = c.find([]byte{byte(b)})
	}
	return c, nil
}

func offsetOf(unit uint32) uint32 { return unit >> 10 << (unit & (1 << 9) >> 6) }

// find returns the replacement of the shortest key that begins text: tokenizers takes the first that it comes upon.
func (c *charsmap) find(text []byte) (replacement []byte, found bool) {
	at := offsetOf(c.units[0])
	for _, b := range text {
		if b == 0 {
			break
		}
		at ^= uint32(b)
		unit := c.units[at]
		if unit&(1<<31|0xff) != uint32(b) {
			break
		}
		at ^= offsetOf(unit)
		if unit>>8&1 != 0 {
			start := c.units[at] &^ (1 << 31)
			if int(start) > len(c.replacements) {
				return nil, false
			}
			r := c.replacements[start:]
			if end := bytes.IndexByte(r, 0); end >= 0 {
				r = r[:end]
			}
			return r, true
		}
	}
	return nil, false
}

// longestCluster is the length in bytes from which on a grapheme cluster is looked up character by character.
const longestCluster = 6

func (c *charsmap) normalize(t *text) error {
	i := 0
	for i < len(t.bytes) && t.bytes[i] < utf8.RuneSelf && !c.ascii[t.bytes[i]] {
		i++
	}
	if i == len(t.bytes) {
		return nil
	}
	if i > 0 {
		i-- // the cluster may continue
	}
	if t.track {
		return c.normalizeTracked(t)
	}
	e := t.edit()
	e.copy(0, i)
	c.replace(t.bytes[i:], func(_, replacement []byte) {
		if t.budget.fits(len(e.out) + len(replacement)) {
			e.out = append(e.out, replacement...)
		}
	})
	e.done()
	return nil
}

// replace calls do for each part of text in order, with what becomes of it.
func (c *charsmap) replace(text []byte, do func(old, replacement []byte)) {
	for len(text) > 0 {
		if b := text[0]; b < utf8.RuneSelf && !c.ascii[b] && (len(text) == 1 || text[1] < utf8.RuneSelf) {
			do(text[:1], text[:1])
			text = text[1:]
			continue
		}
		if n := clusterLen(text); n > 0 {
			if r, ok := c.find(text[:n]); ok {
				do(text[:n], r)
				text = text[n:]
				continue
			}
			// Its characters are looked up, and none begins another cluster.
			for end := len(text) - n; len(text) > end; {
				text = c.replaceFirst(text, do)
			}
			continue
		}
		text = c.replaceFirst(text, do)
	}
}

// replaceFirst is replace of the first character, and returns what follows it.
func (c *charsmap) replaceFirst(text []byte, do func(old, replacement []byte)) []byte {
	_, size := utf8.DecodeRune(text)
	r, ok := c.find(text[:size])
	if !ok {
		r = text[:size]
	}
	do(text[:size], r)
	return text[size:]
}

// normalizeTracked counts characters as tokenizers does, down to this: what is removed counts with the change before it, and at the very
// beginning with none, from where on all origins are too early.
func (c *charsmap) normalizeTracked(t *text) error {
	e := t.edit()
	same := 0 // end of the text that was processed; unchanged text from e.at to same is not written yet
	var last change
	waiting := false // last is the change before same, which a removal may still change
	put := func() {
		if waiting {
			e.put(last.r, last.change)
			waiting = false
		}
	}
	early := false
	c.replace(t.bytes, func(old, replacement []byte) {
		if !t.budget.fits(len(e.out) + len(replacement)) {
			return
		}
		unchanged := len(replacement) > 0 && &old[0] == &replacement[0]
		if unchanged && !waiting && !early {
			same += len(old)
			return
		}
		if !waiting && e.at < same && !early {
			// All that waits is copied, but for the last character.
			r, size := utf8.DecodeLastRune(t.bytes[:same])
			e.copy(e.at, same-size)
			e.at = same - size
			last, waiting = change{r: r}, true
		}
		same += len(old)
		if unchanged {
			put()
			if early {
				r, _ := utf8.DecodeRune(old)
				last, waiting = change{r: r}, true
			}
			return
		}
		difference := utf8.RuneCount(replacement) - utf8.RuneCount(old)
		added := utf8.RuneCount(replacement)
		i := 0
		for _, r := range string(replacement) {
			put()
			last, waiting = change{r: r}, true
			if i >= added-difference {
				last.change = 1
			}
			i++
		}
		if difference < 0 {
			if waiting {
				last.change += difference
			} else {
				early = true
			}
		}
	})
	put()
	if !early {
		e.copy(e.at, same)
	}
	e.done()
	return nil
}

// clusterLen returns the length of the grapheme cluster (Unicode Standard Annex 29) that text begins with, or 0 if it has
// longestCluster bytes or more. What makes clusters of fewer bytes are the marks after a character and the few that are before one:
// syllables, flags and emoji are longer.
func clusterLen(text []byte) int {
	r, n := utf8.DecodeRune(text)
	if r == '\r' && len(text) > 1 && text[1] == '\n' {
		return 2
	}
	if classOf(r)&control != 0 {
		return n
	}
	for classOf(r)&prefixing != 0 && n < len(text) && n < longestCluster {
		next, size := utf8.DecodeRune(text[n:])
		if classOf(next)&control != 0 {
			break
		}
		r = next
		n += size
	}
	for n < len(text) && n < longestCluster {
		next, size := decodeRune(text[n:])
		if next < 0x300 || classOf(next)&extend == 0 {
			break
		}
		n += size
	}
	if n >= longestCluster {
		return 0
	}
	return n
}
