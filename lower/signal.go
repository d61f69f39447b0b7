package lower

import (
	"math"

	"github.com/rlxc/rlxc/ir"
	"github.com/rlxc/rlxc/tensor"
)

// Window functions: sums of cosines a₀ − a₁·cos(2πn/N) + a₂·cos(4πn/N).
var signalRows = []row{
	{"HannWindow", 17, lowerWindow(0.5, 0.5, 0)},
	{"HammingWindow", 17, lowerWindow(25.0/46, 21.0/46, 0)},
	{"BlackmanWindow", 17, lowerWindow(0.42, 0.5, 0.08)},
}

func lowerWindow(a0, a1, a2 float64) func(*context) []*ir.Value {
	return func(c *context) []*ir.Value {
		to, periodic := tensor.DType(c.AttrInt("output_datatype", int(tensor.F32))), c.AttrBool("periodic", true)
		size, ok := c.wholeNumber(c.In(0))
		if !ok && !c.IsConst(0) {
			return c.AtRun(ir.TensorOf(to, c.Fresh(0)))
		}
		if !ok {
			size = ir.N(int(c.number(0)))
		}
		period := size
		if !periodic {
			period = size.Sub(ir.N(1))
		}
		constant := func(v float64) *ir.Value { return c.Scalar(tensor.F64, v) }
		wave := func(turns, amplitude float64) *ir.Value {
			x := c.binary(ir.Mul, c.cast(c.count(size, 0, 1), tensor.F64), constant(turns*2*math.Pi))
			x = c.binary(ir.Div, x, c.cast(c.sizeScalar(period), tensor.F64))
			return c.binary(ir.Mul, c.unary(ir.Cos, x), constant(amplitude))
		}
		y := c.binary(ir.Add, wave(1, -a1), constant(a0))
		if a2 != 0 {
			y = c.binary(ir.Add, y, wave(2, a2))
		}
		return []*ir.Value{c.cast(y, to)}
	}
}
