package tokenizer

// A piece is a token of a word: its id, and where it is in the word.
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
	budget  *budget
}

// cached is model.pieces for a model that takes long for a word.
func cached(dst []piece, word []byte, m *memory, pieces func(dst []piece, word []byte, m *memory) ([]piece, error)) ([]piece, error) {
	if known := m.words.find(word); known != nil {
		return append(dst, known...), nil
	}
	before := len(dst)
	dst, err := pieces(dst, word, m)
	if err == nil {
		m.words.put(word, dst[before:])
	}
	return dst, err
}
