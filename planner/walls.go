package planner

import (
	"math"
	"sort"
)

// walls are what the blocks of a skyline have to obey besides each other: alignment, segments, and
// blocks that stay where they are.
type walls struct {
	space  *space
	blocks []int32    // indices in the space
	taken  [][]extent // for each block the addresses that others hold during its life
	beside [][]extent // for each section the addresses that others hold when all its blocks live
	// padding is the largest padding of the blocks that stay, in bytes: one of them may be highest.
	padding int64
}

// extent is a run of taken addresses. sum counts the bytes taken from its low end on, in it and in
// those above it.
type extent struct{ low, high, sum int64 }

// newWalls returns the walls for some blocks of a space, where rest holds all blocks that stay;
// nil if there are none.
func newWalls(sp *space, blocks []int32, from []int32, sections int, rest *timeline) *walls {
	w := &walls{space: sp, blocks: blocks, taken: make([][]extent, len(blocks)), beside: make([][]extent, sections)}
	full := make([]int, sections) // a step of each section at which all its blocks live
	for t := range full {
		full[t] = math.MinInt
	}
	any := sp.segment > 0
	for n, i := range blocks {
		k := &sp.blocks[i]
		w.taken[n] = extents(rest.overlapping(k.first, k.last))
		any = any || len(w.taken[n]) > 0 || k.size%sp.align != 0
		full[from[n]] = max(full[from[n]], k.first)
	}
	if !any {
		return nil
	}
	for t := range full {
		stay := rest.overlapping(full[t], full[t]+1)
		for _, u := range stay {
			w.padding = max(w.padding, sp.blocks[u.block].padding)
		}
		w.beside[t] = extents(stay)
	}
	return w
}

// extents joins tenures, which are by address, into runs.
func extents(tenures []tenure) []extent {
	var list []extent
	for _, t := range tenures {
		if n := len(list); n > 0 && t.low <= list[n-1].high {
			list[n-1].high = max(list[n-1].high, t.high)
		} else {
			list = append(list, extent{low: t.low, high: t.high})
		}
	}
	var sum int64
	for n := len(list) - 1; n >= 0; n-- {
		sum += list[n].high - list[n].low
		list[n].sum = sum
	}
	return list
}

// lift returns the lowest offset from at on that block n may have.
func (w *walls) lift(n int32, at int64) int64 {
	k := &w.space.blocks[w.blocks[n]]
	at = w.space.fit(at, k.size, k.align)
	for _, e := range w.taken[n] {
		if at+k.size <= e.low {
			break
		}
		if at < e.high {
			at = w.space.fit(e.high, k.size, k.align)
		}
	}
	return at
}

// above returns the bytes from at on that others hold when all blocks of section t live.
func (w *walls) above(t int32, at int64) int64 {
	list := w.beside[t]
	n := sort.Search(len(list), func(n int) bool { return list[n].high > at })
	if n == len(list) {
		return 0
	}
	return list[n].sum - max(0, at-list[n].low)
}
