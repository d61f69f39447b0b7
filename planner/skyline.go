package planner

import (
	"cmp"
	"math"
	"slices"
)

// skyline looks for places below a limit for blocks that are connected in time. It builds the
// arena from the bottom: each section of time has a floor, and nothing will be placed below it.
//
// A search step looks at a niche, a run of sections with equal floors between higher ones, and
// asks for one section of it: which block covers the bytes from the floor on? Either one of the
// blocks that can start exactly there, or none, and the floor rises by what is wasted. The answers
// exclude each other, so no arrangement is met twice, and a section without slack has no waste
// branch. The section with the fewest answers is asked first, sections that led into dead ends
// before others (weights as in Boussemart, Hemery, Lecoutre and Sais, "Boosting systematic search
// by weighting constraints", ECAI 2004, fading as in the VSIDS rule of SAT solvers).
//
// It suffices to look at arrangements in which no block can slide down, so that each block rests
// on address 0 or on another block. Perfect packing of rectangles is searched in this way
// (Korf, "Optimal rectangle packing", ICAPS 2003); sections and slack are those of Moffitt,
// "MiniMalloc", ASPLOS 2023.
type skyline struct {
	// The blocks, immutable. Lives are counted in sections.
	from, to []int32
	size     []int64
	walls    *walls // what else the offsets have to obey; nil: nothing

	// What is decided.
	offset []int64
	placed []bool

	// What follows from it. base is the lowest offset that a block can still get: the highest floor
	// under it, lifted.
	base  []int64
	floor []int64 // of each section: the lowest base of its waiting blocks
	load  []int64 // bytes of the waiting blocks of a section
	ready []int32 // how many of them have their base at the floor
	cross []int32 // how many of them also wait in the next section
	alive [][]int32
	seat  []int32 // where in alive[t] block i stands: seat[seats[i]+t-from[i]]
	seats []int32
	begin [][]int32 // blocks by first section
	end   [][]int32 // blocks by section before to
	trail []change
	step  int64   // counts calls of place and raise
	noted []int64 // the step that last put the section's floor on the trail

	// The search.
	limit     int64 // no block may end above it
	prefer    []float64
	weights   []float64
	bump      float64
	weighted  bool
	waste     [2]float64 // what the waste branch counts among the answers: always, and per slack/limit
	strict    bool       // between walls, look at the lowest niches only
	fails     int        // dead ends that are left
	work      int64      // budget that is left
	scratch   []int32
	parts     []part
	count     []int32
	tops      []int64
	unsettled []int32
}

// change is one entry of the trail, by which a dead end is undone.
type change struct {
	kind  uint8
	ready int32
	index int32
	old   int64
}

const (
	changedFloor = iota
	changedBase
	changedPlaced
)

// part is a run of sections that shares no waiting block with the others.
type part struct {
	lo, hi int32
	weight float64
}

// newSkyline takes blocks with their sections of time: from[i] <= s < to[i].
func newSkyline(from, to []int32, size []int64, sections int, w *walls) *skyline {
	n := len(size)
	s := &skyline{
		from: from, to: to, size: size, walls: w,
		offset: make([]int64, n), placed: make([]bool, n), base: make([]int64, n),
		floor: make([]int64, sections), load: make([]int64, sections), ready: make([]int32, sections), cross: make([]int32, sections),
		alive: make([][]int32, sections), begin: make([][]int32, sections), end: make([][]int32, sections),
		weights: make([]float64, sections), prefer: make([]float64, n), tops: make([]int64, sections), count: make([]int32, sections+1), seats: make([]int32, n), noted: make([]int64, sections),
		bump: 1,
	}
	counts := make([]int, sections)
	total := int32(0)
	for i := range size {
		s.seats[i] = total
		for t := from[i]; t < to[i]; t++ {
			counts[t]++
			total++
		}
	}
	s.seat = make([]int32, total)
	pool := make([]int32, total)
	s.trail = make([]change, 0, total)
	for t, n := range counts {
		s.alive[t], pool = pool[:0:n], pool[n:]
		s.weights[t] = 1
	}
	for i := range size {
		s.begin[from[i]] = append(s.begin[from[i]], int32(i))
		s.end[to[i]-1] = append(s.end[to[i]-1], int32(i))
	}
	s.reset()
	return s
}

