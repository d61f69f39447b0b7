package schedule

import (
	"cmp"
	"math/bits"
	"slices"
)

// This file finds the least peak over all orders of a program's steps, or a bound of it. Order stops where more search would take longer
// than a run; Optimum is for people who want to know how far Order is from the best. The peak of an order is the highest peak of its
// segments, so each segment is searched separately. A search answers one question: is there an order of the segment whose peak is at most a
// limit? An answer no proves that the least peak is above the limit.

// maxOptimum is the number of steps of a segment up to which it is searched.
const maxOptimum = 256

// Optimum returns an order, its peak in bytes, and a number of bytes that every order needs. The order has the least peak if both are
// equal. It looks at up to work steps in each segment. The order is never worse than that of Order.
func Optimum(p *Program, work int) (order []int, peak, bound int64) {
	s := newScheduler(p)
	known := Order(p)
	for _, g := range s.segments { // a step never leaves its segment
		s.reorder(g, slices.Clone(known[g.from:g.to]))
	}
	bound = s.floor
	segments := slices.Clone(s.segments)
	slices.SortStableFunc(segments, func(a, b segment) int { return cmp.Compare(s.highest(b), s.highest(a)) })
	for _, g := range segments {
		if s.highest(g) > bound && g.to-g.from <= maxOptimum {
			bound = max(bound, s.least(g, bound, work))
		}
	}
	return s.order, s.peak(), bound
}

// least lowers the peak of a segment as far as the work lasts, and returns what every order of it needs: at least low bytes. Where a limit
// is not decided, it asks for less, because a limit that is far from the answer is decided sooner.
func (s *scheduler) least(g segment, low int64, work int) int64 {
	open := s.highest(g) // the lowest limit that was not decided; the peak where none was
	limit := open - 1
	for s.highest(g) > low && limit >= low && work > 0 {
		share := work/2 + 1
		x := &wideSearch{memory: s.enter(g), steps: slices.Clone(s.order[g.from:g.to]), limit: limit, work: share,
			failed: map[wideSet]struct{}{}}
		x.depend(s, g)
		found := x.complete(wideSet{})
		work -= share - x.work
		switch before := s.highest(g); {
		case found:
			s.reorder(g, x.path)
			if s.highest(g) >= before { // an input that nothing reads counts at the first step alone
				s.reorder(g, x.steps)
				return low
			}
			open = s.highest(g)
			limit = open - 1
		case x.work > 0:
			low = limit + 1
			limit = low + (open-low)/2
			if limit >= open {
				limit = open - 1
			}
		default:
			open = limit
			limit = low + (open-low)/2
			if limit >= open {
				limit = open - 1
			}
		}
	}
	return low
}

// A wideSet is a set of steps of a segment, by position.
type wideSet [maxOptimum / 64]uint64

func (s wideSet) has(i int) bool { return s[i/64]>>(i%64)&1 == 1 }

func (s wideSet) with(i int) wideSet {
	s[i/64] |= 1 << (i % 64)
	return s
}

// holds reports whether all members of o are in s.
func (s wideSet) holds(o wideSet) bool {
	for i := range s {
		if o[i]&^s[i] != 0 {
			return false
		}
	}
	return true
}

func (s wideSet) len() (n int) {
	for _, word := range s {
		n += bits.OnesCount64(word)
	}
	return n
}

// A wideSearch is search for segments of any number of steps up to maxOptimum.
type wideSearch struct {
	*memory
	steps  []int     // the segment's, as they were
	after  []wideSet // positions of the steps that must come before a step, by its position
	limit  int64     // bytes
	work   int       // steps that it may still look at; 0: it has given up
	path   []int     // steps that have run
	failed map[wideSet]struct{}
}

// depend finds the steps that must come before each step.
func (x *wideSearch) depend(s *scheduler, g segment) {
	x.after = make([]wideSet, len(x.steps))
	for i, step := range x.steps {
		for _, b := range s.Reads[step] {
			if w := s.writer[b]; w >= 0 && s.at[w] >= g.from && s.at[w] < g.to {
				x.after[i] = x.after[i].with(s.at[w] - g.from)
			}
		}
	}
}

// complete runs the steps that are not done in an order that keeps the limit. It reports false if there is none, and if the work ends
// first. It then takes back what it ran.
//
// A set of steps that have run determines the live bytes, so a set that led nowhere is not entered again. A step that fits and leaves no
// more live bytes than before runs at once. If an order runs it later, it can as well run now: every step in between then finds at most as
// many live bytes, since the growth of a step never rises when more of its operands' readers have run.
func (x *wideSearch) complete(done wideSet) bool {
	start := len(x.path)
	var open []move
	for {
		open = x.open(open[:0], done)
		if len(open) == 0 || open[0].growth > 0 {
			break
		}
		done = x.push(done, open[0].local)
	}
	if done.len() == len(x.steps) {
		return true
	}
	if _, known := x.failed[done]; !known {
		for _, m := range open {
			if x.complete(x.push(done, m.local)) {
				return true
			}
			x.pop()
			if x.work <= 0 {
				break
			}
		}
		x.failed[done] = struct{}{}
	}
	for len(x.path) > start {
		x.pop()
	}
	return false
}

// open lists the steps that can run within the limit, those that leave the least live bytes first.
func (x *wideSearch) open(open []move, done wideSet) []move {
	for i, step := range x.steps {
		if x.work <= 0 {
			return nil
		}
		if done.has(i) || !done.holds(x.after[i]) {
			continue
		}
		x.work--
		if need, growth := x.look(step); need <= x.limit {
			open = append(open, move{i, need, growth})
		}
	}
	slices.SortStableFunc(open, func(a, b move) int { return cmp.Or(cmp.Compare(a.growth, b.growth), cmp.Compare(a.need, b.need)) })
	return open
}

func (x *wideSearch) push(done wideSet, local int) wideSet {
	x.run(x.steps[local])
	x.path = append(x.path, x.steps[local])
	return done.with(local)
}

func (x *wideSearch) pop() {
	last := len(x.path) - 1
	x.undo(x.path[last])
	x.path = x.path[:last]
}
