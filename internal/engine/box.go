package engine

import (
	"errors"
	"fmt"
	"slices"

	"github.com/rlxc/rlxc/internal/backend"
	"github.com/rlxc/rlxc/internal/legalize"
	"github.com/rlxc/rlxc/internal/schedule"
	"github.com/rlxc/rlxc/internal/target"
	"github.com/rlxc/rlxc/ir"
	"github.com/rlxc/rlxc/liveness"
	"github.com/rlxc/rlxc/planner"
)

// A session binds a stage once for a box of sizes. For the sizes of a run, the bound graph gets their numbers where it is: the shape
// rules and the layouts of what depends on those that changed are computed again, a stack gives buffers their offsets, and steps are made
// again. A box has no separate bounds: whatever planning has decided by sizes is asked again, and what a box cannot have goes to another.

// A box is what a bound graph needs to take other sizes, and its bindings to those used last.
type box struct {
	bindings []*Binding // the one used last in front
	last     *Binding   // the one made last
	sizes    ir.Binding // of the graph; nil if it has been left halfway between two

	source *ir.Graph
	trace  *ir.Trace
	inputs []ir.Symbols // on which they depend
	folded []movingNode
	nodes  []movingNode // in the graph's order
	// untiled are nodes that legalize.Tile would have made if the target had accepted them.
	untiled []*ir.Node
	stacks  []stack // the one used last in front
	memory  *liveness.Memory
	floor   *schedule.Need // what every order of the steps needs
	need    *schedule.Need // what theirs does
	ratio   float64        // of these at most, as far as no other order was better
	other   *schedule.Need // what it does if results that are written over parts of buffers are not, or conversely; nil if none can be
	orders  []*schedule.Need
	tables  []*ir.Value // constants of which sizes decide how much is in memory
	hosts   []*ir.Node  // the steps on the host
	file    int64       // bytes of the file that runs read besides
	flops   int64       // of the products that do not depend on sizes
	bytes   int64       // of the heap that another binding takes, about
}

// A movingNode is a node of a bound graph that depends on sizes.
type movingNode struct {
	*ir.Node
	source  *ir.Node // in the symbolic graph; nil for none
	on      ir.Symbols
	inOp    ir.Symbols // those in the op's fields
	where   target.Runs
	over    int      // the operand over which, a part of a buffer, result 0 is written by strides; −1 for none
	into    *ir.Node // the Concat into whose result result 0 is written; nil for none
	step    int      // −1 for none
	early   int      // the step in the graph's order
	flops   int64    // of its products
	scratch []int64
	like    *movingNode // nil for none
	shares  bool        // the step of like
	typed   bool        // like's types of now are its own
}

// A stack has offsets of buffers at any sizes. Where it was made, its arena had a ratio to the lower bound.
type stack struct {
	*planner.Stack
	ratio float64
}

