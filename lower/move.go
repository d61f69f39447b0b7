package lower

import (
	"math"
	"slices"

	"github.com/rlxc/rlxc/ir"
)

func lowerTranspose(c *context) []*ir.Value {
	x := c.In(0)
	perm, ok := c.AttrInts("perm")
	if !ok {
		for i := range rank(x) {
			perm = append(perm, rank(x)-1-i)
		}
	}
	return []*ir.Value{c.Emit(ir.Transpose{Perm: perm}, x)}
}

func lowerConcat(c *context) []*ir.Value {
	in := c.All()
	if len(in) == 0 {
		c.Failf("no operands to join")
	}
	if !c.HasAttr("axis") {
		c.Failf("attribute axis is missing")
	}
	axis := c.Axis(c.AttrInt("axis", 0), rank(in[0]))
	if len(in) == 1 {
		return in
	}
	return []*ir.Value{c.Emit(ir.Concat{Axis: axis}, in...)}
}

func lowerSplit(c *context) []*ir.Value {
	x := c.In(0)
	axis := c.Axis(c.AttrInt("axis", 0), rank(x))
	d := x.Type.Shape[axis]
	sizes := c.splitSizes(d)
	if len(sizes) != c.NumOutputs() {
		c.Failf("%d sizes for %d outputs: want one each", len(sizes), c.NumOutputs())
	}
	out := make([]*ir.Value, len(sizes))
	var at ir.Dim
	for i, n := range sizes {
		out[i] = c.slice(x, axis, at, n)
		at = at.Add(n)
	}
	if ir.Same(at, d) == ir.No {
		c.Failf("sizes %v of an axis of size %v: they must add up to it", ir.Shape(sizes), d)
	}
	return out
}

// splitSizes reads the sizes of the parts, or divides the axis of size d evenly.
func (c *context) splitSizes(d ir.Dim) []ir.Dim {
	if c.Version() >= 13 && c.Opt(1) != nil {
		return c.Dims(1)
	}
	if c.Version() < 13 {
		if list, ok := c.AttrInts("split"); ok {
			return ir.Dims(list...)
		}
	}
	n := c.NumOutputs()
	if c.Version() >= 18 {
		if n = c.AttrInt("num_outputs", n); n != c.NumOutputs() {
			c.Failf("num_outputs is %d, the node has %d", n, c.NumOutputs())
		}
	} else if ir.Same(d.Mod(ir.N(n)), ir.N(0)) == ir.No {
		c.Failf("an axis of size %v in %d equal parts: it does not divide", d, n)
	}
	part := d.CeilDiv(ir.N(n))
	sizes := slices.Repeat([]ir.Dim{part}, n)
	sizes[n-1] = d.Sub(part.Mul(ir.N(n - 1))) // the last one takes what is left, maybe nothing
	if ir.LessEqual(ir.N(0), sizes[n-1]) == ir.No {
		c.Failf("an axis of size %v in %d parts: %d parts of %v are more than the axis", d, n, n-1, part)
	}
	return sizes
}

// slice returns the elements start to start+n−1 along one axis.
func (c *context) slice(v *ir.Value, axis int, start, n ir.Dim) *ir.Value {
	s := newSlice(v)
	s.Starts[axis], s.Sizes[axis] = start, n
	return c.emitSlice(s, v)
}

// newSlice is the slice that takes all of v.
func newSlice(v *ir.Value) ir.Slice {
	s := ir.Slice{Starts: make([]ir.Dim, rank(v)), Sizes: slices.Clone(v.Type.Shape), Steps: make([]int, rank(v))}
	for i := range s.Steps {
		s.Steps[i] = 1
	}
	return s
}

func (c *context) emitSlice(s ir.Slice, v *ir.Value) *ir.Value {
	all := newSlice(v)
	if slices.Equal(s.Steps, all.Steps) && ir.Shape(s.Starts).Equal(all.Starts) && v.Type.Shape.Equal(s.Sizes) {
		return v
	}
	return c.Emit(s, v)
}

func lowerSliceAttr(c *context) []*ir.Value {
	starts, _ := c.AttrInts("starts")
	ends, _ := c.AttrInts("ends")
	axes, ok := c.AttrInts("axes")
	if !ok {
		axes = upTo(len(starts))
	}
	steps := slices.Repeat([]int{1}, len(starts))
	return []*ir.Value{c.sliceAxes(c.In(0), ir.Dims(starts...), ir.Dims(ends...), axes, steps)}
}

func lowerSlice(c *context) []*ir.Value {
	for i := 1; i < c.NumInputs(); i++ {
		if v := c.Opt(i); v != nil && !v.Type.Unranked && rank(v) != 1 {
			c.Failf("operand %d is %v: a vector is needed", i, v.Type)
		}
	}
	x, starts, ends := c.In(0), c.Dims(1), c.Dims(2)
	axes, steps := upTo(len(starts)), slices.Repeat([]int{1}, len(starts))
	if c.Opt(3) != nil {
		axes = c.Ints(3)
	}
	if c.Opt(4) != nil {
		steps = c.Ints(4)
	}
	return []*ir.Value{c.sliceAxes(x, starts, ends, axes, steps)}
}

