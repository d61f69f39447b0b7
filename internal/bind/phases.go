package bind

import (
	"math"
	"slices"

	"github.com/rlxc/rlxc/internal/backend"
	"github.com/rlxc/rlxc/internal/legalize"
	"github.com/rlxc/rlxc/internal/schedule"
	"github.com/rlxc/rlxc/internal/target"
	"github.com/rlxc/rlxc/ir"
	"github.com/rlxc/rlxc/planner"
)

// A mark says how a value differs from the same value of the Bound before.
type mark uint8

const (
	typed  mark = 1 << iota // another type
	placed                  // another offset or other strides
	filled                  // other content of the constant that the value is or shows
)

// An evaluation is a call of Plan.Bind under way. It changes the graph and the tables of its Bound, which no caller has yet.
type evaluation struct {
	*Plan
	*Bound
	from    *Bound      // the Bound before, or what New has planned
	all     bool        // all nodes are visited, since there is no Bound before
	changed ir.Symbols  // symbols whose numbers differ from those of from
	layouts []ir.Layout // Planned.Layouts, indexed by the ID of the value
	marks   []mark      // how each value differs from the same value of from, indexed by ID
	// visited[i] is whether the types or layouts of node i are computed again. A node that is not visited has those of from.
	visited []bool
	// follows[i] is whether the types or layouts of node i are copied from the node that it is like.
	follows []bool
}

// Bind evaluates the decisions at some sizes. It begins with a copy of the graph and the tables of from, whose steps stay where nothing
// has changed. If from is nil, all steps are made. The error is an *Unfit if a decision does not hold.
func (p *Plan) Bind(sizes ir.Binding, from *Bound) (*Bound, error) {
	all := from == nil
	if all {
		from = p.planned
	}
	old := from.Planned
	g, folded, values := old.Graph.Copy(from.folded)
	problem := *old.Problem
	problem.Buffers = slices.Clone(problem.Buffers)
	pl := &backend.Planned{Graph: g, Steps: make([]*ir.Node, len(old.Steps)), Layouts: slices.Clone(old.Layouts),
		Buffers: old.Buffers, Scratch: old.Scratch, Problem: &problem, Like: slices.Repeat([]int{-1}, len(old.Steps))}
	for i := range pl.Layouts {
		if l := &pl.Layouts[i]; l.Root != nil {
			l.Root = values[l.Root.ID]
		}
	}
	for i, n := range g.Nodes {
		if step := p.nodes[i].step; step >= 0 {
			pl.Steps[step] = n
		}
	}
	b := &Bound{Sizes: sizes, Planned: pl, values: values, folded: folded, flops: slices.Clone(from.flops)}
	for _, v := range from.Held {
		b.Held = append(b.Held, values[v.ID])
	}
	e := &evaluation{Plan: p, Bound: b, from: from, all: all, changed: p.trace.Changed(from.Sizes, sizes), layouts: pl.Layouts,
		marks: make([]mark, len(values)), visited: make([]bool, len(p.nodes)), follows: make([]bool, len(p.nodes))}
	for _, phase := range []func() error{e.types, e.layOut, e.decide, e.buffers, e.offsets} {
		if err := phase(); err != nil {
			return nil, err
		}
	}
	return b, nil
}

// types is phase 1: types of all values, fields of ops, and the content of constants that depend on sizes.
func (e *evaluation) types() error {
	for i, v := range e.Planned.Graph.Inputs {
		t, err := ir.MapType(e.inputs[i], e.Sizes.Number)
		if err != nil {
			return &ir.InputError{Input: v.Name, Err: err}
		}
		e.retype(v, t)
	}
	for i, n := range e.Bound.folded {
		d := &e.Plan.folded[i]
		if !e.differs(n, d) {
			continue
		}
		if err := e.rebind(n, d); err != nil {
			return err
		}
		if small, err := n.Refold(); err != nil {
			return err
		} else if !small {
			return &Unfit{n, "a constant that is small"}
		}
		for _, v := range n.Outputs {
			e.marks[v.ID] |= filled
		}
	}
	for i, n := range e.Planned.Graph.Nodes {
		d := &e.nodes[i]
		if !e.differs(n, d) {
			continue
		}
		e.visited[i] = true
		if e.follows[i] = d.like >= 0 && e.agree(n, e.Planned.Graph.Nodes[d.like], false); e.follows[i] {
			like := e.Planned.Graph.Nodes[d.like]
			n.Op, e.flops[i] = like.Op, e.flops[d.like]
			for k, v := range n.Outputs {
				e.retype(v, like.Outputs[k].Type)
			}
			continue
		}
		if err := e.rebind(n, d); err != nil {
			return err
		}
		flops, _ := ir.Flops(n).Const()
		e.flops[i] = int64(flops)
	}
	return nil
}

