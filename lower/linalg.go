package lower

import (
	"github.com/rlxc/rlxc/internal/ops"
	"github.com/rlxc/rlxc/ir"
	"github.com/rlxc/rlxc/tensor"
)

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
