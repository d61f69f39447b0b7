package tokenizer

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"slices"
)

// A trie finds the longest token at the beginning of a text in one walk over its bytes.
//
// Node 0 is the root. The children of a node lie side by side, in the order of their bytes, so that a node is the number of its first
// child and their count, and a step is a search for one byte among theirs.
type trie struct {
	nodes []node
	label []byte // the byte on the way into a node
}

type node struct {
	first int32
	count int32
	id    int32 // of the token that ends here, or none
}

// none is the id of a node at which no token ends.
const none = -1

// newTrie makes a trie of tokens; among equal ones the last counts.
func newTrie(entries []entry) *trie {
	entries = sorted(entries)
	t := &trie{nodes: make([]node, 1, 3*len(entries)+1), label: make([]byte, 1, 3*len(entries)+1)}

	// Breadth first: the tokens below a node are neighbours in entries and share its first depth bytes.
	type work struct{ low, high, depth int32 }
	below := make([]work, 1, cap(t.nodes))
	below[0] = work{0, int32(len(entries)), 0}
	for n := 0; n < len(t.nodes); n++ {
		w := below[n]
		t.nodes[n] = node{first: int32(len(t.nodes)), id: none}
		for w.low < w.high && len(entries[w.low].token) == int(w.depth) {
			t.nodes[n].id = entries[w.low].id
			w.low++
		}
		for w.low < w.high {
			c := entries[w.low].token[w.depth]
			end := w.low + 1
			for end < w.high && entries[end].token[w.depth] == c {
				end++
			}
			t.nodes, t.label = append(t.nodes, node{}), append(t.label, c)
			below = append(below, work{w.low, end, w.depth + 1})
			t.nodes[n].count++
			w.low = end
		}
	}
	return t
}

// sorted returns the entries in the order of their tokens, equal ones in the order in which they came.
func sorted(entries []entry) []entry {
	// Most tokens differ in their first 8 bytes, and numbers compare faster than strings.
	type key struct {
		head uint64
		at   int
	}
	keys := make([]key, len(entries))
	for i, e := range entries {
		var head [8]byte
		copy(head[:], e.token)
		keys[i] = key{binary.BigEndian.Uint64(head[:]), i}
	}
	slices.SortFunc(keys, func(a, b key) int {
		if a.head != b.head {
			return cmp.Compare(a.head, b.head)
		}
		return cmp.Or(bytes.Compare(entries[a.at].token, entries[b.at].token), cmp.Compare(a.at, b.at))
	})
	out := make([]entry, len(entries))
	for i, k := range keys {
		out[i] = entries[k.at]
	}
	return out
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
// where there is no such token.
func longest[T string | []byte](t *trie, n int32, text T) (id int32, size int) {
	id = none
	for i := 0; i < len(text) && n != none; i++ {
		if n = t.step(n, text[i]); n != none && t.nodes[n].id != none {
			id, size = t.nodes[n].id, i+1
		}
	}
	return id, size
}
