package lower

import (
	"slices"
	"strings"

	"github.com/rlxc/rlxc/internal/ops"
	"github.com/rlxc/rlxc/ir"
)

var poolRows = []row{
	{"MaxPool", 1, lowerMaxPool},
	{"AveragePool", 7, lowerAveragePool},
	{"LpPool", 2, lowerLpPool},
	{"GlobalMaxPool", 1, lowerGlobalPool(ir.MaxOf)},
	{"GlobalAveragePool", 1, lowerGlobalPool(ir.Mean)},
	{"GlobalLpPool", 2, lowerGlobalLpPool},
	{"MaxUnpool", 9, lowerMaxUnpool},
	{"LRN", 1, lowerLRN},
}

func lowerGlobalPool(fn ir.Reduction) func(*context) []*ir.Value {
	return func(c *context) []*ir.Value {
		x := c.In(0)
		if rank(x) < 3 {
			c.Failf("%v has no spatial axes: [N,C,…] is needed", x.Type)
		}
		if ir.Same(x.Type.Shape[2:].Elements(), ir.N(0)) == ir.Yes {
			c.Failf("%v has no elements to pool", x.Type)
		}
		return []*ir.Value{c.Emit(ir.Reduce{Fn: fn, Axes: upTo(rank(x))[2:], KeepDims: true}, x)}
	}
}

// lowerGlobalLpPool is the p-norm of each channel.
func lowerGlobalLpPool(c *context) []*ir.Value {
	p := c.AttrInt("p", 2)
	switch {
	case p < 1:
		c.Failf("p = %d is below 1", p)
	case p <= 2:
		return lowerGlobalPool([]ir.Reduction{ir.L1, ir.L2}[p-1])(c)
	}
	x := c.In(0)
	power := c.binary(ir.Pow, c.unary(ir.Abs, x), c.like(x, float64(p)))
	sum := c.Emit(ir.Reduce{Fn: ir.Sum, Axes: upTo(rank(x))[2:], KeepDims: true}, power)
	return []*ir.Value{c.binary(ir.Pow, sum, c.like(x, 1/float64(p)))}
}

// poolWindow reads a pool's window; ceil and dilated are the versions that know ceil_mode and dilations.
func (c *context) poolWindow(ceil, dilated int) ir.Window {
	w := c.window(nil, c.Version() >= dilated)
	if c.Version() >= ceil {
		w.Ceil = c.AttrBool("ceil_mode", false)
	}
	for i, k := range w.Kernel {
		if pads := []int{w.Pads[i], w.Pads[len(w.Kernel)+i]}; max(pads[0], pads[1]) >= k {
			c.Failf("axis %d: pads %v for a kernel of %d: a window could be entirely in the padding", i, pads, k)
		}
	}
	return w
}

func lowerAveragePool(c *context) []*ir.Value { return c.averagePool(false) }

// averagePool divides a sum that includes the padding by the elements of the window that are not beyond the padding, or by all: always, or
// where onnxruntime does, in the versions before 19 that round the number of windows down.
func (c *context) averagePool(always bool) []*ir.Value {
	op := ops.AveragePool{Window: c.poolWindow(10, 19), CountIncludePad: c.AttrBool("count_include_pad", false)}
	c.checkPool(op)
	all := op.CountIncludePad && (always || c.Version() < 19 && !op.Ceil)
	x := c.met(op.Window)
	if all { // padding up to the end of the last window
		pad := ir.Pad{Before: make([]ir.Dim, rank(x)), After: make([]ir.Dim, rank(x))}
		for i, d := range x.Type.Shape[2:] {
			_, before, _ := op.Positions(i, d)
			end := op.PoolPositions(i, d).Sub(ir.N(1)).Mul(ir.N(op.Strides[i])).Add(ir.N(op.Extent(i)))
			pad.Before[2+i], pad.After[2+i] = before, end.Sub(d).Sub(before)
		}
		x = c.Emit(pad, x, c.like(x, 0))
		op.Auto, op.Ceil, op.Pads = "VALID", false, make([]int, len(op.Pads))
	}
	return c.pool(op, x)
}

