package engine

import (
	"errors"
	"fmt"
	"slices"

	"github.com/rlxc/rlxc/internal/ops"
	"github.com/rlxc/rlxc/ir"
	"github.com/rlxc/rlxc/tensor"
)

// A growth is the axis on which a device tensor grows and the capacity of its buffer; the capacity is 0 if it does not grow. The buffer has
// that axis in front, so that appends stay contiguous regardless of the capacity.
type growth struct{ axis, capacity int }

// along returns the axis on which a tensor grows, −1 if it does not.
func (r growth) along() int {
	if r.capacity == 0 {
		return -1
	}
	return r.axis
}

// front returns the permutation of rank axes that moves one axis to the front.
func front(axis, rank int) (perm []int) {
	perm = append(perm, axis)
	for i := range rank {
		if i != axis {
			perm = append(perm, i)
		}
	}
	return perm
}

// back is the inverse of front.
func back(axis, rank int) []int {
	perm := make([]int, rank)
	for to, from := range front(axis, rank) {
		perm[from] = to
	}
	return perm
}

func permuted[T any](s []T, perm []int) []T {
	out := make([]T, len(s))
	for i, p := range perm {
		out[i] = s[p]
	}
	return out
}

// fits returns an error if a shape exceeds the capacity of the buffer.
func (r growth) fits(shape tensor.Shape) error {
	switch {
	case r.capacity == 0:
	case r.axis >= len(shape):
		return WithKind(ErrInput, fmt.Errorf("a tensor that grows on axis %d cannot take the shape %v", r.axis, shape))
	case shape[r.axis] > r.capacity:
		return WithKind(ErrInput, fmt.Errorf("a growing tensor has a capacity of %d on axis %d, and %d are needed: make one with more",
			r.capacity, r.axis, shape[r.axis]))
	}
	return nil
}

// whole returns the shape of the whole buffer for the other axes of shape.
func (r growth) whole(shape tensor.Shape) tensor.Shape {
	if r.capacity == 0 {
		return shape
	}
	shape = shape.Clone()
	shape[r.axis] = r.capacity
	return shape
}

// stored permutes a tensor to the order of axes in the buffer, and shown permutes it back.
func (r growth) stored(t *tensor.Tensor) (*tensor.Tensor, error) { return r.permute(t, front) }
func (r growth) shown(t *tensor.Tensor) (*tensor.Tensor, error)  { return r.permute(t, back) }

func (r growth) permute(t *tensor.Tensor, way func(axis, rank int) []int) (*tensor.Tensor, error) {
	if r.capacity == 0 {
		return t, nil
	}
	out, err := ir.EvalOp(&ir.Env{}, ir.Transpose{Perm: way(r.axis, len(t.Shape()))}, []*tensor.Tensor{t})
	if err != nil {
		return nil, err
	}
	return out[0], nil
}

// order returns a shape in the order of axes of the buffer.
func (r growth) order(shape tensor.Shape) tensor.Shape {
	if r.capacity == 0 {
		return shape
	}
	return permuted(shape, front(r.axis, len(shape)))
}

// front moves the growing axis of the inputs and outputs of a bound graph to the front. A concatenation on that axis becomes one in front,
// and shares memory with its first operand if that is an input of the same device tensor. grown holds the index of that input for each
// output, −1 for none.
func (p ports) front(g *ir.Graph, trace *ir.Trace) (grown []int, err error) {
	grown = slices.Repeat([]int{-1}, len(g.Outputs))
	if p.growing() == 0 {
		return grown, nil
	}
	t := &axisMover{Graph: g, trace: trace, whole: map[*ir.Value]*ir.Value{}}
	nodes := g.Nodes
	g.Nodes = make([]*ir.Node, 0, len(nodes)+8)
	for i := range g.Inputs {
		if axis := p.at(i).axis; axis >= 0 {
			t.input(i, axis)
		}
	}
	joins := map[*ir.Node]bool{}
	for i, v := range g.Outputs {
		if axis := p.at(len(g.Inputs) + i).axis; axis >= 0 && v.Def != nil {
			l, ok := lengthens(v.Def.Op, len(v.Type.Shape))
			joins[v.Def] = ok && l.axis == axis && v.Def.HasOperand(l.operand)
		}
	}
	for _, n := range nodes {
		if joins[n] {
			t.join(n)
		} else {
			g.Nodes = append(g.Nodes, n)
		}
	}
	for i, v := range g.Outputs {
		axis := p.at(len(g.Inputs) + i).axis
		if axis < 0 {
			continue
		}
		if joined := t.whole[v]; joined != nil && joined.Def != nil && !g.IsOutput(joined) {
			g.Outputs[i], grown[i] = joined, t.grown(joined.Def, p)
		} else {
			g.Outputs[i] = t.node(ir.Copy{}, t.node(ir.Transpose{Perm: front(axis, len(v.Type.Shape))}, v))
		}
	}
	return grown, t.err
}

