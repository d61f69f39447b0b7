package lower

import (
	"github.com/rlxc/rlxc/internal/ops"
	"github.com/rlxc/rlxc/ir"
	"github.com/rlxc/rlxc/tensor"
)

// What detectors are made of beside convolutions.
var detectionRows = []row{
	{"NonMaxSuppression", 10, lowerNonMaxSuppression},
	{"RoiAlign", 10, lowerRoiAlign},
	{"MaxRoiPool", 1, lowerMaxRoiPool},
	{"DeformConv", 19, lowerDeformConv},
}

func lowerNonMaxSuppression(c *context) []*ir.Value {
	for i := range c.NumInputs() {
		c.Opt(i)
	}
	return c.compute(ops.NonMaxSuppression{Typed: typed(ir.TensorOf(tensor.I64, c.Fresh(0), ir.N(3))),
		Centre: c.choice("center_point_box", 2) == 1}, c.in...)
}

func lowerRoiAlign(c *context) []*ir.Value {
	for i := range 3 {
		c.In(i)
	}
	op := ops.RoiAlign{Height: c.AttrInt("output_height", 1), Width: c.AttrInt("output_width", 1),
		SamplingRatio: c.AttrInt("sampling_ratio", 0), Scale: c.AttrFloat("spatial_scale", 1)}
	switch mode := c.AttrString("mode", "avg"); mode {
	case "avg":
	case "max":
		op.Max = true
	default:
		c.Failf("mode %q is neither avg nor max", mode)
	}
	if c.Version() >= 16 {
		switch m := c.AttrString("coordinate_transformation_mode", "half_pixel"); m {
		case "half_pixel":
			op.HalfPixel = true
		case "output_half_pixel":
		default:
			c.Failf("coordinate_transformation_mode %q: want half_pixel or output_half_pixel", m)
		}
	}
	return c.opaque(op)
}

func lowerMaxRoiPool(c *context) []*ir.Value {
	for i := range 2 {
		c.In(i)
	}
	shape, _ := c.AttrInts("pooled_shape")
	if len(shape) != 2 {
		c.Failf("pooled_shape %v: want two numbers", shape)
	}
	return c.opaque(ops.MaxRoiPool{Height: shape[0], Width: shape[1], Scale: c.AttrFloat("spatial_scale", 1)})
}

func lowerDeformConv(c *context) []*ir.Value {
	if x, w := c.In(0).Type, c.In(1).Type; len(x.Shape) != 4 || len(w.Shape) != 4 {
		c.Unsupportedf("images %v, weights %v: two spatial axes are needed", x, w)
	}
	for i := range c.NumInputs() {
		c.Opt(i)
	}
	return c.opaque(ops.DeformConv{Window: c.window(c.In(1).Type.Shape[2:], true), Group: c.AttrInt("group", 1),
		OffsetGroup: c.AttrInt("offset_group", 1)})
}
