package programs

import (
	"math"
	"slices"

	"github.com/rlxc/rlxc/tensor"
)

// cut takes an end of an axis whose size is a symbol, so that the size of what is left follows from a minimum, and often repeats it.
func cut(n *generator) {
	x := n.operand("Slice", allTypes, atLeast(1))
	if x == nil || n.opset < 10 {
		return
	}
	axis, k := n.IntN(x.rank()), 1+n.weighted([]int{4, 1, 1})
	start, end, step := 0, k, 1
	switch n.IntN(4) {
	case 0:
		start, end = -k, math.MaxInt32
	case 1:
		start, end, step = -1, -1-k, -1
	case 2:
		start, end = k, math.MaxInt32
	}
	y := n.node("Slice", []*value{x, n.whole(start), n.whole(end), n.whole(axis), n.whole(step)})
	if y == nil || y.t.Len() == 0 || n.IntN(3) == 0 {
		return
	}
	shape := slices.Clone(y.shape())
	if shape[axis] == 1 {
		shape[axis] = 1 + n.IntN(4)
	}
	switch n.IntN(3) {
	case 0:
		n.node("Expand", []*value{y, n.whole(shape...)})
	case 1:
		if len(n.types("Add", 0, []tensor.DType{y.dtype()})) > 0 {
			n.node("Add", []*value{y, n.partner(y.dtype(), shape, false)})
		}
	case 2: // a target that some sizes of another value make
		s := n.node("Shape", []*value{x})
		if s == nil || len(shape) < 2 {
			return
		}
		var parts []*value
		for i, d := range shape {
			if i != axis && n.IntN(2) == 0 {
				parts = append(parts, n.node("Gather", []*value{s, n.whole(i)}, attr{"axis", 0}))
			} else {
				parts = append(parts, n.whole(d))
			}
		}
		if target := n.node("Concat", parts, attr{"axis", 0}); target != nil {
			n.node("Expand", []*value{y, target})
		}
	}
}

// convolved is a convolution whose result meets itself, or another value, with other axes.
func convolved(n *generator) {
	at := len(n.pool)
	conv(n)
	if len(n.pool) == at || n.refused != nil {
		return
	}
	y := n.pool[len(n.pool)-1]
	if y.rank() < 3 {
		return
	}
	z := y
	switch n.IntN(4) {
	case 0:
		z = n.withAxes("Unsqueeze", y, []int{n.IntN(y.rank() + 1)})
	case 1:
		z = n.node("Flatten", []*value{y}, attr{"axis", 1 + n.IntN(y.rank()-1)})
	case 2:
		z = n.node("Transpose", []*value{y}, attr{"perm", n.Perm(y.rank())})
	case 3:
		z = n.reduce([]string{"ReduceMean", "ReduceMax", "ReduceSum"}[n.IntN(3)], y, []int{n.IntN(y.rank())}, n.IntN(2))
	}
	if z == nil || n.IntN(8) == 0 {
		return
	}
	if !broadcasts(z.shape(), y.shape(), false) || n.IntN(3) == 0 {
		y = n.partner(z.dtype(), z.shape(), false)
	}
	n.either([]string{"Add", "Mul", "Sub", "Concat"}[n.IntN(3)], z, y)
}

func convTranspose(n *generator) {
	x := n.operand("ConvTranspose", floats[:8], func(v *value) bool { return v.rank() >= 3 && v.rank() <= 4 && v.t.Len() > 0 })
	if x == nil {
		return
	}
	rank := x.rank() - 2
	var kernel, strides, pads, extra []int
	for range rank {
		kernel, strides, extra = append(kernel, 1+n.IntN(3)), append(strides, 1+n.IntN(3)), append(extra, 0)
		if n.IntN(4) == 0 {
			extra[len(extra)-1] = n.IntN(strides[len(strides)-1])
		}
	}
	for i := range 2 * rank {
		pads = append(pads, n.IntN(kernel[i%rank]))
	}
	attrs := []attr{{"kernel_shape", kernel}, {"strides", strides}, {"output_padding", extra}}
	switch n.IntN(4) {
	case 0:
		attrs = append(attrs, attr{"auto_pad", []string{"SAME_UPPER", "SAME_LOWER", "VALID"}[n.IntN(3)]})
	default:
		attrs = append(attrs, attr{"pads", pads})
	}
	w := n.leaf(x.dtype(), append([]int{x.shape()[1], 1 + n.IntN(3)}, kernel...))
	n.node("ConvTranspose", []*value{x, w}, attrs...)
}

