package planner

import (
	"cmp"
	"slices"
)

// greedy is a way to place all blocks, one after the other, never to move them again.
type greedy struct {
	name string
	rank func(k *block, peak int64) (major, minor float64) // blocks with larger ranks come first
	best bool                                              // take the gap that fits best, not the lowest
}

// greedies are the heuristics, the most promising first. Blocks that live where memory is scarcest come first in some: those that
// meet at the fullest step then stack without a gap, and the others find room around them. Stacked in the order in which they
// begin, they leave one free range at any earlier step; in the order in which they end, at any later one.
var greedies = []greedy{
	{"fullest step, size, lowest gap", func(k *block, peak int64) (float64, float64) { return float64(peak), float64(k.need()) }, false},
	sizeBestFit,
	{"fullest step, first step, lowest gap", func(k *block, peak int64) (float64, float64) { return float64(peak), -float64(k.first) },
		false},
	{"fullest step, length, best fit", func(k *block, peak int64) (float64, float64) { return float64(peak), k.length() }, true},
	{"fullest step, last step, lowest gap", func(k *block, peak int64) (float64, float64) { return float64(peak), float64(k.last) }, false},
	{"size, lowest gap", func(k *block, _ int64) (float64, float64) { return float64(k.need()), k.length() }, false},
	{"size by fullest step, lowest gap", func(k *block, peak int64) (float64, float64) {
		return float64(k.need()) * float64(peak),
			k.length()
	}, false},
	{"area, lowest gap", func(k *block, _ int64) (float64, float64) { return float64(k.need()) * k.length(), k.length() }, false},
	{"length, best fit", func(k *block, _ int64) (float64, float64) { return k.length(), float64(k.need()) }, true},
}

func (k *block) length() float64 { return float64(k.last) - float64(k.first) }

// place places all blocks, or gives up.
func (sp *space) place(g greedy, pr *profile) { sp.placeAs(sp.order(g, pr), g.best, pr) }

// placeAs places all blocks in an order.
func (sp *space) placeAs(order []int32, best bool, pr *profile) {
	if pr.live < crowd || sp.gapped {
		x := sp.timeline(pr.live)
		sp.addFixed(x)
		sp.put(x, order, best)
		return
	}
	o := newOccupancy(sp.blocks)
	for i := range sp.blocks {
		if k := &sp.blocks[i]; k.fixed {
			o.take(k)
		}
	}
	for _, i := range order {
		k := &sp.blocks[i]
		k.offset = o.gap(sp, k, best)
		o.take(k)
		sp.work, o.work = sp.work+o.work, 0
		if sp.givesUp(k) {
			return
		}
	}
}

// crowd is how many blocks live at a time, on average, where it is better to know what is taken at all than by whom.
const crowd = 100

// addFixed adds the blocks that have their offsets already.
func (sp *space) addFixed(x *timeline) {
	for i := range sp.blocks {
		if k := &sp.blocks[i]; k.fixed {
			x.add(int32(i), k)
		}
	}
}

// order returns the movable blocks in the order in which a greedy places them.
func (sp *space) order(g greedy, pr *profile) []int32 {
	type ranked struct {
		major, minor float64
		block        int32
	}
	list := make([]ranked, 0, len(sp.blocks))
	for i := range sp.blocks {
		if k := &sp.blocks[i]; k.movable() {
			major, minor := g.rank(k, pr.peaks[i])
			list = append(list, ranked{major, minor, int32(i)})
		}
	}
	slices.SortFunc(list, func(a, b ranked) int {
		switch {
		case a.major != b.major:
			return cmp.Compare(b.major, a.major)
		case a.minor != b.minor:
			return cmp.Compare(b.minor, a.minor)
		}
		return cmp.Compare(a.block, b.block)
	})
	sp.work += int64(sortWork * len(list))
	order := make([]int32, len(list))
	for n, r := range list {
		order[n] = r.block
	}
	return order
}

// sortWork is the work of ranking a block among all.
const sortWork = 50

// put places blocks, one after the other, around those that the timeline holds.
func (sp *space) put(x *timeline, order []int32, best bool) {
	for _, i := range order {
		k := &sp.blocks[i]
		near := x.around(k)
		k.offset = sp.gap(k, near, best)
		if sp.givesUp(k) {
			return
		}
		x.add(i, k)
	}
}

