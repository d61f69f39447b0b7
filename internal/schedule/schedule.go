// Package schedule puts steps in an order that needs little memory at once.
//
// Bytes count as the planner counts them: a buffer lives from the step that writes it to its last reader, the caller among
// them, and a step needs its operands, its results and its scratch at the same time, but for a result that takes over an
// operand's memory. A set of steps leaves the same bytes live in whatever order they ran, so the problem falls apart
// wherever every other step must come before or after one step, and what is between two such cuts can be searched
// separately: exactly if it is small (search.go), else by heuristics and exact windows around the peak (heuristic.go). The
// way follows Ahn et al., "Ordering Chaos: Memory-Aware Scheduling of Irregularly Wired Neural Networks for Edge Devices"
// (MLSys 2020).
package schedule

import (
	"cmp"
	"slices"
)

// A Program has the facts on which the order depends. Steps and buffers are numbered from 0.
type Program struct {
	Bytes []int64 // size of each buffer
	Held  []bool  // whether the caller reads each buffer after the last step

	// By step, in an order that can run: the buffers that it reads, each once, and those that it writes. A buffer that no
	// step writes is there from the start.
	Reads, Writes [][]int32
	// Over lists, by step, the buffers that it reads whose memory the first one that it writes may take over, where nothing
	// else reads them later. Their sizes are equal.
	Over [][]int32
	// Scratch is, by step, the bytes that it needs while it runs.
	Scratch []int64
}

// Order returns a permutation of the steps that can run. Its peak of live bytes is never above that of the steps as they
// are, which is what it returns when nothing is better. The time is about linear in the size of the program; equal programs
// get equal orders.
func Order(p *Program) []int {
	s := newScheduler(p)
	if s.peak() <= s.floor {
		return s.order
	}
	segments := slices.Clone(s.segments)
	slices.SortStableFunc(segments, func(a, b segment) int { return cmp.Compare(s.highest(b), s.highest(a)) })
	for _, g := range segments {
		if s.highest(g) <= s.floor {
			break
		}
		s.improve(g)
		s.floor = max(s.floor, s.highest(g)) // no later segment needs to be better than this one
	}
	return s.order
}

// A segment is a range of positions in the order; steps never leave it.
type segment struct{ from, to int }

// scheduler holds the order so far and what it needs at every position.
type scheduler struct {
	*Program
	order    []int
	at       []int     // position of each step in order
	readers  [][]int32 // steps that read each buffer
	writer   []int32   // step that writes each buffer; −1: it is there from the start
	last     []int     // position of the last reader of each buffer; −1 for none, len(order) for the caller
	live     []int64   // bytes that are live before the step at each position
	need     []int64   // bytes that the step at each position needs while it runs
	segments []segment // segments, in order
	unread   int64     // bytes of inputs that nothing reads; they are live before the first step only
	floor    int64     // no order has a peak below this

	mem    memory // state of the search
	budget int    // steps that the search may still try
}

// Work that the search may do: that many steps tried in all, and in one window.
const (
	budgetPerStep = 64
	budgetBase    = 1 << 15
	budgetWindow  = 1 << 12
)

func newScheduler(p *Program) *scheduler {
	n := len(p.Reads)
	s := &scheduler{Program: p, order: identity(n), at: identity(n), live: make([]int64, n), need: make([]int64, n), budget: budgetBase +
		budgetPerStep*n}
	s.index()
	s.mem = memory{Program: p, left: make([]int32, len(p.Bytes))}
	for b := range p.Bytes {
		s.mem.left[b] = int32(len(s.readers[b]))
		if p.Held[b] {
			s.mem.left[b]++
		}
		switch {
		case s.writer[b] >= 0:
		case s.mem.left[b] > 0:
			s.mem.live += p.Bytes[b]
		default:
			s.unread += p.Bytes[b]
		}
	}
	for i := range n {
		s.live[i] = s.mem.live
		s.need[i] = s.runAt(i, i)
	}
	s.cut()
	s.floor = s.floorOf(s.order, s.segments).Peak(s.Bytes, s.Scratch)
	return s
}

func identity(n int) []int {
	order := make([]int, n)
	for i := range order {
		order[i] = i
	}
	return order
}

// index finds the writer and the readers of every buffer.
func (s *scheduler) index() {
	count := make([]int32, len(s.Bytes)+1)
	for _, reads := range s.Reads {
		for _, b := range reads {
			count[b]++
		}
	}
	total := int32(0)
	for b, n := range count {
		count[b], total = total, total+n
	}
	all := make([]int32, total)
	s.readers, s.writer, s.last = make([][]int32, len(s.Bytes)), make([]int32, len(s.Bytes)), make([]int, len(s.Bytes))
	for b := range s.Bytes {
		s.readers[b] = all[count[b]:count[b]:count[b+1]]
		s.writer[b], s.last[b] = -1, -1
	}
	for i := range s.Reads {
		for _, b := range s.Reads[i] {
			s.readers[b] = append(s.readers[b], int32(i))
			s.last[b] = i
		}
		for _, b := range s.Writes[i] {
			s.writer[b] = int32(i)
		}
	}
	for b, held := range s.Held {
		if held {
			s.last[b] = len(s.Reads)
		}
	}
}

