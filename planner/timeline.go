package planner

import (
	"slices"
	"sort"
)

// timeline holds placed blocks by address for each window of time, so that those that live at some
// step of an interval are found in the order of their addresses. Blocks that begin in a window and
// blocks that come into it from before are apart: an interval over several windows then meets
// each block once.
type timeline struct {
	starts []int // first step of each window; a window ends where the next starts
	begins [][]tenure
	passes [][]tenure
	found  []tenure // last result of overlapping
	spare  []tenure // scratch memory of merge
	runs   []int    // ends of the sorted runs in found
	work   *int64   // units of work: visited entries and lookups
}

// tenure is memory that is taken for some time.
type tenure struct {
	low, high   int64
	first, last int
	block       int32
}

// windowBirths is the smallest number of blocks that begin in a window.
const windowBirths = 16

// newTimeline makes an empty timeline for the blocks. live is roughly how many of them live at a
// time: windows hold about as many births, so that neither kind of list outgrows the other.
func newTimeline(blocks []block, live int) *timeline {
	x := &timeline{work: new(int64)}
	births := max(windowBirths, live)
	if len(blocks) <= 2*births {
		x.starts = []int{0}
	} else {
		firsts := make([]int, len(blocks))
		for i := range blocks {
			firsts[i] = blocks[i].first
		}
		slices.Sort(firsts)
		for i := 0; i < len(firsts); i += births {
			if len(x.starts) == 0 || firsts[i] > x.starts[len(x.starts)-1] {
				x.starts = append(x.starts, firsts[i])
			}
		}
	}
	x.begins = make([][]tenure, len(x.starts))
	x.passes = make([][]tenure, len(x.starts))
	return x
}

// timeline makes an empty timeline whose work is charged to the space.
func (sp *space) timeline(live int) *timeline {
	x := newTimeline(sp.blocks, live)
	x.work = &sp.work
	return x
}

// window returns the window of a step; steps before all windows belong to the first.
func (x *timeline) window(step int) int {
	if len(x.starts) == 1 {
		return 0
	}
	return max(0, sort.SearchInts(x.starts, step+1)-1)
}

// add notes that block i is at its offset.
func (x *timeline) add(i int32, k *block) {
	for p := range k.held() {
		t := p.at(k.offset, i)
		x.update(t, func(list []tenure) []tenure {
			return slices.Insert(list, rankOf(list, t), t)
		})
	}
}

// remove takes back add, before the block's offset changes.
func (x *timeline) remove(i int32, k *block) {
	for p := range k.held() {
		t := p.at(k.offset, i)
		x.update(t, func(list []tenure) []tenure {
			at := rankOf(list, t)
			return slices.Delete(list, at, at+1)
		})
	}
}

// update changes every list that holds tenure t.
func (x *timeline) update(t tenure, change func([]tenure) []tenure) {
	w := x.window(t.first)
	*x.work += lookup
	x.begins[w] = change(x.begins[w])
	for w++; w < len(x.starts) && x.starts[w] < t.last; w++ {
		x.passes[w] = change(x.passes[w])
		*x.work += lookup
	}
}

// lookup is the work of finding a window and a rank in it.
const lookup = 12

// rankOf returns where t is, or should be, in a list by address and block.
func rankOf(list []tenure, t tenure) int {
	return sort.Search(len(list), func(i int) bool {
		return list[i].low > t.low || list[i].low == t.low && list[i].block >= t.block
	})
}

// overlapping returns what is taken at some step of [first, last), by address. The slice is good
// until the next call.
func (x *timeline) overlapping(first, last int) []tenure {
	x.found, x.runs = x.found[:0], x.runs[:0]
	w := x.window(first)
	looked := lookup + len(x.passes[w]) + len(x.begins[w])
	for _, t := range x.passes[w] {
		if first < t.last {
			x.found = append(x.found, t)
		}
	}
	x.runs = append(x.runs, len(x.found))
	for _, t := range x.begins[w] {
		if t.first < last && first < t.last {
			x.found = append(x.found, t)
		}
	}
	x.runs = append(x.runs, len(x.found))
	for w++; w < len(x.starts) && x.starts[w] < last; w++ {
		looked += 2 + len(x.begins[w])
		for _, t := range x.begins[w] {
			if t.first < last {
				x.found = append(x.found, t)
			}
		}
		x.runs = append(x.runs, len(x.found))
	}
	x.merge()
	*x.work += int64(looked + 3*len(x.found))
	return x.found
}

// merge sorts found, whose runs are sorted, by merging neighbouring runs until one is left.
func (x *timeline) merge() {
	for len(x.runs) > 1 {
		x.spare = slices.Grow(x.spare[:0], len(x.found))[:len(x.found)]
		start, kept := 0, 0
		for r := 0; r < len(x.runs); r += 2 {
			middle := x.runs[r]
			end := middle
			if r+1 < len(x.runs) {
				end = x.runs[r+1]
			}
			mergeRuns(x.spare[start:end], x.found[start:middle], x.found[middle:end])
			x.runs[kept] = end
			start, kept = end, kept+1
		}
		x.runs = x.runs[:kept]
		x.found, x.spare = x.spare, x.found
	}
}

func mergeRuns(to, a, b []tenure) {
	for n := range to {
		if len(b) == 0 || len(a) > 0 && a[0].low <= b[0].low {
			to[n], a = a[0], a[1:]
		} else {
			to[n], b = b[0], b[1:]
		}
	}
}
