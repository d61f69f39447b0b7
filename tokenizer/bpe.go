package tokenizer

import (
	"errors"
	"fmt"
	"math"
	"math/bits"
	"slices"
	"unicode/utf8"
)

// A bpe merges the characters of a word, or its bytes, pair by pair: always the pair that was learned first, of equal ones the leftmost
// (Sennrich et al. 2016, "Neural Machine Translation of Rare Words with Subword Units").
type bpe struct {
	vocab *vocabulary
	pairs pairTable

	bytes        bool        // the symbols are bytes: the vocabulary was written in the alphabet of byte-level BPE
	first        [256]int32  // the ids of the symbols of one byte, or none
	prefix       []byte      // prefix of each symbol but a word's first
	suffix       []byte      // suffix of a word's last symbol
	unknown      int32       // stands for a symbol that is not in the vocabulary; none drops it
	fuse         bool        // unknown symbols that follow each other are one
	fallback     *[256]int32 // the ids of <0x00> to <0xFF>; nil if bytes do not stand for unknown characters
	ignoreMerges bool        // a word that is a token is that token, whatever the merges say

	// cuts: no merge reaches over a space that is written as the character space, unless a character before it is in joined.
	cuts        bool
	space       []byte
	joined      map[rune]bool
	joinedASCII [utf8.RuneSelf]bool
}

// A symbol is a stretch of the word while it is being merged.
type symbol struct {
	id, size   int32 // a size of 0: has gone into the one before
	prev, next int32 // indices, none at the ends
}

// A merge is a pair that may be merged, by its left symbol.
type merge struct {
	rank, at, id int32
}

// A pairTable maps a pair of ids to the rank of its merge and the id of what it becomes: a hash table with open addressing.
type pairTable struct {
	slots []pairSlot
	shift uint
}

type pairSlot struct {
	pair     uint64 // noPair where free
	rank, id int32
}

const noPair = math.MaxUint64

func newPairTable(count int) pairTable {
	n := bits.Len(uint(count*3/2 + 1))
	t := pairTable{make([]pairSlot, 1<<n), uint(64 - n)}
	for i := range t.slots {
		t.slots[i].pair = noPair
	}
	return t
}

func pairOf(a, b int32) uint64 { return uint64(uint32(a))<<32 | uint64(uint32(b)) }

// slot returns the position of a pair.
func (t *pairTable) slot(pair uint64) *pairSlot {
	mask := uint64(len(t.slots) - 1)
	for i := pair * 0x9e3779b97f4a7c15 >> t.shift; ; i = (i + 1) & mask {
		if s := &t.slots[i]; s.pair == pair || s.pair == noPair {
			return s
		}
	}
}

// noRank is the rank of a pair that is not merged.
const noRank = math.MaxInt32

// get returns the rank and the id of the merge of a pair.
func (t *pairTable) get(a, b int32) (rank, id int32) {
	if s := t.slot(pairOf(a, b)); s.pair != noPair {
		return s.rank, s.id
	}
	return noRank, none
}

// bpeSettings are those of a BPE model in tokenizer.json.
type bpeSettings struct {
	Dropout      *float64 `json:"dropout"`
	Unknown      *string  `json:"unk_token"`
	Prefix       *string  `json:"continuing_subword_prefix"`
	Suffix       *string  `json:"end_of_word_suffix"`
	Fuse         *bool    `json:"fuse_unk"`
	Fallback     *bool    `json:"byte_fallback"`
	IgnoreMerges *bool    `json:"ignore_merges"`
}

// longestAffix is far above the length of what marks a subword.
const longestAffix = 256

