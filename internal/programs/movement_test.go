package programs

import (
	"math"
	"slices"

	"github.com/rlxc/rlxc/tensor"
)

func transpose(n *generator) {
	if x := n.operand("Transpose", allTypes, nil); x != nil {
		if n.IntN(5) == 0 {
			n.node("Transpose", []*value{x})
		} else {
			n.node("Transpose", []*value{x}, attr{"perm", n.Perm(x.rank())})
		}
	}
}

// reshaped gives x another shape, with sizes left open sometimes.
func (n *generator) reshaped(x *value, shape []int) *value {
	shape = slices.Clone(shape)
	if len(shape) > 0 && x.t.Len() > 0 {
		if n.IntN(2) == 0 {
			shape[n.IntN(len(shape))] = -1
		}
		for i := range min(len(shape), x.rank()) {
			if shape[i] == x.shape()[i] && n.IntN(3) == 0 {
				shape[i] = 0
			}
		}
	}
	return n.node("Reshape", []*value{x, n.whole(shape...)})
}

func reshape(n *generator) {
	if x := n.operand("Reshape", allTypes, nil); x != nil {
		n.reshaped(x, n.factors(x.t.Len()))
	}
}

// factors is a shape of that many elements.
func (n *generator) factors(elements int) (shape []int) {
	if elements == 0 {
		return []int{0, 1 + n.IntN(3)}
	}
	for elements > 1 && len(shape) < 3 {
		var divisors []int
		for d := 2; d <= elements; d++ {
			if elements%d == 0 {
				divisors = append(divisors, d)
			}
		}
		d := divisors[n.IntN(len(divisors))]
		shape, elements = append(shape, d), elements/d
	}
	if elements > 1 || n.IntN(4) == 0 {
		shape = slices.Insert(shape, n.IntN(len(shape)+1), elements)
	}
	return shape
}

func flatten(n *generator) {
	if x := n.operand("Flatten", allTypes, nil); x != nil {
		n.node("Flatten", []*value{x}, attr{"axis", n.IntN(x.rank() + 1)})
	}
}

// withAxes adds an operator whose axes are an attribute before opset 13 and an operand since.
func (n *generator) withAxes(op string, x *value, axes []int) *value {
	if n.opset < 13 {
		return n.node(op, []*value{x}, attr{"axes", axes})
	}
	return n.node(op, []*value{x, n.whole(axes...)})
}

func squeeze(n *generator) {
	x := n.operand("Squeeze", allTypes, func(v *value) bool { return slices.Contains(v.shape(), 1) })
	if x == nil {
		return
	}
	var axes []int
	for i, d := range x.shape() {
		if d == 1 && (axes == nil || n.IntN(2) == 0) {
			axes = append(axes, i)
		}
	}
	n.withAxes("Squeeze", x, axes)
}

func unsqueeze(n *generator) {
	if x := n.operand("Unsqueeze", allTypes, func(v *value) bool { return v.rank() < 4 }); x != nil {
		axes := n.Perm(x.rank() + 1)[:1]
		if n.IntN(3) == 0 {
			axes = n.Perm(x.rank() + 2)[:2]
			slices.Sort(axes)
		}
		n.withAxes("Unsqueeze", x, axes)
	}
}

func concat(n *generator) {
	x := n.operand("Concat", allTypes, atLeast(1))
	if x == nil {
		return
	}
	axis := n.axis(x.rank())
	at := (axis + x.rank()) % x.rank()
	in := []*value{x}
	for range n.IntN(3) {
		var y *value
		for range 5 {
			v := n.pool[n.IntN(len(n.pool))]
			if v.dtype() == x.dtype() && v.rank() == x.rank() && sameBut(v.shape(), x.shape(), at) {
				y = v
			}
		}
		if y == nil {
			shape := slices.Clone(x.shape())
			shape[at] = 1 + n.IntN(4)
			y = n.leaf(x.dtype(), shape)
		}
		in = append(in, y)
	}
	if n.IntN(2) == 0 {
		slices.Reverse(in)
	}
	n.node("Concat", in, attr{"axis", axis})
}

func sameBut(a, b []int, axis int) bool {
	for i := range a {
		if i != axis && a[i] != b[i] {
			return false
		}
	}
	return true
}

