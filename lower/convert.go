package lower

import (
	"math"

	"github.com/rlxc/rlxc/internal/ops"
	"github.com/rlxc/rlxc/ir"
	"github.com/rlxc/rlxc/tensor"
)

// What changes elements' type or chooses between elements.
var convertRows = []row{
	{"Cast", 6, lowerCast},
	{"CastLike", 15, lowerCastLike},
	{"Where", 9, lowerWhere},
	{"Clip", 6, lowerClipAttr},
	{"Clip", 11, lowerClip},
	{"Dropout", 7, lowerDropoutAttr},
	{"Dropout", 12, lowerDropout},
}

func lowerCast(c *context) []*ir.Value {
	if !c.HasAttr("to") {
		c.Failf("attribute to is missing")
	}
	to := c.AttrInt("to", 0)
	if to <= 0 || to >= int(tensor.NumDTypes) {
		c.Unsupportedf("element type %d", to)
	}
	return []*ir.Value{c.convert(c.In(0), tensor.DType(to))}
}

func lowerCastLike(c *context) []*ir.Value {
	return []*ir.Value{c.convert(c.In(0), c.In(1).Type.DType)}
}

// convert is Cast with the attributes of the node, which say how 8-bit floats come out.
func (c *context) convert(x *ir.Value, to tensor.DType) *ir.Value {
	op := ir.Cast{To: to}
	if c.Version() >= 19 {
		op.Wrap = !c.AttrBool("saturate", true) && to.IsFloat() && to.Bits() == 8
	}
	if c.Version() >= 24 {
		mode := c.AttrString("round_mode", "up")
		if to == tensor.F8E8M0 {
			if err := op.PowerOfTwo.UnmarshalText([]byte(mode)); err != nil {
				c.Failf("round_mode: %w", err)
			}
		}
	}
	if x.Type.DType == to {
		return x
	}
	y := c.Emit(op, x)
	// Before opset 24, infinities became NaN in these two types, though large numbers became the largest one.
	if c.Version() < 24 && !op.Wrap && (to == tensor.F8E4M3FNUZ || to == tensor.F8E5M2FNUZ) && x.Type.DType.IsFloat() {
		infinite := c.Emit(ir.Unary{Fn: ir.IsInf, Alpha: 1, Beta: 1}, x)
		y = c.Emit(ir.Where{}, infinite, c.Scalar(to, math.NaN()), y)
	}
	return y
}

func lowerWhere(c *context) []*ir.Value {
	return []*ir.Value{c.Emit(ir.Where{}, c.In(0), c.In(1), c.In(2))}
}

func lowerClipAttr(c *context) []*ir.Value {
	x := c.In(0)
	low, high := c.AttrFloat("min", -math.MaxFloat32), c.AttrFloat("max", math.MaxFloat32)
	return []*ir.Value{c.Emit(ir.Clip{}, x, c.like(x, float64(low)), c.like(x, float64(high)))}
}

// finite is the bound of a Clip that has none: the largest number, as ONNX has it, so that infinities do not pass.
var finite = map[tensor.DType]float64{tensor.F16: 65504, tensor.F32: math.MaxFloat32, tensor.F64: math.MaxFloat64}

// lowerClip adds the bounds that are absent.
func lowerClip(c *context) []*ir.Value {
	in := []*ir.Value{c.In(0), c.Opt(1), c.Opt(2)}
	for i, limit := range in[1:] {
		switch d := in[0].Type.DType; {
		case limit == nil && d.IsFloat():
			most := finite[d]
			if d == tensor.BF16 || d == tensor.F16 && c.Version() < 12 { // which onnxruntime clips in float32
				most = math.Inf(1)
			}
			in[i+1] = c.Scalar(d, []float64{-1, 1}[i]*most)
		case limit != nil && rank(limit) > 0: // onnxruntime, and so exporters, let one element stand for a scalar
			in[i+1] = c.reshape(limit, ir.Shape{})
		}
	}
	return []*ir.Value{c.Emit(ir.Clip{}, in...)}
}

// dropout passes its operand through; where no element is dropped, the mask is 1 from opset 12 on, and was 0 before (as
// onnxruntime has it; ONNX left it open).
func (c *context) dropout(mask *tensor.Tensor) []*ir.Value {
	x := c.In(0)
	if c.NumOutputs() == 1 {
		return []*ir.Value{x}
	}
	return []*ir.Value{x, c.expand(c.Constant(mask), x.Type.Shape)}
}

func lowerDropoutAttr(c *context) []*ir.Value {
	c.IgnoreAttr("ratio")
	if c.Version() < 10 {
		return c.dropout(tensor.New(c.In(0).Type.DType))
	}
	return c.dropout(tensor.Scalar(false))
}

func lowerDropout(c *context) []*ir.Value {
	seed, fixed := attr[int64](c, "seed")
	ratio := 0.5
	if c.Opt(1) != nil && c.IsConst(1) {
		if r := c.Const(1); r.Len() != 1 || !(r.Float64(0) >= 0 && r.Float64(0) < 1) {
			c.Failf("the ratio %v is not one number from 0 to below 1", r)
		}
	}
	if train := c.Opt(2); train != nil && rank(train) != 0 {
		c.Failf("training_mode is %v, not a scalar", train.Type)
	}
	if c.Opt(2) == nil || c.Const(2).Int64(0) == 0 {
		return c.dropout(tensor.Scalar(true))
	}
	if c.Opt(1) != nil {
		ratio = c.Const(1).Float64(0)
	}
	if ratio == 0 {
		return c.dropout(tensor.Scalar(true))
	}
	x := c.In(0)
	drawn := c.opaque(ops.RandomUniform{Typed: typed(ir.TensorOf(tensor.F32, x.Type.Shape...)),
		Generator: ops.Generator{Seeded: fixed, Seed: float32(seed)}, High: 1}, x)[0]
	dropped := c.binary(ir.Less, drawn, c.Scalar(tensor.F32, ratio))
	y := c.Emit(ir.Where{}, dropped, c.like(x, 0), c.binary(ir.Mul, x, c.like(x, 1/(1-ratio))))
	return c.listed([]*ir.Value{y, c.unary(ir.Not, dropped)})
}
