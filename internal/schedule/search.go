package schedule

import (
	"cmp"
	"math/bits"
	"slices"
)

// maxWindow is the number of steps that one search looks at: sets of them are bits of a word.
const maxWindow = 64

// search looks for an order of a window's steps that needs at most limit bytes at every step.
//
// A set of steps that have run determines the live bytes, so one that led nowhere is not entered again. A step that fits
// and leaves no more live bytes than before is run at once: whatever could come first can come after it just as well, and
// finds at most as many bytes live.
type search struct {
	*memory
	steps  []int
	after  []uint64 // for each local step, the set of local steps that must come before it
	limit  int64
	budget *int
	path   []int // local steps of the current order
	failed map[uint64]struct{}
}

// exact finds the order of a window of at most maxWindow steps with the lowest peak, as far as the budget lasts, and stops
// at the floor. It reports whether it got to the end of the search.
func (s *scheduler) exact(g segment, budget int) bool {
	budget = min(budget, s.budget)
	s.budget -= budget
	for budget > 0 && s.highest(g) > s.floor {
		before := s.highest(g)
		x := &search{memory: s.enter(g), steps: slices.Clone(s.order[g.from:g.to]), limit: before - 1, budget: &budget,
			failed: map[uint64]struct{}{}}
		x.after = s.dependencies(g)
		if !x.complete(0) {
			break
		}
		order := make([]int, len(x.path))
		for i, local := range x.path {
			order[i] = x.steps[local]
		}
		if s.reorder(g, order); s.highest(g) >= before { // the inputs that nothing reads was in the way
			s.reorder(g, x.steps)
			break
		}
	}
	s.budget += budget
	return budget > 0
}

// dependencies returns, for each step of a window, the set of the window's steps that must run before it.
func (s *scheduler) dependencies(g segment) []uint64 {
	after := make([]uint64, g.to-g.from)
	for i := range after {
		for _, b := range s.Reads[s.order[g.from+i]] {
			if w := s.writer[b]; w >= 0 && s.at[w] >= g.from {
				after[i] |= 1 << (s.at[w] - g.from)
			}
		}
	}
	return after
}

// complete runs the steps that are not done in an order that keeps the limit, and reports whether there is one. If there is
// none, or none was found within the budget, it takes back what it ran.
func (x *search) complete(done uint64) bool {
	start := len(x.path)
	all := uint64(1)<<len(x.steps) - 1
	var open []move
	for {
		open = x.open(open[:0], all&^done)
		if len(open) == 0 || open[0].growth > 0 {
			break
		}
		done = x.push(done, open[0].local)
	}
	if done == all {
		return true
	}
	if _, known := x.failed[done]; !known {
		for _, m := range open {
			if x.complete(x.push(done, m.local)) {
				return true
			}
			x.pop()
		}
		x.failed[done] = struct{}{}
	}
	for len(x.path) > start {
		x.pop()
	}
	return false
}

// A move is a step that may run next.
type move struct {
	local        int
	need, growth int64
}

// open lists the steps of a set that can run within the limit, those that leave the least live bytes first.
func (x *search) open(open []move, waiting uint64) []move {
	for rest := waiting; rest != 0 && *x.budget > 0; rest &= rest - 1 {
		i := bits.TrailingZeros64(rest)
		if x.after[i]&waiting != 0 {
			continue
		}
		*x.budget--
		if need, growth := x.look(x.steps[i]); need <= x.limit {
			open = append(open, move{i, need, growth})
		}
	}
	slices.SortStableFunc(open, func(a, b move) int { return cmp.Or(cmp.Compare(a.growth, b.growth), cmp.Compare(a.need, b.need)) })
	return open
}

func (x *search) push(done uint64, local int) uint64 {
	x.run(x.steps[local])
	x.path = append(x.path, local)
	return done | 1<<local
}

func (x *search) pop() {
	last := len(x.path) - 1
	x.undo(x.steps[x.path[last]])
	x.path = x.path[:last]
}
