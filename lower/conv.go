package lower

import (
	"fmt"
	"slices"

	"github.com/rlxc/rlxc/ir"
	"github.com/rlxc/rlxc/tensor"
)

var convRows = []row{
	{"Conv", 1, lowerConv},
	{"ConvTranspose", 1, lowerConvTranspose},
	{"Col2Im", 18, lowerCol2Im},
}

// convWeights checks the operands of a convolution, of whose weights axis 0 is divided into groups.
func (c *Context) convWeights() (x, w ir.Type, groups int) {
	x, w, groups = c.In(0).Type, c.In(1).Type, c.AttrInt("group", 1)
	if len(x.Shape) < 3 || len(w.Shape) != len(x.Shape) || w.DType != x.DType || !x.DType.IsFloat() {
		c.Failf("weights %v for %v", w, x)
	}
	if groups < 1 || groups > maxWindow || ir.Same(w.Shape[0].Mod(ir.N(groups)), ir.N(0)) == ir.No {
		c.Failf("%d groups of %v channels", groups, w.Shape[0])
	}
	if b := c.Opt(2); b != nil && (Rank(b) != 1 || b.Type.DType != x.DType) {
		c.Failf("bias %v", b.Type)
	}
	return x, w, groups
}

// checkConv checks at run time what symbols left open: the channels of operand 0, and the length of the bias.
func checkConv(in []*tensor.Tensor, inputs, outputs int) error {
	if n := in[0].Shape()[1]; n != inputs {
		return fmt.Errorf("%v has %d channels, weights %v in these groups take %d", in[0], n, in[1], inputs)
	}
	if b := ir.Operand(in, 2); b != nil && b.Len() != outputs {
		return fmt.Errorf("bias %v for %d channels", b, outputs)
	}
	return nil
}

func lowerConv(c *Context) []*ir.Value {
	x, w, groups := c.convWeights()
	if ir.Same(w.Shape[1].Mul(ir.N(groups)), x.Shape[1]) == ir.No {
		c.Failf("weights %v in %d groups for %v", w, groups, x)
	}
	win := c.fit(c.window(w.Shape[2:], true))
	if y := c.convProduct(win, groups); y != nil {
		return y
	}
	run := func(o ir.Custom, in []*tensor.Tensor) ([]*tensor.Tensor, error) {
		if err := checkConv(in, in[1].Shape()[1]*groups, in[1].Shape()[0]); err != nil {
			return nil, err
		}
		y := resultOf(o, 0)
		before, after := win.padding(in[0].Shape()[2:])
		conv(win, before, after, groups, in, y)
		return []*tensor.Tensor{y}, nil
	}
	return c.Kernel(run, ir.TensorOf(x.DType, win.result(x.Shape, w.Shape[0])...))
}

// conv is y[n,m] = b[m] + Σ over the channels of m's group and the taps of w[m,c,k]·x[n,c,at].
func conv(win window, before, after []int, groups int, in []*tensor.Tensor, y *tensor.Tensor) {
	x, w := in[0].Float64s(), in[1].Float64s()
	sx, sw, sy := in[0].Shape(), in[1].Shape(), y.Shape()
	batch, outputs, inputs := sx[0], sw[0], sw[1]
	size, kernel, places := sx[2:].Elements(), sw[2:].Elements(), sy[2:].Elements()
	win.walk(sx[2:], sy[2:], before, after, func(place int, taps []tap) {
		for n := range batch {
			for m := range outputs {
				first := n*sx[1] + m/(outputs/groups)*inputs
				sum := 0.0
				if b := ir.Operand(in, 2); b != nil {
					sum = b.Float64(m)
				}
				for ch := range inputs {
					for _, t := range taps {
						if t.at >= 0 {
							sum += w[(m*inputs+ch)*kernel+t.kernel] * x[(first+ch)*size+t.at]
						}
					}
				}
				y.SetFloat64((n*outputs+m)*places+place, sum)
			}
		}
	})
}

