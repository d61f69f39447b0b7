package planner

import (
	"cmp"
	"math"
	"slices"
)

// lifeIndex finds the blocks added to it that live at some step of an interval: blocks sorted by
// their first step under a tree of the largest last step, as in an augmented interval tree (Cormen
// et al., Introduction to Algorithms, 14.3) whose shape is fixed beforehand.
type lifeIndex struct {
	blocks []block
	order  []int32 // blocks by first step
	rank   []int32 // of each block in order
	latest []int   // a binary heap over order; noLife where nothing was added
	leaves int
}

const noLife = math.MinInt

func newLifeIndex(blocks []block) *lifeIndex {
	x := &lifeIndex{blocks: blocks, order: make([]int32, len(blocks)), rank: make([]int32, len(blocks)), leaves: 1}
	for i := range x.order {
		x.order[i] = int32(i)
	}
	slices.SortStableFunc(x.order, func(a, b int32) int { return cmp.Compare(blocks[a].first, blocks[b].first) })
	for r, i := range x.order {
		x.rank[i] = int32(r)
	}
	for x.leaves < len(blocks) {
		x.leaves *= 2
	}
	x.latest = make([]int, 2*x.leaves)
	for i := range x.latest {
		x.latest[i] = noLife
	}
	return x
}

// add makes block i known.
func (x *lifeIndex) add(i int32) {
	last := x.blocks[i].last
	for n := x.leaves + int(x.rank[i]); n > 0 && x.latest[n] < last; n /= 2 {
		x.latest[n] = last
	}
}

// overlapping appends to found the known blocks that live at some step of [first, last).
func (x *lifeIndex) overlapping(first, last int, found []int32) []int32 {
	n := 1
	for {
		if x.latest[n] > first && n < x.leaves {
			n *= 2
			continue
		}
		if x.latest[n] > first { // a leaf
			i := x.order[n-x.leaves]
			if x.blocks[i].first >= last {
				return found
			}
			found = append(found, i)
		}
		for n&1 == 1 { // up from right children, to the next subtree
			n /= 2
		}
		if n == 0 {
			return found
		}
		n++
	}
}
