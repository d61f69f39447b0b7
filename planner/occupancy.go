package planner

import (
	"math"
	"slices"
	"sort"
)

// An occupancy finds the addresses that are taken during an interval of steps. It is a segment tree over windows of time: a block is
// noted at the few nodes that make up its life, and at all nodes above them. What it costs to ask does not grow with how many
// blocks live at a time, for taken addresses that touch are joined, and where memory is well used nearly all do.
//
// Nothing can be taken out of it again: a timeline does that.
type occupancy struct {
	starts []int      // first step of each window; a window ends where the next starts
	leaves int        // windows, rounded up to a power of two; node 1 is the root, leaf w is node leaves+w
	whole  []runs     // addresses that the blocks noted at each node take during all of its windows
	some   []runs     // addresses that the blocks noted at each node or below it take at some step
	ends   [][]tenure // blocks that live in a part of each window, by address

	seen    []int32 // number of the last call of gather that visited each node
	asked   int32   // number of calls of gather
	cursors []cursor
	lists   []runs  // result of gather
	spare   [2]runs // scratch memory of gather, for the windows in which a life begins and ends
	work    int64   // units of work since the caller last took them
}

// run is a range of taken addresses, runs are ranges in order that do not touch.
type run struct{ low, high int64 }
type runs []run

// add joins a range to the others.
func (r *runs) add(low, high int64) {
	list := *r
	i := sort.Search(len(list), func(i int) bool { return list[i].high >= low })
	j := i
	for ; j < len(list) && list[j].low <= high; j++ {
		low, high = min(low, list[j].low), max(high, list[j].high)
	}
	if i == j {
		*r = slices.Insert(list, i, run{low, high})
		return
	}
	list[i] = run{low, high}
	*r = slices.Delete(list, i+1, j)
}

// windowEvents is how many lives begin or end in a window of an occupancy.
const windowEvents = 64

// newOccupancy makes an empty occupancy for the blocks.
func newOccupancy(blocks []block) *occupancy {
	o := &occupancy{}
	events := make([]int, 0, 2*len(blocks))
	for i := range blocks {
		events = append(events, blocks[i].first, blocks[i].last)
	}
	slices.Sort(events)
	for i := 0; i < len(events); i += windowEvents {
		if len(o.starts) == 0 || events[i] > o.starts[len(o.starts)-1] {
			o.starts = append(o.starts, events[i])
		}
	}
	o.starts = append(o.starts, events[len(events)-1])
	for o.leaves = 1; o.leaves < len(o.starts); o.leaves *= 2 {
	}
	o.whole, o.some = make([]runs, 2*o.leaves), make([]runs, 2*o.leaves)
	o.ends = make([][]tenure, len(o.starts))
	o.seen = make([]int32, 2*o.leaves)
	return o
}

// window returns the window of a step; steps before all windows belong to the first.
func (o *occupancy) window(step int) int { return max(0, sort.SearchInts(o.starts, step+1)-1) }

// cover returns the windows [lo, hi) that a life covers, and the windows that it begins and ends in where it does not cover
// those, else -1.
func (o *occupancy) cover(first, last int) (lo, hi, head, tail int) {
	lo, hi = o.window(first), o.window(last-1)+1
	head, tail = -1, -1
	if first > o.starts[lo] {
		head = lo
		lo++
	}
	if hi == lo { // it ends in the same window
		return lo, hi, head, tail
	}
	if last < o.starts[hi] {
		hi--
		tail = hi
	}
	return lo, hi, head, tail
}

// take notes that a block is at its offset.
func (o *occupancy) take(k *block) {
	low, high := k.offset, k.offset+k.size
	lo, hi, head, tail := o.cover(k.first, k.last)
	for _, w := range [...]int{head, tail} {
		if w >= 0 {
			list := o.ends[w]
			at := sort.Search(len(list), func(i int) bool { return list[i].low >= low })
			o.ends[w] = slices.Insert(list, at, tenure{low: low, high: high, first: k.first, last: k.last})
			for n := o.leaves + w; n > 0; n /= 2 {
				o.some[n].add(low, high)
				o.work += addWork
			}
		}
	}
	for l, r := lo+o.leaves, hi+o.leaves; l < r; l, r = l/2, r/2 {
		if l&1 == 1 {
			o.cut(l, low, high)
			l++
		}
		if r&1 == 1 {
			r--
			o.cut(r, low, high)
		}
	}
}

