// Package liveness turns a bound, legalised graph and an order of its steps into a planning problem: the buffers, their sizes, and the
// steps over which each lives.
//
// Policy is part of rlxc's public API. The rest of this package is not part of it and may change without notice.
package liveness

import (
	"slices"

	"github.com/rlxc/rlxc/ir"
	"github.com/rlxc/rlxc/planner"
)

// A Result maps values to buffers. A step is a position in the order. A buffer lives in the half-open interval from the step that writes
// it to the step after its last reader. Inputs live from step 0, and outputs past the last step.
type Result struct {
	Problem planner.Problem
	// Steps are the nodes that run, in order.
	Steps []*ir.Node
	// Layouts are the values' layouts, by ID, after in-place reuse: the result of an in-place step has its operand's root.
	Layouts []ir.Layout
	// Buffers holds, by the ID of a root, the index of its buffer in Problem.Buffers; −1 for constants.
	Buffers []int
	// Scratch holds, for every step, the buffers of its kernel's scratch memory.
	Scratch [][]int
	// Inlays holds, by step in the graph's order, where in another buffer result 0 is written.
	Inlays []Inlay
	// Held are the values that an extension keeps past the last step.
	Held []*ir.Value
}

// Analyze computes lifetimes and in-place reuse for an order of the steps, which is a permutation of m.Steps. If kernels read late, which
// the order may not consider, Analyze keeps the graph's own order if that needs less memory. The result takes m's layouts, and m must not
// be used afterwards.
func (m *Memory) Analyze(order []int) *Result {
	if slices.ContainsFunc(m.late, func(late int) bool { return late > 0 }) {
		if own := identity(len(order)); m.extended(own).peak() < m.extended(order).peak() {
			order = own
		}
	}
	m.weigh(order)
	l := m.lives(order)
	result := &Result{}
	for i := range m.extensions {
		e := &m.extensions[i]
		line := planner.Extension{Name: e.name, Policy: e.policy.String()}
		before := *l
		before.last, before.busy = slices.Clone(l.last), slices.Clone(l.busy)
		l.extend(e)
		for b, last := range l.last {
			if last > before.last[b] {
				line.Buffers = append(line.Buffers, m.name(int32(b)))
			}
		}
		if len(line.Buffers) > 0 {
			line.PeakGrowth = l.peak() - before.peak()
		}
		result.Problem.Extensions = append(result.Problem.Extensions, line)
		for _, b := range e.held {
			result.Held = append(result.Held, m.values[b])
		}
	}
	l.state(result)
	result.Steps = make([]*ir.Node, len(order))
	for i, s := range order {
		result.Steps[i] = m.Steps[s]
	}
	host, _, _ := l.hosts()
	result.Inlays = slices.Repeat([]Inlay{noInlay}, len(order))
	for _, steps := range []map[int]within{m.within, m.parts} {
		for s, w := range steps {
			if out := m.Writes[s][0]; host[out] == host[w.b] {
				result.Inlays[s] = w.inlay
				for id, layout := range w.layouts {
					m.layouts[id] = layout
				}
			}
		}
	}
	for id, layout := range m.layouts {
		if layout.Root != nil && m.buffer[layout.Root.ID] >= 0 {
			m.layouts[id].Root = m.values[host[m.buffer[layout.Root.ID]]]
		}
	}
	result.Layouts = m.layouts
	return result
}

// lives are the first and last steps of buffers in an order of the steps.
type lives struct {
	*Memory
	order []int
	at    []int // by step: its position in the order
	last  []int // by buffer: the position that reads it last, −1 for none, len(order) for the caller
	busy  []int // by buffer: the last position during which a step before it still reads, −1 for none
}

func identity(n int) []int {
	order := make([]int, n)
	for i := range order {
		order[i] = i
	}
	return order
}

// extended are the lives that all extensions together ask for.
func (m *Memory) extended(order []int) *lives {
	l := m.lives(order)
	for i := range m.extensions {
		l.extend(&m.extensions[i])
	}
	return l
}

// lives computes what the steps themselves ask for, late reads among them that no extension answers for.
func (m *Memory) lives(order []int) *lives {
	l := &lives{Memory: m, order: order, at: make([]int, len(order)), last: slices.Repeat([]int{-1}, len(m.values)),
		busy: slices.Repeat([]int{-1}, len(m.values))}
	for i, s := range order {
		l.at[s] = i
		for _, b := range m.reads[s] {
			l.reach(b, i)
			if m.late[s] > 0 && !m.claimed(s, b) {
				l.linger(b, s)
			}
		}
	}
	for _, v := range m.g.Outputs {
		l.last[m.of(v)] = len(order)
	}
	return l
}

func (l *lives) reach(b int32, position int) { l.last[b] = max(l.last[b], position) }

// linger keeps a buffer for the late reads of a step; len(order) is after the last step.
func (l *lives) linger(b int32, s int) {
	until := min(l.at[s]+l.late[s], len(l.order))
	l.reach(b, until)
	l.busy[b] = max(l.busy[b], until)
}

// claimed reports whether an extension answers for late reads of b by s.
func (m *Memory) claimed(s int, b int32) bool {
	return slices.ContainsFunc(m.extensions, func(e extension) bool { return e.claims != nil && e.claims(s, b) })
}

// extend makes lives as long as an extension asks for.
func (l *lives) extend(e *extension) {
	if e.policy == Off {
		return
	}
	if e.claims != nil {
		for s, late := range l.late {
			if late == 0 {
				continue
			}
			for _, b := range l.reads[s] {
				if e.claims(s, b) {
					l.linger(b, s)
				}
			}
		}
	}
	for _, x := range e.reads {
		if l.reach(x.b, l.at[x.step]); l.late[x.step] > 0 {
			l.linger(x.b, x.step)
		}
	}
	for _, b := range e.held {
		l.last[b] = len(l.order)
	}
}

// peak is the planner's lower bound: the largest sum of the rounded sizes of what lives at a position.
func (l *lives) peak() int64 {
	host, first, last := l.hosts()
	change := make([]int64, len(l.order)+2) // of the live bytes from one position to the next
	for b, size := range l.Bytes {
		if host[b] == int32(b) {
			change[first[b]] += size
			change[max(last[b], first[b])+1] -= size
		}
	}
	for i, s := range l.order {
		change[i] += l.Scratch[s]
		change[i+1] -= l.Scratch[s]
	}
	peak, live := int64(0), int64(0)
	for _, c := range change {
		live += c
		peak = max(peak, live)
	}
	return peak
}
