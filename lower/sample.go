package lower

import (
	"slices"

	"github.com/rlxc/rlxc/internal/ops"
	"github.com/rlxc/rlxc/ir"
	"github.com/rlxc/rlxc/tensor"
)

var sampleRows = []row{
	{"AffineGrid", 20, lowerAffineGrid},
	{"GridSample", 16, lowerGridSample},
}

// lowerAffineGrid multiplies homogeneous coordinates, the innermost axis first, by the matrices theta [N,r,r+1].
func lowerAffineGrid(c *context) []*ir.Value {
	theta, corners := c.In(0), c.AttrBool("align_corners", false)
	if !c.IsConst(1) && c.In(1).Dims == nil {
		if rank(theta) != 3 {
			c.Failf("theta %v: want three axes", theta.Type)
		}
		shape := ir.Shape{theta.Type.Shape[0]}
		axes, known := theta.Type.Shape[1].Const()
		if !known {
			panic(needsRun{0}) // the rank of the result follows
		}
		for k := range axes {
			shape = append(shape, c.Fresh(k))
		}
		return c.AtRun(ir.TensorOf(theta.Type.DType, append(shape, theta.Type.Shape[1])...))
	}
	size := c.Dims(1)
	r := len(size) - 2
	if r < 1 || rank(theta) != 3 || ir.Same(theta.Type.Shape[1], ir.N(r)) == ir.No || ir.Same(theta.Type.Shape[2], ir.N(r+1)) == ir.No ||
		ir.Same(theta.Type.Shape[0], size[0]) == ir.No {
		c.Failf("theta %v for images %v: want [N,2,3] for [N,C,H,W], or [N,3,4] for [N,C,D,H,W]", theta.Type, ir.Shape(size))
	}
	spatial := ir.Shape(size[2:])
	scalar := func(v float64) *ir.Value { return c.Scalar(tensor.F64, v) }
	column := append(slices.Clone(spatial), ir.N(1))
	var columns []*ir.Value
	for axis := r - 1; axis >= 0; axis-- {
		x := c.cast(c.count(spatial[axis], axis, r+1), tensor.F64)
		n := spatial[axis]
		if corners {
			n = ir.Max(n.Sub(ir.N(1)), ir.N(1)) // a single element is at the first corner
		} else {
			x = c.binary(ir.Add, x, scalar(0.5))
		}
		x = c.binary(ir.Div, c.binary(ir.Mul, x, scalar(2)), c.cast(c.sizeScalar(n), tensor.F64))
		columns = append(columns, c.expand(c.binary(ir.Sub, x, scalar(1)), column))
	}
	columns = append(columns, c.expand(scalar(1), column))
	points := c.reshape(c.Emit(ir.Concat{Axis: r}, columns...), ir.Shape{spatial.Elements(), ir.N(r + 1)})
	grid := c.Emit(ir.MatMul{TransB: true}, points, c.cast(theta, tensor.F64))
	grid = c.cast(grid, theta.Type.DType)
	return []*ir.Value{c.reshape(grid, slices.Concat(ir.Shape{theta.Type.Shape[0]}, spatial, ir.Shape{ir.N(r)}))}
}

func lowerGridSample(c *context) []*ir.Value {
	x, grid := c.In(0), c.In(1)
	op := ops.GridSample{Mode: c.AttrString("mode", "linear"), Padding: c.AttrString("padding_mode", "zeros"),
		Corners: c.AttrBool("align_corners", false)}
	switch op.Mode {
	case "bilinear":
		op.Mode = "linear"
	case "bicubic":
		op.Mode = "cubic"
	}
	return c.opaque(op, x, grid)
}
