// Package check decides whether a binding is safe to run. It is the last gate in front of every binding: packages legalize, liveness and
// planner decide, the engine evaluates their decisions again at other sizes, and Plan states the outcome. The check computes from the
// graph, the sizes and the target what that outcome must satisfy, and shares no code with those packages. It takes time linear in the
// operands of the graph, times a logarithm for the order of the buffers, and it is always on.
//
// # An example
//
// A program of two symbols, bound to batch=2, seq=3, whose product and sum are written where a Concat wants them:
//
//	%2 "a" = matmul(%0 "x", %1 "w")        f32[batch,seq,4]  step 0
//	%3 "b" = add(%0, %2)                   f32[batch,seq,4]  step 1
//	%4 "c" = concat(%2, %3) {axis=2}       f32[batch,seq,8]  step 2
//	%5 "last" = slice(%4) {starts=[0,seq-1,0], sizes=[batch,1,8]}   a view
//	%6 "y" = relu(%5)                      f32[batch,1,8]    step 3
//
// The check runs in five phases, each over the whole graph.
//
//  1. Types. The symbolic graph says [batch,seq,8] of "c", which is [2,3,8] now, so a type that still has the sizes of an earlier run
//     is found. The field starts of "last" must be [0,2,0].
//  2. Layouts. "c" has separate memory, row-major: strides [24,8,1]. Operand 1 of the Concat begins 4 columns after the start, so "b" must
//     be at element 4 of the memory of "c" with the same strides. "last" must begin at element 2·8 = 16. A result that is over an operand
//     must be over all of it, or over the same elements of a slice, and the target must permit either.
//  3. Lives. The memory of "c" is in use from step 0, which writes a part of it, to step 3, which reads it by "last". A value may be read
//     after its step and before another result is over it. The graph's outputs are read after the last step.
//  4. Memory. Each buffer has the bytes that its value needs (2·3·8·4 = 192 for "c"), inside of its arena and aligned. Scratch has what the
//     kernel asks for. Buffers that are in use at one step do not overlap: a sweep over the steps keeps those in use ordered by address,
//     and compares each new one with its two neighbours.
//  5. Steps. A step is made for the layouts of its operands, and later bindings keep it if these did not change. Each step has a stamp, a
//     hash of all that it was made from. If the next binding has seq=4, "last" begins at element 24. A binding that has moved "last" but
//     keeps step 3 as it was made for element 16 is rejected: the stamp of step 3 differs from the stamp with which it was made.
package check

import (
	"fmt"
	"sync"

	"github.com/rlxc/rlxc/internal/target"
	"github.com/rlxc/rlxc/ir"
	"github.com/rlxc/rlxc/planner"
)

// A Plan is a binding, as the device runs it. The check changes nothing in it and keeps nothing of it.
type Plan struct {
	// Graph is bound and legalised: its types have numbers, and its nodes are in an order in which each value is defined before it is read.
	Graph *ir.Graph
	// Sizes are the numbers of the symbols.
	Sizes ir.Binding
	// Steps are the graph's nodes but for views, each once, in the order in which they run.
	Steps []*ir.Node
	// Layouts are, by value ID, where kernels find the elements of a value. Constants may have the zero Layout, or IDs beyond the Layouts:
	// they are row-major.
	Layouts []ir.Layout
	// Buffers are, by the ID of a layout's root, indices in Problem.Buffers; −1 for constants.
	Buffers []int
	// Scratch lists, by step, the buffers of the kernel's scratch memory.
	Scratch [][]int
	// Like is, by step, another step whose code it takes when it is made, −1 for none; nil: no step takes one. Of steps that are kept it
	// means nothing.
	Like []int
	// Problem has the boundary of each buffer, and Memory its arena, offset and size.
	Problem *planner.Problem
	Memory  *planner.Plan
	// Held are values that are read after the last step, besides the graph's outputs.
	Held []*ir.Value
	// Grown is, by output, the index of the input whose memory the output may have, longer by what the run appends; −1 for none; nil: of no
	// output.
	Grown []int
	// Target states what its kernels permit. NoLateReads is true where liveness leaves late reads out because the caller asked for it.
	Target      *target.Target
	NoLateReads bool
}

// A Symbolic graph has the types and the fields of ops with which the check compares those of a bound graph. For example, the symbolic
// shape [batch, seq, 384] demands the bound shape [2, 8, 384] for batch = 2 and seq = 8.
type Symbolic struct {
	// Inputs are the types of the graph's inputs, with symbols, in the order of axes in which the plan has them.
	Inputs []ir.Type
	// Source returns the symbolic node of which a bound node was made; nil where there is none.
	Source func(bound *ir.Node) *ir.Node
}

