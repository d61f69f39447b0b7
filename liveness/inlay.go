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
		l := layout(v)
		switch {
		case l.Root == v:
		case i == 0 && d.Over >= 0:
			if !t.StridedResult(n, l.Strides) || !t.InPlace(n, d.Over) || !v.Type.Equal(n.Inputs[d.Over].Type) || !apart(n, d.Over, layout) {
				return false
			}
		case i == 0 && d.Into >= 0:
			if !t.StridedResult(n, l.Strides) {
				return false
			}
		case bytesOf(v) != bytesOf(l.Root):
			return false
		default:
			for k, x := range n.Inputs {
				if x == nil {
					continue
				}
				from := layout(x)
				if from.Root == l.Root && (from.Offset != 0 || bytesOf(x) != bytesOf(l.Root) || !from.Contiguous() ||
					!t.InPlaceThere(where, n, k)) {
					return false
				}
			}
		}
	}
	return true
}

func bytesOf(v *ir.Value) int64 { return int64(v.Type.DType.Bytes(v.Type.Elements())) }