// differs reports whether fields of a node's op or an operand's type or content differ from the Bound before.
func (e *evaluation) differs(n *ir.Node, d *node) bool {
	return e.all || d.inOp&e.changed != 0 || slices.ContainsFunc(n.Inputs, func(v *ir.Value) bool {
		return v != nil && e.marks[v.ID]&(typed|filled) != 0
	})
}

// retype gives a value its type at these sizes.
func (e *evaluation) retype(v *ir.Value, t ir.Type) {
	if e.all || !v.Type.Equal(t) {
		v.Type = t
		e.marks[v.ID] |= typed
	}
}

// rebind gives a node the fields of its op and the types of its results.
func (e *evaluation) rebind(n *ir.Node, d *node) error {
	op := n.Op
	switch {
	case d.source != nil:
		var err error
		if op, err = ir.BindOp(d.source, e.Sizes); err != nil {
			return n.Fail(err)
		}
		if _, is := n.Op.(ir.Materialize); is && op.Kind() != ir.KindMaterialize {
			op = ir.Materialize{View: op}
		}
	case d.isCast:
		op = ir.Reshape{Shape: n.Inputs[0].Type.Shape}
	}
	n.Op = op
	types, err := ir.Infer(n)
	if err != nil {
		return n.Fail(err)
	}
	for k, v := range n.Outputs {
		e.retype(v, types[k])
	}
	return nil
}

// layOut is phase 2: layouts of all values in the buffers that the plan gave them, from types and decisions.
func (e *evaluation) layOut() error {
	t, g := e.o.Target, e.Planned.Graph
	for _, v := range g.Inputs {
		if e.marks[v.ID] != 0 {
			e.layouts[v.ID] = ir.OwnLayout(v)
		}
	}
	for _, n := range e.Bound.folded {
		for _, v := range n.Outputs {
			if e.marks[v.ID] != 0 && e.layouts[v.ID].Root != nil {
				e.layouts[v.ID] = ir.OwnLayout(v)
			}
		}
	}
	for i, n := range g.Nodes {
		d := &e.nodes[i]
		var concat *ir.Node
		if d.concat >= 0 {
			concat = g.Nodes[d.concat]
		}
		if !e.visited[i] && !e.moved(n.Inputs) && (concat == nil || !e.moved(concat.Inputs) && !e.moved(concat.Outputs)) {
			if d.step >= 0 {
				e.Planned.Like[d.step] = e.from.Planned.Like[d.step]
			}
			continue
		}
		e.visited[i] = true
		if d.step < 0 {
			e.marks[n.Outputs[0].ID] |= e.marks[n.Inputs[0].ID] & filled
		}
		if e.follows[i] = e.follows[i] && e.agree(n, g.Nodes[d.like], true); e.follows[i] {
			e.follow(n, g.Nodes[d.like], d)
			continue
		}
		if d.where != t.Where(n) {
			return &Unfit{n, "where it runs"}
		}
		if err := legalize.Again(n, e.layouts, t); err != nil {
			return &Unfit{n, err.Error()}
		}
		for k, v := range n.Outputs {
			l := e.layouts[v.ID]
			if k == 0 && d.step >= 0 {
				l = d.inlay.Layout(n, concat, l.Root, e.Planned.Layout)
			}
			e.setLayout(v, l)
		}
	}
	return nil
}

// follow gives the results of n the layouts of those of m, which it is like, in its own buffers.
func (e *evaluation) follow(n, m *ir.Node, d *node) {
	if d.shares {
		e.Planned.Like[d.step] = e.nodes[d.like].step
	}
	for i, v := range n.Outputs {
		l := e.layouts[m.Outputs[i].ID]
		if l.Root = e.layouts[v.ID].Root; d.step < 0 && l.Root != v {
			l.Offset += e.offset(n.Inputs[0]) - e.offset(m.Inputs[0])
		}
		e.setLayout(v, l)
	}
}

// offset returns the element of its root's memory at which a value begins.
func (e *evaluation) offset(v *ir.Value) int {
	if l := ir.LayoutIn(e.layouts, v); l != nil {
		return l.Offset
	}
	return 0
}

// moved reports whether a value of a list differs from the Bound before.
func (e *evaluation) moved(list []*ir.Value) bool {
	return slices.ContainsFunc(list, func(v *ir.Value) bool { return v != nil && e.marks[v.ID] != 0 })
}

// setLayout gives a value its layout at these sizes.
func (e *evaluation) setLayout(v *ir.Value, l ir.Layout) {
	if e.all {
		e.marks[v.ID] |= placed
	} else if old := &e.from.Planned.Layouts[v.ID]; l.Offset != old.Offset || !slices.Equal(l.Strides, old.Strides) {
		e.marks[v.ID] |= placed
	}
	e.layouts[v.ID] = l
}

