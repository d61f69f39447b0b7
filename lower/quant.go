package lower

import (
	"math"
	"slices"
	"strings"

	"github.com/rlxc/rlxc/ir"
	"github.com/rlxc/rlxc/tensor"
)

// Quantised values and their products.
var quantRows = []row{
	{"QuantizeLinear", 10, lowerQuantize},
	{"DequantizeLinear", 10, lowerDequantize},
	{"DynamicQuantizeLinear", 11, lowerDynamicQuantize},
	{"MatMulInteger", 10, lowerMatMulInteger},
	{"ConvInteger", 10, lowerConvInteger},
	{"QLinearMatMul", 10, lowerQLinearMatMul},
	{"QLinearConv", 10, lowerQLinearConv},
}

// A scaling is how the quantised values of one tensor are scaled: values are (q − zero)·scale.
type scaling struct {
	scale, zero *ir.Value // zero may be nil
	axis, block int
}

// scaling reads the operands of scale and zero point for a tensor of type t: a scalar or a vector of one element for the whole tensor,
// a vector along an axis, or, with a block size, a scale for each block of the axis.
func (c *context) scaling(t ir.Type, scale, zero int) scaling {
	s := scaling{scale: c.In(scale), zero: c.Opt(zero), block: c.AttrInt("block_size", 0)}
	given := s.scale.Type
	if !given.DType.IsFloat() {
		c.Failf("operand %d: scales of %s: want floats", scale, given.DType.ONNX())
	}
	axis := c.AttrInt("axis", 1)
	switch axes := len(given.Shape); {
	case s.block < 0:
		c.Failf("block_size is %d", s.block)
	case s.block == 0 && axes <= 1:
		s.scale, s.zero = c.scalar(s.scale, t.Shape...), c.scalar(s.zero, t.Shape...)
	case s.block > 0 && axes > 0 && axes == len(t.Shape):
	default:
		c.Failf("operand %d: scales %v for %v with block_size %d: want one, one for each slice, or one for each block",
			scale, given, t, s.block)
	}
	if s.zero != nil && rank(s.zero) == 0 && rank(s.scale) == 1 && scale == 4 && strings.HasPrefix(c.name, "QLinear") {
		s.zero = c.expand(s.zero, s.scale.Type.Shape) // of weights, as onnxruntime has it
	}
	if s.zero != nil && rank(s.zero) == 1 && rank(s.scale) == 0 && scale == 4 && strings.HasPrefix(c.name, "QLinear") {
		s.scale = c.expand(s.scale, s.zero.Type.Shape)
	}
	if s.zero != nil && rank(s.zero) != rank(s.scale) { // right only if the vector, which may have the size of an axis, has one element
		s.scale, s.zero = c.scalar(s.scale), c.scalar(s.zero)
	}
	if s.zero != nil && rank(s.zero) != rank(s.scale) {
		c.Failf("operand %d: zero points %v beside scales %v: want equally many axes", zero, s.zero.Type, s.scale.Type)
	}
	if rank(s.scale) > 0 {
		s.axis = c.Axis(axis, len(t.Shape))
	}
	return s
}

// checkScale refuses scales by which nothing can be divided, as far as they are known. An infinite one is what a quantiser measures of a
// mask that holds -∞.
func (c *context) checkScale(i int) {
	v := c.In(i)
	if !v.Type.DType.IsFloat() {
		c.Failf("operand %d: scales of %s: want floats", i, v.Type.DType.ONNX())
	}
	if !c.IsConst(i) {
		return
	}
	x := c.Const(i)
	for k := range x.Len() {
		if s := x.Float64(k); s == 0 || math.IsNaN(s) {
			c.Failf("operand %d: scale %d is %v", i, k, s)
		}
	}
}

// scalar makes a value of one element a scalar; other values and nil pass. Axes are the sizes of which v may have one number each: a
// vector of such a size passes, whatever the size will be. If it is unknown whether v has one element, the node is left to the run.
func (c *context) scalar(v *ir.Value, axes ...ir.Dim) *ir.Value {
	if v == nil || rank(v) == 0 {
		return v
	}
	n := v.Type.Shape.Elements()
	each := slices.ContainsFunc(axes, func(d ir.Dim) bool { return ir.Same(n, d) == ir.Yes })
	switch {
	case each && !n.Is(1), c.oneOf(n, ir.N(1)) < 0:
		return v
	case v.Const != nil:
		return c.Constant(v.Const.Reshape())
	}
	return c.reshape(v, ir.Shape{})
}

func (c *context) dequantize(x *ir.Value, s scaling, to tensor.DType) *ir.Value {
	return c.Emit(ir.Dequantize{To: to, Axis: s.axis, Block: s.block}, x, s.scale, s.zero)
}

