package planner

import (
	"cmp"
	"slices"
)

// exactBlocks is the number of movable blocks up to which a space is solved exactly, whatever the budget. The hardest of 24,000 random
// problems with 12 movable blocks, half of them with two fixed ones, took 2.9 million units of work, where autoBudget is 20 million.
const exactBlocks = 12

// An exact search finds the lowest arrangement of at most exactBlocks blocks. A sequence of the blocks determines an arrangement: each
// block in turn gets the lowest offset above all earlier blocks that live at the same time. Some sequence determines an arrangement of the
// least height. To see that, take a lowest arrangement and place its blocks again, in the order of their offsets: no block gets a higher
// offset.
//
// Time is cut into sections, whose blocks all live at the same time (sectionsOf). A block lives in one section or in several consecutive
// ones. The search tries sequences by branch and bound. It does not continue a sequence if it has continued another sequence of the same
// blocks that is nowhere worse: each section of a block that is still to be placed is filled up to the same address or a lower one, and the
// highest block ends at the same address or a lower one. For example, a and b have 4 bytes in section 0, for which c is still to be placed.
// Both a b and b a fill section 0 up to 8, so only the first of them is continued with c.
type exact struct {
	*prober
	unit   int64   // the size of an arena is a multiple of unit bytes
	goal   int64   // the search stops at an arrangement that ends at this address or below
	best   int64   // address at which the best arrangement ends; at first that of the heuristics' arrangement
	order  []int   // all blocks, by index in prober.blocks, the largest first: at each place of a sequence they are tried in this order
	offset []int64 // offset of each block that is placed, by index; other elements are stale
	found  []int64 // offset of each block in the best arrangement; nil as long as the heuristics' arrangement is the best
	// filled holds the fillings that were continued, by the set of blocks that were still to be placed: bit n is block n.
	filled map[uint16][]filling
}

// A filling is the memory that the blocks of a sequence take.
type filling struct {
	tops []int64 // first free address of each section, padding included
	end  int64   // address at which the highest block ends, without its padding
}

// solveExactly lowers the arena until there is no smaller one. It reports false, and does nothing, for many blocks, and for gaps and
// segments, with which there are more arrangements than stacks.
func (s *searcher) solveExactly() bool {
	movable := 0
	for i := range s.blocks {
		if s.blocks[i].movable() {
			movable++
		}
	}
	if movable > exactBlocks || s.gapped || s.segment > 0 {
		return false
	}
	s.best.restore()
	goal := s.goal
	for part, rest := range s.parts() {
		x := &exact{prober: s.newProber(part, rest), unit: s.unit, goal: goal, best: s.topOf(part), offset: make([]int64, len(part)),
			filled: map[uint16][]filling{}}
		for n := range part {
			x.order = append(x.order, n)
		}
		slices.SortFunc(x.order, func(a, b int) int { return cmp.Or(cmp.Compare(x.size[b], x.size[a]), cmp.Compare(a, b)) })
		x.stack(1<<len(part)-1, filling{tops: make([]int64, len(x.spare))})
		for n, at := range x.found {
			s.blocks[part[n]].offset = at
		}
		goal = max(goal, x.best) // the others need not end lower
		s.work -= x.work
	}
	s.best.keep()
	return true
}

// stack continues a sequence in all ways that may lead to a better arrangement than the best one. Bit n of waiting is set if block n is
// still to be placed.
func (x *exact) stack(waiting uint16, f filling) {
	x.work -= int64(len(f.tops))
	if x.limit = roundUp(x.best, x.unit) - x.unit; f.end > x.limit { // a better arrangement was found since the last block was placed
		return
	}
	if waiting == 0 {
		x.best, x.found = f.end, slices.Clone(x.offset)
		return
	}
	if !x.mayFit(waiting, f.tops) {
		return
	}
	for _, other := range x.filled[waiting] {
		if other.end <= f.end &&
			!slices.ContainsFunc(x.order, func(n int) bool { return waiting>>n&1 == 1 && x.higher(n, other.tops, f.tops) }) {
			return
		}
	}
	x.filled[waiting] = append(x.filled[waiting], f)
	for _, n := range x.order {
		if waiting>>n&1 == 0 {
			continue
		}
		if x.best <= x.goal {
			return
		}
		at := x.lowest(n, f.tops)
		above := filling{slices.Clone(f.tops), max(f.end, at+x.size[n]-x.padding[n])}
		for t := x.from[n]; t < x.to[n]; t++ {
			above.tops[t] = at + x.size[n]
		}
		x.offset[n] = at
		x.stack(waiting&^(1<<n), above)
	}
}

// higher reports whether one of the sections of block n is filled higher in a than in b.
func (x *exact) higher(n int, a, b []int64) bool {
	for t := x.from[n]; t < x.to[n]; t++ {
		if a[t] > b[t] {
			return true
		}
	}
	return false
}

// lowest returns the lowest offset of block n on the tops of its sections.
func (x *exact) lowest(n int, tops []int64) int64 {
	return x.lifted(int32(n), slices.Max(tops[x.from[n]:x.to[n]]))
}

// mayFit reports whether the waiting blocks may end at or below the limit: each of them alone does, and in each section the sum of
// their sizes fits.
func (x *exact) mayFit(waiting uint16, tops []int64) bool {
	load := make([]int64, len(tops))
	for n := range x.size {
		if waiting>>n&1 == 0 {
			continue
		}
		if x.lowest(n, tops)+x.size[n]-x.padding[n] > x.limit {
			return false
		}
		for t := x.from[n]; t < x.to[n]; t++ {
			load[t] += x.size[n]
		}
	}
	for t, bytes := range load {
		if x.walls != nil && bytes > 0 {
			bytes += x.walls.above(int32(t), tops[t])
		}
		if bytes > 0 && tops[t]+bytes > x.limit+x.spare[t] {
			return false
		}
	}
	return true
}
