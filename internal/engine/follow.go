package engine

import (
	"errors"
	"maps"
	"math/bits"
	"slices"

	"github.com/rlxc/rlxc/internal/backend"
	"github.com/rlxc/rlxc/internal/legalize"
	"github.com/rlxc/rlxc/internal/ops"
	"github.com/rlxc/rlxc/internal/target"
	"github.com/rlxc/rlxc/ir"
)

// A decoder runs at another length in every step. Its plan is made once for lengths up to a capacity: buffers have the sizes that they need
// there and stay where they are. What depends on the length, a few nodes a layer, is bound to the length of each run in place.

// A follower remembers the sizes of a session's last run of a segment, and the capacities that plans were made for.
type follower struct {
	last       ir.Binding
	places     places
	capacities []capacity
	off        bool // a plan could not follow
}

// A capacity is the numbers that a plan was made for. Those of the symbols that move may be smaller, all by as much.
type capacity struct {
	sizes ir.Binding
	moves map[string]bool
}

// covers reports whether a plan for the capacity can have some sizes.
func (c capacity) covers(b ir.Binding) bool {
	less := -1
	for name, most := range c.sizes {
		d := most - b[name]
		switch {
		case !c.moves[name]:
			if d != 0 {
				return false
			}
		case d < 0 || less >= 0 && d != less:
			return false
		default:
			less = d
		}
	}
	return true
}

// smallestCapacity is that of the shortest texts; each next one is twice as large.
const smallestCapacity = 64

// grownTo returns the capacity for a run at b after one at last, if the segment lengthens its inputs and some sizes have grown by as much.
func (s *segment) grownTo(b, last ir.Binding) (capacity, bool) {
	if s.added == nil || len(last) != len(b) {
		return capacity{}, false
	}
	c, by, most := capacity{moves: map[string]bool{}}, 0, 0
	for name, n := range b {
		d := n - last[name]
		if d == 0 {
			continue
		}
		if d < 0 || by != 0 && d != by {
			return c, false
		}
		c.moves[name], by, most = true, d, max(most, n)
	}
	moves := func(added map[string]bool) bool {
		for name := range added {
			if c.moves[name] {
				return true
			}
		}
		return false
	}
	if by == 0 || most > maxCapacity || !slices.ContainsFunc(s.added, func(added map[string]bool) bool { return !moves(added) }) {
		return c, false
	}
	c.sizes = maps.Clone(b)
	for name := range c.moves {
		c.sizes[name] += max(1<<bits.Len(uint(most-1)), smallestCapacity) - most
	}
	return c, true
}

// maxCapacity bounds the sizes for which there are capacities.
const maxCapacity = 1 << 24

// halved is a capacity with half of the room beyond some sizes.
func (c capacity) halved(b ir.Binding) (capacity, bool) {
	h, more := capacity{maps.Clone(b), c.moves}, false
	for name := range c.moves {
		room := (c.sizes[name] - b[name]) / 2
		h.sizes[name] += room
		more = room > 0
	}
	return h, more
}

// lengthened returns the sizes by which a graph makes inputs longer, for each node that does so.
func lengthened(g *ir.Graph) (all []map[string]bool) {
	for _, n := range g.Nodes {
		rank := len(n.Outputs[0].Type.Shape)
		l, ok := lengthens(n.Op, rank)
		if !ok || rank < 3 || !n.HasOperand(l.operand) || !fromInput(n.Inputs[l.operand]) {
			continue
		}
		by := map[string]bool{}
		for i, x := range n.Inputs {
			if i != l.operand && i != l.beside {
				x.Type.Shape[l.axis].Symbols(by)
			}
		}
		all = append(all, by)
	}
	return all
}

// Lengthened returns the axis on which the program makes an input longer, −1 if it does not. The input is shared if it has the room for
// that.
func (p *Program) Lengthened(input int) (axis int, shared bool) {
	return lengthenedBy(p.graph, p.graph.Inputs[input])
}

