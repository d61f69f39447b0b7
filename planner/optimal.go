package planner

import (
	"cmp"
	"iter"
	"math"
	"slices"
)

// The budget of the optimal mode if Options.Budget sets none, in units of work. A unit is a look at one block in one section of time,
// about five nanoseconds.
const (
	optimalBudget         = 1_000_000_000
	optimalBudgetPerBlock = 100_000
)

// placeOptimal searches until the lower bound or the end of the budget. It takes every step that the auto mode takes.
func placeOptimal(sp *space, o *Options) {
	sp.search(o, max(optimalBudget, min(4*optimalBudget, optimalBudgetPerBlock*int64(len(sp.blocks)))))
}

// search finds offsets, first by the heuristics, then, while the arena is above both the lower bound and the capacity, by trying
// to arrange blocks again. It is an anytime search: the best offsets so far are replaced by better ones alone, and the steps that
// it takes depend on neither the capacity nor the budget, which only end it. So more room never makes it fail, and more budget
// never makes the plan larger.
func (sp *space) search(o *Options, budget int64) {
	if o.Budget != 0 {
		budget = max(0, o.Budget)
	}
	if placeApart(sp, o); sp.top() <= sp.bound { // all live at once: there is nothing to share
		return
	}
	s := &searcher{
		space: sp, profile: sp.profile(), budget: budget,
		goal: max(sp.bound, o.Capacity), best: incumbent{space: sp, size: math.MaxInt64},
	}
	s.heuristics(o)
	switch {
	case s.best.size <= s.goal:
	case s.solveExactly():
	case sp.gapped: // a skyline has no gaps
		s.squeak(s.wheels(), (s.work+s.budget)/2)
		s.shuffle(s.budget)
	case len(sp.blocks) <= wholeBlocks:
		s.alternate()
	default:
		half := (s.budget - s.work) / 2
		if s.profile.live < crowd { // few are in the way of a repair
			s.repair(half)
			s.squeak(s.wheels(), s.work+half)
		} else {
			s.squeak(s.wheels(), s.work+half)
			s.repair(half)
		}
	}
	s.best.restore()
}

// wholeBlocks is the size up to which all blocks of a space are arranged together.
const wholeBlocks = 2000

// heuristicsPerBlock ends the heuristics of crowded spaces, where each takes long.
const heuristicsPerBlock = 1_600

// tryPerBlock ends a heuristic of a space so crowded that what it looks at for a block grows with the number of blocks.
const tryPerBlock = 4_000

// heuristics tries the cheap ways to place the blocks, whatever the budget, so that no mode is better than the search: but in a space
// so crowded that a mode takes more than tryPerBlock. The first finishes, so that there is a plan. Each of the others gives up where it
// cannot become the best.
func (s *searcher) heuristics(o *Options) {
	greedy := []func(){func() { s.place(greedies[0], s.profile) }, func() { s.place(sizeBestFit, s.profile) }}
	tries := []func(){
		func() {
			s.placeLanes(o)
			s.work += int64(replayWork * len(s.blocks))
		},
		s.placeBackwards,
		func() { placeRemap(s.space, o) },
		func() { placeApart(s.space, o) },
		s.placeEnds,
	}
	if s.profile.live < crowd {
		tries = append(greedy, tries...)
	} else { // what takes longest has the others to beat
		tries = append(tries, greedy...)
	}
	modes := len(tries) // each is some mode alone
	for _, g := range greedies[2:] {
		tries = append(tries, func() { s.place(g, s.profile) })
	}
	for i, try := range tries {
		if i >= modes && (s.work > heuristicsPerBlock*int64(len(s.blocks)) || s.interrupted()) {
			break
		}
		if s.segment == 0 {
			s.limit = s.best.size
		}
		begin := s.work
		if s.best.size < math.MaxInt64 {
			s.most = begin + tryPerBlock*int64(len(s.blocks))
		}
		try()
		s.longest = max(s.longest, s.work-begin)
		if s.best.keep() <= s.goal {
			break
		}
	}
	s.limit, s.most = math.MaxInt64, math.MaxInt64
}

// incumbent is the best arrangement found so far.
type incumbent struct {
	space   *space
	size    int64 // what it commits
	offsets []int64
}

// keep notes the offsets of the space if they are better than what was noted before. It returns the size of the best ones.
func (b *incumbent) keep() int64 {
	if b.space.top() >= b.space.limit || b.space.work >= b.space.most {
		return b.size // given up
	}
	if size := b.space.committed(); size < b.size {
		b.size = size
		b.offsets = b.offsets[:0]
		for i := range b.space.blocks {
			b.offsets = append(b.offsets, b.space.blocks[i].offset)
		}
	}
	return b.size
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
	budget  int64 // units of space.work at which the search ends
	longest int64 // work of a heuristic
	best    incumbent
}