func (c *context) quantize(x *ir.Value, s scaling, to tensor.DType) *ir.Value {
	return c.Emit(ir.Quantize{To: to, Axis: s.axis, Block: s.block}, x, s.scale, s.zero)
}

func (c *context) attrDType(name string) tensor.DType {
	d := c.AttrInt(name, 0)
	if d < 0 || d >= int(tensor.NumDTypes) {
		c.Unsupportedf("%s: element type %d", name, d)
	}
	return tensor.DType(d)
}

func lowerQuantize(c *context) []*ir.Value {
	x := c.In(0)
	s := c.scaling(x.Type, 1, 2)
	c.checkScale(1)
	divides := c.attrDType("precision")
	if divides == tensor.Invalid && c.Version() >= 23 {
		divides = s.scale.Type.DType
	}
	if divides.IsFloat() && divides.Bits() == 16 {
		x, s = c.inUnits(x, s, divides)
	}
	to := c.attrDType("output_dtype")
	switch {
	case s.zero == nil && to == tensor.Invalid:
		to = tensor.U8
	case s.zero == nil:
	case to != tensor.Invalid && to != s.zero.Type.DType:
		c.Failf("output_dtype is %s and the zero point %s", to.ONNX(), s.zero.Type.DType.ONNX())
	default:
		to = s.zero.Type.DType
	}
	wrap := !c.AttrBool("saturate", true) && to.IsFloat()
	return []*ir.Value{c.Emit(ir.Quantize{To: to, Axis: s.axis, Block: s.block, Wrap: wrap}, x, s.scale, s.zero)}
}

// inUnits returns x divided by its scales, both rounded to type d, as is the quotient, and a scaling of the quotient, whose scales are 1.
// Quantize itself divides in float32.
func (c *context) inUnits(x *ir.Value, s scaling, d tensor.DType) (*ir.Value, scaling) {
	scale, one := c.cast(s.scale, d), c.Scalar(d, 1)
	switch {
	case s.block > 0: // the scale of each element
		scale = c.dequantize(c.expand(c.Scalar(tensor.I8, 1), x.Type.Shape), scaling{scale: scale, axis: s.axis, block: s.block}, d)
	case rank(scale) == 1:
		shape := append(ir.Shape{scale.Type.Shape[0]}, slices.Repeat(ir.Dims(1), rank(x)-1-s.axis)...)
		scale = c.reshape(scale, shape)
	}
	units := s
	units.scale = c.expand(one, s.scale.Type.Shape)
	return c.binary(ir.Div, c.cast(x, d), scale), units
}

func lowerDequantize(c *context) []*ir.Value {
	x := c.In(0)
	s := c.scaling(x.Type, 1, 2)
	to := c.attrDType("output_dtype")
	if to == tensor.Invalid {
		to = s.scale.Type.DType
	}
	return []*ir.Value{c.dequantize(x, s, to)}
}

func lowerDynamicQuantize(c *context) []*ir.Value {
	return c.listed(c.EmitAll(ir.DynamicQuantize{}, c.In(0)))
}

// perColumn returns v, which belongs to matrix b, in a form that QMatMul takes: a scalar, a vector, nil when it is left out.
// The second result is false for other forms.
func (c *context) perColumn(v, b *ir.Value) (*ir.Value, bool) {
	v = c.scalar(v, b.Type.Shape...)
	return v, v == nil || rank(v) == 0 || rank(v) == 1 && rank(b) > 1 && c.oneOf(v.Type.Shape[0], b.Type.Shape[rank(b)-1]) == 0
}

func isScalar(v *ir.Value) bool { return v == nil || rank(v) == 0 }

func lowerMatMulInteger(c *context) []*ir.Value {
	a, b := c.In(0), c.In(1)
	aZero := c.scalar(c.Opt(2), a.Type.Shape...)
	bZero, fits := c.perColumn(c.Opt(3), b)
	return []*ir.Value{c.matrices(a, b, func(a, b *ir.Value) *ir.Value {
		if fits && isScalar(aZero) {
			return c.Emit(ir.QMatMul{}, a, b, aZero, bZero)
		}
		if aZero != nil && rank(aZero) == 1 { // a zero point for each row
			aZero = c.reshape(aZero, ir.Shape{aZero.Type.Shape[0], ir.N(1)})
		}
		return c.Emit(ir.MatMul{}, c.difference(a, aZero), c.difference(b, bZero))
	})}
}

// difference is x − zero as i32.
func (c *context) difference(x, zero *ir.Value) *ir.Value {
	x = c.cast(x, tensor.I32)
	if zero == nil {
		return x
	}
	return c.within(x, c.binary(ir.Sub, x, c.cast(zero, tensor.I32)))
}

