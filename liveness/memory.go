package liveness

import (
	"slices"

	"github.com/rlxc/rlxc/internal/target"
	"github.com/rlxc/rlxc/ir"
	"github.com/rlxc/rlxc/planner"
)

// A Footprint is the memory behaviour of a program before its steps are ordered, from which the order is chosen. Steps and buffers are
// numbered from 0. (Package schedule has a type with the same fields, and no other relation to this package.)
type Footprint struct {
	Bytes []int64 // by buffer: its size, rounded up to the target's alignment
	Held  []bool  // by buffer: whether it is read after the last step

	// By step, in the graph's order: the buffers that it reads, directly or through views, each once, and those that it writes. A buffer
	// that no step writes is an input.
	Reads, Writes [][]int32
	// Over lists, by step, the buffers whose memory its result 0 may overwrite if no later step reads them: the kernel allows it, sizes
	// are equal, and no operand views them in another way.
	Over [][]int32
	// Scratch is, by step, the number of bytes that its kernel needs while it runs, rounded like sizes.
	Scratch []int64
}

// A Memory is a bound, legalised graph as steps and buffers. A buffer is a value with separate memory: a graph input or the result of a
// step. Views refer to a buffer, and constants are elsewhere.
type Memory struct {
	Footprint
	Steps []*ir.Node // the nodes that run, in the graph's order; views only show memory

	g       *ir.Graph
	t       *target.Target
	layouts []ir.Layout

	values   []*ir.Value    // by buffer
	sizes    []int64        // by buffer: bytes
	buffer   []int32        // by ID of a root: its buffer; −1 for constants
	writer   []int32        // by buffer: the step that writes it; −1 for inputs
	reads    [][]int32      // by step: as Reads, without what an extension adds
	scratch  [][]int64      // by step: bytes of each
	late     []int          // by step: see target.Kernel.LateReads
	level    []int          // by step: the longest path of steps to it
	separate []bool         // by buffer: it is a device tensor, outside of the arena
	within   map[int]within // by step, of those that have one
	found    map[int]within // also those that weigh drops
	parts    map[int]within // by step, of those whose result 0 is written into the result of a Concat

	extensions []extension
}

// New returns g, legalised for t, as steps and buffers. It owns layouts (from legalize.Graph) afterwards.
func New(g *ir.Graph, layouts []ir.Layout, t *target.Target, o Options) *Memory {
	m := &Memory{g: g, t: t, layouts: layouts, buffer: make([]int32, g.NumValues())}
	for len(m.layouts) < g.NumValues() {
		m.layouts = append(m.layouts, ir.Layout{})
	}
	for i := range m.buffer {
		m.buffer[i] = -1
	}
	for _, v := range g.Inputs {
		m.add(v)
	}
	for _, n := range g.Nodes {
		if !n.Op.Kind().Has(ir.View) {
			m.Steps = append(m.Steps, n)
		}
	}
	m.steps()
	m.takeOut(o.DeviceTensors)
	m.Held = make([]bool, len(m.values))
	for _, v := range g.Outputs {
		m.Held[m.of(v)] = true
	}
	m.extend(o)
	if !o.RowMajor {
		m.findWithin()
		m.findParts()
	}
	return m
}

// add makes a buffer for a value.
func (m *Memory) add(v *ir.Value) int32 {
	b := int32(len(m.values))
	m.buffer[v.ID] = b
	size := int64(v.Type.DType.Bytes(v.Type.Elements()))
	m.values, m.sizes, m.Bytes = append(m.values, v), append(m.sizes, size), append(m.Bytes, m.round(size))
	return b
}

func (m *Memory) round(bytes int64) int64 { return (bytes + m.t.Align - 1) / m.t.Align * m.t.Align }

// Sizes returns Bytes and Scratch of the footprint at other sizes. values are the graph's values at these sizes, by ID. scratch lists, by
// step, the scratch buffers, whose sizes are those in buffers.
func (m *Memory) Sizes(values []*ir.Value, scratch [][]int, buffers []planner.Buffer) (bytes, sums []int64) {
	bytes, sums = make([]int64, len(m.values)), make([]int64, len(m.Steps))
	for b, v := range m.values {
		if t := values[v.ID].Type; !m.separate[b] {
			bytes[b] = m.round(int64(t.DType.Bytes(t.Elements())))
		}
	}
	for s := range sums {
		for _, b := range scratch[s] {
			sums[s] += m.round(buffers[b].Size)
		}
	}
	return bytes, sums
}

// layout returns the layout of v; a constant that no node looks at by strides is row-major.
func (m *Memory) layout(v *ir.Value) ir.Layout {
	if l := m.layouts[v.ID]; l.Root != nil {
		return l
	}
	return ir.OwnLayout(v)
}

// root is the value whose memory v shows.
func (m *Memory) root(v *ir.Value) *ir.Value {
	if r := m.layouts[v.ID].Root; r != nil {
		return r
	}
	return v // a constant
}

// of is the buffer that v shows; −1 for constants.
func (m *Memory) of(v *ir.Value) int32 { return m.buffer[m.root(v).ID] }

// steps finds what every step reads, writes and needs.
func (m *Memory) steps() {
	n := len(m.Steps)
	m.reads, m.Writes, m.Over = make([][]int32, n), make([][]int32, n), make([][]int32, n)
	m.scratch, m.Scratch, m.late, m.level = make([][]int64, n), make([]int64, n), make([]int, n), make([]int, n)
	var store []int32 // what the lists share; they stay where they are when it grows
	m.writer = slices.Repeat([]int32{-1}, len(m.values))
	for s, node := range m.Steps {
		from := len(store)
	operands:
		for _, v := range node.Inputs {
			if v == nil {
				continue
			}
			b := m.of(v)
			if b < 0 {
				continue
			}
			for _, seen := range store[from:] {
				if seen == b {
					continue operands
				}
			}
			store = append(store, b)
			if w := m.writer[b]; w >= 0 {
				m.level[s] = max(m.level[s], m.level[w])
			}
		}
		m.level[s]++
		m.reads[s] = store[from:len(store):len(store)]
		from = len(store)
		for _, v := range node.Outputs {
			store = append(store, m.add(v))
			m.writer = append(m.writer, int32(s))
		}
		m.Writes[s] = store[from:len(store):len(store)]
		from = len(store)
		for i := range node.Inputs {
			if m.takesOver(node, i) {
				store = append(store, m.of(node.Inputs[i]))
			}
		}
		m.Over[s] = store[from:len(store):len(store)]
		m.scratch[s] = m.t.Scratch(node)
		for _, size := range m.scratch[s] {
			m.Scratch[s] += m.round(size)
		}
		m.late[s] = m.t.LateReads(node)
	}
	m.Reads = slices.Clone(m.reads)
}

// takesOver reports whether result 0 of n may take over the memory of operand i, should nothing read that later. The operand must be no
// input of the graph.
func (m *Memory) takesOver(n *ir.Node, i int) bool {
	v := n.Inputs[i]
	if v == nil || len(n.Outputs) == 0 || !m.t.InPlace(n, i) {
		return false
	}
	r := m.root(v)
	return r.Def != nil && overWhole(n, n.Outputs[0], r, m.t.Where(n), m.layout, m.t)
}
