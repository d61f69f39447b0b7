package programs

import (
	"slices"

	"github.com/rlxc/rlxc/tensor"
)

// index is whole numbers below a size, some counted from the end.
func (n *generator) index(size int, shape []int) *value {
	lo := 0
	if n.opset >= 11 && n.IntN(3) == 0 {
		lo = -size
	}
	return n.leafOf([]tensor.DType{tensor.I64, tensor.I64, tensor.I32}[n.IntN(3)], shape, style{kind: wholes, lo: lo, hi: size})
}

func gather(n *generator) {
	if x := n.operand("Gather", allTypes, atLeast(1)); x != nil {
		axis := n.axis(x.rank())
		n.node("Gather", []*value{x, n.index(x.shape()[(axis+x.rank())%x.rank()], n.size(n.IntN(3)))}, attr{"axis", axis})
	}
}

func gatherElements(n *generator) {
	x := n.operand("GatherElements", allTypes, atLeast(1))
	if x == nil {
		return
	}
	axis := n.IntN(x.rank())
	shape := slices.Clone(x.shape())
	for i := range shape {
		shape[i] = 1 + n.IntN(shape[i])
	}
	n.node("GatherElements", []*value{x, n.index(x.shape()[axis], shape)}, attr{"axis", axis})
}

// positions are indices of the first axes of a shape: a row of numbers for each.
func (n *generator) places(shape []int, rows []int) *value {
	k := 1 + n.IntN(len(shape))
	t := tensor.New(tensor.I64, append(slices.Clone(rows), k)...)
	for i := range t.Len() {
		t.SetInt64(i, int64(n.IntN(shape[i%k])))
	}
	if n.IntN(2) == 0 {
		return n.constant(t)
	}
	return n.input(t, style{kind: wholes, lo: 0, hi: slices.Min(shape)})
}

func gatherND(n *generator) {
	if x := n.operand("GatherND", allTypes, atLeast(1)); x != nil {
		n.node("GatherND", []*value{x, n.places(x.shape(), n.size(1+n.IntN(2)))})
	}
}

func (n *generator) reductionName() []attr {
	switch {
	case n.opset >= 18:
		return []attr{{"reduction", []string{"none", "add", "mul", "max", "min"}[n.IntN(5)]}}
	case n.opset >= 16:
		return []attr{{"reduction", []string{"none", "add", "mul"}[n.IntN(3)]}}
	}
	return nil
}

// distinct writes each element of an axis once where duplicates would have no order.
func scatterElements(n *generator) {
	x := n.operand("ScatterElements", slices.Concat(floats, integral), atLeast(1))
	if x == nil {
		return
	}
	axis, shape := n.IntN(x.rank()), slices.Clone(x.shape())
	shape[axis] = 1 + n.IntN(shape[axis])
	index := tensor.New(tensor.I64, shape...)
	at := make([]int, len(shape))
	perm := n.Perm(x.shape()[axis])
	for i := range index.Len() {
		index.SetInt64(i, int64(perm[at[axis]]))
		for a := len(shape) - 1; a >= 0; a-- {
			if at[a]++; at[a] < shape[a] {
				break
			}
			at[a] = 0
		}
	}
	n.node("ScatterElements", []*value{x, n.constant(index), n.leaf(x.dtype(), shape)}, append(n.reductionName(), attr{"axis", axis})...)
}

func scatterND(n *generator) {
	x := n.operand("ScatterND", slices.Concat(floats, integral), atLeast(1))
	if x == nil {
		return
	}
	rows := n.Perm(x.shape()[0])[:1+n.IntN(x.shape()[0])]
	index := tensor.New(tensor.I64, len(rows), 1)
	for i, r := range rows {
		index.SetInt64(i, int64(r))
	}
	n.node("ScatterND", []*value{x, n.constant(index), n.leaf(x.dtype(), append([]int{len(rows)}, x.shape()[1:]...))}, n.reductionName()...)
}

func oneHot(n *generator) {
	if n.opset < 11 {
		return
	}
	depth := 1 + n.IntN(6)
	n.node("OneHot", []*value{n.index(depth, n.size(n.IntN(3))), n.constant(tensor.Scalar(int64(depth))),
		n.leaf(n.dtypeOf(floats[:8]), []int{2})},
		attr{"axis", -1})
}

func reverse(n *generator) {
	if x := n.operand("ReverseSequence", allTypes, atLeast(2)); x != nil {
		lengths := n.leafOf(tensor.I64, []int{x.shape()[1]}, style{kind: wholes, lo: 1, hi: x.shape()[0] + 1})
		n.node("ReverseSequence", []*value{x, lengths}, attr{"time_axis", 0}, attr{"batch_axis", 1})
	}
}

// chosen is what has as many elements as data says.
func chosen(n *generator) {
	if n.IntN(3) > 0 {
		return
	}
	if n.IntN(2) == 0 {
		n.node("NonZero", []*value{n.operand("NonZero", allTypes, atLeast(1))})
		return
	}
	if x := n.operand("Compress", allTypes, atLeast(1)); x != nil {
		axis := n.IntN(x.rank())
		n.node("Compress", []*value{x, n.leaf(tensor.Bool, []int{x.shape()[axis]})}, attr{"axis", axis})
	}
}