// upTo returns the numbers below n: the axes of a tensor of rank n, or the positions of n operands.
func upTo(n int) []int {
	axes := make([]int, n)
	for i := range axes {
		axes[i] = i
	}
	return axes
}

func (c *context) sliceAxes(x *ir.Value, starts, ends []ir.Dim, axes, steps []int) *ir.Value {
	if len(ends) != len(starts) || len(axes) != len(starts) || len(steps) != len(starts) {
		c.Failf("%d starts, %d ends, %d axes and %d steps", len(starts), len(ends), len(axes), len(steps))
	}
	s := newSlice(x)
	seen := make([]bool, rank(x))
	for i, a := range axes {
		axis := c.Axis(a, rank(x))
		if seen[axis] {
			c.Failf("axis %d is named twice", a)
		}
		seen[axis] = true
		if steps[i] == 0 {
			c.Failf("axis %d has step 0", a)
		}
		s.Steps[axis] = min(max(steps[i], -maxStep), maxStep)
		s.Starts[axis], s.Sizes[axis] = c.span(x.Type.Shape[axis], starts[i], ends[i], s.Steps[axis])
	}
	return c.emitSlice(s, x)
}

// maxStep is larger than any axis, and so as good as any larger step.
const maxStep = 1 << 50

// span clamps the part of an axis of size d that a slice names (ONNX, Slice): first element and count. A backward slice whose end is
// INT_MAX reaches the first element, as in onnxruntime: opset 10 recommends INT_MAX for slices to an end, and has negative steps.
// Clamped as later opsets say, the slice would always be empty.
func (c *context) span(d, start, end ir.Dim, step int) (first, n ir.Dim) {
	if k, known := end.Const(); step < 0 && known && (k == math.MaxInt32 || k == math.MaxInt64) {
		end = ir.N(math.MinInt64)
	}
	// Counted from the end of the axis, the first element may be d back, and one more where nothing is left to walk
	// backwards from; the end of a backward walk is the position before the first element.
	top, backStart, backEnd := d, d, d
	if step < 0 {
		top, backStart, backEnd = d.Sub(ir.N(1)), ir.Max(d, ir.N(1)), d.Add(ir.N(1))
	}
	first, last := c.clamp(start, d, top, backStart), c.clamp(end, d, top, backEnd)
	n = steps(first, last, step)
	if step > 0 && !first.Is(0) && !last.Equal(top) || step < 0 && !first.Equal(top) && !last.Is(-1) ||
		ir.LessEqual(d, ir.N(0)) == ir.Yes {
		n = ir.Max(n, ir.N(0)) // elsewhere one bound is at its limit, and the other cannot be after it
	}
	return first, n
}

// clamp makes a bound of a slice a position in an axis of size d: at most top, at least d − back, which is where negative
// bounds, counted from the end, stop. The INT_MAX and INT_MIN of either integer type stand for the limits.
func (c *context) clamp(i, d, top, back ir.Dim) ir.Dim {
	k, known := i.Const()
	switch {
	case known && k >= math.MaxInt32:
		return top
	case known && k <= math.MinInt32:
		return d.Sub(back)
	case ir.LessEqual(ir.N(0), i) == ir.Yes:
		return ir.Min(top, i)
	case ir.LessEqual(i, ir.N(-1)) == ir.Yes:
		return d.Sub(ir.Min(back, ir.N(0).Sub(i)))
	}
	// From which end it counts depends on the sizes: below is 1 if it is negative, and 0 otherwise.
	zero, one := ir.N(0), ir.N(1)
	minus := ir.Max(zero.Sub(i), zero)
	below := ir.Min(minus, one)
	return below.Mul(d.Sub(ir.Min(back, minus))).Add(one.Sub(below).Mul(ir.Min(top, ir.Max(i, zero))))
}

// padMode reads the mode. Later versions have more modes.
func (c *context) padMode() ir.PadMode {
	text := c.AttrString("mode", "constant")
	var m ir.PadMode
	if err := m.UnmarshalText([]byte(text)); err != nil || m == ir.PadWrap && c.Version() < 19 {
		c.Failf("mode %q is not known in opset %d", text, c.Version())
	}
	return m
}

func lowerPadAttr(c *context) []*ir.Value {
	x := c.In(0)
	pads, _ := c.AttrInts("pads")
	value := c.AttrFloat("value", 0)
	return []*ir.Value{c.pad(x, ir.Dims(pads...), upTo(rank(x)), c.Scalar(x.Type.DType, float64(value)))}
}