// Checked is a binding that the check has accepted. It is immutable.
type Checked struct {
	form   *form
	stamps []uint64 // hash of everything that a step was made from, indexed by step
}

// First checks a binding whose steps are all new. If later bindings come from it, of is the symbolic graph; otherwise of is nil, and types
// follow from the shape rules alone. The error is a *Rejection.
func First(p *Plan, of *Symbolic) (*Checked, error) {
	f, err := newForm(p, of)
	if err != nil {
		return nil, err
	}
	return f.check(p, nil, nil)
}

// Next checks a binding of the same graph for other sizes. The steps in made are new. The others are those of the binding c, so what
// they were made from must not have changed. The error is a *Rejection.
func (c *Checked) Next(p *Plan, made []int) (*Checked, error) { return c.form.check(p, c.stamps, made) }

// A Rejection says what is wrong with a binding.
type Rejection struct {
	Node *ir.Node // nil where an input or an output of the graph is wrong
	What string
}

// Error names the node.
func (r *Rejection) Error() string {
	if r.Node == nil {
		return r.What
	}
	return fmt.Sprintf("node %s (%s): %s", r.Node.Label(), ir.OpName(r.Node.Op), r.What)
}

func reject(n *ir.Node, format string, args ...any) error {
	return &Rejection{n, fmt.Sprintf(format, args...)}
}

// name is what a rejection calls a value.
func name(v *ir.Value) string {
	if v.Name != "" {
		return fmt.Sprintf("%q", v.Name)
	}
	return fmt.Sprintf("%%%d", v.ID)
}

// A state is one check under way. Its tables are reused by later checks.
type state struct {
	*Plan
	form    *form
	sizes   []int         // size of each distinct dimension, indexed by its number in form.dims
	values  []value       // place and lifetime of each value, indexed by its ID
	buffers []use         // use of each buffer
	runs    []target.Runs // where each step runs
	sweep   sweep
	code    []uint64 // what codeOf returns for each step
	made    []bool   // whether each step is new
	axes    [4][]int // room for the axes of two layouts, see sameSequence
}

var states = sync.Pool{New: func() any { return new(state) }}

// check runs all phases. before are the stamps of the binding whose steps are kept; nil if all steps are new.
func (f *form) check(p *Plan, before []uint64, made []int) (*Checked, error) {
	s := states.Get().(*state)
	defer func() {
		s.Plan, s.form = nil, nil
		states.Put(s)
	}()
	s.Plan, s.form = p, f
	if err := s.fits(); err != nil {
		return nil, err
	}
	s.values = cleared(s.values, p.Graph.NumValues())
	s.buffers = cleared(s.buffers, len(p.Problem.Buffers))
	for i := range s.buffers {
		s.buffers[i].top, s.buffers[i].first, s.buffers[i].last = -1, unused, unused
	}
	s.runs = cleared(s.runs, len(p.Steps))
	for i, n := range p.Steps {
		s.runs[i] = p.Target.Where(n)
	}
	stamps := make([]uint64, len(p.Steps))
	for _, phase := range []func() error{s.evaluate, s.types, s.layouts, s.lives, s.memory} {
		if err := phase(); err != nil {
			return nil, err
		}
	}
	if err := s.stamp(stamps, before, made); err != nil {
		return nil, err
	}
	return &Checked{f, stamps}, nil
}

// fits rejects tables of other lengths than the graph's.
func (s *state) fits() error {
	g, steps := s.Graph, len(s.Steps)
	if len(g.Nodes) != len(s.form.nodes) || steps != s.form.steps || len(s.Buffers) < g.NumValues() ||
		len(s.Scratch) != steps || s.Like != nil && len(s.Like) != steps || len(s.Memory.Slots) != len(s.Problem.Buffers) {
		return reject(nil, "the binding has %d nodes, %d steps, %d layouts and %d buffers, and the graph has others", len(g.Nodes), steps,
			len(s.Layouts), len(s.Problem.Buffers))
	}
	for i, n := range g.Nodes {
		if at := s.form.nodes[i].step; at >= 0 && s.Steps[at] != n {
			return reject(n, "it is not step %d of the binding", at)
		}
	}
	return nil
}

// cleared returns a table of n zeros, in the memory of a table if that is large enough.
func cleared[T any](table []T, n int) []T {
	if cap(table) < n {
		return make([]T, n, n+n/4)
	}
	table = table[:n]
	clear(table)
	return table
}
