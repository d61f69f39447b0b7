package planner

import (
	"math"
	"slices"
)

// A skyline is the state of a search for offsets below a limit. The search builds the arena from the bottom. Each section of time has a
// floor: nothing will be placed below it. Placing a block, or leaving bytes unused, lifts floors. The search goes back as soon as the
// waiting blocks of some section no longer fit between its floor and the limit.
//
// It suffices to look at arrangements in which no block can slide down, so that each block rests on address 0, on another block or on a
// wall. The sections are those of Moffitt, "MiniMalloc", ASPLOS '24.
//
// For example, blocks a, b and c of 4, 2 and 3 bytes live in sections [0, 2), [0, 1) and [1, 3), and the limit is 7. All bases and floors
// are 0. Placing a lifts the floors of sections 0 and 1 to 4, and the bases of b and c to 4. Section 2 has no other block than c, so its
// floor is 4, too. Now b and c are placed at 4 and end at 6 and 7. If b is placed at 0 and then a at 2, c has base 6. The floor of section
// 2 is 6, and 3 bytes wait there: they do not fit below 7, and the search goes back.
//
// The methods are in this file as follows: place and raise are the two steps, rise, lose and settle compute what follows from a step, and
// undo takes steps back. File niche.go decides which step is next.
type skyline struct {
	// The blocks, immutable. Lives are counted in sections.
	from, to   []int32
	size       []int64
	padding    []int64   // bytes of each size that may reach beyond the limit, because nothing is above them there
	spare      []int64   // largest padding in each section
	rigid      bool      // some blocks have walls or paddings, so that they cannot change places freely
	walls      *walls    // alignments, segments and fixed blocks; nil if no offset is restricted by them
	begin, end [][]int32 // the blocks whose first, or last, section it is

	// What is decided.
	offset  []int64
	placed  []bool
	covered int64 // sum over the placed blocks of bytes times sections

	// What follows from it. A block that is not placed waits.
	base  []int64   // lowest offset that each waiting block can still get: the highest top under it, lifted over walls
	floor []int64   // lowest base of the waiting blocks of each section; stale if none waits
	ready []int32   // number of waiting blocks of each section whose base is the floor
	load  []int64   // bytes of the waiting blocks of each section
	cross []int32   // number of blocks that wait both in a section and in the next one
	alive [][]int32 // waiting blocks of each section; after its end, up to its capacity, the placed ones, the last one first
	seat  []int32   // seat[seats[i]+t-from[i]] is the index of block i in alive[t]
	seats []int32   // index in seat of the first section of each block

	// How it is taken back.
	trail []change
	step  int64   // counts calls of place and raise
	noted []int64 // last step that put the floor of each section on the trail

	search

	// Scratch memory of single calls.
	unsettled []int32 // sections that lost their last ready block
	rising    []int32 // place: change of the number of blocks that become ready, from each section to the next
	risen     []risen // blocks whose base the present step has raised
	runEnd    []int32 // lose: end of the run of sections that have the floor of each section
	lost      []int32 // lose: number of risen blocks that were ready in a section, minus that of the section before; otherwise 0
	tops      []int64 // raise: lowest top that a waiting block can have between the raised section and each other section
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

// newSkyline takes blocks with their sections of time: from[i] <= s < to[i].
func newSkyline(from, to []int32, size, padding []int64, sections int, w *walls) *skyline {
	n := len(size)
	s := &skyline{
		from: from, to: to, size: size, padding: padding, spare: make([]int64, sections), walls: w,
		begin: make([][]int32, sections), end: make([][]int32, sections),
		offset: make([]int64, n), placed: make([]bool, n), base: make([]int64, n), seats: make([]int32, n),
		floor: make([]int64, sections), ready: make([]int32, sections), load: make([]int64, sections),
		cross: make([]int32, sections), alive: make([][]int32, sections), noted: make([]int64, sections),
		rising: make([]int32, sections+1), tops: make([]int64, sections), runEnd: make([]int32, sections),
		lost:   make([]int32, sections+1),
		search: search{prefer: make([]float64, n), guide: make([]int64, n), weights: make([]float64, sections), bump: 1},
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
		if w != nil {
			s.spare[t] = w.padding
		}
	}
	for i := range size {
		for t := from[i]; t < to[i]; t++ {
			s.spare[t] = max(s.spare[t], padding[i])
		}
		s.begin[from[i]] = append(s.begin[from[i]], int32(i))
		s.end[to[i]-1] = append(s.end[to[i]-1], int32(i))
	}
	s.rigid = w != nil || slices.Max(padding) > 0
	s.reset()
	return s
}

// reset takes all blocks off and computes what follows from nothing.
func (s *skyline) reset() {
	s.trail, s.covered = s.trail[:0], 0
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

// slack returns the bytes of section t that may be wasted before its waiting blocks no longer fit. One block of a section is highest, so
// the largest padding may be beyond the limit.
func (s *skyline) slack(t int32) int64 {
	free := s.limit + s.spare[t] - s.floor[t] - s.load[t]
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

// place puts a block at its base and reports whether the rest may still fit.
func (s *skyline) place(i int32) bool {
	s.step++
	s.risen = s.risen[:0]
	from, to := s.from[i], s.to[i]
	top := s.base[i] + s.size[i]
	s.offset[i] = s.base[i]
	s.placed[i] = true
	s.covered += s.size[i] * int64(to-from)
	s.trail = append(s.trail, change{kind: changedPlaced, index: i})
	for t := from; t < to; t++ {
		s.load[t] -= s.size[i]
		if t+1 < to {
			s.cross[t]--
		}
		s.leave(t, i)
	}
	// A block that waits beside it now starts at its top or above. Count those at the top by where they
	// come and go: alive in the first section, or beginning later.
	rising := s.rising[:to-from+1]
	clear(rising)
	for t := from; t < to; t++ {
		beside := s.begin[t]
		if t == from {
			beside = s.alive[t]
		}
		s.work -= int64(2 + len(beside))
		for _, j := range beside {
			if s.placed[j] {
				continue
			}
			if s.base[j] < top && !s.rise(j, top) {
				return false
			}
			if s.base[j] == top {
				rising[max(s.from[j], from)-from]++
				rising[min(s.to[j], to)-from]--
			}
		}
	}
	s.lose(from, to)
	var ready int32
	for t := from; t < to; t++ {
		ready += rising[t-from]
		s.setFloor(t, top, ready)
		if ready > 0 && s.slack(t) < 0 {
			return s.fail(t)
		}
	}
	return s.settle()
}

// leave takes block i from the waiting blocks of section t. It is then after the end of their
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

// raise leaves the bytes at the floor of section t unused and reports whether the rest may
// still fit. The lowest block of the section then is higher: at its base if that is higher
// already, else on a block that does not live at t.
func (s *skyline) raise(t int32) bool {
	s.step++
	s.risen = s.risen[:0]
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
	// tops[q] is the lowest top of a waiting block that is between t and q, or reaches q from there.
	s.work -= int64(hi-lo) + int64(len(s.alive[t]))
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
				continue // nothing can be under it
			}
			at = s.lifted(i, max(at, floor+1))
		}
		next = min(next, at)
	}
	if next-floor > slack && s.walls == nil || next > s.limit {
		return s.fail(t)
	}
	for _, i := range s.alive[t] {
		if s.base[i] < next && !s.rise(i, next) {
			return false
		}
	}
	s.lose(0, 0)
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

// rise lifts the base of block i to at least at, and notes the block for lose.
func (s *skyline) rise(i int32, at int64) bool {
	old := s.base[i]
	s.trail = append(s.trail, change{kind: changedBase, index: i, old: old})
	s.base[i] = s.lifted(i, at)
	if s.base[i]+s.size[i]-s.padding[i] > s.limit {
		return s.fail(s.from[i])
	}
	s.risen = append(s.risen, risen{i, old})
	return true
}

// A risen block had another base before the present step.
type risen struct {
	block int32
	old   int64 // base before the step
}

// lose takes the risen blocks from the ready blocks of all sections but those of [from, to). Where the floor was the old base of a risen
// block, the block was ready. A run of sections with one floor is looked at once per block.
func (s *skyline) lose(from, to int32) {
	lo, hi := int32(len(s.floor)), int32(0)
	for _, r := range s.risen {
		lo, hi = min(lo, s.from[r.block]), max(hi, s.to[r.block])
	}
	s.work -= int64(max(0, hi-lo)) / 2
	for t := hi - 1; t >= lo; t-- {
		if s.runEnd[t] = t + 1; t+1 < hi && s.floor[t+1] == s.floor[t] {
			s.runEnd[t] = s.runEnd[t+1]
		}
	}
	for _, r := range s.risen {
		end := s.to[r.block]
		for t := s.from[r.block]; t < end; t = s.runEnd[t] {
			s.work--
			if s.floor[t] == r.old {
				s.lost[t]++
				s.lost[min(end, s.runEnd[t])]--
			}
		}
	}
	var lost int32
	for t := lo; t < hi; t++ {
		lost += s.lost[t]
		s.lost[t] = 0
		if lost > 0 && (t < from || t >= to) {
			s.setFloor(t, s.floor[t], s.ready[t]-lost)
		}
	}
	if lo < hi {
		s.lost[hi] = 0
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
			s.covered -= s.size[i] * int64(s.to[i]-s.from[i])
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