// alternate searches for an arrangement of all blocks, each part that is connected in time separately, and squeaks in turn, in
// phases of twice the work each time: neither is the better one for all families of problems. The fewer blocks, the less is
// gained by squeaking.
func (s *searcher) alternate() {
	var parts []*arrangement
	for part, rest := range s.parts() {
		parts = append(parts, s.arrangement(part, rest))
	}
	wheels := s.wheels()
	for phase := int64(firstPhase); s.best.size > s.goal && s.work < s.budget && !s.interrupted(); phase *= 2 {
		s.best.restore()
		proved := false
		for _, a := range parts {
			s.arrange(a, min(s.budget, s.work+phase))
			proved = proved || a.bound >= s.top()
		}
		before := s.work
		if s.best.keep(); proved {
			return
		}
		share := phase * int64(len(s.blocks)) / wholeBlocks
		if s.squeak(wheels, min(s.budget, s.work+share)); s.work == before && s.work+share >= s.budget {
			return
		}
	}
}

// parts yields the movable blocks in parts that share no step, and what holds the fixed ones.
func (s *searcher) parts() iter.Seq2[[]int32, *timeline] {
	rest := s.timeline(s.profile.live)
	s.addFixed(rest)
	var movable []int32
	for i := range s.blocks {
		if s.blocks[i].movable() {
			movable = append(movable, int32(i))
		}
	}
	return func(yield func([]int32, *timeline) bool) {
		for _, part := range s.connected(movable) {
			if !yield(part, rest) {
				return
			}
		}
	}
}

// firstPhase is the work of the first phase of alternate: in it, no rounds are taken from a short search.
const firstPhase = autoBudget

// connected splits blocks into parts that share no step.
func (sp *space) connected(blocks []int32) [][]int32 {
	slices.SortStableFunc(blocks, func(a, b int32) int { return cmp.Compare(sp.blocks[a].first, sp.blocks[b].first) })
	var parts [][]int32
	for len(blocks) > 0 {
		n, last := 1, sp.blocks[blocks[0]].last
		for n < len(blocks) && sp.blocks[blocks[n]].first < last {
			last = max(last, sp.blocks[blocks[n]].last)
			n++
		}
		parts = append(parts, slices.Clone(blocks[:n]))
		blocks = blocks[n:]
	}
	return parts
}

// arrangement is the search for an arrangement of some blocks, beside the rest.
type arrangement struct {
	blocks []int32
	rest   *timeline
	bound  int64 // no arrangement ends below it
	share  int64 // sixteenths of the bytes between the bound and the best arrangement, below which a try aims
	prober *prober
}

func (s *searcher) arrangement(blocks []int32, rest *timeline) *arrangement {
	return &arrangement{blocks: blocks, rest: rest, bound: s.bound, share: 8}
}

// arrange continues a search until its blocks end at or below the goal, or a try ends beyond a limit of the work. Every second
// try, later every eighth, aims at the lower bound; the others between it and the best arrangement so far, so that this one gets
// better all the time. A try that looked everywhere raises the bound.
func (s *searcher) arrange(a *arrangement, until int64) {
	for {
		top := s.topOf(a.blocks)
		if top <= max(s.goal, a.bound) || s.work >= until || s.interrupted() {
			return
		}
		if a.prober == nil {
			a.prober = s.newProber(a.blocks, a.rest)
		}
		aim := a.bound
		if round := a.prober.round; round%2 == 1 || round > youth && round%8 != 0 {
			aim = min(top-1, a.bound+(top-a.bound)/16*a.share)
		}
		found, none := s.try(a.prober, aim, 1)
		switch {
		case none:
			a.bound = aim + 1
		case aim == a.bound:
		case found:
			a.share = max(1, a.share/2)
		default:
			a.share = min(15, a.share+1)
		}
	}
}

// interrupted reports whether the context of SolveContext has ended.
func (s *searcher) interrupted() bool {
	select {
	case <-s.done:
		return true
	default:
		return false
	}
}

// topOf returns where the highest of some blocks ends.
func (sp *space) topOf(blocks []int32) int64 {
	var top int64
	for _, i := range blocks {
		top = max(top, sp.blocks[i].end())
	}
	return top
}

// mostBeforeDone is the work of a try after which a search that may be interrupted looks whether it is: a fraction of a second.
const mostBeforeDone = 20_000_000

// try probes once, and takes over what it finds.
func (s *searcher) try(p *prober, limit int64, effort int) (found, none bool) {
	left := s.budget - s.work
	if s.done != nil {
		left = min(left, mostBeforeDone)
	}
	found, none = p.probe(limit, effort, left)
	s.work += left - p.work
	if found {
		s.take(p)
	}
	return found, none
}

// take takes over the offsets that a prober has found.
func (s *searcher) take(p *prober) {
	for n, i := range p.blocks {
		s.blocks[i].offset = p.offset[n]
	}
}
