// Package bind plans a symbolic graph and binds it to sizes. Planning chooses: which views need copies, which products run in tiles, in
// which order steps run, which results share memory. A Plan holds these choices as values. Bind
// evaluates them at the sizes of the plan and at others, by the same phases. It returns a Bound, which is immutable.
//
// # An example
//
// A program of two symbols, planned at batch=2, seq=3, whose products are written where a Concat wants them:
//
//	%2 "a" = matmul(%0 "x", %1 "w")      f32[batch,seq,4]  step 0, part of step 2
//	%3 "b" = matmul(%0, %4 "v")          f32[batch,seq,4]  step 1, part of step 2
//	%5 "c" = concat(%2, %3) {axis=2}     f32[batch,seq,8]  step 2
//	%6 "last" = slice(%5) {starts=[0,seq-1,0], sizes=[batch,1,8]}   a view
//	%7 "y" = relu(%6)                    f32[batch,1,8]    step 3
//
// Bind at batch=2, seq=5 starts with a copy of the graph of the binding before it, and runs these phases, each over the whole graph. No
// phase reads what a later phase writes.
//
//  1. Types. seq has changed, so "x" is [2,5,4], and the shape rules say [2,5,4] for "a" and "b", [2,5,8] for "c" and [2,1,8], as before,
//     for "last" and "y". The field starts of "last" is [0,4,0].
//  2. Layouts. "c" is row-major with strides [40,8,1]. "b" is a part of "c": offset 4, with the same strides. This needs the type of "c",
//     which comes later in the graph. "last" has offset 32, strides [40,8,1]. legalize reports whether each view is still possible.
//  3. Decisions. Each decision reports whether it holds at the new types and layouts: the kernel of "a" must still write by the strides
//     [40,8,1]. If one does not hold, Bind returns an *Unfit that names it, and the caller makes another plan.
//  4. Buffers. "c" needs 2·5·8·4 = 320 bytes. schedule reports whether the order of the steps is still a good one.
//  5. Offsets. A stack from an earlier plan of the buffers gives each one an offset; the planner does if no stack fits well.
//  6. Steps. A step is made again if its op, or the type, the layout or the constant content of an operand or a result differs from the
//     binding before it. Here all steps are: "y" has its old type, but it reads "last" at another offset.
package bind

import (
	"slices"

	"github.com/rlxc/rlxc/internal/backend"
	"github.com/rlxc/rlxc/internal/legalize"
	"github.com/rlxc/rlxc/internal/schedule"
	"github.com/rlxc/rlxc/internal/target"
	"github.com/rlxc/rlxc/ir"
	"github.com/rlxc/rlxc/liveness"
	"github.com/rlxc/rlxc/planner"
)

// Options are what planning needs to know besides the graph and the sizes.
type Options struct {
	// Target is the device's target.
	Target *target.Target
	// Fold makes small results that depend on sizes alone constants.
	Fold bool
	// Symbols are the symbols that may have other numbers in calls of Next; nil if there are none.
	Symbols []string
	// Edit changes the bound graph before it is legalised. It records replaced nodes in the trace. It returns the
	// values that should be device tensors, and symbolic types of the graph's inputs in their order, with the axes as in the edited graph.
	Edit func(bound *ir.Graph, trace *ir.Trace) (device []*ir.Value, inputs []ir.Type, err error)
	// Policy and PinOutputAncestors are those of liveness.Options.
	Policy             liveness.Policy
	PinOutputAncestors bool
	// Planner are the options of plans of offsets.
	Planner planner.Options
	// MemoryLimit is the number of bytes above which the plan of a stack is not taken: Bound.Memory and Host. The planner's own plan
	// may need more.
	MemoryLimit int64
}

// A Plan has the decisions of planning a graph. Each holds at all sizes, or is asked again at every size. One goroutine at a time evaluates
// a Plan, since stacks and order learn from sizes.
type Plan struct {
	o      Options   // options of New
	trace  *ir.Trace // sources of the nodes of planned, and numbers of the symbols
	inputs []ir.Type // symbolic types of the inputs
	nodes  []node    // decisions for each node, indexed as Graph.Nodes of each Bound
	// folded are the nodes whose results are constants that depend on symbols, in order; inOp are the symbols in fields of their ops.
	folded  []node
	untiled []legalize.Untiled // chains of the planned graph that the target did not accept
	// untiledLike holds, by index in untiled, an earlier chain that the target accepts if it accepts this one, as long as their operands
	// agree; −1 for none.
	untiledLike []int
	scratch     [][]int // the scratch buffers of each step, in the graph's order
	// memory has the buffers and the lives of the steps. Its graph is that of planned.
	memory *liveness.Memory
	order  *schedule.Choice // the order of the steps
	// planned is what the first Bound is a copy of: types, layouts and sizes of buffers as planning saw them, and no offsets.
	planned *Bound
	// stacks give offsets at any sizes, the one used last in front; at most mostStacks.
	stacks []stack
}

// A node has the decisions of a plan for one node of the graph.
type node struct {
	source ir.Op          // symbolic op from which the node's op comes; nil if the op has no symbols
	isCast bool           // the node is a Reshape in place of a Cast to its operand's type: its shape is the operand's
	inOp   ir.Symbols     // symbols in source
	where  target.Runs    // where the node runs
	step   int            // position of the step in the order; −1 for a view or a folded node
	inlay  liveness.Inlay // where in another buffer the step writes result 0
	concat int            // index in nodes of the Concat of inlay.Into; −1 for none
	like   int            // index of an earlier node that does the same if its operands agree; −1 for none
	shares bool           // whether the device shares the code of the step of like
}