// met is operand 0 without what SAME leaves at the ends where windows are smaller than their stride: as much after them as in front of
// them, which onnxruntime's AveragePool and LpPool have as negative padding. Its MaxPool refuses that, and Conv begins with the first
// element; here both do.
func (c *context) met(w ir.Window) *ir.Value {
	x := c.In(0)
	for i, d := range x.Type.Shape[2:] {
		stride, extent, odd := w.Strides[i], w.Extent(i), 0
		if w.Auto == "SAME_LOWER" { // has the odd one after
			odd = 1
		}
		if !strings.HasPrefix(w.Auto, "SAME") || stride-extent-odd < 2 {
			continue
		}
		left := ir.Max(d.Sub(d.CeilDiv(ir.N(stride)).Sub(ir.N(1)).Mul(ir.N(stride)).Add(ir.N(extent))), ir.N(0))
		x = c.slice(x, 2+i, ir.Max(left.Sub(ir.N(odd)), ir.N(0)).Div(ir.N(2)), d.Sub(left))
	}
	return x
}

func lowerLpPool(c *context) []*ir.Value {
	op := ops.LpPool{Window: c.poolWindow(18, 18), P: c.AttrInt("p", 2)}
	c.checkPool(op)
	return c.pool(op, c.met(op.Window))
}

func lowerMaxPool(c *context) []*ir.Value {
	op := ops.MaxPool{Window: c.poolWindow(10, 10), ColumnMajor: c.Version() >= 8 && c.choice("storage_order", 2) == 1,
		Results: c.NumOutputs()}
	c.checkPool(op)
	return c.pool(op, c.In(0))
}

// pool keeps a pool over x [N,C,…], with the channels last.
func (c *context) pool(op ir.Op, x *ir.Value) []*ir.Value {
	var out []*ir.Value
	for _, v := range c.opaque(op, c.channelsLast(x)) {
		out = append(out, c.channelsFirst(v))
	}
	return out
}

// checkPool fails if a pool does not support the node's operand.
func (c *context) checkPool(op ir.Op) {
	x := c.In(0).Type
	if len(x.Shape) > 1 {
		x.Shape = slices.Concat(x.Shape[:1], x.Shape[2:], x.Shape[1:2])
	}
	if _, err := checked(op, []*ir.Value{{Type: x}}); err != nil {
		c.Failf("%w", err)
	}
}

// lowerMaxUnpool puts elements back where a MaxPool over [N,C,…] took them, in a result of the size that the pool's window
// suggests, and then pads the result at its end to the size that operand 2 names.
func lowerMaxUnpool(c *context) []*ir.Value {
	x, index := c.In(0), c.In(1)
	w := c.window(nil, false)
	shape := slices.Clone(x.Type.Shape)
	for i, d := range shape[2:] {
		pads := w.Pads[i] + w.Pads[len(w.Kernel)+i]
		shape[2+i] = d.Sub(ir.N(1)).Mul(ir.N(w.Strides[i])).Add(ir.N(w.Kernel[i] - pads))
	}
	flat := func(v *ir.Value) *ir.Value { return c.reshape(v, ir.Shape{v.Type.Shape.Elements()}) }
	zero := c.expand(c.like(x, 0), ir.Shape{shape.Elements()})
	y := c.reshape(c.Emit(ir.ScatterElements{}, zero, flat(c.nonNegative(index)), flat(x)), shape)
	if c.Opt(2) == nil {
		return []*ir.Value{y}
	}
	want := c.Dims(2)
	if len(want) != len(shape) {
		c.Failf("output_shape %v for %v", ir.Shape(want), x.Type)
	}
	op := ir.Pad{Before: make([]ir.Dim, len(shape)), After: make([]ir.Dim, len(shape))}
	for i, d := range want {
		op.After[i] = d.Sub(shape[i])
	}
	return []*ir.Value{c.Emit(op, y)}
}

func lowerLRN(c *context) []*ir.Value {
	return c.opaque(ops.LRN{Size: c.AttrInt("size", 0), Alpha: c.AttrFloat("alpha", 1e-4), Beta: c.AttrFloat("beta", 0.75),
		Bias: c.AttrFloat("bias", 1)}, c.In(0))
}