// newBPE makes a model of a vocabulary and its merges, in their order. Each merge is two tokens; asBytes says that tokens are written in
// the alphabet of byte-level BPE.
func newBPE(s bpeSettings, vocab *vocabulary, merges [][2][]byte, asBytes bool) (*bpe, error) {
	if s.Dropout != nil && *s.Dropout != 0 {
		return nil, errors.New("dropout is for training only: remove it from the model")
	}
	m := &bpe{vocab: vocab, unknown: none, bytes: asBytes}
	set(&m.fuse, s.Fuse)
	set(&m.ignoreMerges, s.IgnoreMerges)
	if s.Prefix != nil {
		m.prefix = []byte(*s.Prefix)
	}
	if s.Suffix != nil {
		m.suffix = []byte(*s.Suffix)
	}
	if len(m.prefix)+len(m.suffix) > longestAffix { // each character of a word would be read with them
		return nil, fmt.Errorf("the prefix and suffix of subwords have %d bytes: at most %d are supported", len(m.prefix)+len(m.suffix),
			longestAffix)
	}
	m.pairs = newPairTable(len(merges))
	var joined []byte
	for rank, pair := range merges {
		a, b := vocab.find(pair[0]), vocab.find(pair[1])
		joined = append(append(joined[:0], pair[0]...), pair[1][min(len(m.prefix), len(pair[1])):]...)
		id := vocab.find(joined)
		for i, found := range []int32{a, b, id} {
			if found == none {
				token := [][]byte{pair[0], pair[1], joined}[i]
				return nil, fmt.Errorf("merge %d, of %q and %q: the vocabulary lacks %q", rank, shorten(pair[0]), shorten(pair[1]),
					shorten(token))
			}
		}
		// Of equal merges the last counts.
		*m.pairs.slot(pairOf(a, b)) = pairSlot{pairOf(a, b), int32(rank), id}
	}
	if s.Unknown != nil {
		m.unknown = vocab.find([]byte(*s.Unknown))
		if m.unknown == none {
			return nil, fmt.Errorf("the vocabulary of %d tokens lacks the unk_token %q", vocab.count, *s.Unknown)
		}
	}
	if s.Fallback != nil && *s.Fallback {
		m.fallback = byteTokens(vocab)
	}
	if asBytes {
		var err error
		if m.vocab, err = inBytes(vocab); err != nil {
			return nil, err
		}
	}
	for b := range m.first {
		m.first[b] = none
		if asBytes || b < utf8.RuneSelf {
			m.first[b] = m.vocab.find([]byte{byte(b)})
		}
	}
	return m, nil
}

// byteTokens returns the ids of <0x00> to <0xFF>, none for those that the vocabulary lacks.
func byteTokens(vocab *vocabulary) *[256]int32 {
	var ids [256]int32
	for b := range ids {
		ids[b] = vocab.find(fmt.Appendf(nil, "<0x%02X>", b))
	}
	return &ids
}

// inBytes returns a vocabulary with the bytes that tokens stand for; tokens that are not written in the alphabet are left out, for no
// text becomes one of them.
func inBytes(v *vocabulary) (*vocabulary, error) {
	entries := make([]entry, 0, v.count)
	v.each(func(id int32, token []byte) {
		if b, ok := bytesOf(token); ok {
			entries = append(entries, entry{b, id})
		}
	})
	return newVocabulary(entries)
}

// cutAt makes words shorter, where text before each space (written as that character) is merged with nothing after it: the tokens decide.
func (m *bpe) cutAt(space rune) {
	s := []byte(string(space))
	if m.bytes || len(m.prefix) > 0 || len(m.suffix) > 0 || m.ignoreMerges || m.vocab.find(s) == none || m.drops() {
		return
	}
	m.cuts, m.space, m.joined = true, s, map[rune]bool{}
	m.vocab.each(func(_ int32, token []byte) {
		for i := 1; i+len(s) <= len(token); i++ {
			if token[i] == s[0] && string(token[i:i+len(s)]) == string(s) {
				r, _ := utf8.DecodeLastRune(token[:i])
				m.joined[r] = true
				if r < utf8.RuneSelf {
					m.joinedASCII[r] = true
				}
			}
		}
	})
}

func (m *bpe) pieces(dst []piece, word []byte, mem *memory) ([]piece, error) {
	if !m.cuts {
		return m.wordPieces(dst, word, 0, mem), nil
	}
	start, first := 0, m.space[0]
	for i := 1; i+len(m.space) <= len(word); i++ {
		if word[i] != first || string(word[i:i+len(m.space)]) != string(m.space) || m.joins(word[:i]) {
			continue
		}
		dst = m.wordPieces(dst, word[start:i], start, mem)
		start = i
	}
	return m.wordPieces(dst, word[start:], start, mem), nil
}

