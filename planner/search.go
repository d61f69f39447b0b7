package planner

import (
	"math/bits"
	"math/rand/v2"
	"slices"
)

// What a search may do unless Options.Budget says otherwise, in units of work: a look at one block
// in one section of time, a few nanoseconds.
const (
	autoBudget    = 20_000_000
	optimalBudget = 400_000_000
)

// placeAuto tries the heuristics, then a short search; a long one if a capacity must be met.
func placeAuto(sp *space, o *Options) {
	budget := int64(autoBudget)
	if o.Capacity > 0 {
		budget = optimalBudget
	}
	sp.search(o, budget)
}

// placeOptimal starts from the best heuristic and searches until the lower bound or the end of the
// budget.
func placeOptimal(sp *space, o *Options) { sp.search(o, optimalBudget) }

// search finds offsets, first by the heuristics, then, while the arena is above both the lower
// bound and the capacity, by trying to arrange blocks anew. The steps that it takes do not depend
// on the capacity, which only ends it, so that more room never makes it fail.
func (sp *space) search(o *Options, budget int64) {
	if o.Budget != 0 {
		budget = max(0, o.Budget)
	}
	goal := max(sp.bound, o.Capacity)
	pr := sp.profile()
	best := newIncumbent(sp)
	for n, g := range greedies {
		if n > 0 && sp.work*2 > budget {
			break
		}
		sp.place(g, pr)
		if best.keep(); best.top <= goal {
			break
		}
	}
	best.restore()
	if best.top <= goal {
		return
	}
	s := &searcher{space: sp, profile: pr, goal: goal, budget: sp.work + budget}
	if len(sp.blocks) <= wholeBlocks {
		s.arrangeAll()
	} else {
		s.repairAll()
	}
}

// wholeBlocks is the size up to which all blocks of a space are arranged together.
const wholeBlocks = 2000

// incumbent is the best arrangement found so far.
type incumbent struct {
	space   *space
	top     int64
	offsets []int64
}

func newIncumbent(sp *space) *incumbent { return &incumbent{space: sp, top: maxBytes} }

// keep notes the offsets of the space if they are better than what was noted before.
func (b *incumbent) keep() {
	top := b.space.top()
	if top >= b.top {
		return
	}
	b.top = top
	b.offsets = b.offsets[:0]
	for i := range b.space.blocks {
		b.offsets = append(b.offsets, b.space.blocks[i].offset)
	}
}

func (b *incumbent) restore() {
	for i := range b.offsets {
		b.space.blocks[i].offset = b.offsets[i]
	}
}

// searcher lowers the arena of a space.
type searcher struct {
	*space
	profile *profile
	goal    int64
	budget  int64 // of space.work
}

// arrangeAll searches for an arrangement of all blocks, each part that is connected in time by
// itself.
func (s *searcher) arrangeAll() {
	rest := newTimeline(s.blocks, s.profile.live)
	byFirst := make([]int32, 0, len(s.blocks))
	for i := range s.blocks {
		if k := &s.blocks[i]; k.movable() {
			byFirst = append(byFirst, int32(i))
		} else if k.size > 0 {
			rest.add(int32(i), k)
		}
	}
	slices.SortStableFunc(byFirst, func(a, b int32) int { return s.blocks[a].first - s.blocks[b].first })
	for len(byFirst) > 0 {
		n, last := 1, s.blocks[byFirst[0]].last
		for n < len(byFirst) && s.blocks[byFirst[n]].first < last {
			last = max(last, s.blocks[byFirst[n]].last)
			n++
		}
		s.arrange(slices.Clone(byFirst[:n]), rest)
		byFirst = byFirst[n:]
	}
}

// arrange searches for an arrangement of some blocks, beside the rest, that ends at or below the
// goal. Every second try aims at the lower bound; the others at the room between it and the best
// arrangement so far, so that this one gets better all the time.
func (s *searcher) arrange(blocks []int32, rest *timeline) {
	p := prober{skyline: s.pick(blocks, rest)}
	share := int64(8)
	for {
		var top int64
		for _, i := range blocks {
			top = max(top, s.blocks[i].offset+s.blocks[i].size)
		}
		if top <= s.goal || s.work >= s.budget {
			return
		}
		if p.round%2 == 0 {
			s.try(&p, blocks, s.bound, 1)
			continue
		}
		if s.try(&p, blocks, min(top-1, s.bound+(top-s.bound)/16*share), 1) {
			share = max(1, share/2)
		} else {
			share = min(15, share+1)
		}
	}
}

// try probes once, and takes over what it finds.
func (s *searcher) try(p *prober, blocks []int32, limit int64, effort int) bool {
	left := s.budget - s.work
	ok := p.probe(limit, effort, left)
	s.work += left - p.work
	if ok {
		for n, i := range blocks {
			s.blocks[i].offset = p.offset[n]
		}
	}
	return ok
}

// prober runs a skyline again and again, each time with other preferences and mostly for a short
// time: a search that went wrong early is better begun anew (Luby, Sinclair and Zuckerman,
// "Optimal speedup of Las Vegas algorithms", 1993). What it learns about sections stays.
type prober struct {
	*skyline
	round int
}

// probe searches for offsets that end at or below the limit.
func (p *prober) probe(limit int64, effort int, work int64) bool {
	const fails = 100
	rnd := rand.New(rand.NewPCG(uint64(p.round), 0))
	pick := func(choices ...float64) float64 { return choices[rnd.IntN(len(choices))] }
	p.waste = [2]float64{pick(.3, 1, 2), pick(2, 5, 10, 20)}
	p.weighted = rnd.Float64() < .7
	noise := pick(.05, .3, 1)
	for i, size := range p.size {
		length := float64(p.to[i] - p.from[i])
		rank := [...]float64{float64(size), float64(size) * length, length + 1e-9*float64(size)}[p.round%3]
		p.prefer[i] = rank * (1 + noise*rnd.Float64())
	}
	p.round++
	return p.run(limit, fails*effort*luby(p.round), work)
}

// luby returns the i-th term, from 1, of 1 1 2 1 1 2 4 1 1 2 1 1 2 4 8 …
func luby(i int) int {
	k := bits.Len(uint(i))
	if i == 1<<k-1 {
		return 1 << (k - 1)
	}
	return luby(i - 1<<(k-1) + 1)
}
