package lower

import (
	"slices"

	"github.com/rlxc/rlxc/internal/ops"
	"github.com/rlxc/rlxc/ir"
	"github.com/rlxc/rlxc/tensor"
)

// The operators here return results whose sizes depend on data: they are computed when they are lowered where their operands are
// constants, and in the run otherwise.

func lowerNonZero(c *context) []*ir.Value {
	x := c.In(0)
	return c.compute(ops.NonZero{Typed: typed(ir.TensorOf(tensor.I64, ir.N(max(rank(x), 1)), c.Fresh(0)))}, x)
}

// operandAxis reads the attribute axis of an operator that without it takes the elements of operand 0 in order.
func (c *context) operandAxis() (axis int, flat bool) {
	if !c.HasAttr("axis") {
		return 0, true
	}
	return c.Axis(c.AttrInt("axis", 0), rank(c.In(0))), false
}

func lowerCompress(c *context) []*ir.Value {
	x := c.In(0)
	if t := c.In(1).Type; t.DType != tensor.Bool || len(t.Shape) != 1 {
		c.Failf("condition %v is not a vector of booleans", t)
	}
	axis, flat := c.operandAxis()
	if !c.IsConst(1) {
		shape := ir.Shape{c.Fresh(0)}
		if !flat {
			shape = slices.Clone(x.Type.Shape)
			shape[axis] = c.Fresh(0)
		}
		return c.opaque(ops.Compress{Typed: typed(ir.TensorOf(x.Type.DType, shape...)), Axis: axis, Flat: flat})
	}
	if flat {
		x = c.reshape(x, ir.Shape{x.Type.Shape.Elements()})
	}
	return []*ir.Value{c.Emit(ir.Gather{Axis: axis}, x, c.Constant(ops.FlatIndices(nil, c.Const(1))))}
}

func lowerUnique(c *context) []*ir.Value {
	t := c.In(0).Type
	axis, flat := c.operandAxis()
	groups, n, shape := c.Fresh(0), t.Shape.Elements(), ir.Shape{c.Fresh(0)}
	if !flat {
		n, shape = t.Shape[axis], slices.Clone(t.Shape)
		shape[axis] = groups
	}
	vector := ir.TensorOf(tensor.I64, groups)
	types := []ir.Type{ir.TensorOf(t.DType, shape...), vector, ir.TensorOf(tensor.I64, n), vector}
	return c.compute(ops.Unique{Typed: typed(types[:c.NumOutputs()]...), Axis: axis, Flat: flat, Unsorted: !c.AttrBool("sorted", true)},
		c.In(0))
}