// joins reports whether a merge may reach from the end of text over a space.
func (m *bpe) joins(text []byte) bool {
	if c := text[len(text)-1]; c < utf8.RuneSelf {
		return m.joinedASCII[c]
	}
	r, _ := utf8.DecodeLastRune(text)
	return m.joined[r]
}

// wordPieces appends the pieces of a word that begins at byte base.
func (m *bpe) wordPieces(dst []piece, word []byte, base int, mem *memory) []piece {
	if known := mem.words.find(word); known != nil {
		for _, p := range known {
			dst = append(dst, piece{p.id, p.start + int32(base), p.end + int32(base)})
		}
		return dst
	}
	before := len(dst)
	dst = m.newPieces(dst, word, mem)
	mem.words.put(word, dst[before:])
	if base > 0 {
		added := dst[before:]
		for i := range added {
			added[i].start += int32(base)
			added[i].end += int32(base)
		}
	}
	return dst
}

// newPieces appends the pieces of a word that is not in the cache.
func (m *bpe) newPieces(dst []piece, word []byte, mem *memory) []piece {
	if m.ignoreMerges {
		if id := m.vocab.find(word); id != none {
			return append(dst, piece{id, 0, int32(len(word))})
		}
	}
	mem.symbols = m.symbolsOf(mem.symbols[:0], word)
	m.merge(mem)
	end := int32(0)
	for _, s := range mem.symbols {
		if s.size > 0 {
			dst = append(dst, piece{s.id, end, end + s.size})
			end += s.size
		}
	}
	return dst
}

// symbolsOf appends the symbols of a word, before any merge.
func (m *bpe) symbolsOf(dst []symbol, word []byte) []symbol {
	if m.bytes && m.unknown == none && m.fallback == nil {
		for _, b := range word {
			if id := m.first[b]; id != none {
				dst = append(dst, symbol{id: id, size: 1})
			}
		}
		return dst
	}
	simple := len(m.prefix) == 0 && len(m.suffix) == 0
	unknown := int32(0) // the bytes that wait as one unknown symbol
	flush := func() {
		if unknown > 0 {
			dst = append(dst, symbol{id: m.unknown, size: unknown})
			unknown = 0
		}
	}
	for i := 0; i < len(word); {
		size := 1
		if !m.bytes {
			_, size = decodeRune(word[i:])
		}
		content := word[i : i+size]
		id := int32(none)
		switch {
		case simple && size == 1:
			id = m.first[content[0]]
		case simple:
			id = m.vocab.find(content)
		default:
			var whole []byte
			if i > 0 {
				whole = append(whole, m.prefix...)
			}
			whole = append(whole, content...)
			if i+size == len(word) {
				whole = append(whole, m.suffix...)
			}
			content = whole
			id = m.vocab.find(content)
		}
		i += size
		switch {
		case id != none:
			flush()
			dst = append(dst, symbol{id: id, size: int32(size)})
		case m.fallback != nil && allKnown(m.fallback, content):
			for _, b := range content { // what is unknown before them comes after them: so tokenizers does
				dst = append(dst, symbol{id: m.fallback[b], size: 1})
			}
		case m.unknown != none:
			if !m.fuse {
				flush()
			}
			unknown += int32(size)
		}
	}
	flush()
	return dst
}

// drops reports whether a character may have no symbol. The symbols after it then begin earlier than it ends, as in tokenizers.
func (m *bpe) drops() bool {
	return m.unknown == none && (m.fallback == nil || slices.Contains(m.fallback[:], none))
}

// overruns reports whether the sizes of a word's symbols may add up to more than the word. Otherwise they add up to at most the word.
// A character that is spelt in bytes is spelt with its prefix and suffix, and tokenizers counts these bytes too.
func (m *bpe) overruns() bool { return m.fallback != nil && len(m.prefix)+len(m.suffix) > 0 }

func allKnown(ids *[256]int32, content []byte) bool {
	for _, b := range content {
		if ids[b] == none {
			return false
		}
	}
	return true
}

