package ops

import (
	"fmt"

	"github.com/rlxc/rlxc/ir"
	"github.com/rlxc/rlxc/tensor"
)

// checkConv checks the operands of a convolution, of whose weights axis 0 is divided into groups.
func checkConv(in []*ir.Value, w ir.Window, group int) error {
	x, weights := in[0].Type, in[1].Type
	if len(x.Shape) < 3 || len(weights.Shape) != len(x.Shape) || weights.DType != x.DType || !x.DType.IsFloat() {
		return fmt.Errorf("weights %v for %v", weights, x)
	}
	if group < 1 || group > MaxSize || ir.Same(weights.Shape[0].Mod(ir.N(group)), ir.N(0)) == ir.No {
		return fmt.Errorf("%d groups of %v channels", group, weights.Shape[0])
	}
	if b := ir.Operand(in, 2); b != nil && (rank(b) != 1 || b.Type.DType != x.DType) {
		return fmt.Errorf("bias %v", b.Type)
	}
	return w.Covers(weights.Shape[2:])
}

// checkChannels checks at run time what symbols left open: the channels of operand 0, and the length of the bias.
func checkChannels(in []*tensor.Tensor, inputs, outputs int) error {
	if n := in[0].Shape()[1]; n != inputs {
		return fmt.Errorf("%v has %d channels, weights %v in these groups take %d", in[0], n, in[1], inputs)
	}
	if b := ir.Operand(in, 2); b != nil && b.Len() != outputs {
		return fmt.Errorf("bias %v for %d channels", b, outputs)
	}
	return nil
}

// ConvTranspose is the gradient of a convolution: x [N,C,…] with weights [C,M/group,…] and perhaps a bias [M].
type ConvTranspose struct {
	ir.Opaque[ConvTranspose]
	ir.Window
	Group         int
	OutputPadding []int `ir:"output_padding"`
	OutputShape   []int `ir:"output_shape"` // sizes of the spatial axes; empty if they follow from the window
}

// Spread is the size of an axis of the result over an axis of size d, and how much of what the windows cover is cut off before it.
func (o ConvTranspose) Spread(i int, d ir.Dim) (size, before ir.Dim) {
	covered := d.Sub(ir.N(1)).Mul(ir.N(o.Strides[i])).Add(ir.N(o.OutputPadding[i] + o.Extent(i)))
	switch {
	case len(o.OutputShape) > 0:
		size = ir.N(o.OutputShape[i])
	case o.Auto == "SAME_UPPER" || o.Auto == "SAME_LOWER": // as many times the axis as the stride says, or what the windows cover
		size = d.Mul(ir.N(o.Strides[i])).Add(ir.N(min(0, o.OutputPadding[i]+o.Extent(i)-o.Strides[i])))
	case o.Auto == "VALID":
		return covered, ir.Dim{}
	default:
		return covered.Sub(ir.N(o.Pads[i] + o.Pads[len(o.Kernel)+i])), ir.N(o.Pads[i])
	}
	cut := ir.Max(covered.Sub(size), ir.N(0))
	before = cut.Div(ir.N(2))
	if o.Auto != "SAME_UPPER" {
		before = cut.Sub(before)
	}
	return size, before
}

func (o ConvTranspose) Infer(in []*ir.Value) ([]ir.Type, error) {
	if err := checkConv(in, o.Window, o.Group); err != nil {
		return nil, err
	}
	x, w := in[0].Type, in[1].Type
	if ir.Same(w.Shape[0], x.Shape[1]) == ir.No {
		return nil, fmt.Errorf("weights %v for %v", w, x)
	}
	axes := len(x.Shape) - 2
	if err := o.Check(axes); err != nil {
		return nil, err
	}
	if len(o.OutputPadding) != axes || len(o.OutputShape) > 0 && len(o.OutputShape) != axes {
		return nil, fmt.Errorf("%d output_padding and %d output_shape for %d axes", len(o.OutputPadding), len(o.OutputShape), axes)
	}
	for i, n := range o.OutputPadding {
		if n < 0 || n >= max(o.Strides[i], o.Dilations[i]) {
			return nil, fmt.Errorf("output_padding %v: it is below stride %d or dilation %d along axis %d", o.OutputPadding, o.Strides[i],
				o.Dilations[i], i)
		}
	}
	for _, n := range o.OutputShape {
		if n < 1 || n > MaxSize {
			return nil, fmt.Errorf("output_shape %v: sizes are from 1 to %d", o.OutputShape, MaxSize)
		}
	}
	shape := ir.Shape{x.Shape[0], w.Shape[1].Mul(ir.N(o.Group))}
	if b := ir.Operand(in, 2); b != nil && ir.Same(b.Type.Shape[0], shape[1]) == ir.No {
		return nil, fmt.Errorf("bias %v for %v channels", b.Type, shape[1])
	}
	for i, d := range x.Shape[2:] {
		size, _ := o.Spread(i, d)
		if ir.LessEqual(size, ir.N(0)) == ir.Yes && ir.LessEqual(d, ir.N(0)) == ir.No {
			return nil, fmt.Errorf("axis %d of size %v: pads %v leave nothing of the result", i, d, o.Pads)
		}
		shape = append(shape, ir.Max(size, ir.N(0)))
	}
	return []ir.Type{ir.TensorOf(x.DType, shape...)}, nil
}