// decide is phase 3: it asks the decisions about each node whether they hold.
func (e *evaluation) decide() error {
	t, pl := e.o.Target, e.Planned
	e.Made = make([]int, 0, len(pl.Steps))
	for i, n := range pl.Graph.Nodes {
		d := &e.nodes[i]
		if d.step < 0 {
			continue
		}
		if (e.visited[i] || e.hostTyped(n)) && !d.inlay.Holds(n, d.where, pl.Layout, t) {
			return &Unfit{n, "the memory of its results"}
		}
		if e.visited[i] {
			e.Made = append(e.Made, d.step)
		}
	}
	if len(e.o.Symbols) == 0 {
		return nil
	}
	for i, u := range e.untiled {
		if like := e.untiledLike[i]; like >= 0 && e.agree(u.Node, e.untiled[like].Node, true) {
			continue
		}
		if !u.Holds(e.values, pl.Layouts, t) {
			return &Unfit{u.Node, "steps that are not tiled"}
		}
	}
	for _, v := range pl.Graph.Outputs {
		if !e.memory.Returns(v, pl.Layout(v)) {
			return &Unfit{v.Def, "an output that is the whole of a buffer, in order"}
		}
	}
	return nil
}

// hostTyped reports whether a result of n shares the memory of another value whose type has changed since the Bound that this evaluation
// starts from. Then the size of that memory has changed, even if the types of the operands and results of n have not, and the decision
// that the result fits there has to be evaluated again. For example, n writes [1,4] over the buffer of a value [b,4], and b was 1.
func (e *evaluation) hostTyped(n *ir.Node) bool {
	return slices.ContainsFunc(n.Outputs, func(v *ir.Value) bool { return e.marks[e.layouts[v.ID].Root.ID]&typed != 0 })
}

// buffers is phase 4: sizes of buffers, and what depends on them.
func (e *evaluation) buffers() error {
	pl := e.Planned
	resize := func(v *ir.Value) {
		if pl.Layout(v).Root == v {
			pl.Problem.Buffers[pl.Buffers[v.ID]].Size = bytesOf(v)
		}
	}
	for _, v := range pl.Graph.Inputs {
		resize(v)
	}
	for i, n := range pl.Graph.Nodes {
		d := &e.nodes[i]
		e.Flops = min(e.Flops, math.MaxInt64-e.flops[i]) + e.flops[i]
		if d.step < 0 {
			continue
		}
		if e.visited[i] && !e.resizeScratch(i, n) {
			return &Unfit{n, "the number of its scratch buffers"}
		}
		results := int64(0)
		for _, v := range n.Outputs {
			resize(v)
			if d.where == target.OnHost {
				results += bytesOf(v)
			}
		}
		e.Host = max(e.Host, results)
	}
	if len(e.o.Symbols) > 0 && !e.all {
		if !e.order.Holds(e.memory.Sizes(e.values, e.scratch, pl.Problem.Buffers)) {
			return &Unfit{nil, "the order of the steps"}
		}
	}
	return nil
}

// resizeScratch gives the scratch buffers of node i their sizes. It reports whether the kernel asks for as many as the plan has.
func (e *evaluation) resizeScratch(i int, n *ir.Node) bool {
	pl, d := e.Planned, &e.nodes[i]
	mine := pl.Scratch[d.step]
	if e.follows[i] {
		for k, buffer := range pl.Scratch[e.nodes[d.like].step] {
			pl.Problem.Buffers[mine[k]].Size = pl.Problem.Buffers[buffer].Size
		}
		return true
	}
	sizes := e.o.Target.ScratchThere(d.where, n)
	if len(sizes) != len(mine) {
		return false
	}
	for k, size := range sizes {
		pl.Problem.Buffers[mine[k]].Size = size
	}
	return true
}

func bytesOf(v *ir.Value) int64 { return int64(v.Type.DType.Bytes(v.Type.Elements())) }

// offsets is phase 5: a stack gives the buffers their offsets if the arena is small and allowed; otherwise the planner does.
func (e *evaluation) offsets() (err error) {
	p, pl := e.Plan, e.Planned
	if !e.all {
		for i, s := range p.stacks {
			plan, err := s.Plan(pl.Problem)
			if err != nil || !schedule.Tight(plan.Committed, s.ratio*float64(plan.LowerBound)) ||
				e.memoryOf(plan)+e.Host > e.o.MemoryLimit {
				continue
			}
			pl.Plan = plan
			p.stacks = slices.Insert(slices.Delete(p.stacks, i, i+1), 0, s)
			return nil
		}
	}
	if pl.Plan, err = planner.Solve(pl.Problem, e.o.Planner); err != nil {
		return err
	}
	e.Replanned = !e.all
	if len(e.o.Symbols) > 0 {
		if s, err := planner.NewStack(pl.Problem, pl.Plan); err == nil {
			p.stacks = slices.Insert(p.stacks, 0, stack{s, pl.Plan.Ratio()})
			p.stacks = p.stacks[:min(len(p.stacks), mostStacks)]
		}
	}
	return nil
}