func lowerConvTranspose(c *Context) []*ir.Value {
	x, w, groups := c.convWeights()
	if ir.Same(w.Shape[0], x.Shape[1]) == ir.No {
		c.Failf("weights %v for %v", w, x)
	}
	win := c.window(w.Shape[2:], true)
	axes := len(win.kernel)
	extra, ok := c.AttrInts("output_padding")
	if !ok {
		extra = slices.Repeat([]int{0}, axes)
	}
	want, fixed := c.AttrInts("output_shape")
	if fixed && len(want) == axes+2 {
		want = want[2:] // as PyTorch's exporter once wrote it
	}
	if len(extra) != axes || fixed && len(want) != axes {
		c.Failf("%d output_padding and %d output_shape for %d axes", len(extra), len(want), axes)
	}
	for _, n := range slices.Concat(extra, want) {
		if n < 0 || n > maxWindow {
			c.Failf("output_padding %v and output_shape %v: sizes are from 0 to %d", extra, want, maxWindow)
		}
	}
	// spread is the size of an axis of the result, and how much of what the windows cover is cut off before it.
	spread := func(i int, d ir.Dim) (size, before ir.Dim) {
		covered := d.Sub(ir.N(1)).Mul(ir.N(win.strides[i])).Add(ir.N(extra[i] + win.extent(i)))
		switch {
		case fixed:
			size = ir.N(want[i])
		case win.auto == "SAME_UPPER" || win.auto == "SAME_LOWER":
			size = d.Mul(ir.N(win.strides[i]))
		case win.auto == "VALID":
			return covered, ir.Dim{}
		default:
			return covered.Sub(ir.N(win.pads[i] + win.pads[axes+i])), ir.N(win.pads[i])
		}
		cut := ir.Max(covered.Sub(size), ir.N(0))
		before = cut.Div(ir.N(2))
		if win.auto != "SAME_UPPER" {
			before = cut.Sub(before)
		}
		return size, before
	}
	shape := ir.Shape{x.Shape[0], w.Shape[1].Mul(ir.N(groups))}
	for i, d := range x.Shape[2:] {
		size, _ := spread(i, d)
		shape = append(shape, ir.Max(size, ir.N(0)))
	}
	run := func(o ir.Custom, in []*tensor.Tensor) ([]*tensor.Tensor, error) {
		if err := checkConv(in, in[1].Shape()[0], in[1].Shape()[1]*groups); err != nil {
			return nil, err
		}
		y := resultOf(o, 0)
		before, after := make([]int, axes), make([]int, axes)
		for i, d := range in[0].Shape()[2:] {
			_, b := spread(i, ir.N(d))
			before[i], after[i] = b.Int(), maxWindow // what hangs over the end falls away
		}
		convTranspose(win, before, after, groups, in, y)
		return []*tensor.Tensor{y}, nil
	}
	return c.Kernel(run, ir.TensorOf(x.DType, shape...))
}

// convTranspose is y[n,m,at] = b[m] + Σ over the channels of m's group and all windows that touch at of w[c,m,k]·x[n,c,place].
func convTranspose(win window, before, after []int, groups int, in []*tensor.Tensor, y *tensor.Tensor) {
	x, w := in[0].Float64s(), in[1].Float64s()
	sx, sw, sy := in[0].Shape(), in[1].Shape(), y.Shape()
	batch, inputs, outputs := sx[0], sx[1]/groups, sw[1]
	size, kernel, places := sy[2:].Elements(), sw[2:].Elements(), sx[2:].Elements()
	sum := make([]float64, y.Len())
	if b := ir.Operand(in, 2); b != nil {
		for i := range sum {
			sum[i] = b.Float64(i / size % sy[1])
		}
	}
	win.walk(sy[2:], sx[2:], before, after, func(place int, taps []tap) {
		for n := range batch {
			for ch := range sx[1] {
				v, first := x[(n*sx[1]+ch)*places+place], n*sy[1]+ch/inputs*outputs
				for m := range outputs {
					for _, t := range taps {
						if t.at >= 0 {
							sum[(first+m)*size+t.at] += w[(ch*outputs+m)*kernel+t.kernel] * v
						}
					}
				}
			}
		}
	})
	for i, v := range sum {
		y.SetFloat64(i, v)
	}
}

// lowerCol2Im adds up the blocks [N, C·k, places] of a window of k elements where it took them from an image.
func lowerCol2Im(c *Context) []*ir.Value {
	x := c.In(0).Type
	axes, ok := c.In(1).Type.Shape.Elements().Const()
	if !ok || len(x.Shape) != 3 || axes < 1 || !x.DType.IsFloat() && !x.DType.IsInt() {
		c.Failf("blocks %v of an image with %v axes", x, c.In(1).Type)
	}
	if !c.IsConst(1) || !c.IsConst(2) {
		shape := ir.Shape{x.Shape[0], c.Fresh(0)}
		for k := range axes {
			shape = append(shape, c.Fresh(1+k))
		}
		return c.AtRun(ir.TensorOf(x.DType, shape...))
	}
	image, block := tensor.Shape(c.Ints(1)), tensor.Shape(c.Ints(2))
	if _, err := image.CheckElements(x.DType); err != nil || len(block) != axes {
		c.Failf("blocks %v of an image %v", block, image)
	}
	win := c.windowOf(axes, ir.Dims(block...), true)
	k := block.Elements()
	places := make(tensor.Shape, axes)
	for i, d := range image {
		n, _, _ := win.places(i, ir.N(d))
		places[i] = n.Int()
	}
	if ir.Same(x.Shape[1].Mod(ir.N(k)), ir.N(0)) == ir.No || ir.Same(x.Shape[2], ir.N(places.Elements())) == ir.No {
		c.Failf("%v for %d places of a window %v over an image %v", x, places.Elements(), block, image)
	}
	run := func(o ir.Custom, in []*tensor.Tensor) ([]*tensor.Tensor, error) {
		y := resultOf(o, 0)
		before, after := win.padding(image)
		size, count := image.Elements(), places.Elements()
		sum, values := make([]float64, y.Len()), in[0].Float64s()
		win.walk(image, places, before, after, func(place int, taps []tap) {
			for ch := range y.Shape()[:2].Elements() {
				for _, t := range taps {
					if t.at >= 0 {
						sum[ch*size+t.at] += values[(ch*k+t.kernel)*count+place]
					}
				}
			}
		})
		for i, v := range sum {
			y.SetFloat64(i, v)
		}
		return []*tensor.Tensor{y}, nil
	}
	shape := append(ir.Shape{x.Shape[0], x.Shape[1].Div(ir.N(k))}, ir.Dims(image...)...)
	return c.Kernel(run, ir.TensorOf(x.DType, shape...))
}
