package planner

import (
	"slices"
	"sort"
)

// sectionsOf cuts time where something dies before something new begins: within a section nothing
// that lives at all dies before the section's last block has begun, so that its blocks all live
// together, and two blocks share a step exactly if they share a section. It returns the sections
// from[i] <= s < to[i] of each block and their number.
func sectionsOf(blocks []block) (from, to []int32, count int) {
	n := len(blocks)
	firsts, lasts := make([]int, n), make([]int, n)
	for i := range blocks {
		firsts[i], lasts[i] = blocks[i].first, blocks[i].last
	}
	slices.Sort(firsts)
	slices.Sort(lasts)
	var starts []int // first step of each section
	died := true
	for _, first := range firsts {
		for lasts[0] <= first {
			died, lasts = true, lasts[1:]
		}
		if died {
			starts, died = append(starts, first), false
		}
	}
	from, to = make([]int32, n), make([]int32, n)
	for i := range blocks {
		from[i] = int32(sort.SearchInts(starts, blocks[i].first+1) - 1)
		to[i] = int32(sort.SearchInts(starts, blocks[i].last))
	}
	return from, to, len(starts)
}
