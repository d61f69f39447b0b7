// Package liveness turns a bound, legalised graph and its schedule into a planning problem: which buffers there are, how
// large, and over which steps each must be kept.
package liveness

import (
	"github.com/rlxc/rlxc/ir"
	"github.com/rlxc/rlxc/planner"
	"github.com/rlxc/rlxc/target"
)

// A Result says which buffer holds what. A step is a position in the schedule; a buffer lives in the half-open
// [step that writes it, last step that reads it + 1), inputs from step 0 on and outputs past the last step.
type Result struct {
	Problem planner.Problem
	// Layouts are the values' layouts, by ID, after in-place reuse: the result of an in-place step has its operand's root.
	Layouts []ir.Layout
	// Buffers gives, by the ID of a root, the index of its buffer in Problem.Buffers; −1 for constants.
	Buffers []int
	// Scratch gives, for every step, the buffers of its kernel's scratch memory.
	Scratch [][]int
}

// Analyze computes lives and in-place reuse. layouts (from legalize.Graph) is taken over.
func Analyze(g *ir.Graph, steps []*ir.Node, layouts []ir.Layout, t *target.Target) *Result {
	a := &analysis{g: g, steps: steps, t: t, n: g.NumValues()}
	for len(layouts) < a.n {
		layouts = append(layouts, ir.Layout{})
	}
	a.Layouts = layouts
	a.host = make([]*ir.Value, a.n)
	a.reads()
	a.inPlace()
	for id, l := range a.Layouts {
		if l.Root != nil {
			a.Layouts[id].Root = a.root(l.Root)
		}
	}
	a.problem()
	return &a.Result
}

type analysis struct {
	Result
	g     *ir.Graph
	steps []*ir.Node
	t     *target.Target
	n     int
	last  []int       // by ID of a root: the last step that reads it or a view of it; −1 never; len(steps) the caller
	host  []*ir.Value // by ID of a root that an in-place step let take over another one's memory: that one
}

// root finds whose memory a value shows.
func (a *analysis) root(v *ir.Value) *ir.Value {
	if r := a.Layouts[v.ID].Root; r != nil {
		v = r
	}
	for a.host[v.ID] != nil {
		if next := a.host[a.host[v.ID].ID]; next != nil {
			a.host[v.ID] = next // halve the path, so that a long chain of in-place steps stays linear
		}
		v = a.host[v.ID]
	}
	return v
}

// reads finds the last reader of every root, through its views.
func (a *analysis) reads() {
	a.last = make([]int, a.n)
	for i := range a.last {
		a.last[i] = -1
	}
	for s, n := range a.steps {
		late := a.t.LateReads(n)
		for _, v := range n.Inputs {
			if v != nil && !v.IsConst() {
				r := a.root(v)
				a.last[r.ID] = max(a.last[r.ID], min(s+late, len(a.steps)-1))
			}
		}
	}
	for _, v := range a.g.Outputs {
		a.last[a.root(v).ID] = len(a.steps)
	}
}

// inPlace lets results take over operands that die at their step: the kernel must allow it, the operand must be the whole
// of its root and row-major, of the same size, and neither a boundary value nor read by the step in another way.
func (a *analysis) inPlace() {
	for s, n := range a.steps {
		if len(n.Outputs) == 0 {
			continue
		}
		out := n.Outputs[0]
		for i, v := range n.Inputs {
			if v == nil || v.IsConst() || !a.t.InPlace(n, i) {
				continue
			}
			r := a.root(v)
			if r.Def == nil || a.last[r.ID] != s || bytesOf(out) != bytesOf(r) || !a.whole(v, r) || a.readElsewhere(n, i, r) {
				continue
			}
			a.host[out.ID] = r
			a.last[r.ID] = max(a.last[r.ID], a.last[out.ID])
			break
		}
	}
}

