package planner

import (
	"cmp"
	"slices"
)

// placeBestFit places large blocks first, each in the smallest gap that holds it among those that
// are free over its whole life (greedy by size of Pisarchyk and Lee, arXiv 2001.03288).
func placeBestFit(sp *space, _ *Options) {
	order := make([]int32, 0, len(sp.blocks))
	x := newLifeIndex(sp.blocks)
	for i := range sp.blocks {
		switch k := &sp.blocks[i]; {
		case k.movable():
			order = append(order, int32(i))
		case k.size > 0:
			x.add(int32(i))
		}
	}
	slices.SortFunc(order, func(a, b int32) int {
		p, q := &sp.blocks[a], &sp.blocks[b]
		return cmp.Or(cmp.Compare(q.size, p.size), cmp.Compare(q.last-q.first, p.last-p.first), cmp.Compare(a, b))
	})
	var near []int32
	for _, i := range order {
		k := &sp.blocks[i]
		near = x.overlapping(k.first, k.last, near[:0])
		k.offset = sp.bestGap(k, near)
		x.add(i)
	}
}

// bestGap returns the offset of the smallest gap between the blocks near that holds k, the lowest
// of equal ones.
func (sp *space) bestGap(k *block, near []int32) int64 {
	slices.SortFunc(near, func(a, b int32) int { return cmp.Compare(sp.blocks[a].offset, sp.blocks[b].offset) })
	best, room := int64(-1), int64(0)
	var top int64
	for _, j := range near {
		b := &sp.blocks[j]
		if at := sp.fit(top, k.size, k.align); at+k.size <= b.offset && (best < 0 || b.offset-top < room) {
			best, room = at, b.offset-top
		}
		top = max(top, b.offset+b.size)
	}
	if best < 0 {
		return sp.fit(top, k.size, k.align)
	}
	return best
}