// shortWord is the number of symbols up to which looking for the best pair again and again is the fastest.
const shortWord = 40

// merge merges the symbols of a word.
func (m *bpe) merge(mem *memory) {
	if len(mem.symbols) > shortWord {
		m.mergeLong(mem)
		return
	}
	// ranks holds, for each symbol, the rank of its merge with the next one above the id of what becomes of them.
	symbols, ranks := mem.symbols, mem.ranks[:0]
	rankOf := func(i int) uint64 {
		if i+1 >= len(symbols) {
			return math.MaxUint64
		}
		rank, id := m.pairs.get(symbols[i].id, symbols[i+1].id)
		if rank == noRank {
			return math.MaxUint64
		}
		return uint64(rank)<<32 | uint64(uint32(id))
	}
	for i := range symbols {
		ranks = append(ranks, rankOf(i))
	}
	for {
		best, at := uint64(math.MaxUint64), 0
		for i, r := range ranks {
			if r>>32 < best>>32 {
				best, at = r, i
			}
		}
		if best == math.MaxUint64 {
			break
		}
		symbols[at].id = int32(uint32(best))
		symbols[at].size += symbols[at+1].size
		symbols = append(symbols[:at+1], symbols[at+2:]...)
		ranks = append(ranks[:at+1], ranks[at+2:]...)
		ranks[at] = rankOf(at)
		if at > 0 {
			ranks[at-1] = rankOf(at - 1)
		}
	}
	mem.symbols, mem.ranks = symbols, ranks
}

// mergeLong merges with a heap of the pairs, in n·log n time.
func (m *bpe) mergeLong(mem *memory) {
	s, h := mem.symbols, mem.heap[:0]
	for i := range s {
		s[i].prev, s[i].next = int32(i-1), int32(i+1)
		if i+1 == len(s) {
			s[i].next = none
		} else if rank, id := m.pairs.get(s[i].id, s[i+1].id); rank != noRank {
			h = append(h, merge{rank, int32(i), id})
		}
	}
	for i := (len(h) - 2) / heapWidth; i >= 0; i-- {
		sink(h, i)
	}
	push := func(i, j int32) {
		if rank, id := m.pairs.get(s[i].id, s[j].id); rank != noRank {
			h = append(h, merge{rank, i, id})
			rise(h)
		}
	}
	steps := len(s)
	for ; len(h) > 0; steps++ {
		top := h[0]
		h[0] = h[len(h)-1]
		h = h[:len(h)-1]
		sink(h, 0)

		left := &s[top.at]
		if left.size == 0 || left.next == none {
			continue
		}
		right := &s[left.next]
		if _, id := m.pairs.get(left.id, right.id); id != top.id {
			continue // one of the two has changed since
		}
		left.id = top.id
		left.size += right.size
		left.next = right.next
		right.size = 0
		if left.next != none {
			s[left.next].prev = top.at
		}
		if left.prev != none {
			push(left.prev, top.at)
		}
		if left.next != none {
			push(top.at, left.next)
		}
	}
	mem.heap = h
	mem.budget.spend(steps)
}

// heapWidth is the number of children in the heap: a line of the processor's cache holds most of four.
const heapWidth = 4

func before(a, b merge) bool { return a.rank < b.rank || a.rank == b.rank && a.at < b.at }

// sink moves h[i] to its position below.
func sink(h []merge, i int) {
	if i >= len(h) {
		return
	}
	m := h[i]
	for {
		child := heapWidth*i + 1
		if child >= len(h) {
			break
		}
		least := child
		for c := child + 1; c < min(child+heapWidth, len(h)); c++ {
			if before(h[c], h[least]) {
				least = c
			}
		}
		if !before(h[least], m) {
			break
		}
		h[i] = h[least]
		i = least
	}
	h[i] = m
}

// rise moves the last element of h to its position above.
func rise(h []merge) {
	i := len(h) - 1
	m := h[i]
	for i > 0 {
		parent := (i - 1) / heapWidth
		if !before(m, h[parent]) {
			break
		}
		h[i] = h[parent]
		i = parent
	}
	h[i] = m
}
