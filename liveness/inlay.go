package liveness

import (
	"slices"

	"github.com/rlxc/rlxc/internal/target"
	"github.com/rlxc/rlxc/ir"
)

// An Inlay is the decision to write result 0 of a step into a part of a buffer. The part has the strides of that buffer. For example, in
// concat(a, b) along axis 1 of a [2,4] and b [2,6], result b has offset 4 and strides [10,1] in the memory of the Concat. At most one of
// the fields is not −1; both are −1 for a result that is row-major in its buffer.
type Inlay struct {
	Over int // the operand, a slice of a buffer, whose elements the result overwrites; −1 for none
	Into int // the step, in the graph's order, of the Concat into whose result the result is written; −1 for none
}

var noInlay = Inlay{Over: -1, Into: -1}

// Layout returns the layout of result 0 of n in the memory of root. concat is the node of Into; nil if there is none. Types of all nodes
// and layouts of the operands must be up to date.
func (d Inlay) Layout(n, concat *ir.Node, root *ir.Value, layout func(v *ir.Value) ir.Layout) ir.Layout {
	v := n.Outputs[0]
	l := ir.OwnLayout(v)
	switch {
	case d.Over >= 0:
		l = layout(n.Inputs[d.Over])
	case concat != nil:
		start, axis := 0, concat.Op.(ir.Concat).Axis
		for _, x := range concat.Inputs[:slices.Index(concat.Inputs, v)] {
			start += x.Type.Shape[axis].Int()
		}
		l = part(v, concat.Outputs[0], axis, start)
	}
	l.Root = root
	return l
}

// Holds reports whether all results of n, which runs where it says, may be where their layouts put them: a result with separate memory
// always, result 0 in a part of a buffer if the kernel writes by these strides, and a result over an operand if the operand is all of the
// buffer. It is the condition of the decisions of Analyze about n at other sizes than those of the analysis.
func (d Inlay) Holds(n *ir.Node, where target.Runs, layout func(v *ir.Value) ir.Layout, t *target.Target) bool {
	for i, v := range n.Outputs {
		l, holds := layout(v), false
		switch {
		case l.Root == v:
			holds = true
		case i == 0 && d.Over >= 0:
			holds = overSlice(n, d.Over, layout, t)
		case i == 0 && d.Into >= 0:
			holds = t.StridedResult(n, l.Strides)
		default:
			holds = overWhole(n, v, l.Root, where, layout, t)
		}
		if !holds {
			return false
		}
	}
	return true
}

// overWhole reports whether n may write a result over the memory of root: their sizes are equal, each operand that shows root shows all of
// it in order, and the kernel permits a result over each of these operands.
func overWhole(n *ir.Node, result, root *ir.Value, where target.Runs, layout func(v *ir.Value) ir.Layout, t *target.Target) bool {
	if bytesOf(result) != bytesOf(root) {
		return false
	}
	for k, x := range n.Inputs {
		if x == nil || x.IsConst() {
			continue
		}
		if l := layout(x); l.Root == root && (!whole(x, l) || !t.InPlaceThere(where, n, k)) {
			return false
		}
	}
	return true
}

// overSlice reports whether n may write result 0 over operand i, a part of a buffer, by the strides of that operand.
func overSlice(n *ir.Node, i int, layout func(v *ir.Value) ir.Layout, t *target.Target) bool {
	x := n.Inputs[i]
	return x.Type.Equal(n.Outputs[0].Type) && t.InPlace(n, i) && t.StridedResult(n, layout(x).Strides) && apart(n, i, layout)
}

// whole reports whether v, laid out as l, shows all of its root in order.
func whole(v *ir.Value, l ir.Layout) bool {
	return v == l.Root || l.Offset == 0 && bytesOf(v) == bytesOf(l.Root) && l.Contiguous()
}

func bytesOf(v *ir.Value) int64 { return int64(v.Type.DType.Bytes(v.Type.Elements())) }
