package planner

import (
	"cmp"
	"math"
	"slices"
)

// search is how a skyline looks for its way.
//
// A step of it looks at the niches, runs of sections with equal floors between higher ones, and asks
// one section of them: which block covers the bytes from your floor on? Either one of the blocks
// that can start exactly there, or none, and the floor rises by what is wasted. The answers exclude
// each other, so no arrangement is met twice, and where a section has no slack nothing may be
// wasted. Perfect packings of rectangles are searched in this way (Korf, "Optimal rectangle
// packing", ICAPS 2003).
//
// The section with the fewest answers is asked first, and sections that led into dead ends lately
// before others: their weights grow as in Boussemart, Hemery, Lecoutre and Sais, "Boosting
// systematic search by weighting constraints", ECAI 2004, and fade as in SAT solvers.
type search struct {
	limit    int64      // no block may end above it, without its padding
	prefer   []float64  // blocks with larger values are tried first
	waste    [2]float64 // what wasting counts among the answers: always, and per slack/limit
	weighted bool       // look at the weights
	weights  []float64  // of the sections
	bump     float64    // by which the next dead end raises a weight
	strict   bool       // between walls, look at the lowest niches only
	fails    int        // dead ends that are left
	work     int64      // budget that is left

	deepest int64   // what was covered at the dead end that covered most, in bytes times sections
	guide   []int64 // where the blocks were then; those that waited come after all others

	parts   []part // stacks of what the calls of solve and branch still have to do
	answers []int32
}

// part is a run of sections that shares no waiting block with the others.
type part struct {
	lo, hi int32
	weight float64
}

// run searches, with limits for dead ends and work, for offsets below the limit.
// Where it finds none, it reports whether there are none.
func (s *skyline) run(limit int64, fails int, work int64) (found, none bool) {
	s.limit, s.fails, s.work, s.deepest = limit, fails, work, 0
	s.reset()
	for t := range s.floor {
		if s.load[t] > 0 && s.slack(int32(t)) < 0 {
			return false, true
		}
	}
	for i, size := range s.size {
		if s.base[i]+size-s.padding[i] > limit {
			return false, true
		}
	}
	if s.solve(0, int32(len(s.floor))) {
		return true, false
	}
	complete := s.strict || s.walls == nil
	return false, complete && s.fails >= 0 && s.work >= 0
}

// solve places the waiting blocks of the sections [lo, hi), or changes nothing.
func (s *skyline) solve(lo, hi int32) bool {
	first := len(s.parts)
	defer func() { s.parts = s.parts[:first] }()
	s.work -= int64(hi - lo)
	for t := lo; t < hi; t++ {
		if s.load[t] == 0 {
			continue
		}
		p := part{lo: t, weight: s.weights[t]}
		for ; s.cross[t] > 0; t++ {
			p.weight = max(p.weight, s.weights[t+1])
		}
		p.hi = t + 1
		s.parts = append(s.parts, p)
	}
	parts := s.parts[first:]
	if len(parts) == 1 {
		return s.branch(parts[0].lo, parts[0].hi)
	}
	slices.SortFunc(parts, func(a, b part) int {
		return cmp.Or(cmp.Compare(b.weight, a.weight), cmp.Compare(a.lo, b.lo))
	})
	mark := len(s.trail)
	for k := range parts {
		p := s.parts[first+k]
		if !s.branch(p.lo, p.hi) {
			s.undo(mark)
			return false
		}
	}
	return true
}

// branch asks one section of [lo, hi) who covers the bytes at its floor, and tries the answers.
func (s *skyline) branch(lo, hi int32) bool {
	t := s.choose(lo, hi)
	first := len(s.answers)
	defer func() { s.answers = s.answers[:first] }()
	for _, i := range s.alive[t] {
		if s.base[i] == s.floor[t] {
			s.answers = append(s.answers, i)
		}
	}
	answers := s.answers[first:]
	slices.SortFunc(answers, func(a, b int32) int {
		return cmp.Or(cmp.Compare(s.prefer[b], s.prefer[a]), cmp.Compare(a, b))
	})
	mark := len(s.trail)
	for k := range answers {
		i := s.answers[first+k]
		if s.twin(i, s.answers[first:first+k]) {
			continue
		}
		if s.place(i) && s.solve(lo, hi) {
			return true
		}
		s.undo(mark)
		if s.fails < 0 || s.work < 0 {
			return false
		}
	}
	if s.raise(t) && s.solve(lo, hi) {
		return true
	}
	s.undo(mark)
	return false
}

// twin reports whether one of the blocks tried before could stand for block i.
func (s *skyline) twin(i int32, tried []int32) bool {
	for _, j := range tried {
		if s.size[i] == s.size[j] && s.padding[i] == s.padding[j] && s.from[i] == s.from[j] && s.to[i] == s.to[j] && s.walls == nil {
			return true
		}
	}
	return false
}

// choose returns the section with the fewest answers among all niches of [lo, hi). A block between
// walls may leave room below it beside the niche that it covers, and no block will go there: only
// a strict search, which goes upwards evenly, is complete then.
func (s *skyline) choose(lo, hi int32) int32 {
	best, fewest := lo, math.Inf(1)
	bottom := int64(math.MaxInt64)
	if s.strict && s.walls != nil {
		bottom = slices.Min(s.floor[lo:hi])
	}
	for t := lo; t < hi; {
		e := t + 1
		for e < hi && s.floor[e] == s.floor[t] {
			e++
		}
		if s.floor[t] <= bottom && (t == lo || s.floor[t-1] > s.floor[t]) && (e == hi || s.floor[e] > s.floor[t]) {
			for q := t; q < e; q++ {
				answers := float64(s.ready[q])
				if slack := s.slack(q); slack > 0 {
					answers += s.waste[0] + s.waste[1]*float64(slack)/float64(s.limit)
				}
				if s.weighted {
					answers /= s.weights[q]
				}
				if answers < fewest {
					best, fewest = q, answers
				}
			}
		}
		t = e
	}
	return best
}

// fail notes that a section led into a dead end.
func (s *skyline) fail(t int32) bool {
	s.fails--
	if s.covered > s.deepest {
		s.deepest = s.covered
		s.work -= int64(len(s.guide))
		for i := range s.guide {
			if s.guide[i] = s.offset[i]; !s.placed[i] {
				s.guide[i] = s.limit + s.base[i]
			}
		}
	}
	if s.weighted {
		const fading, huge = 1.05, 1e12
		s.weights[t] += s.bump
		if s.bump *= fading; s.bump > huge {
			for t := range s.weights {
				s.weights[t] = 1 + s.weights[t]/huge
			}
			s.bump = 1
		}
	}
	return false
}
