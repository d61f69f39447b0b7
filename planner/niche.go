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
	prefer   []float64  // preference of each block: blocks with larger values are tried first
	waste    [2]float64 // number of answers as which wasting bytes counts: waste[0] + waste[1]·slack/limit
	weighted bool       // look at the weights
	weights  []float64  // weight of each section: the larger, the earlier the section is asked
	bump     float64    // amount that the next dead end adds to a weight
	sinking  bool       // leave out arrangements in which a block sinks; false for a rigid skyline
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
		begin := t
		for s.cross[t] > 0 {
			t++
		}
		s.parts = append(s.parts, part{lo: begin, hi: t + 1})
	}
	parts := s.parts[first:]
	if len(parts) == 1 {
		return s.branch(parts[0].lo, parts[0].hi)
	}
	for k := range parts {
		p := &parts[k]
		p.weight = slices.Max(s.weights[p.lo:p.hi])
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
	s.work -= int64(len(s.alive[t]))
	first := len(s.answers)
	defer func() { s.answers = s.answers[:first] }()
	for _, i := range s.alive[t] {
		if s.base[i] == s.floor[t] {
			s.answers = append(s.answers, i)
		}
	}
	mark := len(s.trail)
	for k := first; k < len(s.answers); k++ {
		i := s.next(s.answers[k:])
		if s.twin(i, s.answers[first:k]) || s.sinks(i) {
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

// next moves the answer that is tried next to the front, and returns it: the preferred block, or, if blocks sink, a block whose life
// contains the life of the preferred block and is in no other life. A short block below a long one would only have to make way (see sinks).
func (s *skyline) next(answers []int32) int32 {
	s.work -= int64(len(answers))
	best := 0
	for k, i := range answers {
		if s.prefers(i, answers[best]) {
			best = k
		}
	}
	for inner := -1; s.sinking && inner != best; {
		inner = best
		j := answers[inner]
		for k, i := range answers {
			if s.contains(i, j) && !s.contains(j, i) && (best == inner || s.prefers(i, answers[best])) {
				best = k
			}
		}
	}
	answers[0], answers[best] = answers[best], answers[0]
	return answers[0]
}

// prefers reports whether block i is tried before block j, if nothing else decides.
func (s *skyline) prefers(i, j int32) bool {
	return cmp.Or(cmp.Compare(s.prefer[j], s.prefer[i]), cmp.Compare(i, j)) < 0
}

// contains reports whether block i lives in all sections of block j.
func (s *skyline) contains(i, j int32) bool { return s.from[i] <= s.from[j] && s.to[i] >= s.to[j] }

// sinks reports whether block i need not be tried at its base, because it can be lower if it exchanges places with other blocks. If blocks
// below block i live only while block i lives, block i can move below them, and they rise by its size. Every other block that they meet
// meets block i too, so it ends where the exchange begins, or is above block i. Among the lowest arrangements, take the one in which the
// longest block is lowest, and of several the one in which the next longest is lowest, down to the shortest. No block sinks in that
// arrangement, so leaving out blocks that sink loses no height.
//
// For example, block i has 4 bytes in sections 0 to 2. A block of 6 bytes at address 0 lives in section 0 alone, so the base of block i is
// 6. Block i sinks: with block i at 0 and the other block at 4, section 0 ends at 10 as before, and sections 1 and 2 are free above 4.
func (s *skyline) sinks(i int32) bool {
	base := s.base[i]
	if !s.sinking || base == 0 {
		return false
	}
	var level int64 // block i cannot be lower
	for settled := false; !settled; {
		settled = true
		for t := s.from[i]; t < s.to[i]; t++ {
			s.work--
			alive := s.alive[t]
			for _, j := range alive[len(alive):cap(alive)] { // placed, the highest first
				s.work--
				top := s.offset[j] + s.size[j]
				if top <= level {
					break
				}
				if s.offset[j] < level || !s.yields(j, i) {
					if top >= base {
						return false
					}
					level, settled = top, false
					break
				}
			}
		}
	}
	return true
}

// yields reports whether block j moves up when block i can be below it: its life is in that of block i. Of two equal lives, the preferred
// block is below.
func (s *skyline) yields(j, i int32) bool {
	return s.contains(i, j) && (!s.contains(j, i) || s.prefers(i, j))
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