// newBox gives a binding a box: it finds what of it depends on sizes.
func newBox(b *Binding, trace *ir.Trace, source *ir.Graph, untiled []*ir.Node, memory *liveness.Memory, order []int, t *target.Target) {
	steps := (*schedule.Program)(&memory.Footprint)
	x, pl := &box{bindings: []*Binding{b}, last: b, sizes: b.Dims, source: source, trace: trace, untiled: untiled, memory: memory,
		need: schedule.NeedOf(steps, order)}, b.Planned
	if f, used := memory.Within(order); f != nil {
		over := (*schedule.Program)(f)
		if x.other = schedule.NeedOf(over, order); used {
			steps, x.need, x.other = over, x.other, x.need
		}
	}
	x.floor = schedule.Floor(steps)
	x.ratio = float64(x.need.Peak()) / float64(max(1, x.floor.Peak()))
	for _, v := range pl.Graph.Inputs {
		x.inputs = append(x.inputs, trace.Moved(v))
	}
	moving := func(n *ir.Node) movingNode {
		return movingNode{Node: n, source: trace.Source(n), on: trace.Moves(n) | trace.Moved(n.Outputs[0]), inOp: trace.InOp(n), where: t.Where(n), over: -1, step: -1,
			flops: nodeFlops(n)}
	}
	for _, n := range trace.Folded {
		x.folded = append(x.folded, moving(n))
	}
	x.flops = b.flops
	at, early := make(map[*ir.Node]int, len(pl.Steps)), 0
	for i, n := range pl.Steps {
		at[n] = i
	}
	for _, n := range pl.Graph.Nodes { // a Concat comes after its parts
		trace.Move(n)
	}
	for _, n := range pl.Graph.Nodes {
		i, isStep := at[n]
		over, into := -1, (*ir.Node)(nil)
		if isStep {
			early++
			over, into = within(pl, t, n), joins(pl, n)
		}
		trace.Move(n)
		switch { // where result 0 is depends on more than its type
		case over >= 0:
			trace.Follow(n.Outputs[0], n.Inputs[over])
		case into != nil:
			trace.Follow(n.Outputs[0], append(into.Inputs, into.Outputs[0])...)
		}
		if trace.Moves(n)|trace.Moved(n.Outputs[0]) == 0 {
			continue
		}
		m := moving(n)
		m.over, m.into = over, into
		if isStep {
			m.step, m.early = i, early-1
		}
		x.nodes = append(x.nodes, m)
		x.flops -= m.flops
	}
	x.alike(pl, t)
	x.hosts = slices.DeleteFunc(slices.Clone(pl.Steps), func(n *ir.Node) bool { return t.Where(n) != target.OnHost })
	if b.Resident != nil {
		x.file = b.Resident.File
		for _, v := range distinct(pl.Graph) {
			if v.Packed == nil && (isTable(v) || trace.Moved(v) != 0) {
				x.tables = append(x.tables, v)
				x.file -= touched(v)
			}
		}
	}
	b.box = x
	x.bytes = boundBytes(b)
	x.remember(pl)
}

// mostStacks bounds the stacks of a box.
const mostStacks = 8

// remember keeps the stack of a plan in front of others, if it has one.
func (x *box) remember(p *backend.Planned) {
	s, err := planner.NewStack(p.Problem, p.Plan)
	if err != nil {
		return
	}
	x.stacks = slices.Insert(x.stacks, 0, stack{s, p.Plan.Ratio()})
	x.stacks = x.stacks[:min(len(x.stacks), mostStacks)]
}

// errUnfit is a box that cannot have some sizes.
var errUnfit = errors.New("the box cannot have these sizes")

// resize binds the graph of a box to other sizes.
func (p *Program) resize(x *box, sizes ir.Binding) (*Binding, error) {
	t, old := p.target(), x.last
	b := &Binding{Dims: sizes, outside: old.outside, grown: old.grown, intact: old.intact, Host: old.Host, Planned: old.Planned, box: x}
	changed, pl := x.trace.Changed(x.sizes, sizes), b.Planned
	x.sizes = nil
	if err := x.retype(b, sizes, changed); err != nil {
		return nil, err
	}
	if err := x.rebindAll(pl, sizes, changed); err != nil {
		return nil, err
	}
	steps, err := x.layOut(pl, t, changed)
	if err != nil {
		return nil, err
	}
	b.flops = x.flops
	for i := range x.nodes {
		b.flops += x.nodes[i].flops
	}
	if slices.ContainsFunc(x.untiled, func(n *ir.Node) bool { return legalize.Accepts(n, pl.Layouts, t) }) {
		return nil, errUnfit
	}
	for _, v := range pl.Graph.Outputs {
		l := pl.Layout(v)
		if !l.Contiguous() || x.memory.IsDeviceTensor(v) && (l.Offset != 0 || bytesOf(v) != bytesOf(l.Root)) {
			return nil, errUnfit
		}
	}
	b.host = p.hostBytes(x.hosts)
	if need := x.need.Peak(); !x.ordered(need) || !x.weighed(need) {
		return nil, errUnfit
	}
	err = p.assignOffsets(b)
	if err == nil {
		err = p.check(b, old, steps, nil)
	}
	if err == nil {
		b.program, err = old.program.Refit(steps)
	}
	if err != nil {
		return nil, err
	}
	if b.program == old.program {
		b.instance = old.instance
	}
	x.settle(b)
	b.results = resultsOf(pl.Graph)
	x.last, x.sizes = b, sizes
	return b, nil
}

