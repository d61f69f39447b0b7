package tokenizer

import (
	"encoding/binary"
	"math/bits"
)

// A wordCache holds the pieces of words that came lately: a hash table with open addressing, which is emptied when it is full. It grows
// with what it holds.
type wordCache struct {
	slots  []cachedWord
	count  int
	text   []byte  // the words, one after another
	pieces []piece // theirs
}

// A cachedWord is the place of a word and of its pieces in the cache.
type cachedWord struct {
	tag           uint32 // bits of the word's hash; the entry is free if length is 0
	text, pieces  uint32
	length, count uint16
}

const (
	cacheSlots  = 1 << 14
	cacheWords  = cacheSlots * 3 / 4
	cachePieces = 1 << 16
	cacheProbes = 8 // positions that are looked at for a word: words that were made up to collide cost no more
	// longestCached is the length of the longest word that is kept: 64 bytes hold nearly all words, and a longer one may have been
	// made up.
	longestCached = 64
)

// find returns the pieces of a word; nil if it is not there, and never nil if it is.
func (c *wordCache) find(word []byte) []piece {
	if c.count == 0 || len(word) > longestCached || len(word) == 0 {
		return nil
	}
	tag := hashWord(word)
	for i := tag; i < tag+cacheProbes; i++ {
		s := &c.slots[i%cacheSlots]
		if s.length == 0 {
			return nil
		}
		if s.tag == tag && int(s.length) == len(word) && string(c.text[s.text:s.text+uint32(s.length)]) == string(word) {
			return c.pieces[s.pieces : s.pieces+uint32(s.count)]
		}
	}
	return nil
}

// put keeps the pieces of a word that is not there.
func (c *wordCache) put(word []byte, pieces []piece) {
	if len(word) > longestCached || len(word) == 0 {
		return
	}
	switch {
	case c.slots == nil:
		c.slots, c.pieces = make([]cachedWord, cacheSlots), make([]piece, 0, 64)
	case c.count == cacheWords, len(c.pieces)+len(pieces) > cachePieces:
		clear(c.slots)
		c.count, c.text, c.pieces = 0, c.text[:0], c.pieces[:0]
	}
	tag := hashWord(word)
	i := tag
	for i < tag+cacheProbes && c.slots[i%cacheSlots].length != 0 {
		i++
	}
	if i == tag+cacheProbes { // another word goes
		i = tag
	}
	c.slots[i%cacheSlots] = cachedWord{tag, uint32(len(c.text)), uint32(len(c.pieces)), uint16(len(word)), uint16(len(pieces))}
	c.text = append(c.text, word...)
	c.pieces = append(c.pieces, pieces...)
	c.count++
}

// hashWord mixes a word's bytes, eight at a time, by the 128-bit product of two numbers.
func hashWord(word []byte) uint32 {
	const a, b = 0x9e3779b97f4a7c15, 0xc2b2ae3d27d4eb4f
	n := len(word)
	h := uint64(n) * b
	for len(word) > 16 {
		high, low := bits.Mul64(binary.LittleEndian.Uint64(word)^a, binary.LittleEndian.Uint64(word[8:])^h)
		h = high ^ low
		word = word[16:]
	}
	var x, y uint64
	switch n := len(word); {
	case n >= 8:
		x, y = binary.LittleEndian.Uint64(word), binary.LittleEndian.Uint64(word[n-8:])
	case n >= 4:
		x, y = uint64(binary.LittleEndian.Uint32(word)), uint64(binary.LittleEndian.Uint32(word[n-4:]))
	default:
		x, y = uint64(word[0])|uint64(word[n/2])<<8, uint64(word[n-1])
	}
	high, low := bits.Mul64(x^a, y^h)
	return uint32((high ^ low) >> 16)
}