// pooled is a pool with padding, ceil_mode and dilations.
func pooled(n *generator) {
	op := []string{"MaxPool", "AveragePool", "LpPool"}[n.IntN(3)]
	x := n.operand(op, floats[:8], func(v *value) bool { return v.rank() >= 3 && v.rank() <= 4 && v.t.Len() > 0 })
	if x == nil {
		return
	}
	var kernel, strides, pads, dilations []int
	for _, d := range x.shape()[2:] {
		kernel, strides = append(kernel, 1+n.IntN(min(3, d))), append(strides, 1+n.IntN(3))
		dilations = append(dilations, 1)
	}
	for i := range 2 * len(kernel) {
		pads = append(pads, n.IntN(kernel[i%len(kernel)]))
	}
	for i, d := range x.shape()[2:] { // some windows are wider than the image: all their elements are padding
		if most := d + pads[i] + pads[len(kernel)+i] - 1; kernel[i] > 1 && most >= kernel[i]-1 {
			dilations[i] = 1 + n.IntN(most/(kernel[i]-1))
		}
	}
	attrs := []attr{{"kernel_shape", kernel}, {"strides", strides}, {"dilations", dilations}, {"count_include_pad", n.IntN(2)},
		{"ceil_mode", n.IntN(2)}}
	if n.IntN(4) == 0 {
		attrs = append(attrs, attr{"auto_pad", []string{"SAME_UPPER", "SAME_LOWER", "VALID"}[n.IntN(3)]})
	} else {
		attrs = append(attrs, attr{"pads", pads})
	}
	n.node(op, []*value{x}, attrs...)
}

// resize is in all its modes, by sizes or by scales.
func resize(n *generator) {
	x := n.operand("Resize", floats[:8], func(v *value) bool { return v.rank() >= 2 && v.rank() <= 4 && v.t.Len() > 0 })
	if x == nil || n.opset < 11 {
		return
	}
	mode := []string{"nearest", "nearest", "linear", "cubic"}[n.IntN(4)]
	coordinates := []string{"half_pixel", "pytorch_half_pixel", "align_corners", "asymmetric", "tf_crop_and_resize"}
	if n.opset >= 19 {
		coordinates = append(coordinates, "half_pixel_symmetric")
	}
	how := coordinates[n.IntN(len(coordinates))]
	attrs := []attr{{"mode", mode}, {"coordinate_transformation_mode", how},
		{"nearest_mode", []string{"round_prefer_floor", "round_prefer_ceil", "floor", "ceil"}[n.IntN(4)]}}
	rank := x.rank()
	first := rank - 1 - n.IntN(min(2, rank-1)) // the axes that change
	if mode == "cubic" {                       // which onnxruntime has for images alone
		if rank != 4 && rank != 2 {
			return
		}
		first = rank - 2
		attrs = append(attrs, attr{"exclude_outside", n.IntN(2)})
	}
	scales, sizes := tensor.New(tensor.F32, rank), slices.Clone(x.shape())
	for i := range rank {
		scales.SetFloat64(i, 1)
		if i < first {
			continue
		}
		switch n.IntN(3) {
		case 0: // to a size
			sizes[i] = 1 + n.IntN(2*x.shape()[i]+3)
			scales.SetFloat64(i, (float64(sizes[i])+0.5)/float64(x.shape()[i]))
		case 1:
			scales.SetFloat64(i, []float64{0.2, 0.25, 0.3, 0.5, 0.6, 0.7, 1.1, 1.3, 1.5, 1.7, 2, 2.5, 3}[n.IntN(13)])
			if int(scales.Float64(i)*float64(x.shape()[i])) < 1 {
				scales.SetFloat64(i, 1)
			}
			sizes[i] = max(1, int(scales.Float64(i)*float64(x.shape()[i])))
		}
	}
	roi := n.constant(tensor.New(tensor.F32, 0))
	if how == "tf_crop_and_resize" {
		t := tensor.New(tensor.F32, 2*rank)
		for i := range rank {
			if t.SetFloat64(rank+i, 1); sizes[i] != x.shape()[i] {
				t.SetFloat64(i, []float64{0, 0.25, -0.5, 0.1}[n.IntN(4)])
				t.SetFloat64(rank+i, []float64{1, 0.75, 1.5, 0.9}[n.IntN(4)])
			}
		}
		roi, attrs = n.constant(t), append(attrs, attr{"extrapolation_value", 7.0})
	}
	if how != "tf_crop_and_resize" && n.IntN(2) == 0 { // by scales, onnxruntime takes a size from them without the roi
		n.node("Resize", []*value{x, roi, n.constant(scales)}, attrs...)
		return
	}
	none := n.constant(tensor.New(tensor.F32, 0))
	if n.opset >= 13 {
		none = &value{"", nil, false}
	}
	n.node("Resize", []*value{x, roi, none, n.whole(sizes...)}, attrs...)
}

