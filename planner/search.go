package planner

import "slices"

// What a search may do unless Options.Budget says otherwise, in units of work: a look at one block
// in one section of time, a few nanoseconds. Plans are made while a user waits for a new shape, so
// the auto mode has little for small problems.
const (
	autoBudgetPerBlock = 20_000
	autoBudget         = 20_000_000
	optimalBudget      = 400_000_000
)

// placeAuto tries the heuristics, then a short search; a long one if a capacity must be met.
func placeAuto(sp *space, o *Options) {
	if o.Capacity > 0 {
		sp.search(o, optimalBudget)
		return
	}
	sp.search(o, min(autoBudget, autoBudgetPerBlock*int64(len(sp.blocks))))
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
	pr := sp.profile()
	s := &searcher{space: sp, profile: pr, goal: max(sp.bound, o.Capacity)}
	if len(sp.blocks) > wholeBlocks {
		x := sp.place(greedies[0], pr)
		s.budget = sp.work + budget
		for effort := 1; s.work < s.budget && !s.repair(x, effort); effort *= 2 {
		}
		return
	}
	best := newIncumbent(sp)
	for _, g := range greedies {
		sp.place(g, pr)
		if best.keep(); best.top <= s.goal {
			break
		}
	}
	best.restore()
	s.budget = sp.work + budget
	s.arrangeAll()
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
// goal. Every second try aims at the lower bound; the others between it and the best arrangement so
// far, so that this one gets better all the time. A try that looked everywhere raises the bound.
func (s *searcher) arrange(blocks []int32, rest *timeline) {
	p := s.newProber(blocks, rest)
	bound := s.bound
	share := int64(8) // of the room above the bound, in sixteenths
	for {
		top := s.topOf(blocks)
		if top <= max(s.goal, bound) || s.work >= s.budget {
			return
		}
		aim := bound
		if p.round%2 == 1 {
			aim = min(top-1, bound+(top-bound)/16*share)
		}
		found, none := s.try(p, aim, 1)
		switch {
		case none:
			bound = aim + 1
		case aim == bound:
		case found:
			share = max(1, share/2)
		default:
			share = min(15, share+1)
		}
	}
}

// topOf returns where the highest of some blocks ends.
func (sp *space) topOf(blocks []int32) int64 {
	var top int64
	for _, i := range blocks {
		top = max(top, sp.blocks[i].offset+sp.blocks[i].size)
	}
	return top
}

// try probes once, and takes over what it finds.
func (s *searcher) try(p *prober, limit int64, effort int) (found, none bool) {
	left := s.budget - s.work
	found, none = p.probe(limit, effort, left)
	s.work += left - p.work
	if found {
		for n, i := range p.blocks {
			s.blocks[i].offset = p.offset[n]
		}
	}
	return found, none
}