// New plans a symbolic graph at some sizes.
func New(g *ir.Graph, sizes ir.Binding, o Options) (*Plan, error) {
	t := o.Target
	bound, trace, err := g.BindTraced(sizes, o.Fold, t.Resizes, o.Symbols)
	if err != nil {
		return nil, err
	}
	device, inputs, err := o.Edit(bound, trace)
	if err != nil {
		return nil, err
	}
	layouts, err := legalize.Graph(bound, t)
	if err != nil {
		return nil, err
	}
	layouts, untiled, err := legalize.Tile(bound, layouts, t)
	if err != nil {
		return nil, err
	}
	layouts = constantsLast(bound, trace.Folded, layouts)
	p := &Plan{o: o, trace: trace, inputs: inputs, untiled: untiled}
	p.memory = liveness.New(bound, layouts, t, liveness.Options{Policy: o.Policy, PinOutputAncestors: o.PinOutputAncestors,
		DeviceTensors: device})
	steps := (*schedule.Program)(&p.memory.Footprint)
	order := schedule.Order(steps)
	lives := p.memory.Analyze(order)
	over, used := p.memory.Within(order)
	p.order = schedule.Choose(steps, (*schedule.Program)(over), used, order)
	p.planned = &Bound{Sizes: sizes, Held: lives.Held, folded: trace.Folded, Planned: &backend.Planned{Graph: bound,
		Steps: lives.Steps, Layouts: lives.Layouts[:len(layouts)], Buffers: lives.Buffers, Scratch: lives.Scratch, Problem: &lives.Problem}}
	p.describe(lives)
	if len(o.Symbols) > 0 {
		p.alike()
	}
	return p, nil
}

// constantsLast numbers the values of a planned graph so that constants that no size changes have the highest IDs, and returns the layouts
// of the other values, which are about half of the values of an encoder. Each Bound has tables of these values alone.
func constantsLast(g *ir.Graph, folded []*ir.Node, layouts []ir.Layout) (differing []ir.Layout) {
	values, seen := slices.Clone(g.Inputs), make(map[*ir.Value]bool, g.NumValues())
	for _, n := range slices.Concat(folded, g.Nodes) {
		values = append(values, n.Outputs...)
	}
	for _, v := range values {
		differing, seen[v] = append(differing, layouts[v.ID]), true
	}
	for _, n := range slices.Concat(folded, g.Nodes) {
		for _, v := range n.Inputs {
			if v != nil && !seen[v] {
				values, seen[v] = append(values, v), true
			}
		}
	}
	g.Number(values)
	return differing
}

// describe lists the plan's nodes.
func (p *Plan) describe(lives *liveness.Result) {
	t, g := p.o.Target, p.planned.Planned.Graph
	at, early := make(map[*ir.Node]int, len(lives.Steps)), []int{} // early: by step in the graph's order, its node
	for i, n := range lives.Steps {
		at[n] = i
	}
	of := func(n *ir.Node) node {
		x := node{where: t.Where(n), step: -1, concat: -1, like: -1, inlay: liveness.Inlay{Over: -1, Into: -1}}
		if x.inOp = p.trace.InOp(n); x.inOp != 0 {
			x.source = p.trace.Source(n).Op
		}
		if source := p.trace.Source(n); source != nil {
			_, isReshape := n.Op.(ir.Reshape)
			x.isCast = isReshape && source.Op.Kind() == ir.KindCast
		}
		return x
	}
	for i, n := range g.Nodes {
		x := of(n)
		if step, ok := at[n]; ok {
			x.step, x.inlay = step, lives.Inlays[len(early)]
			early, p.scratch = append(early, i), append(p.scratch, lives.Scratch[step])
		}
		p.nodes = append(p.nodes, x)
	}
	for i := range p.nodes {
		if x := &p.nodes[i]; x.inlay.Into >= 0 {
			x.concat = early[x.inlay.Into]
		}
	}
	for _, n := range p.trace.Folded {
		p.folded = append(p.folded, of(n))
	}
	p.planned.flops, p.planned.values = make([]int64, len(p.nodes)), make([]*ir.Value, g.NumValues())
	for _, n := range g.Nodes {
		for _, v := range slices.Concat(n.Inputs, n.Outputs) {
			if v != nil {
				p.planned.values[v.ID] = v
			}
		}
	}
}

// Graph is the planned graph, of which each Bound has a copy. It must not be changed.
func (p *Plan) Graph() *ir.Graph { return p.planned.Planned.Graph }

// IsDeviceTensor reports whether an input or output of Graph has memory outside of the arena.
func (p *Plan) IsDeviceTensor(v *ir.Value) bool { return p.memory.IsDeviceTensor(v) }

// Source returns the symbolic node from which a node of Graph was made; nil if there is none. Nodes of a Bound have the same order.
func (p *Plan) Source(i int) *ir.Node { return p.trace.Source(p.planned.Planned.Graph.Nodes[i]) }

// Resizes reports whether the plan is for other sizes, too.
func (p *Plan) Resizes() bool { return len(p.o.Symbols) > 0 }

// Stack returns the stack of the last binding: by buffer, the buffers below it. ok is false if there is none.
func (p *Plan) Stack() (below [][]int, ok bool) {
	if len(p.stacks) == 0 {
		return nil, false
	}
	return p.stacks[0].Below, true
}
