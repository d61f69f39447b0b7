package lower

import (
	"slices"

	"github.com/rlxc/rlxc/internal/ops"
	"github.com/rlxc/rlxc/ir"
	"github.com/rlxc/rlxc/tensor"
)

var convRows = []row{
	{"Conv", 1, lowerConv},
	{"ConvTranspose", 1, lowerConvTranspose},
	{"Col2Im", 18, lowerCol2Im},
}

// weightsKernel is the kernel that weights have.
func (c *context) weightsKernel(w *ir.Value) ir.Shape {
	x := c.In(0).Type
	if len(x.Shape) < 3 || rank(w) != len(x.Shape) {
		c.Failf("weights %v for %v: want equally many axes, three or more", w.Type, x)
	}
	return w.Type.Shape[2:]
}

// kernelAtRun leaves the node to the run where only the run knows how large the kernel is; outputs are the channels of the result.
func (c *context) kernelAtRun(outputs func(w ir.Shape) ir.Dim) []*ir.Value {
	kernel, x, w := c.weightsKernel(c.In(1)), c.In(0).Type, c.In(1).Type
	shape, known := ir.Shape{x.Shape[0], outputs(w.Shape)}, true
	for i, d := range kernel {
		_, ok := d.Const()
		known = known && ok
		shape = append(shape, c.Fresh(i))
	}
	if known {
		return nil
	}
	return c.AtRun(ir.TensorOf(x.DType, shape...))
}

func lowerConv(c *context) []*ir.Value {
	if y := c.kernelAtRun(func(w ir.Shape) ir.Dim { return w[0] }); y != nil {
		return y
	}
	return []*ir.Value{c.conv(c.window(c.weightsKernel(c.In(1)), true), c.AttrInt("group", 1))}
}

func lowerConvTranspose(c *context) []*ir.Value {
	if y := c.kernelAtRun(func(w ir.Shape) ir.Dim { return w[1].Mul(ir.N(c.AttrInt("group", 1))) }); y != nil {
		return y
	}
	op := ops.ConvTranspose{Window: c.window(c.weightsKernel(c.In(1)), true), Group: c.AttrInt("group", 1)}
	c.Opt(2)
	axes := len(op.Kernel)
	extra, ok := c.AttrInts("output_padding")
	if !ok {
		extra = slices.Repeat([]int{0}, axes)
	}
	want, _ := c.AttrInts("output_shape")
	op.OutputPadding, op.OutputShape = extra, want
	x, w := c.In(0).Type, c.In(1).Type
	padded := slices.ContainsFunc(extra, func(n int) bool { return n != 0 })
	if op.Group == 1 && op.Tiles() && op.Taps() <= maxTaps && !padded && len(want) == 0 && len(x.Shape) == axes+2 &&
		ir.Same(x.Shape[1], w.Shape[0]) == ir.Yes {
		return []*ir.Value{c.untiled(op.Window)}
	}
	c.check(op)
	if y := c.interleaved(op); y != nil {
		return []*ir.Value{y}
	}
	return c.opaque(op)
}

func lowerCol2Im(c *context) []*ir.Value {
	x := c.In(0).Type
	axes, known := c.In(1).Type.Shape.Elements().Const()
	if !known {
		panic(needsRun{1}) // the rank of the result follows
	}
	if len(x.Shape) != 3 || axes < 1 {
		c.Failf("blocks %v of an image with %v axes: want three axes and at least one", x, c.In(1).Type)
	}
	if !c.IsConst(1) || !c.IsConst(2) {
		shape := ir.Shape{x.Shape[0], c.Fresh(0)}
		for k := range axes {
			shape = append(shape, c.Fresh(1+k))
		}
		return c.AtRun(ir.TensorOf(x.DType, shape...))
	}
	image, block := c.Ints(1), tensor.Shape(c.Ints(2))
	if len(block) != axes {
		c.Failf("blocks %v of an image %v: want equally many axes", block, image)
	}
	return c.opaque(ops.Col2Im{Window: c.windowOf(axes, ir.Dims(block...), true), Image: image}, c.In(0))
}

// window reads the attributes of an operator over operand 0; kernel is that of the weights, or nil for an operator that
// names it itself, and dilated whether the operator has dilations.
func (c *context) window(kernel ir.Shape, dilated bool) ir.Window {
	return c.windowOf(rank(c.In(0))-2, kernel, dilated)
}

func (c *context) windowOf(axes int, kernel ir.Shape, dilated bool) ir.Window {
	if axes < 1 {
		c.Failf("%v has no spatial axes: [N,C,…] is needed", c.In(0).Type)
	}
	list := func(name string, n, def int) []int {
		v, ok := c.AttrInts(name)
		if !ok {
			return slices.Repeat([]int{def}, n)
		}
		if len(v) != n {
			c.Failf("attribute %s has %d entries, not %d", name, len(v), n)
		}
		return v
	}
	w := ir.Window{Kernel: list("kernel_shape", axes, 0), Strides: list("strides", axes, 1), Dilations: slices.Repeat([]int{1}, axes),
		Pads: list("pads", 2*axes, 0), Auto: c.AttrString("auto_pad", "NOTSET")}
	if dilated {
		w.Dilations = list("dilations", axes, 1)
	}
	for i, d := range kernel {
		k, ok := d.Const()
		if !ok {
			panic(needsRun{1}) // a window is made of numbers
		}
		if i >= axes || c.HasAttr("kernel_shape") && k != w.Kernel[i] {
			c.Failf("weights with a kernel of %v: want the kernel_shape %v", kernel, w.Kernel)
		}
		w.Kernel[i] = k
	}
	if err := w.Check(axes); err != nil {
		c.Failf("%w", err)
	}
	return w
}