// rebindAll gives the results of all nodes their types of now. Layouts and buffers come after it, since they may depend on the type of a
// node that comes later: the stride of a part of a Concat on the rows of the Concat's result.
func (x *box) rebindAll(pl *backend.Planned, sizes ir.Binding, changed ir.Symbols) error {
	for i := range x.nodes {
		n := &x.nodes[i]
		if n.on&changed == 0 {
			continue
		}
		if n.typed = n.like != nil && agree(pl, n, n.like, false); n.typed {
			n.followType()
			continue
		}
		if err := x.rebind(n, sizes, changed); err != nil {
			return err
		}
		n.flops = nodeFlops(n.Node)
	}
	return nil
}

// layOut gives the results of all nodes their layouts, then the buffers their sizes. It fails where planning would have decided otherwise
// about a node. It returns the steps that changed.
func (x *box) layOut(pl *backend.Planned, t *target.Target, changed ir.Symbols) (steps []int, err error) {
	steps = make([]int, 0, len(pl.Steps))
	for i := range x.nodes {
		n := &x.nodes[i]
		if n.on&changed == 0 {
			continue
		}
		if n.typed && agree(pl, n, n.like, true) {
			n.followLayout(pl)
		} else if err := x.renew(n, pl, t); err != nil {
			return nil, err
		}
		if n.step >= 0 {
			steps = append(steps, n.step)
		}
	}
	for i := range x.nodes {
		if n := &x.nodes[i]; n.step >= 0 && n.on&changed != 0 && !x.refills(pl, t, n) {
			return nil, errUnfit
		}
	}
	return steps, nil
}

// renew lays the results of a node out and asks again what planning has decided about it.
func (x *box) renew(n *movingNode, pl *backend.Planned, t *target.Target) error {
	if n.where != t.Where(n.Node) || legalize.Again(n.Node, pl.Layouts, t) != nil {
		return errUnfit
	}
	if n.over >= 0 {
		pl.Layouts[n.Outputs[0].ID] = pl.Layout(n.Inputs[n.over])
	}
	if n.into != nil {
		v, start := n.Outputs[0], 0
		axis := n.into.Op.(ir.Concat).Axis
		for _, x := range n.into.Inputs[:slices.Index(n.into.Inputs, v)] {
			start += x.Type.Sizes()[axis]
		}
		pl.Layouts[v.ID] = liveness.Part(v, n.into.Outputs[0], axis, start)
	}
	if n.step >= 0 {
		n.scratch, pl.Like[n.step] = t.ScratchThere(n.where, n.Node), -1
	}
	return nil
}

// weighed reports whether writing results over parts of buffers, or not doing so, is still what needs less, or about as much.
func (x *box) weighed(need int64) bool {
	return x.other == nil || tight(need, float64(x.other.Peak()))
}

// ordered reports whether no other order of the steps that is known needs less by more than a little. It looks for one where the order
// needs more, for what every order does, than where it was known to be good.
func (x *box) ordered(need int64) bool {
	floor := float64(x.floor.Peak())
	better := func(o *schedule.Need) bool { return !tight(need, float64(o.Peak())) }
	if slices.ContainsFunc(x.orders, better) {
		return false
	}
	if tight(need, x.ratio*floor) {
		return true
	}
	other := schedule.NeedOf(x.floor.Program, schedule.Order(x.floor.Program))
	x.orders = append(x.orders[max(0, len(x.orders)-mostOrders+1):], other)
	if better(other) {
		return false
	}
	x.ratio = float64(need) / floor
	return true
}