func lengthenedBy(g *ir.Graph, v *ir.Value) (axis int, shared bool) {
	for _, n := range g.Nodes {
		l, ok := lengthens(n.Op, len(n.Outputs[0].Type.Shape))
		if ok && n.HasOperand(l.operand) {
			if x, axis := origin(n.Inputs[l.operand], l.axis); x == v {
				return axis, ir.Same(n.Outputs[0].Type.Shape[l.axis], n.Inputs[l.operand].Type.Shape[l.axis]) == ir.Yes
			}
		}
		if op, ok := n.Op.(ops.If); ok {
			for b, args := range [][]*ir.Value{n.Inputs[1 : 1+op.ThenInputs], n.Inputs[1+op.ThenInputs:]} {
				if i := slices.Index(args, v); i >= 0 {
					if axis, shared := lengthenedBy(n.Subgraphs[b], n.Subgraphs[b].Inputs[i]); axis >= 0 {
						return axis, shared
					}
				}
			}
		}
	}
	return -1, false
}

// origin is the value of which v is a cast or a transposition, and the axis of it that v has on an axis.
func origin(v *ir.Value, axis int) (*ir.Value, int) {
	for v.Def != nil {
		switch op := v.Def.Op.(type) {
		case ir.Cast:
		case ir.Transpose:
			axis = op.Perm[axis]
		default:
			return v, axis
		}
		v = v.Def.Inputs[0]
	}
	return v, axis
}

// fromInput reports whether a value is an input, or one in another form.
func fromInput(v *ir.Value) bool {
	for v.Def != nil {
		if k := v.Def.Op.Kind(); !k.Has(ir.View) && k != ir.KindCast {
			return false
		}
		v = v.Def.Inputs[0]
	}
	return !v.IsConst()
}

// followed returns the plan that the session has for these sizes among others; nil if it has none and needs none.
func (f *frame) followed(i int) (*entry, error) {
	seg, p := &f.segments[i], &f.parts[i]
	w := &p.follow
	if seg.added == nil || w.off || !f.s.p.device.Target().Refits {
		return nil, nil
	}
	b, last := restrict(f.sizes, seg.symbols), w.last
	if w.last = b; !slices.Equal(p.outside, w.places) {
		w.places, w.capacities, last = p.outside, nil, nil
	}
	for _, c := range w.capacities {
		if c.covers(b) {
			return f.fitted(i, c, b)
		}
	}
	c, ok := seg.grownTo(b, last)
	for ok {
		e, err := f.fitted(i, c, b)
		if e != nil && err == nil {
			w.capacities = append(w.capacities, c)
			slices.SortFunc(w.capacities, func(c, d capacity) int { return c.room() - d.room() })
			return e, nil
		}
		c, ok = c.halved(b) // positions beyond a table, or more memory than there may be
	}
	return nil, nil
}

// room is the largest size that moves.
func (c capacity) room() (most int) {
	for name := range c.moves {
		most = max(most, c.sizes[name])
	}
	return most
}

// fitted returns a plan for a capacity, bound to some sizes; nil if it cannot have them.
func (f *frame) fitted(i int, c capacity, b ir.Binding) (*entry, error) {
	seg, p, outside := &f.segments[i], f.s.p, f.parts[i].outside
	key := keyOf(seg, c.sizes, outside)
	key.of = f.s
	e, err := p.cache.bind(key, func() (*Binding, error) { return p.plan(seg.graph, c.sizes, outside, c.moves) })
	if err != nil {
		return nil, err
	}
	if maps.Equal(e.binding.Dims, b) {
		return e, nil
	}
	if err := p.refit(e.binding, b); err != nil {
		p.cache.drop(e)
		if errors.Is(err, errUnfit) {
			f.parts[i].follow.off = true
			return nil, nil
		}
		return nil, err
	}
	return e, nil
}

// moving is what of a binding changes with its sizes.
type moving struct {
	trace  *ir.Trace
	source *ir.Graph
	nodes  []*ir.Node  // in the graph's order, without those that were folded
	steps  []int       // those of them that run
	flops  int64       // of the products that do not change
	intact []*ir.Value // what must be there after a run
}

// newMoving finds what of a binding depends on the symbols of its trace.
func newMoving(b *Binding, trace *ir.Trace, source *ir.Graph, intact []*ir.Value) *moving {
	m := &moving{trace: trace, source: source, intact: intact, flops: b.flops}
	moves := map[*ir.Node]bool{}
	for _, n := range b.Planned.Graph.Nodes {
		if trace.Moves(n) {
			trace.Move(n)
			m.nodes, moves[n] = append(m.nodes, n), true
			m.flops -= nodeFlops(n)
		}
	}
	for i, n := range b.Planned.Steps {
		if moves[n] {
			m.steps = append(m.steps, i)
		}
	}
	return m
}