// quantised is a quantised operand with its scaling.
type quantised struct {
	x     *ir.Value
	scale *ir.Value
	zero  *ir.Value
}

func lowerQLinearMatMul(c *context) []*ir.Value {
	read := func(x int) (q quantised) {
		q.x = c.In(x)
		s := c.scaling(q.x.Type, x+1, x+2)
		q.scale, q.zero = s.scale, s.zero
		return q
	}
	a, b := read(0), read(3)
	y := c.scaling(a.x.Type, 6, 7)
	bScale, fits1 := c.perColumn(b.scale, b.x)
	bZero, fits2 := c.perColumn(b.zero, b.x)
	return []*ir.Value{c.matrices(a.x, b.x, func(p, q *ir.Value) *ir.Value {
		if fits1 && fits2 && isScalar(a.scale) && isScalar(y.scale) && p.Type.DType.Bits() == 8 && p.Type.DType.IsInt() {
			return c.Emit(ir.QMatMul{}, p, q, a.zero, bZero, a.scale, bScale, nil, nil, y.scale, y.zero)
		}
		wide := a.scale.Type.DType
		of := func(x *ir.Value, s quantised, axis int) *ir.Value {
			return c.dequantize(x, scaling{scale: s.scale, zero: s.zero, axis: axis}, wide)
		}
		r := c.Emit(ir.MatMul{}, of(p, a, rank(p)-2), of(q, b, rank(q)-1))
		return c.quantize(r, scaling{scale: y.scale, zero: y.zero, axis: rank(r) - 2}, y.zero.Type.DType)
	})}
}

// standard lowers another operator of ai.onnx instead of this one, with the attributes of this one.
func (c *context) standard(name string, in ...*ir.Value) *ir.Value {
	op := c.operator
	op.domain, op.name, op.version = "ai.onnx", name, MaxOpset
	for _, a := range op.attrs {
		c.readAtt[a.Name] = true
	}
	out, err := c.b.lowerNode(op, in)
	if err != nil {
		panic(failure{err})
	}
	return out[0]
}

// maxExactF32 is the most products of differences of bytes of which float32 holds the sums.
const maxExactF32 = 1 << 24 / (255 * 255)

// lowerConvInteger is a convolution of bytes, or one of floats that hold its sums.
func lowerConvInteger(c *context) []*ir.Value {
	x, w := c.In(0), c.In(1)
	win, groups := c.window(c.weightsKernel(w), true), c.AttrInt("group", 1)
	zero, wZero := c.scalar(c.Opt(2)), c.scalar(c.Opt(3), w.Type.Shape...)
	if isScalar(zero) {
		return []*ir.Value{c.convBytes(win, groups, x, w, zero, wZero)}
	}
	wide := tensor.F64
	if n, known := ir.Shape(w.Type.Shape[1:]).Elements().Const(); known && n <= maxExactF32 && groups > 1 { // tiles of a single group round
		wide = tensor.F32
	}
	if wZero != nil && rank(wZero) == 1 { // one for each of the weights' output channels
		s := ir.Shape{wZero.Type.Shape[0]}
		for range win.Kernel {
			s = append(s, ir.N(1))
		}
		wZero = c.reshape(wZero, append(s, ir.N(1)))
	}
	return []*ir.Value{c.cast(c.standard("Conv", c.cast(c.difference(x, zero), wide), c.cast(c.difference(w, wZero), wide)), tensor.I32)}
}

func lowerQLinearConv(c *context) []*ir.Value {
	x, w, bias := c.In(0), c.In(3), c.Opt(8)
	xs, ws := c.scaling(x.Type, 1, 2), c.scaling(w.Type, 4, 5)
	ws.axis = 0
	ys := c.scaling(x.Type, 6, 7)
	if isScalar(xs.scale) && isScalar(ys.scale) && xs.scale.Type.DType == tensor.F32 {
		win := c.window(c.weightsKernel(w), true)
		return []*ir.Value{c.convBytes(win, c.AttrInt("group", 1), x, w, xs.zero, ws.zero, xs.scale, ws.scale, bias, nil, ys.scale,
			ys.zero)}
	}
	in := []*ir.Value{c.dequantize(x, xs, tensor.F32), c.dequantize(w, ws, tensor.F32)}
	if bias != nil { // in units of both scales
		in = append(in, c.binary(ir.Mul, c.cast(bias, tensor.F32), c.binary(ir.Mul, xs.scale, ws.scale)))
	}
	return []*ir.Value{c.quantize(c.standard("Conv", in...), ys, ys.zero.Type.DType)}
}
