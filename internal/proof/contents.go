package proof

import (
	"cmp"
	"slices"

	"github.com/rlxc/rlxc/internal/ranks"
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
	ranks   ranks.Set         // those with an owner
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
	k.owner, k.taken, k.ranks = make([]*ir.Value, len(k.starts)), make([]Region, len(k.starts)), ranks.Set{}.Reset(len(k.starts))
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
	k.ranks.Add(r)
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
	for r = k.ranks.Below(r); r >= 0; r = k.ranks.Below(r) {
		if k.overlap(k.taken[r], p) {
			delete(k.rank, k.owner[r])
			k.owner[r] = nil
			k.ranks.Remove(r)
		} else if k.sorted {
			return
		}
	}
}