// whole reports whether v shows all of r in order.
func (a *analysis) whole(v, r *ir.Value) bool {
	l := a.Layouts[v.ID]
	return l.Offset == 0 && bytesOf(v) == bytesOf(r) && l.Contiguous(v.Type.Sizes())
}

// readElsewhere reports whether another operand of n shows r differently than operand i does.
func (a *analysis) readElsewhere(n *ir.Node, i int, r *ir.Value) bool {
	for k, v := range n.Inputs {
		if k != i && v != nil && !v.IsConst() && a.root(v) == r && !(a.whole(v, r) && a.t.InPlace(n, k)) {
			return true
		}
	}
	return false
}

func bytesOf(v *ir.Value) int64 {
	s := v.Type.Sizes()
	return int64(v.Type.DType.Bytes(s.Elements()))
}

// problem writes the buffers: inputs, then each step's results and scratch.
func (a *analysis) problem() {
	a.Buffers = make([]int, a.n)
	for i := range a.Buffers {
		a.Buffers[i] = -1
	}
	outputs := map[*ir.Value]bool{}
	for _, v := range a.g.Outputs {
		outputs[a.root(v)] = true
	}
	levels := a.levels()
	deepest := a.deepest(levels)
	for _, v := range a.g.Inputs {
		a.buffer(v, 0, planner.Input, levels, deepest, "input")
	}
	a.Scratch = make([][]int, len(a.steps))
	for s, n := range a.steps {
		for _, v := range n.Outputs {
			if a.root(v) != v {
				continue // in place
			}
			kind := planner.None
			if outputs[v] {
				kind = planner.Output
			}
			a.buffer(v, s, kind, levels, deepest, n.Op.Kind().String())
		}
		for _, size := range a.t.Scratch(n) {
			a.Scratch[s] = append(a.Scratch[s], len(a.Problem.Buffers))
			a.Problem.Buffers = append(a.Problem.Buffers, planner.Buffer{
				ID: len(a.Problem.Buffers), Name: "scratch of " + n.Label(), Kind: "scratch", Size: size,
				First: s, Last: s + 1, Level: levels[n.Outputs[0].ID], LastLevel: levels[n.Outputs[0].ID],
			})
		}
	}
}

func (a *analysis) buffer(v *ir.Value, first int, b planner.Boundary, levels, deepest []int, kind string) {
	a.Buffers[v.ID] = len(a.Problem.Buffers)
	name := v.Name
	if name == "" && v.Def != nil {
		name = v.Def.Label()
	}
	last := max(a.last[v.ID], first) + 1
	a.Problem.Buffers = append(a.Problem.Buffers, planner.Buffer{
		ID: len(a.Problem.Buffers), Name: name, Kind: kind, Detail: v.Type.String(),
		Size: bytesOf(v), Elements: int64(v.Type.Sizes().Elements()), DType: uint8(v.Type.DType),
		First: first, Last: last, Level: levels[v.ID], LastLevel: max(deepest[v.ID], levels[v.ID]), Boundary: b,
	})
}

// levels gives, by value ID, the longest dependency path to the value's node.
func (a *analysis) levels() []int {
	level := make([]int, a.n)
	for _, n := range a.g.Nodes {
		l := 0
		for _, v := range n.Inputs {
			if v != nil {
				l = max(l, level[v.ID])
			}
		}
		if !n.Op.Kind().Has(ir.View) {
			l++
		}
		for _, v := range n.Outputs {
			level[v.ID] = l
		}
	}
	return level
}

// deepest gives, by the ID of a root, the level of its deepest reader.
func (a *analysis) deepest(levels []int) []int {
	d := make([]int, a.n)
	for _, n := range a.steps {
		for _, v := range n.Inputs {
			if v != nil && !v.IsConst() && len(n.Outputs) > 0 {
				r := a.root(v)
				d[r.ID] = max(d[r.ID], levels[n.Outputs[0].ID])
			}
		}
	}
	for _, v := range a.g.Outputs {
		d[a.root(v).ID] = len(a.steps) + 1
	}
	return d
}
