package programs

import (
	"slices"

	"github.com/rlxc/rlxc/tensor"
)

func atLeast(rank int) func(*value) bool {
	return func(v *value) bool { return v.rank() >= rank && v.t.Len() > 0 }
}

// axis names one of a rank's axes, from the front or from the back.
func (n *generator) axis(rank int) int {
	a := n.IntN(rank)
	if n.opset >= 13 && n.IntN(2) == 0 {
		a -= rank
	}
	return a
}

// axes are some axes in any order.
func (n *generator) axes(rank int) []int {
	list := n.Perm(rank)[:1+n.IntN(rank)]
	if n.IntN(2) == 0 {
		slices.Sort(list)
	}
	return list
}

var reductions = []string{"ReduceSum", "ReduceMean", "ReduceMax", "ReduceMin", "ReduceProd", "ReduceL1", "ReduceL2", "ReduceLogSum",
	"ReduceLogSumExp",
	"ReduceSumSquare", "ReduceSum", "ReduceMean", "ReduceMax"}

// operandAxes is the opset from which reductions have their axes as an operand.
func operandAxes(op string) int {
	if op == "ReduceSum" {
		return 13
	}
	return 18
}

func (n *generator) reduce(op string, x *value, axes []int, keep int) *value {
	attrs := []attr{{"keepdims", keep}}
	in := []*value{x}
	if axes != nil {
		if n.opset >= operandAxes(op) {
			in = append(in, n.whole(axes...))
		} else {
			attrs = append(attrs, attr{"axes", axes})
		}
	}
	if axes == nil && n.IntN(3) == 0 {
		attrs = append(attrs, attr{"noop_with_empty_axes", 1})
	}
	return n.node(op, in, attrs...)
}

func reduction(n *generator) {
	op := reductions[n.IntN(len(reductions))]
	if x := n.operand(op, allTypes, atLeast(1)); x != nil {
		var axes []int
		if n.IntN(5) > 0 {
			axes = n.axes(x.rank())
			if n.opset >= 11 && n.IntN(2) == 0 {
				axes[0] -= x.rank()
			}
		}
		n.reduce(op, x, axes, n.IntN(2))
	}
}

func softmax(n *generator) {
	op := []string{"Softmax", "Softmax", "LogSoftmax"}[n.IntN(3)]
	if x := n.operand(op, floats, atLeast(1)); x != nil {
		n.node(op, []*value{x}, attr{"axis", n.axis(x.rank())})
	}
}

func hardmax(n *generator) {
	if x := n.operand("Hardmax", floats, atLeast(1)); x != nil {
		n.node("Hardmax", []*value{x}, attr{"axis", n.axis(x.rank())})
	}
}

func argument(n *generator) {
	op := []string{"ArgMax", "ArgMin"}[n.IntN(2)]
	if x := n.operand(op, slices.Concat(floats, integral), atLeast(1)); x != nil {
		n.node(op, []*value{x}, attr{"axis", n.axis(x.rank())}, attr{"keepdims", n.IntN(2)}, attr{"select_last_index", n.IntN(2)})
	}
}

func cumulative(n *generator) {
	if x := n.operand("CumSum", slices.Concat(floats, integral), atLeast(1)); x != nil {
		n.node("CumSum", []*value{x, n.constant(tensor.Scalar(int64(n.axis(x.rank()))))}, attr{"exclusive", n.IntN(2)},
			attr{"reverse", n.IntN(2)})
	}
}

func normalised(n *generator) {
	if x := n.operand("LpNormalization", floats, atLeast(1)); x != nil {
		n.node("LpNormalization", []*value{x}, attr{"axis", n.axis(x.rank())}, attr{"p", 1 + n.IntN(2)})
	}
}

func topK(n *generator) {
	x := n.operand("TopK", slices.Concat(floats, integral), atLeast(1))
	if x == nil {
		return
	}
	axis := n.axis(x.rank())
	k := 1 + n.IntN(x.shape()[(axis+x.rank())%x.rank()])
	in, attrs := []*value{x}, []attr{{"axis", axis}, {"largest", n.IntN(2)}}
	if n.opset >= 10 {
		in = append(in, n.whole(k))
	} else {
		attrs = append(attrs, attr{"k", k})
	}
	n.nodes("TopK", 2, in, attrs...)
}