// reset takes all blocks off and computes what follows from nothing.
func (s *skyline) reset() {
	s.trail = s.trail[:0]
	for t := range s.alive {
		s.alive[t] = s.alive[t][:0]
		s.load[t], s.cross[t] = 0, 0
	}
	for i := range s.size {
		s.placed[i] = false
		s.base[i] = s.lifted(int32(i), 0)
		for t := s.from[i]; t < s.to[i]; t++ {
			s.seat[s.seats[i]+t-s.from[i]] = int32(len(s.alive[t]))
			s.alive[t] = append(s.alive[t], int32(i))
			s.load[t] += s.size[i]
			if t+1 < s.to[i] {
				s.cross[t]++
			}
		}
	}
	for t := range s.floor {
		s.floor[t], s.ready[t] = s.lowest(int32(t))
	}
}

// lifted returns the lowest offset from at on that block i may have.
func (s *skyline) lifted(i int32, at int64) int64 {
	if s.walls == nil {
		return at
	}
	return s.walls.lift(i, at)
}

// slack returns the bytes of section t that may be wasted before its waiting blocks no longer fit.
func (s *skyline) slack(t int32) int64 {
	free := s.limit - s.floor[t] - s.load[t]
	if s.walls != nil {
		free -= s.walls.above(t, s.floor[t])
	}
	return free
}

// lowest returns the lowest base among the waiting blocks of a section, and how many have it.
func (s *skyline) lowest(t int32) (base int64, count int32) {
	base = math.MaxInt64
	for _, i := range s.alive[t] {
		switch b := s.base[i]; {
		case b < base:
			base, count = b, 1
		case b == base:
			count++
		}
	}
	return base, count
}