func lowerPad(c *context) []*ir.Value {
	x := c.In(0)
	axes := upTo(rank(x))
	if c.Version() >= 18 && c.Opt(3) != nil {
		axes = c.Ints(3)
	}
	return []*ir.Value{c.pad(x, c.Dims(1), axes, c.Opt(2))}
}

func (c *context) pad(x *ir.Value, pads []ir.Dim, axes []int, value *ir.Value) *ir.Value {
	op := ir.Pad{Mode: c.padMode(), Before: make([]ir.Dim, rank(x)), After: make([]ir.Dim, rank(x))}
	if len(pads) != 2*len(axes) {
		c.Failf("%d pads for %d axes: want two each", len(pads), len(axes))
	}
	seen := make([]bool, rank(x))
	for i, a := range axes {
		axis := c.Axis(a, rank(x))
		if seen[axis] {
			c.Failf("axis %d is named twice", a)
		}
		seen[axis] = true
		op.Before[axis], op.After[axis] = pads[i], pads[i+len(axes)]
	}
	if op.Mode != ir.PadConstant {
		value = nil
	}
	if value == nil {
		return c.Emit(op, x)
	}
	return c.Emit(op, x, value)
}

func lowerCenterCropPad(c *context) []*ir.Value {
	x, want := c.In(0), c.Dims(1)
	axes, ok := c.AttrInts("axes")
	if !ok {
		axes = upTo(rank(x))
	}
	if len(want) != len(axes) {
		c.Failf("%d sizes for %d axes", len(want), len(axes))
	}
	op := ir.Pad{Before: make([]ir.Dim, rank(x)), After: make([]ir.Dim, rank(x))}
	zero, two := ir.N(0), ir.N(2)
	for i, a := range axes {
		axis := c.Axis(a, rank(x))
		more := want[i].Sub(x.Type.Shape[axis])
		op.Before[axis] = ir.Max(more, zero).Div(two).Sub(ir.Max(zero.Sub(more), zero).Div(two)) // halves towards zero
		op.After[axis] = more.Sub(op.Before[axis])
	}
	return []*ir.Value{c.Emit(op, x)}
}

func lowerTile(c *context) []*ir.Value {
	return []*ir.Value{c.Emit(ir.Tile{Repeats: c.Dims(1)}, c.In(0))}
}

func lowerTrilu(c *context) []*ir.Value {
	op := ir.Trilu{Upper: c.AttrBool("upper", true)}
	if c.Opt(1) != nil {
		op.K = int(c.number(1))
	}
	return []*ir.Value{c.Emit(op, c.In(0))}
}

// blocks checks the operand of the two operators that trade depth for space.
func (c *context) blocks() (x *ir.Value, n, depth, h, w, b ir.Dim) {
	x = c.In(0)
	size := c.AttrInt("blocksize", 0)
	if rank(x) != 4 || size < 1 || size > math.MaxInt16 {
		c.Failf("blocksize %d for %v: images [N,C,H,W] are needed", size, x.Type)
	}
	s := x.Type.Shape
	return x, s[0], s[1], s[2], s[3], ir.N(size)
}

// blockMode reports whether the depth's outer part, and not its inner one, holds the channels.
func (c *context) blockMode(since int) (columnRowDepth bool) {
	if c.Version() < since {
		return false
	}
	mode := c.AttrString("mode", "DCR")
	if mode != "DCR" && mode != "CRD" {
		c.Failf("mode %q is neither DCR nor CRD", mode)
	}
	return mode == "CRD"
}

func lowerDepthToSpace(c *context) []*ir.Value {
	x, n, depth, h, w, b := c.blocks()
	channels := depth.Div(b.Mul(b))
	split, perm := ir.Shape{n, b, b, channels, h, w}, []int{0, 3, 4, 1, 5, 2}
	if c.blockMode(11) {
		split, perm = ir.Shape{n, channels, b, b, h, w}, []int{0, 1, 4, 2, 5, 3}
	}
	y := c.Emit(ir.Transpose{Perm: perm}, c.Emit(ir.Reshape{Shape: split}, x))
	return []*ir.Value{c.reshape(y, ir.Shape{n, channels, h.Mul(b), w.Mul(b)})}
}

func lowerSpaceToDepth(c *context) []*ir.Value {
	x, n, depth, h, w, b := c.blocks()
	rows, columns := h.Div(b), w.Div(b)
	perm := []int{0, 3, 5, 1, 2, 4}
	if c.blockMode(28) {
		perm = []int{0, 1, 3, 5, 2, 4}
	}
	y := c.Emit(ir.Transpose{Perm: perm}, c.Emit(ir.Reshape{Shape: ir.Shape{n, depth, rows, b, columns, b}}, x))
	return []*ir.Value{c.reshape(y, ir.Shape{n, depth.Mul(b).Mul(b), rows, columns})}
}