// cut finds the segments: a step is a separate one when every other step must come before or after it. Every step after it
// then reads something that it or a later step wrote, and what every step before it wrote is read at or before it.
func (s *scheduler) cut() {
	n := len(s.order)
	waits := make([]int, n+1) // of the last writers for each step from a position on, the earliest
	waits[n] = n
	for i := n - 1; i >= 0; i-- {
		latest := -1
		for _, b := range s.Reads[i] {
			latest = max(latest, int(s.writer[b]))
		}
		waits[i] = min(waits[i+1], latest)
	}
	start, before := 0, -1 // before: the latest of the first readers of the steps up to here
	for i := range n {
		if before <= i && waits[i+1] >= i {
			if start < i {
				s.segments = append(s.segments, segment{start, i})
			}
			s.segments = append(s.segments, segment{i, i + 1})
			start = i + 1
		}
		first := n
		for _, b := range s.Writes[i] {
			if len(s.readers[b]) > 0 {
				first = min(first, int(s.readers[b][0]))
			}
		}
		before = max(before, first)
	}
	if start < n {
		s.segments = append(s.segments, segment{start, n})
	}
}

// A Need is what a step needs at most: its own buffers, and all that live across its segment. Where each segment is one step, that is
// the peak of an order; else it is a floor of all orders. It takes time linear in the size of the program to make, and to find at other
// sizes of the same buffers.
type Need struct {
	*Program
	steps    []int
	segments []segment
	from, to []int32 // the first and the last segment across which each buffer lives
	across   []int64 // growth, at each segment, of the bytes that live across segments; valid while Peak runs
	own      []int32 // the buffers that count of each step, one after the other
	ends     []int   // end of each step's part of own
}

// Floor is what every order needs.
func Floor(p *Program) *Need {
	s := newScheduler(p)
	return s.floorOf(identity(len(s.order)), s.segments)
}

// NeedOf is what an order needs.
func NeedOf(p *Program, order []int) *Need {
	s := newScheduler(p)
	segments := make([]segment, len(order))
	for i := range segments {
		segments[i] = segment{i, i + 1}
	}
	return s.floorOf(order, segments)
}

func (s *scheduler) floorOf(steps []int, segments []segment) *Need {
	f := &Need{Program: s.Program, steps: steps, segments: slices.Clone(segments), from: make([]int32, len(s.Bytes)),
		to: make([]int32, len(s.Bytes)), across: make([]int64, len(segments)+2), ends: make([]int, len(steps))}
	of := make([]int32, len(steps)) // by step: the segment
	for k, g := range segments {
		for _, step := range steps[g.from:g.to] {
			of[step] = int32(k)
		}
	}
	for b := range s.Bytes {
		if w := s.writer[b]; w >= 0 {
			f.from[b] = of[w] + 1
		}
		for _, r := range s.readers[b] {
			f.to[b] = max(f.to[b], of[r])
		}
		if s.Held[b] {
			f.to[b] = int32(len(segments))
		}
	}
	for i, step := range steps {
		k := of[step]
		ends := func(b int32) bool { return f.to[b] <= k }
		for _, b := range s.Reads[step] {
			if f.from[b] > k || ends(b) {
				f.own = append(f.own, b)
			}
		}
		writes := s.Writes[step]
		if slices.ContainsFunc(s.Over[step], ends) {
			writes = writes[1:]
		}
		f.own = append(f.own, writes...)
		f.ends[i] = len(f.own)
	}
	return f
}

// Peak is the bytes at these sizes of buffers and of the steps' scratch. One call at a time may be made.
func (f *Need) Peak(bytes, scratch []int64) int64 {
	clear(f.across)
	for b, size := range bytes {
		if f.from[b] < f.to[b] {
			f.across[f.from[b]] += size
			f.across[f.to[b]] -= size
		}
	}
	var peak, across int64
	begin := 0
	for k, g := range f.segments {
		across += f.across[k]
		for i := g.from; i < g.to; i++ {
			need := across + scratch[f.steps[i]]
			for _, b := range f.own[begin:f.ends[i]] {
				need += bytes[b]
			}
			begin = f.ends[i]
			peak = max(peak, need)
		}
	}
	return peak
}

func (s *scheduler) peak() int64 { return s.highest(segment{0, len(s.order)}) }

// highest is the peak within a segment.
func (s *scheduler) highest(g segment) int64 {
	peak := int64(0)
	for _, n := range s.need[g.from:g.to] {
		peak = max(peak, n)
	}
	return peak
}
