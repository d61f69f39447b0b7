package tokenizer

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"slices"
)

// A trie finds the longest token at the beginning of a text in one walk over its bytes.
//
// Node 0 is the root. The children of a node are side by side, in the order of their bytes, so that a node is the number of its first
// child and their count, and a step is a search for one byte among theirs.
type trie struct {
	nodes []node
	label []byte // the byte on the way into a node
}

type node struct {
	first int32
	count int32
	id    int32 // id of the token that ends at the node; none if no token does
}

// none is the id of a node at which no token ends.
const none = -1

// newTrie makes a trie of tokens; among equal ones the last counts.
func newTrie(entries []entry) *trie {
	text, starts, ids := inOrder(entries)
	t := &trie{nodes: make([]node, 1, 3*len(entries)+1), label: make([]byte, 1, 3*len(entries)+1)}

	// Breadth first: the tokens below a node are neighbours and share its first depth bytes, and each level goes over them in order.
	type work struct{ low, high int32 }
	level, next := []work{{0, int32(len(entries))}}, []work(nil)
	for n, depth := 0, uint32(0); len(level) > 0; depth++ {
		for _, w := range level {
			at := &t.nodes[n]
			*at = node{first: int32(len(t.nodes)), id: none}
			for w.low < w.high && starts[w.low]+depth == starts[w.low+1] {
				at.id = ids[w.low]
				w.low++
			}
			for w.low < w.high {
				c := text[starts[w.low]+depth]
				end := w.low + 1
				for end < w.high && text[starts[end]+depth] == c {
					end++
				}
				at.count++
				t.label = append(t.label, c)
				next = append(next, work{w.low, end})
				w.low = end
			}
			n++
			t.nodes = slices.Grow(t.nodes, int(t.nodes[n-1].count))[:len(t.nodes)+int(t.nodes[n-1].count)]
		}
		level, next = next, level[:0]
	}
	return t
}

// inOrder returns the tokens in their order, one after another, and where each begins; one place more is where the last ends. Equal
// tokens stay in the order in which they came.
func inOrder(entries []entry) (text []byte, starts []uint32, ids []int32) {
	// Most tokens differ in their first 8 bytes, and numbers are sorted by their digits (a radix sort, least significant byte first).
	type key struct {
		head uint64
		at   uint32
	}
	keys, other := make([]key, len(entries)), make([]key, len(entries))
	var counts [8][256]uint32
	length := 0
	for i, e := range entries {
		var head [8]byte
		copy(head[:], e.token)
		keys[i] = key{binary.BigEndian.Uint64(head[:]), uint32(i)}
		for k := range counts {
			counts[k][head[7-k]]++
		}
		length += len(e.token)
	}
	for k := range counts {
		at := uint32(0)
		for digit, n := range counts[k] {
			counts[k][digit] = at
			at += n
		}
		for _, x := range keys {
			at := &counts[k][uint8(x.head>>(8*k))]
			other[*at] = x
			*at++
		}
		keys, other = other, keys
	}
	for low := 0; low < len(keys); {
		high := low + 1
		for high < len(keys) && keys[high].head == keys[low].head {
			high++
		}
		if high-low > 1 {
			slices.SortFunc(keys[low:high], func(a, b key) int {
				return cmp.Or(bytes.Compare(entries[a.at].token, entries[b.at].token), cmp.Compare(a.at, b.at))
			})
		}
		low = high
	}
	text, starts, ids = make([]byte, 0, length), make([]uint32, 0, len(keys)+1), make([]int32, 0, len(keys))
	for _, x := range keys {
		e := entries[x.at]
		starts, ids = append(starts, uint32(len(text))), append(ids, e.id)
		text = append(text, e.token...)
	}
	return text, append(starts, uint32(len(text))), ids
}

// step returns the node that c leads to from node n, or none.
func (t *trie) step(n int32, c byte) int32 {
	from := t.nodes[n]
	i := bytes.IndexByte(t.label[from.first:from.first+from.count], c)
	if i < 0 {
		return none
	}
	return from.first + int32(i)
}

// walk returns the node that text leads to from the root, or none.
func (t *trie) walk(text string) int32 {
	n := int32(0)
	for i := 0; i < len(text) && n != none; i++ {
		n = t.step(n, text[i])
	}
	return n
}

// trie returns a trie of a vocabulary's tokens.
func (v *vocabulary) trie() *trie {
	entries := make([]entry, 0, v.count)
	v.each(func(id int32, token []byte) { entries = append(entries, entry{token, id}) })
	return newTrie(entries)
}

// longest returns the id and the length of the longest token, not empty, that text begins with when read on from node n; none and 0
// where there is no such token, or the budget ends.
func longest[T string | []byte](t *trie, n int32, text T, b *budget) (id int32, size int) {
	id = none
	i := 0
	for ; i < len(text) && n != none; i++ {
		if n = t.step(n, text[i]); n != none && t.nodes[n].id != none {
			id, size = t.nodes[n].id, i+1
		}
	}
	if !b.spend(i) {
		return none, 0
	}
	return id, size
}