func split(n *generator) {
	x := n.operand("Split", allTypes, func(v *value) bool { return atLeast(1)(v) && slices.Max(v.shape()) > 1 })
	if x == nil {
		return
	}
	at := slices.Index(x.shape(), slices.Max(x.shape()))
	size := x.shape()[at]
	first := 1 + n.IntN(size-1)
	attrs := []attr{{"axis", at}}
	in := []*value{x}
	switch {
	case size%2 == 0 && n.IntN(2) == 0: // in equal parts
		attrs = append(attrs, attr{"num_outputs", 2})
	case n.opset < 13:
		attrs = append(attrs, attr{"split", []int{first, size - first}})
	default:
		in = append(in, n.whole(first, size-first))
	}
	n.nodes("Split", 2, in, attrs...)
}

func slice(n *generator) {
	x := n.operand("Slice", allTypes, atLeast(1))
	if x == nil {
		return
	}
	axes := n.axes(x.rank())
	var starts, ends, steps []int
	for _, a := range axes {
		d := x.shape()[a]
		start, end, step := n.IntN(d), d-n.IntN(d), 1
		if n.opset >= 10 {
			step = []int{1, 1, 1, 2, 3, -1, -2}[n.IntN(7)]
		}
		if step < 0 {
			start, end = end-1, start-1
			if end < 0 {
				end = math.MinInt32
			}
		} else if start >= end {
			start, end = 0, math.MaxInt32
		}
		if start > 0 && n.IntN(3) == 0 {
			start -= d
		}
		if end > 0 && end < d && n.IntN(3) == 0 {
			end -= d
		}
		starts, ends, steps = append(starts, start), append(ends, end), append(steps, step)
	}
	if n.opset < 10 {
		n.node("Slice", []*value{x}, attr{"starts", starts}, attr{"ends", ends}, attr{"axes", axes})
		return
	}
	n.node("Slice", []*value{x, n.whole(starts...), n.whole(ends...), n.whole(axes...), n.whole(steps...)})
}

func expand(n *generator) {
	x := n.operand("Expand", allTypes, nil)
	if x == nil {
		return
	}
	shape := slices.Clone(x.shape())
	for i, d := range shape {
		if d == 1 && n.IntN(2) == 0 {
			shape[i] = 1 + n.IntN(4)
		} else if n.IntN(4) == 0 {
			shape[i] = 1
		}
	}
	if len(shape) < 4 && n.IntN(3) == 0 {
		shape = slices.Insert(shape, 0, 1+n.IntN(3))
	}
	n.node("Expand", []*value{x, n.whole(shape...)})
}

func tile(n *generator) {
	if x := n.operand("Tile", allTypes, atLeast(1)); x != nil {
		times := make([]int, x.rank())
		for i := range times {
			times[i] = []int{1, 1, 2, 3}[n.IntN(4)]
		}
		n.node("Tile", []*value{x, n.whole(times...)})
	}
}

func pad(n *generator) {
	x := n.operand("Pad", allTypes, atLeast(1))
	if x == nil {
		return
	}
	mode := []string{"constant", "constant", "edge", "reflect"}[n.IntN(4)]
	pads := make([]int, 2*x.rank())
	for i := range pads {
		most := 3
		if mode == "reflect" {
			most = min(most, x.shape()[i%x.rank()])
		}
		if n.IntN(2) == 0 {
			pads[i] = n.IntN(most)
		}
		if mode == "constant" && n.IntN(10) == 0 && x.shape()[i%x.rank()] > 2 {
			pads[i] = -1
		}
	}
	if n.opset < 11 {
		n.node("Pad", []*value{x}, attr{"pads", pads}, attr{"mode", mode}, attr{"value", 0.5})
		return
	}
	in := []*value{x, n.whole(pads...)}
	if mode == "constant" && n.IntN(2) == 0 {
		in = append(in, n.leaf(x.dtype(), nil))
	}
	n.node("Pad", in, attr{"mode", mode})
}

