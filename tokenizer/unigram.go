package tokenizer

import (
	"errors"
	"fmt"
	"math"
	"slices"
)

// A unigram finds the pieces whose probabilities have the largest product (Kudo 2018, "Subword Regularization"), by Viterbi's algorithm.
type unigram struct {
	vocab    *vocabulary
	trie     *trie
	scores   []float64 // score of each piece, by id
	unknown  int32     // the id of a character that no piece has, or none
	penalty  float64   // the score of such a character
	fallback *[256]int32
}

// unknownPenalty is how far the score of an unknown character is below the lowest of all pieces.
const unknownPenalty = 10

// A pathNode is the best path to a position in the word.
type pathNode struct {
	score float64
	start int32 // start of the last piece of the best path to the node; none if there is no path
	id    int32
}

// newUnigram returns a model of the pieces of a vocabulary. scores has the score of each piece, by id.
func newUnigram(vocab *vocabulary, scores []float64, unknown *int64, fallback bool) (*unigram, error) {
	m := &unigram{vocab: vocab, trie: vocab.trie(), scores: scores, unknown: none}
	lowest := math.Inf(1)
	for id, score := range scores {
		if math.IsNaN(score) {
			return nil, fmt.Errorf("the score of piece %d is not a number", id)
		}
		lowest = min(lowest, score)
	}
	m.penalty = lowest - unknownPenalty
	if unknown != nil {
		if *unknown < 0 || *unknown >= int64(len(scores)) {
			return nil, fmt.Errorf("unk_id %d is not in the vocabulary of %d pieces", *unknown, len(scores))
		}
		m.unknown = int32(*unknown)
	}
	if fallback {
		m.fallback = byteTokens(vocab)
	}
	return m, nil
}

var errNoUnknown = errors.New("tokenizer: the text has a character that the vocabulary lacks, and the model has no unk_id for it")

func (m *unigram) pieces(dst []piece, word []byte, mem *memory) ([]piece, error) {
	return cached(dst, word, mem, m.search)
}

// search appends the pieces of the best path.
func (m *unigram) search(dst []piece, word []byte, mem *memory) ([]piece, error) {
	nodes := slices.Grow(mem.nodes[:0], len(word)+1)[:len(word)+1]
	mem.nodes = nodes
	for i := range nodes {
		nodes[i].start = none
	}
	nodes[0].score = 0
	for start := 0; start < len(word); {
		score := nodes[start].score
		_, size := decodeRune(word[start:])
		single := false // whether a piece is the character alone
		n := int32(0)
		i := start
		for ; i < len(word); i++ {
			if n = m.trie.step(n, word[i]); n == none {
				break
			}
			id := m.trie.nodes[n].id
			if id == none {
				continue
			}
			if candidate := score + m.scores[id]; nodes[i+1].start == none || candidate > nodes[i+1].score {
				nodes[i+1] = pathNode{candidate, int32(start), id}
			}
			single = single || i+1 == start+size
		}
		if !mem.budget.spend(i - start) {
			return dst, mem.budget.err
		}
		if !single {
			end := start + size
			if candidate := score + m.penalty; nodes[end].start == none || candidate > nodes[end].score {
				if m.unknown == none { // pieces that end here may make the character known all the same
					return dst, errNoUnknown
				}
				nodes[end] = pathNode{candidate, int32(start), m.unknown}
			}
		}
		start += size
	}

	path := mem.path[:0] // backwards
	for end := int32(len(word)); end > 0; {
		node := nodes[end]
		if last := len(path) - 1; node.id == m.unknown && last >= 0 && path[last].id == m.unknown {
			path[last].start = node.start // unknown characters that follow each other are one
		} else {
			path = append(path, piece{node.id, node.start, end})
		}
		end = node.start
	}
	mem.path = path
	for i := len(path) - 1; i >= 0; i-- {
		if p := path[i]; p.id == m.unknown {
			dst = m.unknownPieces(dst, word, p)
		} else {
			dst = append(dst, p)
		}
	}
	return dst, nil
}

// unknownPieces appends what stands for unknown characters.
func (m *unigram) unknownPieces(dst []piece, word []byte, p piece) []piece {
	content := word[p.start:p.end]
	if id := m.vocab.find(content); id != none { // together they may be a piece, though a less likely one
		return append(dst, piece{id, p.start, p.end})
	}
	if m.fallback != nil && allKnown(m.fallback, content) {
		for _, b := range content {
			dst = append(dst, piece{m.fallback[b], p.start, p.end})
		}
		return dst
	}
	return append(dst, p)
}
