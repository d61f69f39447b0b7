package lower

import (
	"slices"

	"github.com/rlxc/rlxc/internal/ops"
	"github.com/rlxc/rlxc/ir"
	"github.com/rlxc/rlxc/tensor"
)

// What works element by element. The operators that choose between elements or change their type are in convert.go.
var mathRows = slices.Concat(unaryRows(), plainBinaryRows, []row{
	{"SwiGLU", 28, lowerSwiGLU},
	{"Gelu", 20, lowerGelu},
	{"IsInf", 10, lowerIsInf},
	{"PRelu", 7, lowerPRelu},
	{"Mod", 10, lowerMod},
	{"BitShift", 11, lowerBitShift},

	{"Max", 6, lowerVariadic(ir.MaxFn)},
	{"Min", 6, lowerVariadic(ir.MinFn)},
	{"Sum", 6, lowerVariadic(ir.Add)},
	{"Mean", 6, lowerMean},
})

// unaryRows are the operators that are one function of the IR, whose table knows them.
func unaryRows() (rows []row) {
	for fn := ir.NoUnary + 1; fn < ir.NumUnary; fn++ {
		if o := fn.Operator(); o.Name != "" {
			rows = append(rows, row{o.Name, o.Since, func(c *context) []*ir.Value {
				op := ir.Unary{Fn: fn}
				if o.Alpha.Name != "" {
					op.Alpha = c.AttrFloat(o.Alpha.Name, o.Alpha.Default)
				}
				if o.Beta.Name != "" {
					op.Beta = c.AttrFloat(o.Beta.Name, o.Beta.Default)
				}
				return []*ir.Value{c.Emit(op, c.In(0))}
			}})
		}
	}
	return rows
}

var plainBinaryRows = []row{
	{"Add", 7, lowerBinary(ir.Add)},
	{"And", 7, lowerBinary(ir.And)},
	{"BitwiseAnd", 18, lowerBinary(ir.BitwiseAnd)},
	{"BitwiseOr", 18, lowerBinary(ir.BitwiseOr)},
	{"BitwiseXor", 18, lowerBinary(ir.BitwiseXor)},
	{"Div", 7, lowerBinary(ir.Div)},
	{"Equal", 7, lowerBinary(ir.Equal)},
	{"Greater", 7, lowerBinary(ir.Greater)},
	{"GreaterOrEqual", 12, lowerBinary(ir.GreaterOrEqual)},
	{"Less", 7, lowerBinary(ir.Less)},
	{"LessOrEqual", 12, lowerBinary(ir.LessOrEqual)},
	{"Mul", 7, lowerBinary(ir.Mul)},
	{"Or", 7, lowerBinary(ir.Or)},
	{"Pow", 7, lowerBinary(ir.Pow)},
	{"Sub", 7, lowerBinary(ir.Sub)},
	{"Xor", 7, lowerBinary(ir.Xor)},
}

func lowerBinary(fn ir.BinaryFn) func(*context) []*ir.Value {
	return func(c *context) []*ir.Value { return []*ir.Value{c.binary(fn, c.In(0), c.In(1))} }
}

func (c *context) unary(fn ir.UnaryFn, x *ir.Value) *ir.Value { return c.Emit(ir.Unary{Fn: fn}, x) }

func (c *context) binary(fn ir.BinaryFn, x, y *ir.Value) *ir.Value {
	return c.Emit(ir.Binary{Fn: fn}, x, y)
}

// like is a scalar of x's type.
func (c *context) like(x *ir.Value, v float64) *ir.Value { return c.Scalar(x.Type.DType, v) }

// within refuses a result that broadcasting has made larger than x: what ONNX calls unidirectional broadcasting.
func (c *context) within(x, y *ir.Value) *ir.Value {
	same := rank(x) == rank(y)
	for i := 0; same && i < rank(x); i++ {
		same = ir.Same(x.Type.Shape[i], y.Type.Shape[i]) != ir.No
	}
	if !same {
		c.Failf("an operand does not broadcast to %v", x.Type.Shape)
	}
	return y
}

