package proof

import (
	"cmp"
	"math/bits"
	"slices"

	"github.com/rlxc/rlxc/ir"
)

// contents are the values that are intact in the arenas. No two overlap, so that the order of their first bytes is also that
// of their last: what a write destroys is found by walking down from its end. Where positions are not bytes, all are looked at.
type contents struct {
	overlap func(p, q Region) bool
	sorted  bool              // overlap is that of bytes
	starts  []Region          // all positions that a plan uses, by arena and offset, each start once
	rank    map[*ir.Value]int // of a held value's region
	owner   []*ir.Value       // by rank
	taken   []Region          // by rank: the owner's region
	ranks   ranks             // those with an owner
}

func newContents(c Claim, overlap func(p, q Region) bool) *contents {
	k := &contents{overlap: overlap, sorted: c.Below == nil, rank: map[*ir.Value]int{}}
	add := func(v *ir.Value) {
		if p, ok := c.Region(v); ok {
			k.starts = append(k.starts, Region{Arena: p.Arena, Offset: p.Offset})
		}
	}
	for _, v := range c.Graph.Inputs {
		add(v)
	}
	for _, n := range c.Steps {
		for _, v := range n.Outputs {
			add(v)
		}
	}
	slices.SortFunc(k.starts, byAddress)
	k.starts = slices.Compact(k.starts)
	k.owner, k.taken, k.ranks = make([]*ir.Value, len(k.starts)), make([]Region, len(k.starts)), newRanks(len(k.starts))
	return k
}

func byAddress(a, b Region) int {
	return cmp.Or(cmp.Compare(a.Arena, b.Arena), cmp.Compare(a.Offset, b.Offset))
}

// region is where a value is, if it is intact.
func (k *contents) region(v *ir.Value) (Region, bool) {
	r, ok := k.rank[v]
	if !ok {
		return Region{}, false
	}
	return k.taken[r], true
}

// hold says that v now is at p, where nothing is held.
func (k *contents) hold(v *ir.Value, p Region) {
	if p.Size == 0 {
		return
	}
	r, _ := slices.BinarySearchFunc(k.starts, p, byAddress)
	k.owner[r], k.taken[r] = v, p
	k.rank[v] = r
	k.ranks.add(r)
}

// lose forgets what a write to p destroys.
func (k *contents) lose(p Region) {
	if p.Size == 0 && k.sorted {
		return
	}
	r := len(k.starts)
	if k.sorted {
		r, _ = slices.BinarySearchFunc(k.starts, Region{Arena: p.Arena, Offset: p.end()}, byAddress)
	}
	for r = k.ranks.below(r); r >= 0; r = k.ranks.below(r) {
		if k.overlap(k.taken[r], p) {
			delete(k.rank, k.owner[r])
			k.owner[r] = nil
			k.ranks.remove(r)
		} else if k.sorted {
			return
		}
	}
}

// ranks is a set of small integers that finds the next below one: a word of bits for every 64 of them, over it a bit for
// every word that is not empty, and so on.
type ranks [][]uint64

func newRanks(n int) (s ranks) {
	for {
		n = n/64 + 1
		s = append(s, make([]uint64, n))
		if n == 1 {
			return s
		}
	}
}

func (s ranks) add(i int) {
	for _, words := range s {
		words[i/64] |= 1 << (i % 64)
		i /= 64
	}
}

func (s ranks) remove(i int) {
	for _, words := range s {
		if words[i/64] &^= 1 << (i % 64); words[i/64] != 0 {
			return
		}
		i /= 64
	}
}

// below is the largest member below i, or −1.
func (s ranks) below(i int) int {
	for up, words := range s {
		if w := words[i/64] & (1<<(i%64) - 1); w != 0 {
			i = i/64*64 + bits.Len64(w) - 1
			for ; up > 0; up-- {
				i = i*64 + bits.Len64(s[up-1][i]) - 1
			}
			return i
		}
		i /= 64
	}
	return -1
}