func trilu(n *generator) {
	if x := n.operand("Trilu", allTypes, atLeast(2)); x != nil {
		in := []*value{x}
		if n.IntN(2) == 0 {
			in = append(in, n.constant(tensor.Scalar(int64(n.IntN(5)-2))))
		}
		n.node("Trilu", in, attr{"upper", n.IntN(2)})
	}
}

// blocks moves elements between channels and places.
func blocks(n *generator) {
	x := n.operand("DepthToSpace", floats, func(v *value) bool { return v.rank() == 4 && v.t.Len() > 0 })
	switch {
	case x == nil:
	case x.shape()[1]%4 == 0:
		n.node("DepthToSpace", []*value{x}, attr{"blocksize", 2}, attr{"mode", []string{"DCR", "CRD"}[n.IntN(2)]})
	case x.shape()[2]%2 == 0 && x.shape()[3]%2 == 0:
		n.node("SpaceToDepth", []*value{x}, attr{"blocksize", 2})
	}
}

// sizes is how exporters compute a shape: some sizes of a value are read and put together, and another value is given them.
func sizes(n *generator) {
	x := n.operand("Shape", allTypes, atLeast(1))
	if x == nil {
		return
	}
	s := n.node("Shape", []*value{x})
	if s == nil {
		return
	}
	k := n.IntN(x.rank())
	one := n.node("Gather", []*value{s, n.constant(tensor.Scalar(int64(k)))}, attr{"axis", 0})
	if one == nil || n.IntN(4) == 0 {
		return
	}
	rest := x.t.Len() / max(1, x.shape()[k])
	var wide *value
	if n.opset < 13 {
		wide = n.node("Unsqueeze", []*value{one}, attr{"axes", []int{0}})
	} else {
		wide = n.node("Unsqueeze", []*value{one, n.whole(0)})
	}
	if wide == nil {
		return
	}
	tail := n.whole([]int{rest, -1}[n.IntN(2)])
	switch n.IntN(3) {
	case 0:
		if shape := n.node("Concat", []*value{wide, tail}, attr{"axis", 0}); shape != nil {
			n.node("Reshape", []*value{x, shape})
		}
	case 1:
		if shape := n.node("Concat", []*value{n.whole(1 + n.IntN(2)), wide}, attr{"axis", 0}); shape != nil {
			if types := n.types("Expand", 0, allTypes); len(types) > 0 {
				n.node("Expand", []*value{n.leaf(n.dtypeOf(types), []int{1}), shape})
			}
		}
	case 2:
		n.node("ConstantOfShape", []*value{wide}, attr{"value", n.draw(n.dtypeOf(floats[:8]), []int{1}, n.drawStyle())})
	}
}

// counted makes positions, of a fixed number or as many as an axis has.
func counted(n *generator) {
	end := n.constant(tensor.Scalar(int64(1 + n.IntN(9))))
	if x := n.operand("Shape", allTypes, atLeast(1)); x != nil && n.IntN(2) == 0 {
		if s := n.node("Shape", []*value{x}); s != nil {
			end = n.node("Gather", []*value{s, n.constant(tensor.Scalar(int64(n.IntN(x.rank()))))}, attr{"axis", 0})
		}
	}
	if end == nil || n.opset < 11 {
		return
	}
	at := n.node("Range", []*value{n.constant(tensor.Scalar(int64(n.IntN(2)))), end, n.constant(tensor.Scalar(int64(1 + n.IntN(2))))})
	if at == nil || at.t.Len() == 0 || n.IntN(2) == 0 {
		return
	}
	if wide := n.withAxes("Unsqueeze", at, []int{0}); wide != nil {
		if tall := n.withAxes("Unsqueeze", at, []int{1}); tall != nil &&
			len(n.types([]string{"Less", "Greater", "Sub"}[0], 0, []tensor.DType{tensor.I64})) > 0 {
			n.node([]string{"Less", "Greater", "Sub", "Equal"}[n.IntN(4)], []*value{tall, wide})
		}
	}
}

func filled(n *generator) {
	if n.opset >= 9 {
		n.node("ConstantOfShape", []*value{n.whole(n.size(1 + n.IntN(2))...)},
			attr{"value", n.draw(n.dtypeOf(n.types("Transpose", 0, allTypes)), []int{1}, n.drawStyle())})
	}
}