// lowerSwiGLU is swish(a)·b, of equal shapes.
func lowerSwiGLU(c *context) []*ir.Value {
	gate := c.Emit(ir.Unary{Fn: ir.Silu, Alpha: c.AttrFloat("alpha", 1)}, c.In(0))
	return []*ir.Value{c.within(gate, c.binary(ir.Mul, gate, c.In(1)))}
}

func lowerGelu(c *context) []*ir.Value {
	fn, ok := map[string]ir.UnaryFn{"none": ir.Gelu, "tanh": ir.GeluTanh}[c.AttrString("approximate", "none")]
	if !ok {
		c.Failf("approximate is neither none nor tanh")
	}
	return []*ir.Value{c.unary(fn, c.In(0))}
}

func lowerIsInf(c *context) []*ir.Value {
	op := ir.Unary{Fn: ir.IsInf, Alpha: float32(c.AttrInt("detect_positive", 1)), Beta: float32(c.AttrInt("detect_negative", 1))}
	return []*ir.Value{c.Emit(op, c.In(0))}
}

// lowerPRelu takes slopes of more elements than operand 0, as onnxruntime does: ONNX has them broadcast to it alone.
func lowerPRelu(c *context) []*ir.Value { return []*ir.Value{c.binary(ir.PRelu, c.In(0), c.In(1))} }

func lowerMod(c *context) []*ir.Value {
	x, fn := c.In(0), ir.Mod
	if c.choice("fmod", 2) == 1 {
		fn = ir.FMod
	} else if x.Type.DType.IsFloat() && c.Version() < 28 {
		c.Failf("fmod must be 1 for %s", x.Type.DType.ONNX())
	}
	return []*ir.Value{c.binary(fn, x, c.In(1))}
}

func lowerBitShift(c *context) []*ir.Value {
	x := c.In(0)
	if x.Type.DType.IsSigned() && c.Version() < 28 {
		c.Failf("%s cannot be shifted in opset %d", x.Type.DType.ONNX(), c.Version())
	}
	fn, ok := map[string]ir.BinaryFn{"LEFT": ir.ShiftLeft, "RIGHT": ir.ShiftRight}[c.AttrString("direction", "")]
	if !ok {
		c.Failf("direction is neither LEFT nor RIGHT")
	}
	return []*ir.Value{c.binary(fn, x, c.In(1))}
}

func lowerVariadic(fn ir.BinaryFn) func(*context) []*ir.Value {
	return func(c *context) []*ir.Value { return []*ir.Value{c.variadic(fn)} }
}

// variadic combines any number of operands from left to right.
func (c *context) variadic(fn ir.BinaryFn) *ir.Value {
	y := c.In(0)
	for _, x := range c.All()[1:] {
		y = c.binary(fn, y, x)
	}
	return y
}

func lowerMean(c *context) []*ir.Value {
	sum := c.variadic(ir.Add)
	if d := sum.Type.DType; !d.IsFloat() {
		c.Failf("the mean of %s: want floats", d.ONNX())
	}
	return []*ir.Value{c.binary(ir.Div, sum, c.like(sum, float64(c.NumInputs())))}
}

// cast converts, where that changes anything.
func (c *context) cast(x *ir.Value, to tensor.DType) *ir.Value {
	if x.Type.DType == to {
		return x
	}
	return c.Emit(ir.Cast{To: to}, x)
}

// Small opaque operators.
var linalgRows = []row{
	{"BitCast", 26, lowerBitCast},
	{"CumProd", 26, lowerCumProd},
	{"Det", 11, lowerDet},
}

func lowerBitCast(c *context) []*ir.Value {
	return c.opaque(ops.BitCast{To: tensor.DType(c.AttrInt("to", 0))}, c.In(0))
}

func lowerCumProd(c *context) []*ir.Value {
	x := c.In(0)
	axis := c.Axis(int(c.number(1)), rank(x))
	return c.opaque(ops.CumProd{Axis: axis, Exclusive: c.AttrBool("exclusive", false), Reverse: c.AttrBool("reverse", false)}, x)
}

func lowerDet(c *context) []*ir.Value { return c.opaque(ops.Det{}, c.In(0)) }
