package tokenizer

import "hash/maphash"

// A piece is a token of a word: its id, and where it lies in the word.
type piece struct{ id, start, end int32 }

// A model turns words into pieces of the vocabulary.
type model interface {
	// pieces appends the pieces of a word of normal text. m is memory that it may use.
	pieces(dst []piece, word []byte, m *memory) ([]piece, error)
}

// memory is what models need for a while, and the words that they have done.
type memory struct {
	words   wordCache
	symbols []symbol
	heap    []merge
	ranks   []uint64
	nodes   []pathNode
	path    []piece
}

// A wordCache holds the pieces of words that came lately. A word has one place, at which it stays until another needs it.
type wordCache struct{ slots []cachedWord }

// A cachedWord fills two lines of the processor's cache.
type cachedWord struct {
	ids    [longestCached]int32
	ends   [longestCached]uint8
	length uint8 // of the word, in bytes; 0 for none
	count  uint8 // of the pieces, which lie one after another
	word   [longestWord]byte
}

const (
	cachedWords   = 1 << 12
	longestCached = 12
	longestWord   = 128 - 2 - 5*longestCached
)

// at returns the place of a word, or nil if it is too long.
func (c *wordCache) at(word []byte) *cachedWord {
	if len(word) > longestWord {
		return nil
	}
	if c.slots == nil {
		c.slots = make([]cachedWord, cachedWords)
	}
	return &c.slots[maphash.Bytes(hashSeed, word)%cachedWords]
}

// get appends the pieces of a word, if it is there.
func (s *cachedWord) get(dst []piece, word []byte) ([]piece, bool) {
	if int(s.length) != len(word) || string(s.word[:s.length]) != string(word) {
		return dst, false
	}
	start := int32(0)
	for i := range s.count {
		end := int32(s.ends[i])
		dst = append(dst, piece{s.ids[i], start, end})
		start = end
	}
	return dst, true
}

// put keeps the pieces of a word, if they are few and lie one after another.
func (s *cachedWord) put(word []byte, pieces []piece) {
	if len(pieces) > longestCached {
		return
	}
	s.length = 0
	start := int32(0)
	for i, p := range pieces {
		if p.start != start {
			return
		}
		s.ids[i], s.ends[i] = p.id, uint8(p.end)
		start = p.end
	}
	s.count = uint8(len(pieces))
	copy(s.word[:], word)
	s.length = uint8(len(word))
}

// cached is model.pieces for a model that takes long for a word.
func cached(dst []piece, word []byte, m *memory, pieces func(dst []piece, word []byte, m *memory) ([]piece, error)) ([]piece, error) {
	slot := m.words.at(word)
	if slot == nil {
		return pieces(dst, word, m)
	}
	dst, ok := slot.get(dst, word)
	if ok {
		return dst, nil
	}
	before := len(dst)
	dst, err := pieces(dst, word, m)
	if err == nil {
		slot.put(word, dst[before:])
	}
	return dst, err
}
