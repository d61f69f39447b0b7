package lower

import (
	"slices"

	"github.com/rlxc/rlxc/ir"
	"github.com/rlxc/rlxc/tensor"
)

// experimentalRows are operators that ONNX had on trial up to opset 9 and onnxruntime has kept: converters of that time (Core ML, Caffe2)
// wrote them. Their schemas are onnxruntime's.
var experimentalRows = []row{
	{"Affine", 1, lowerAffine},
	{"Crop", 1, lowerCrop},
	{"DynamicSlice", 1, lowerSlice},
	{"ImageScaler", 1, lowerImageScaler},
	{"MeanVarianceNormalization", 1, lowerWholeNormalization},
	{"ParametricSoftplus", 1, lowerScaledUnary(ir.Softplus)},
	{"Scale", 1, func(c *context) []*ir.Value { return []*ir.Value{c.times(c.In(0), c.AttrFloat("scale", 1))} }},
	{"ScaledTanh", 1, lowerScaledUnary(ir.Tanh)},
	{"ThresholdedRelu", 1, func(c *context) []*ir.Value {
		return []*ir.Value{c.Emit(ir.Unary{Fn: ir.ThresholdedRelu, Alpha: c.AttrFloat("alpha", 1)}, c.In(0))}
	}},
}

// times is x · factor.
func (c *context) times(x *ir.Value, factor float32) *ir.Value {
	return c.binary(ir.Mul, x, c.like(x, float64(factor)))
}

func lowerAffine(c *context) []*ir.Value {
	y := c.times(c.In(0), c.AttrFloat("alpha", 1))
	return []*ir.Value{c.binary(ir.Add, y, c.like(y, float64(c.AttrFloat("beta", 0))))}
}

// lowerScaledUnary is alpha · fn(beta · x).
func lowerScaledUnary(fn ir.UnaryFn) func(*context) []*ir.Value {
	return func(c *context) []*ir.Value {
		if !c.HasAttr("alpha") || !c.HasAttr("beta") {
			c.Failf("attributes alpha and beta are needed")
		}
		return []*ir.Value{c.times(c.unary(fn, c.times(c.In(0), c.AttrFloat("beta", 0))), c.AttrFloat("alpha", 0))}
	}
}

// image is operand 0, which must be [N,C,H,W].
func (c *context) image() *ir.Value {
	x := c.In(0)
	if rank(x) != 4 {
		c.Failf("%v is not [N,C,H,W]", x.Type)
	}
	return x
}

// lowerImageScaler is scale · x + bias, which is of channels.
func lowerImageScaler(c *context) []*ir.Value {
	x := c.image()
	bias, _ := c.AttrFloats("bias")
	if ir.Same(ir.N(len(bias)), x.Type.Shape[1]) == ir.No {
		c.Failf("%d entries of bias for %v: want one for each channel", len(bias), x.Type)
	}
	y := c.times(x, c.AttrFloat("scale", 1))
	return []*ir.Value{c.binary(ir.Add, y, c.cast(c.Constant(tensor.FromSlice(bias, len(bias), 1, 1)), x.Type.DType))}
}

// lowerCrop takes border, which is left, top, right and bottom, from an image; with scale, height and width say how much stays
// after left and top.
func lowerCrop(c *context) []*ir.Value {
	x := c.image()
	border, _ := c.AttrInts("border")
	scale, scaled := c.AttrInts("scale")
	if len(border) != 4 || scaled && len(scale) != 2 || slices.Min(append(border, scale...)) < 0 ||
		slices.Max(append(border, scale...)) > ir.MaxSize {
		c.Failf("border %v and scale %v: left, top, right and bottom, and height and width, are needed", border, scale)
	}
	s := newSlice(x)
	for i, axis := range []int{3, 2} { // left belongs to the width
		before, size := border[i], x.Type.Shape[axis]
		rest := size.Sub(ir.N(before + border[2+i]))
		if scaled {
			rest = ir.N(scale[1-i])
		}
		if ir.LessEqual(ir.N(0), rest) == ir.No || ir.LessEqual(rest.Add(ir.N(before)), size) == ir.No {
			c.Failf("border %v and scale %v for %v: the result would leave the image", border, scale, x.Type)
		}
		s.Starts[axis], s.Sizes[axis] = ir.N(before), rest
	}
	return []*ir.Value{c.emitSlice(s, x)}
}

// lowerWholeNormalization subtracts the mean over the images of the batch, and divides by the deviation unless normalize_variance is 0. If
// across_channels is set, mean and deviation are also over the channels.
func lowerWholeNormalization(c *context) []*ir.Value {
	x := c.image()
	mean := ir.Reduce{Fn: ir.Mean, KeepDims: true, Axes: []int{0, 2, 3}}
	if c.AttrBool("across_channels", false) {
		mean.Axes = upTo(4)
	}
	y := c.binary(ir.Sub, x, c.Emit(mean, x))
	if c.AttrBool("normalize_variance", true) {
		y = c.binary(ir.Div, y, c.unary(ir.Sqrt, c.Emit(mean, c.binary(ir.Mul, y, y))))
	}
	return []*ir.Value{y}
}