// recurrent is an LSTM, a GRU or an RNN, with lengths and states sometimes.
func recurrent(n *generator) {
	kind := n.IntN(3)
	op, gates, results := []string{"RNN", "GRU", "LSTM"}[kind], []int{1, 3, 4}[kind], []int{2, 2, 3}[kind]
	steps, batch, width, hidden := n.IntN(5), 1+n.IntN(3), 1+n.IntN(4), 1+n.IntN(9)
	if steps == 0 && n.IntN(4) > 0 {
		steps = 1
	}
	direction, directions := []string{"forward", "reverse", "bidirectional"}[n.IntN(3)], 1
	if direction == "bidirectional" {
		directions = 2
	}
	weights := func(shape ...int) *value { return n.constant(n.draw(tensor.F32, shape, style{kind: reals})) }
	in := []*value{n.leafOf(tensor.F32, []int{steps, batch, width}, style{kind: reals}), weights(directions, gates*hidden, width),
		weights(directions, gates*hidden, hidden),
		nil, nil, nil}
	if n.IntN(2) == 0 {
		in[3] = weights(directions, 2*gates*hidden)
	}
	if n.IntN(2) == 0 {
		in[4] = n.leafOf(tensor.I32, []int{batch}, style{kind: wholes, lo: n.IntN(2), hi: steps + 1})
	}
	if n.IntN(2) == 0 {
		in[5] = n.leafOf(tensor.F32, []int{directions, batch, hidden}, style{kind: reals})
	}
	attrs := []attr{{"hidden_size", hidden}, {"direction", direction}, {"linear_before_reset", n.IntN(2)}}
	if n.IntN(4) == 0 {
		attrs = append(attrs, attr{"clip", []float64{0.1, 0.5, 2}[n.IntN(3)]})
	}
	if kind == 2 {
		in = append(in, nil, nil)
		if in[5] != nil {
			in[6] = n.leafOf(tensor.F32, []int{directions, batch, hidden}, style{kind: positive})
		}
		if n.IntN(3) == 0 {
			in[7] = weights(directions, 3*hidden)
		}
		if n.IntN(6) == 0 {
			attrs = append(attrs, attr{"input_forget", 1})
		}
	}
	n.nodes(op, 1+n.IntN(results), in, attrs...)
}
