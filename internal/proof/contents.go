package proof

import (
	"cmp"
	"slices"

	"github.com/rlxc/rlxc/internal/ranks"
	"github.com/rlxc/rlxc/ir"
)

// contents holds the values that are intact in the arenas. No two of them overlap, so that their last bytes have the order of their first
// bytes. lose walks from the end of a write downwards to the first value that the write does not destroy. If a claim compares positions by
// Claim.Below, which gives them no order in bytes, lose visits all values.
type contents struct {
	overlap func(p, q Region) bool
	sorted  bool              // overlap compares bytes, and not positions by Claim.Below
	starts  []Region          // starts of all regions of the plan, without sizes or duplicates, by arena and offset
	rank    map[*ir.Value]int // index in starts of the region of each intact value
	owner   []*ir.Value       // intact value at each start; nil if there is none
	taken   []Region          // region of each owner; stale without an owner
	ranks   ranks.Set         // indices in starts that have an owner
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

// region returns the region of a value; false if the value is not intact.
func (k *contents) region(v *ir.Value) (Region, bool) {
	r, ok := k.rank[v]
	if !ok {
		return Region{}, false
	}
	return k.taken[r], true
}

// hold records that v is intact at p. No value that is held may overlap p.
func (k *contents) hold(v *ir.Value, p Region) {
	if p.Size == 0 {
		return
	}
	r, _ := slices.BinarySearchFunc(k.starts, p, byAddress)
	k.owner[r], k.taken[r] = v, p
	k.rank[v] = r
	k.ranks.Add(r)
}

// lose removes the values that a write to p destroys.
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