// mostOrders bounds the other orders that a box knows.
const mostOrders = 8

// settle estimates the resident memory again.
func (x *box) settle(b *Binding) {
	if x.last.Resident == nil {
		return
	}
	r := *x.last.Resident
	r.Arena, r.Inputs, r.File = b.Planned.Plan.Committed, inputBytes(b.Planned.Graph), x.file
	for _, v := range x.tables {
		r.File += touched(v)
	}
	b.Resident = &r
}

// retype gives the inputs and what was folded other sizes.
func (x *box) retype(b *Binding, sizes ir.Binding, changed ir.Symbols) error {
	pl := b.Planned
	for i, v := range x.source.Inputs {
		if x.inputs[i]&changed == 0 {
			continue
		}
		bound, err := ir.MapType(v.Type, sizes.Number)
		if err != nil {
			return &ir.InputError{Input: v.Name, Err: err}
		}
		if axis := b.outside.at(i).axis; axis >= 0 {
			bound.Shape = permuted(bound.Shape, front(axis, len(bound.Shape)))
		}
		in := pl.Graph.Inputs[i]
		in.Type = bound
		pl.Layouts[in.ID] = ir.OwnLayout(in)
		refill(pl, in)
		x.memory.ResizeInput(in)
	}
	for i := range x.folded {
		n := &x.folded[i]
		if n.on&changed == 0 {
			continue
		}
		if err := x.rebind(n, sizes, changed); err != nil {
			return err
		}
		if small, err := n.Refold(); err != nil {
			return err
		} else if !small {
			return errUnfit
		}
		for _, v := range n.Outputs {
			if pl.Layouts[v.ID].Root != nil {
				pl.Layouts[v.ID] = ir.OwnLayout(v)
			}
		}
	}
	return nil
}

// rebind binds a node to other sizes, in the form that it has.
func (x *box) rebind(n *movingNode, sizes ir.Binding, changed ir.Symbols) error {
	op := n.Op
	if n.inOp&changed != 0 {
		var err error
		if op, err = ir.BindOp(n.source.Op, sizes); err != nil {
			return n.Fail(err)
		}
	}
	switch old := n.Op.(type) {
	case ir.Materialize:
		if _, was := op.(ir.Materialize); !was {
			op = ir.Materialize{View: op}
		}
	case ir.Reshape:
		if n.source != nil && n.source.Op.Kind() == ir.KindCast { // to the same type
			op = ir.Reshape{Shape: n.Inputs[0].Type.Shape}
		}
	case ir.Concat, ir.Append:
		rank := len(n.Outputs[0].Type.Shape)
		now, _ := lengthens(old, rank)
		if l, _ := lengthens(op, rank); l.axis != now.axis { // it was put in front
			op = l.front
		}
	}
	return n.Rebind(op)
}

// refill gives the buffer of a root the size that it needs now.
func refill(pl *backend.Planned, root *ir.Value) {
	pl.Problem.Buffers[pl.Buffers[root.ID]].Size = bytesOf(root)
}

// refills gives the buffers of a step the sizes that they need now. It reports whether what shares one may do so still.
func (x *box) refills(pl *backend.Planned, t *target.Target, n *movingNode) bool {
	for i, v := range n.Outputs {
		if root := pl.Layout(v).Root; root == v {
			refill(pl, v)
		} else if n.over >= 0 && i == 0 {
			if !t.StridedResult(n.Node, pl.Layout(v).Strides) || !t.InPlace(n.Node, n.over) || !v.Type.Equal(n.Inputs[n.over].Type) ||
				!liveness.Apart(n.Node, n.over, pl.Layout) {
				return false
			}
		} else if n.into != nil && i == 0 {
			if !t.StridedResult(n.Node, pl.Layout(v).Strides) {
				return false
			}
		} else if bytesOf(v) != bytesOf(root) || !takesOver(pl, t, n, root) {
			return false
		}
	}
	if len(n.scratch) != len(pl.Scratch[n.step]) {
		return false
	}
	for k, size := range n.scratch {
		pl.Problem.Buffers[pl.Scratch[n.step][k]].Size = size
	}
	x.memory.Resize(n.early, n.scratch)
	return true
}