// Eval implements ir.Op: y[n,m,at] = b[m] + Σ over the channels of m's group and all windows that touch at of
// w[c,m,k]·x[n,c,position].
func (o ConvTranspose) Eval(env *ir.Env, in []*tensor.Tensor) ([]*tensor.Tensor, error) {
	if err := checkChannels(in, in[1].Shape()[0], in[1].Shape()[1]*o.Group); err != nil {
		return nil, err
	}
	y := env.Output(o, in)
	axes := len(o.Kernel)
	before, after := make([]int, axes), make([]int, axes)
	for i, d := range in[0].Shape()[2:] {
		_, b := o.Spread(i, ir.N(d))
		before[i], after[i] = b.Int(), MaxSize // what hangs over the end falls away
	}
	x, w := env.Float64s(in[0]), env.Float64s(in[1])
	sx, sw, sy := in[0].Shape(), in[1].Shape(), y.Shape()
	batch, inputs, outputs := sx[0], sx[1]/o.Group, sw[1]
	size, kernel, positions := sy[2:].Elements(), sw[2:].Elements(), sx[2:].Elements()
	sum := ir.Make[float64](env, y.Len())
	if b := ir.Operand(in, 2); b != nil {
		for i := range sum {
			sum[i] = b.Float64(i / size % sy[1])
		}
	}
	o.Walk(env, sy[2:], sx[2:], before, after, func(position int, taps []ir.Tap) {
		for n := range batch {
			for ch := range sx[1] {
				v, first := x[(n*sx[1]+ch)*positions+position], n*sy[1]+ch/inputs*outputs
				for m := range outputs {
					env.Work(len(taps))
					for _, t := range taps {
						if t.At >= 0 {
							sum[(first+m)*size+t.At] += w[(ch*outputs+m)*kernel+t.Kernel] * v
						}
					}
				}
			}
		}
	})
	for i, v := range sum {
		y.SetFloat64(i, v)
	}
	return []*tensor.Tensor{y}, nil
}

// Col2Im adds the blocks [N, C·k, positions] of a window of k elements to the pixels of an image. It is the adjoint of im2col, which copies
// the pixels of each window into a block.
type Col2Im struct {
	ir.Opaque[Col2Im]
	ir.Window
	Image []int
}

// positions is the number of windows along each axis of the image.
func (o Col2Im) positions() tensor.Shape {
	positions := make(tensor.Shape, len(o.Image))
	for i, d := range o.Image {
		n, _, _ := o.Positions(i, ir.N(d))
		positions[i] = n.Int()
	}
	return positions
}

func (o Col2Im) Infer(in []*ir.Value) ([]ir.Type, error) {
	x := in[0].Type
	if len(x.Shape) != 3 || !x.DType.IsFloat() && !x.DType.IsInt() {
		return nil, fmt.Errorf("blocks %v of an image with %d axes", x, len(o.Image))
	}
	if _, err := tensor.Shape(o.Image).CheckElements(x.DType); err != nil {
		return nil, fmt.Errorf("an image %v", o.Image)
	}
	if err := o.Check(len(o.Image)); err != nil {
		return nil, err
	}
	k, positions := tensor.Shape(o.Kernel).Elements(), o.positions()
	if k < 1 || ir.Same(x.Shape[1].Mod(ir.N(k)), ir.N(0)) == ir.No || ir.Same(x.Shape[2], ir.N(positions.Elements())) == ir.No {
		return nil, fmt.Errorf("%v for %d output positions of a window %v over an image %v", x, positions.Elements(), o.Kernel, o.Image)
	}
	return []ir.Type{ir.TensorOf(x.DType, append(ir.Shape{x.Shape[0], x.Shape[1].Div(ir.N(k))}, ir.Dims(o.Image...)...)...)}, nil
}

func (o Col2Im) Eval(env *ir.Env, in []*tensor.Tensor) ([]*tensor.Tensor, error) {
	y := env.Output(o, in)
	image, positions, k := tensor.Shape(o.Image), o.positions(), tensor.Shape(o.Kernel).Elements()
	before, after := o.Padding(image)
	size, count := image.Elements(), positions.Elements()
	sum, values := ir.Make[float64](env, y.Len()), env.Float64s(in[0])
	o.Walk(env, image, positions, before, after, func(position int, taps []ir.Tap) {
		for ch := range env.Range(y.Shape()[:2].Elements()) {
			env.Work(len(taps))
			for _, t := range taps {
				if t.At >= 0 {
					sum[ch*size+t.At] += values[(ch*k+t.Kernel)*count+position]
				}
			}
		}
	})
	for i, v := range sum {
		y.SetFloat64(i, v)
	}
	return []*tensor.Tensor{y}, nil
}