// errUnfit is a binding that cannot have some sizes where its buffers are.
var errUnfit = errors.New("the plan cannot have these sizes")

// refit gives a binding other sizes, which are below those that it was planned for. After an error it is of no use.
func (p *Program) refit(b *Binding, sizes ir.Binding) error {
	m, t, pl := b.moving, p.device.Target(), b.Planned
	b.Dims = sizes
	for i, v := range m.source.Inputs {
		if x := pl.Graph.Inputs[i]; m.trace.Moved(x) {
			bound, err := ir.MapType(v.Type, sizes.Number)
			if err != nil {
				return bindError(&ir.InputError{Input: v.Name, Err: err})
			}
			if axis := b.outside.at(i).axis; axis >= 0 {
				bound.Shape = permuted(bound.Shape, front(axis, len(bound.Shape)))
			}
			x.Type = bound
			pl.Layouts[x.ID] = ir.OwnLayout(x)
		}
	}
	for _, n := range m.trace.Folded {
		if err := errors.Join(m.rebind(n, sizes), n.Refold()); err != nil {
			return bindError(err)
		}
		for _, v := range n.Outputs {
			if pl.Layouts[v.ID].Root != nil {
				pl.Layouts[v.ID] = ir.OwnLayout(v)
			}
		}
	}
	b.flops = m.flops
	for _, n := range m.nodes {
		where := t.Where(n)
		if err := m.rebind(n, sizes); err != nil {
			return bindError(err)
		}
		if where != t.Where(n) || legalize.Again(n, pl.Layouts, t) != nil {
			return errUnfit
		}
		b.flops += nodeFlops(n)
	}
	if !m.fits(pl, t) {
		return errUnfit
	}
	if p.opts.Verify {
		if err := verify(pl, t, m.intact); err != nil {
			return err
		}
	}
	if err := b.program.(backend.Refitter).Refit(m.steps); err != nil {
		return bindError(err)
	}
	return nil
}

// rebind binds a node to other sizes, in the form that it has.
func (m *moving) rebind(n *ir.Node, sizes ir.Binding) error {
	source, op := m.trace.Source(n), n.Op
	if source != nil {
		var err error
		if op, err = ir.BindOp(source.Op, sizes); err != nil {
			return n.Fail(err)
		}
	}
	switch old := n.Op.(type) {
	case ir.Materialize:
		if _, was := op.(ir.Materialize); !was {
			op = ir.Materialize{View: op}
		}
	case ir.Reshape:
		if _, was := op.(ir.Cast); was { // to the same type
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

// fits reports whether what has changed is within its buffers, and what shares one may do so.
func (m *moving) fits(pl *backend.Planned, t *target.Target) bool {
	bytes := func(v *ir.Value) int64 { return int64(v.Type.DType.Bytes(v.Type.Sizes().Elements())) }
	for _, v := range pl.Graph.Outputs {
		if m.trace.Moved(v) && !pl.Layout(v).Contiguous(v.Type.Sizes()) {
			return false
		}
	}
	within := func(v *ir.Value) bool {
		buffer := pl.Buffers[pl.Layout(v).Root.ID]
		if buffer < 0 {
			return true
		}
		if slot, ok := pl.Slot(pl.Layout(v).Root); ok {
			return bytes(v) <= slot.Size
		}
		pl.Problem.Buffers[buffer].Size = bytes(v) // whoever owns the device tensor makes room
		return true
	}
	for _, v := range pl.Graph.Inputs {
		if m.trace.Moved(v) && !within(v) {
			return false
		}
	}
	for _, i := range m.steps {
		n := pl.Steps[i]
		for _, v := range n.Outputs {
			root := pl.Layout(v).Root
			if !within(v) || root != v && !slices.ContainsFunc(n.Inputs, func(x *ir.Value) bool {
				return x != nil && pl.Layout(x).Root == root && bytes(x) == bytes(v)
			}) {
				return false
			}
		}
		for k, size := range t.Scratch(n) {
			if k >= len(pl.Scratch[i]) || size > pl.Plan.Slots[pl.Scratch[i][k]].Size {
				return false
			}
		}
	}
	return true
}