// within returns the operand, a part of a buffer, over which a node writes its result; −1 for none.
func within(pl *backend.Planned, t *target.Target, n *ir.Node) int {
	v := n.Outputs[0]
	l := pl.Layout(v)
	if l.Root == v || l.Offset == 0 && bytesOf(v) == bytesOf(l.Root) && l.Contiguous() {
		return -1
	}
	return slices.IndexFunc(n.Inputs, func(x *ir.Value) bool {
		if x == nil || !x.Type.Equal(v.Type) || !t.InPlace(n, slices.Index(n.Inputs, x)) {
			return false
		}
		from := pl.Layout(x)
		return from.Root == l.Root && from.Offset == l.Offset && slices.Equal(from.Strides, l.Strides)
	})
}

// joins returns the Concat into whose result a node writes its own.
func joins(pl *backend.Planned, n *ir.Node) *ir.Node {
	v := n.Outputs[0]
	for _, u := range v.Uses {
		if u.Node.Op.Kind() == ir.KindConcat && pl.Layout(v).Root == u.Node.Outputs[0] {
			return u.Node
		}
	}
	return nil
}

// fixed reports whether the operands of a Concat keep their sizes along its axis in the box of a trace.
func fixed(trace *ir.Trace, concat *ir.Node) bool {
	if trace == nil || trace.Moves(concat) == 0 {
		return true
	}
	source := trace.Source(concat)
	if source == nil {
		return false
	}
	op, ok := source.Op.(ir.Concat)
	return ok && op == concat.Op && !slices.ContainsFunc(source.Inputs, func(v *ir.Value) bool {
		_, isConst := v.Type.Shape[op.Axis].Const()
		return !isConst
	})
}

// takesOver reports whether the kernel of a node may write its result over a root, of which it reads the whole.
func takesOver(pl *backend.Planned, t *target.Target, n *movingNode, root *ir.Value) bool {
	for k, v := range n.Inputs {
		if v == nil {
			continue
		}
		l := &pl.Layouts[v.ID]
		if l.Root == root && (l.Offset != 0 || bytesOf(v) != bytesOf(root) || !l.Contiguous() || !t.InPlaceThere(n.where, n.Node, k)) {
			return false
		}
	}
	return true
}

func bytesOf(v *ir.Value) int64 { return int64(v.Type.DType.Bytes(v.Type.Elements())) }

// tight reports whether bytes are at most half a hundredth above others, or, since rounding adds more to small ones, half a page: an order
// and a stack may both be.
func tight(bytes int64, least float64) bool { return float64(bytes) <= max(1.005*least, least+2048) }

// assignOffsets gives the buffers of a binding their offsets: by a stack of its box if the arena is small and allowed, otherwise by a plan
// of these sizes alone.
func (p *Program) assignOffsets(b *Binding) error {
	pl := b.Planned
	defer func() {
		if pl.Plan != nil {
			b.arena = pl.Plan.Committed
		}
	}()
	if x := b.box; x != nil {
		for i, s := range x.stacks {
			plan, err := s.Plan(pl.Problem)
			if err != nil || !tight(plan.Committed, s.ratio*float64(plan.LowerBound)) || p.allow(b, plan) != nil {
				continue
			}
			pl.Plan = plan
			x.stacks = slices.Insert(slices.Delete(x.stacks, i, i+1), 0, s)
			return nil
		}
	}
	options, err := planner.FromEnv(planner.Activations())
	if err != nil {
		return err
	}
	if p.opts.Mode != planner.Auto {
		options.Mode = p.opts.Mode
	}
	options.Alignment, options.Segment = p.target().Align, p.target().Segment
	if pl.Plan, err = planner.Solve(pl.Problem, options); err != nil {
		return err
	}
	if b.box != nil {
		b.box.remember(pl)
		p.cache.plannedAgain()
	}
	return p.allow(b, pl.Plan)
}