// cut notes a range that is taken all the time of a node.
func (o *occupancy) cut(n int, low, high int64) {
	o.whole[n].add(low, high)
	for ; n > 0; n /= 2 {
		o.some[n].add(low, high)
		o.work += addWork
	}
}

// addWork is the work of joining a range to others.
const addWork = 6

// gather collects what is taken at some step of a life.
func (o *occupancy) gather(first, last int) {
	o.lists = o.lists[:0]
	lo, hi, head, tail := o.cover(first, last)
	o.asked++
	add := func(r runs) {
		if len(r) > 0 {
			o.lists = append(o.lists, r)
		}
	}
	above := func(n int) {
		for ; n > 0 && o.seen[n] != o.asked; n /= 2 {
			o.seen[n] = o.asked
			add(o.whole[n])
		}
	}
	for i, w := range [...]int{head, tail} {
		if w < 0 {
			continue
		}
		part := o.spare[i][:0]
		for _, t := range o.ends[w] {
			if t.first < last && first < t.last {
				if n := len(part); n > 0 && t.low <= part[n-1].high {
					part[n-1].high = max(part[n-1].high, t.high)
				} else {
					part = append(part, run{t.low, t.high})
				}
			}
		}
		o.work += int64(len(o.ends[w]))
		o.spare[i] = part
		add(part)
		above(o.leaves + w)
	}
	for l, r := lo+o.leaves, hi+o.leaves; l < r; l, r = l/2, r/2 {
		if l&1 == 1 {
			add(o.some[l])
			above(l / 2)
			l++
		}
		if r&1 == 1 {
			r--
			add(o.some[r])
			above(r / 2)
		}
	}
}

// cursor goes through runs as a block sees them that does not fit in the gaps between some of them.
type cursor struct {
	low, high int64
	rest      runs
}

// next moves on to the next run that ends above top, with all that follow it too closely; false if there is none.
func (c *cursor) next(top, size int64) bool {
	r := c.rest
	i := 0
	for step := 1; i+step <= len(r) && r[i+step-1].high <= top; step *= 2 { // gallop, then walk
		i += step
	}
	for i < len(r) && r[i].high <= top {
		i++
	}
	if i == len(r) {
		return false
	}
	c.low, c.high = r[i].low, r[i].high
	for i++; i < len(r) && r[i].low-c.high < size; i++ {
		c.high = r[i].high
	}
	c.rest = r[i:]
	return true
}

// gap returns the lowest offset at which a block misses all that is taken during its life; with best, the offset in the
// smallest gap that holds it.
func (o *occupancy) gap(sp *space, k *block, best bool) int64 {
	o.gather(k.first, k.last)
	found, room, top := int64(-1), int64(math.MaxInt64), int64(0)
	cursors := o.cursors[:0]
	for _, r := range o.lists {
		c := cursor{rest: r}
		if c.next(0, k.size) {
			cursors = append(cursors, c)
		}
		o.work += int64(4 + len(r)/2)
	}
	o.cursors = cursors
	for {
		next := int64(math.MaxInt64)
		o.work += int64(2 * len(cursors))
		for i := 0; i < len(cursors); i++ {
			c := &cursors[i]
			if c.high <= top && !c.next(top, k.size) {
				cursors[i] = cursors[len(cursors)-1]
				cursors = cursors[:len(cursors)-1]
				i--
				continue
			}
			if c.low-top < k.size {
				top = max(top, c.high)
				next = top // look again
			}
			next = min(next, c.low)
		}
		if next == math.MaxInt64 {
			break
		}
		if next <= top {
			continue
		}
		if free := next - top; free < room {
			if at := sp.fit(top, k.size, k.align); at+k.size <= next {
				if !best {
					return at
				}
				found, room = at, free
			}
		}
		top = next
	}
	if found < 0 {
		return sp.fit(top, k.size, k.align)
	}
	return found
}