// run searches, with at most so many dead ends and so much work, for offsets below the limit.
// Where it finds none, it reports whether there are none.
func (s *skyline) run(limit int64, fails int, work int64) (found, none bool) {
	s.limit, s.fails, s.work = limit, fails, work
	s.reset()
	for t := range s.floor {
		if s.load[t] > 0 && s.slack(int32(t)) < 0 {
			return false, true
		}
	}
	for i, size := range s.size {
		if s.base[i]+size > limit {
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
	first := len(s.scratch)
	defer func() { s.scratch = s.scratch[:first] }()
	for _, i := range s.alive[t] {
		if s.base[i] == s.floor[t] {
			s.scratch = append(s.scratch, i)
		}
	}
	answers := s.scratch[first:]
	slices.SortFunc(answers, func(a, b int32) int {
		return cmp.Or(cmp.Compare(s.prefer[b], s.prefer[a]), cmp.Compare(a, b))
	})
	mark := len(s.trail)
	for k := range answers {
		i := s.scratch[first+k]
		if s.twin(i, s.scratch[first:first+k]) {
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
		if s.size[i] == s.size[j] && s.from[i] == s.from[j] && s.to[i] == s.to[j] && s.walls == nil {
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

// place puts a block at its base and reports whether the rest may still fit.
func (s *skyline) place(i int32) bool {
	s.step++
	from, to := s.from[i], s.to[i]
	top := s.base[i] + s.size[i]
	s.offset[i] = s.base[i]
	s.placed[i] = true
	s.trail = append(s.trail, change{kind: changedPlaced, index: i})
	for t := from; t < to; t++ {
		s.load[t] -= s.size[i]
		if t+1 < to {
			s.cross[t]--
		}
		s.leave(t, i)
	}
	// Whoever waits beside it now starts at its top or above.
	ready := s.count[from : to+1] // changes of the number that start at the top, from section to section
	clear(ready)
	beside := s.alive[from]
	for t := from; ; beside = s.begin[t] {
		s.work -= int64(1 + len(beside))
		for _, j := range beside {
			if s.placed[j] {
				continue
			}
			if s.base[j] < top && !s.rise(j, top, from, to) {
				return false
			}
			if s.base[j] == top {
				ready[max(s.from[j], from)-from]++
				ready[min(s.to[j], to)-from]--
			}
		}
		if t++; t == to {
			break
		}
	}
	var sum int32
	for t := from; t < to; t++ {
		sum += ready[t-from]
		s.setFloor(t, top, sum)
		if sum > 0 && s.slack(t) < 0 {
			return s.fail(t)
		}
	}
	return s.settle()
}

// leave takes block i from the waiting blocks of section t. It then stands behind the end of their
// list, where undo finds it.
func (s *skyline) leave(t, i int32) {
	alive := s.alive[t]
	last := int32(len(alive) - 1)
	other := alive[last]
	at := &s.seat[s.seats[i]+t-s.from[i]]
	alive[*at], alive[last] = other, i
	s.seat[s.seats[other]+t-s.from[other]], *at = *at, last
	s.alive[t] = alive[:last]
}

// raise leaves the bytes at the floor of section t to nobody and reports whether the rest may
// still fit. The lowest block of the section then lies higher: at its base if that is higher
// already, else on a block that does not live at t.
func (s *skyline) raise(t int32) bool {
	s.step++
	floor := s.floor[t]
	slack := s.slack(t)
	if slack <= 0 {
		return s.fail(t)
	}
	lo, hi := t, t+1
	for _, i := range s.alive[t] {
		if s.base[i] == floor {
			lo, hi = min(lo, s.from[i]), max(hi, s.to[i])
		}
	}
	// tops[q] is the lowest top of a waiting block that lies between t and q, or reaches q from there.
	tops := s.tops
	tops[t] = math.MaxInt64
	for q := t + 1; q < hi; q++ {
		tops[q] = s.lowestTop(tops[q-1], s.begin[q])
	}
	for q := t - 1; q >= lo; q-- {
		tops[q] = s.lowestTop(tops[q+1], s.end[q])
	}
	next := int64(math.MaxInt64)
	for _, i := range s.alive[t] {
		at := s.base[i]
		if at == floor {
			at = min(tops[s.to[i]-1], tops[s.from[i]])
			if at == math.MaxInt64 {
				continue // nothing can lie under it
			}
			at = s.lifted(i, max(at, floor+1))
		}
		next = min(next, at)
	}
	if next-floor > slack && s.walls == nil || next > s.limit {
		return s.fail(t)
	}
	for _, i := range s.alive[t] {
		if s.base[i] < next && !s.rise(i, next, 0, 0) {
			return false
		}
	}
	return s.settle()
}

// lowestTop returns the smaller of top and the lowest top that one of the waiting blocks can have.
func (s *skyline) lowestTop(top int64, blocks []int32) int64 {
	for _, i := range blocks {
		if !s.placed[i] {
			top = min(top, s.base[i]+s.size[i])
		}
	}
	return top
}

// rise lifts the base of block i to at least at. The caller sees to the floors of the sections
// from lo to hi.
func (s *skyline) rise(i int32, at int64, lo, hi int32) bool {
	old := s.base[i]
	s.trail = append(s.trail, change{kind: changedBase, index: i, old: old})
	s.base[i] = s.lifted(i, at)
	if s.base[i]+s.size[i] > s.limit {
		return s.fail(s.from[i])
	}
	s.work -= int64(s.to[i] - s.from[i])
	for t := s.from[i]; t < min(s.to[i], lo); t++ {
		s.lose(t, old)
	}
	for t := max(s.from[i], hi); t < s.to[i]; t++ {
		s.lose(t, old)
	}
	return true
}

// lose notes that one waiting block of section t no longer starts at base.
func (s *skyline) lose(t int32, base int64) {
	if s.floor[t] == base && s.ready[t] > 0 {
		s.setFloor(t, base, s.ready[t]-1)
	}
}

// setFloor changes a section; one without ready blocks waits for settle.
func (s *skyline) setFloor(t int32, floor int64, ready int32) {
	if s.noted[t] != s.step { // once a step is enough to take it back
		s.noted[t] = s.step
		s.trail = append(s.trail, change{kind: changedFloor, index: t, old: s.floor[t], ready: s.ready[t]})
	}
	s.floor[t], s.ready[t] = floor, ready
	if ready == 0 {
		s.unsettled = append(s.unsettled, t)
	}
}

// settle finds the floors of the sections that lost their last ready block.
func (s *skyline) settle() bool {
	for _, t := range s.unsettled {
		if s.load[t] == 0 {
			continue
		}
		s.work -= int64(len(s.alive[t]))
		floor, ready := s.lowest(t)
		s.setFloor(t, floor, ready)
		if s.slack(t) < 0 {
			return s.fail(t)
		}
	}
	s.unsettled = s.unsettled[:0]
	return true
}

// undo takes back everything since the trail was mark long.
func (s *skyline) undo(mark int) {
	s.unsettled = s.unsettled[:0]
	for len(s.trail) > mark {
		c := s.trail[len(s.trail)-1]
		s.trail = s.trail[:len(s.trail)-1]
		switch c.kind {
		case changedFloor:
			s.floor[c.index], s.ready[c.index] = c.old, c.ready
		case changedBase:
			s.base[c.index] = c.old
		case changedPlaced:
			i := c.index
			s.placed[i] = false
			for t := s.from[i]; t < s.to[i]; t++ {
				s.load[t] += s.size[i]
				if t+1 < s.to[i] {
					s.cross[t]++
				}
				s.alive[t] = s.alive[t][:len(s.alive[t])+1]
			}
		}
	}
}