// allow reports what of a plan is above the limits.
func (p *Program) allow(b *Binding, plan *planner.Plan) error {
	needs := plan.Committed
	for _, u := range plan.Unplanned {
		needs += b.Planned.Problem.Buffers[u.Buffer].Size
	}
	if limit := p.opts.MemoryLimit; needs+b.host > limit {
		return WithKind(ErrMemory, &tooMuch{b.Dims, needs, b.host, limit})
	}
	if most := p.opts.MaxFlops; most > 0 && b.flops > most {
		return WithKind(ErrWork, fmt.Errorf("at %s the products need %d operations, the limit is %d", describe(b.Dims), b.flops,
			most))
	}
	return nil
}

// tooMuch is a plan above the memory limit.
type tooMuch struct {
	sizes              ir.Binding
	arena, host, limit int64
}

func (e *tooMuch) Error() string {
	beside := ""
	if e.host > 0 {
		beside = fmt.Sprintf(" with %d beside it for a step on the host", e.host)
	}
	return fmt.Sprintf("at %s the arena needs %d bytes%s, the limit is %d", describe(e.sizes), e.arena, beside, e.limit)
}

// boxed returns the binding for the sizes of the run of a stage that has boxes, and its instance.
func (f *frame) boxed(i int) (*Binding, error) {
	seg, p, prog := &f.stages[i], &f.parts[i], f.s.p
	if !slices.Equal(p.outside, p.boxesAt) {
		p.boxes, p.boxesAt = nil, p.outside
	}
	p.boxes = slices.DeleteFunc(p.boxes, func(e *entry) bool { return !prog.cache.has(e) })
	for _, e := range p.boxes {
		x := e.binding.box
		for k, b := range x.bindings {
			if slices.Equal(b.sizes, p.sizes) {
				x.bindings = slices.Insert(slices.Delete(x.bindings, k, k+1), 0, b)
				return b, nil
			}
		}
	}
	sizes, inOrder := restrict(f.sizes, seg.symbols), slices.Clone(p.sizes)
	for k, e := range p.boxes {
		x := e.binding.box
		most := prog.mostBindings(x)
		b, err := prog.resize(x, sizes)
		if err != nil { // the box made for these sizes says what is wrong with them, if something is
			if most == 1 {
				x.bindings = nil // its program is of the graph as it is now
			}
			continue
		}
		p.boxes = slices.Insert(slices.Delete(p.boxes, k, k+1), 0, e)
		b.sizes, x.bindings = inOrder, slices.Insert(x.bindings, 0, b)
		surplus := max(0, len(x.bindings)-most)
		x.bindings = slices.Delete(x.bindings, len(x.bindings)-surplus, len(x.bindings))
		prog.cache.add(e, x.bytes*int64(1-surplus))
		return b, nil
	}
	if n := len(p.boxes); n == mostBoxes {
		prog.cache.drop(p.boxes[n-1])
		p.boxes = p.boxes[:n-1]
	}
	f.s.boxes++
	key := cacheKey{stage: seg, of: f.s, box: f.s.boxes}
	e, err := prog.cache.bind(key, func() (*Binding, error) { return prog.plan(seg.graph, sizes, p.outside, seg.symbols) })
	if err != nil {
		prog.cache.drop(e)
		return nil, err
	}
	e.binding.sizes, p.boxes = inOrder, slices.Insert(p.boxes, 0, e)
	return e.binding, nil
}

// mostBoxes bounds the boxes that a session has of a stage.
const mostBoxes = 8

// mostBindings bounds the bindings of a box: all boxes together may fill a quarter of the cache with them. A device that does not
// resize has one program, which changes; a profile shows the graph.
func (p *Program) mostBindings(x *box) int {
	if p.opts.Profile || !p.device.Target().Resizes {
		return 1
	}
	return int(max(p.cache.share()/4/x.bytes, 1))
}