// A lengthening describes how a node makes an operand longer on an axis.
type lengthening struct {
	axis, operand int
	front         ir.Op // the same op with that axis in front
	beside        int   // an operand without that axis; −1 for none
}

// lengthens returns the lengthening of an op whose result has rank axes; ok is false for other ops.
func lengthens(op ir.Op, rank int) (l lengthening, ok bool) {
	switch op := op.(type) {
	case ir.Concat:
		return lengthening{op.Axis, 0, ir.Concat{}, -1}, true
	case ir.Append:
		batch := slices.Index(front(op.Axis, rank), op.Batch)
		return lengthening{op.Axis, ir.AppendCache, ir.Append{Batch: batch, Size: op.Size, Keep: op.Keep}, ir.AppendLengths}, true
	}
	return l, false
}

// An axisMover moves axes of a graph to the front.
type axisMover struct {
	*ir.Graph
	trace *ir.Trace
	whole map[*ir.Value]*ir.Value // for each view, the value whose first axis is elsewhere in the view
	err   error
}

// node appends a node with one result.
func (t *axisMover) node(op ir.Op, in ...*ir.Value) *ir.Value {
	out, err := t.Append(op, in)
	if err != nil {
		t.err = errors.Join(t.err, err)
		return in[0]
	}
	return out[0]
}

// view returns x with its first axis moved back to axis.
func (t *axisMover) view(x *ir.Value, axis int) *ir.Value {
	v := t.node(ir.Transpose{Perm: back(axis, len(x.Type.Shape))}, x)
	t.whole[v] = x
	return v
}

// input replaces input i by one with an axis in front.
func (t *axisMover) input(i, axis int) {
	old := t.Inputs[i]
	x := t.NewValue(old.Name, ir.TensorOf(old.Type.DType, permuted(old.Type.Shape, front(axis, len(old.Type.Shape)))...))
	t.Inputs[i] = x
	t.ReplaceAll(old, t.view(x, axis))
}

// join replaces a node that lengthens by one whose axis is in front.
func (t *axisMover) join(n *ir.Node) {
	l, _ := lengthens(n.Op, len(n.Outputs[0].Type.Shape))
	in := slices.Clone(n.Inputs)
	for i, x := range in {
		if i == l.beside {
			continue
		}
		if whole := t.whole[x]; i == l.operand && whole != nil && whole.Def == nil &&
			slices.Equal(x.Def.Op.(ir.Transpose).Perm, back(l.axis, len(x.Type.Shape))) {
			in[i] = whole
		} else {
			in[i] = t.node(ir.Transpose{Perm: front(l.axis, len(x.Type.Shape))}, x)
		}
	}
	joined := t.node(l.front, in...)
	joined.Name, joined.Def.Origins = n.Outputs[0].Name, n.Origins
	if source := t.trace.Source(n); source != nil {
		symbolic, _ := lengthens(source.Op, len(joined.Type.Shape))
		t.trace.Replace(joined.Def, symbolic.front)
	}
	t.ReplaceAll(n.Outputs[0], t.view(joined, l.axis))
	n.Detach()
}

// grown returns the index of the input that a node lengthens in place, −1 for none. A node that overwrites positions of its operand must be
// its only reader.
func (t *axisMover) grown(n *ir.Node, p ports) int {
	l, _ := lengthens(n.Op, len(n.Outputs[0].Type.Shape))
	x := n.Inputs[l.operand]
	at := slices.Index(t.Inputs, x)
	if at < 0 || l.beside < 0 {
		return at
	}
	read := slices.ContainsFunc(x.Uses, func(u ir.Use) bool { return u.Node != n && len(u.Node.Outputs[0].Uses) > 0 })
	if read || !p[at].alone {
		return -1
	}
	return at
}

// lengthensInput reports whether a node of a graph makes an input longer, as a decoder's does its cache.
func lengthensInput(g *ir.Graph) bool {
	return slices.ContainsFunc(g.Nodes, func(n *ir.Node) bool {
		rank := len(n.Outputs[0].Type.Shape)
		l, ok := lengthens(n.Op, rank)
		return ok && rank >= 3 && n.HasOperand(l.operand) && fromInput(n.Inputs[l.operand])
	})
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

// origin returns the value of which v is a cast or a transposition, and the axis of that value which is an axis of v.
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