// gap returns the lowest offset at which k misses all of near, which are by address; with best,
// the offset in the smallest gap that holds it.
func (sp *space) gap(k *block, near []tenure, best bool) int64 {
	found, room, top := int64(-1), int64(0), int64(0)
	for i := range near {
		t := &near[i]
		if free := t.low - top; free >= k.size && (found < 0 || free < room) {
			if at := sp.fit(top, k.size, k.align); at+k.size <= t.low {
				if !best {
					return at
				}
				found, room = at, free
			}
		}
		top = max(top, t.high)
	}
	if found < 0 {
		return sp.fit(top, k.size, k.align)
	}
	return found
}

// profile is how full memory is over time, without any offsets.
type profile struct {
	from, to []int32 // the sections of each block
	load     []int64 // live bytes of each section
	peaks    []int64 // largest load in the sections of each block, in bytes
	live     int     // blocks that live at a time, on average
	pairs    int64   // upper bound of the number of pairs of blocks that live at the same time
}

// profile measures the space.
func (sp *space) profile() *profile {
	pr := &profile{peaks: make([]int64, len(sp.blocks))}
	var sections int
	pr.from, pr.to, sections = sectionsOf(sp.blocks)
	delta := make([]int64, sections+1)
	alive := make([]int64, sections+1) // blocks of each section
	total := 0
	for i := range sp.blocks {
		delta[pr.from[i]] += sp.blocks[i].size
		delta[pr.to[i]] -= sp.blocks[i].size
		alive[pr.from[i]]++
		alive[pr.to[i]]--
		total += int(pr.to[i] - pr.from[i])
	}
	for t := 1; t < sections; t++ {
		delta[t] += delta[t-1]
		alive[t] += alive[t-1]
	}
	for i := range sp.blocks {
		pr.pairs += alive[pr.from[i]]
	}
	pr.load = delta[:sections]
	pr.live = total / max(1, sections)
	tree := newMaxTree(pr.load)
	for i := range sp.blocks {
		pr.peaks[i] = tree.max(int(pr.from[i]), int(pr.to[i]))
	}
	return pr
}

// maxTree answers for the largest value of a range: a binary tree in an array, leaves last.
type maxTree []int64

func newMaxTree(values []int64) maxTree {
	n := len(values)
	t := append(make(maxTree, n, 2*n), values...)
	for i := n - 1; i > 0; i-- {
		t[i] = max(t[2*i], t[2*i+1])
	}
	return t
}

// max returns the largest of values[lo:hi], 0 if there are none.
func (t maxTree) max(lo, hi int) int64 {
	var m int64
	n := len(t) / 2
	for lo, hi = lo+n, hi+n; lo < hi; lo, hi = lo/2, hi/2 {
		if lo&1 == 1 {
			m = max(m, t[lo])
			lo++
		}
		if hi&1 == 1 {
			hi--
			m = max(m, t[hi])
		}
	}
	return m
}

// placeEnds places blocks in the order of their first steps at the bottom, or, where that is taken, as high below the lower bound as they
// go. Where two live at a time, this is optimal: of neighbours, one is at either end.
func (s *searcher) placeEnds() {
	if s.profile.live >= crowd || s.segment > 0 {
		return
	}
	x := s.timeline(s.profile.live)
	s.addFixed(x)
	order := make([]int32, 0, len(s.blocks))
	for i := range s.blocks {
		if s.blocks[i].movable() {
			order = append(order, int32(i))
		}
	}
	slices.SortStableFunc(order, func(a, b int32) int { return cmp.Compare(s.blocks[a].first, s.blocks[b].first) })
	s.work += int64(sortWork * len(order))
	for _, i := range order {
		k := &s.blocks[i]
		near := x.around(k)
		k.offset = s.gap(k, near, false)
		if len(near) > 0 && k.offset > 0 {
			if at, ok := s.highest(k, near); ok {
				k.offset = at
			}
		}
		if s.givesUp(k) {
			return
		}
		x.add(i, k)
	}
}

// highest returns the highest offset below the lower bound at which k misses all of near, if there is one.
func (sp *space) highest(k *block, near []tenure) (at int64, ok bool) {
	ceiling := sp.bound + k.padding
	tops := make([]int64, len(near)) // of all that are below
	var top int64
	for i := range near {
		tops[i] = top
		top = max(top, near[i].high)
	}
	for i := len(near); ; i-- {
		floor := top
		if i < len(near) {
			ceiling, floor = min(ceiling, near[i].low), tops[i]
		}
		if at := (ceiling - k.size) &^ (k.align - 1); at >= floor {
			return at, true
		}
		if i == 0 {
			return 0, false
		}
	}
}
