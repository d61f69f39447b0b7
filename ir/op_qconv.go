package ir

import (
	"fmt"

	"github.com/rlxc/rlxc/tensor"
)

// QConv is a convolution of 8-bit quantised values with the channels last. It is a QMatMul whose rows are the im2col patches of the
// windows, with the zero point of x as padding. ONNX writes it as ConvInteger, QLinearConv, or a convolution between DequantizeLinear and
// QuantizeLinear.
//
// The operands are those of QMatMul, with x [N,…,C] u8 or i8 as a, and w […,C/Group,M] u8 or i8 with the window's kernel first as b. The
// result is [N,output positions…,M]. Channel m belongs to group m·Group/M, which reads C/Group channels of x.
type QConv struct {
	Window
	Group int
	Act   UnaryFn
}

func (QConv) Kind() Kind { return KindQConv }

// Infer implements Op: the shape is that of a convolution of floats, and the rest is that of a product.
func (o QConv) Infer(in []*Value) ([]Type, error) {
	x, w := in[QMatMulA].Type, in[QMatMulB].Type
	if !is8Bit(x.DType) || !is8Bit(w.DType) {
		return nil, fmt.Errorf("a quantised convolution of %s and %s", x.DType, w.DType)
	}
	y, err := convolved(o.Window, o.Group, x, w)
	if err != nil {
		return nil, err
	}
	positions, last := y.Shape, len(w.Shape)-1
	k := Shape(w.Shape[:last]).Elements()
	product := append([]*Value{}, in...)
	product[QMatMulA] = &Value{Type: TensorOf(in[QMatMulA].Type.DType, append(append(Shape{}, positions[:last]...), k)...)}
	product[QMatMulB] = &Value{Type: TensorOf(in[QMatMulB].Type.DType, k, w.Shape[last])}
	return QMatMul{Act: o.Act}.Infer(product)
}

// Eval implements Op: each group is a product of im2col patches.
func (o QConv) Eval(env *Env, in []*tensor.Tensor) ([]*tensor.Tensor, error) {
	x, w := in[QMatMulA], in[QMatMulB]
	sx, sw := x.Shape(), w.Shape()
	last := len(sx) - 1
	inputs, outputs := sw[last-1], sw[last]
	if sx[last] != inputs*o.Group || outputs%o.Group != 0 {
		return nil, fmt.Errorf("%v with %v in %d groups", x, w, o.Group)
	}
	shape := sx.Clone()
	for i, d := range sx[1:last] {
		n, _, _ := o.Positions(i, N(d))
		shape[1+i] = n.Int()
	}
	shape[last] = outputs
	if inputs*outputs == 0 {
		o.Kernel = make([]int, len(o.Kernel)) // whose elements are without number
	}
	var y *tensor.Tensor
	for g := range o.Group {
		m := outputs / o.Group
		part := make([]*tensor.Tensor, len(in))
		for i, t := range in {
			switch {
			case t == nil || i == QMatMulA:
			case t.Rank() == 0 || t.Len() == 1 && t.Rank() == 1 && i != QMatMulBias:
				part[i] = t
			default:
				part[i] = columnsOf(env, t, g*m, m)
			}
		}
		part[QMatMulA] = o.patches(env, x, Operand(in, QMatMulAZero), shape, g*inputs, inputs)
		part[QMatMulB] = part[QMatMulB].Reshape(o.Taps()*inputs, m)
		sums, err := QMatMul{Act: o.Act}.Eval(env, part)
		if err != nil {
			return nil, err
		}
		if y == nil {
			y = env.New(sums[0].DType(), shape...)
		}
		for row := range shape[:last].Elements() {
			copyRun(y, row*outputs+g*m, sums[0], row*m, m)
		}
	}
	return []*tensor.Tensor{y}, nil
}

// patches has a row for each position: what the window covers there of some channels.
func (o QConv) patches(env *Env, x, zero *tensor.Tensor, shape tensor.Shape, first, inputs int) *tensor.Tensor {
	sx, last := x.Shape(), x.Rank()-1
	spatial, positions := sx[1:last], shape[1:last]
	image, count, taps := spatial.Elements(), positions.Elements(), o.Taps()
	y := env.New(x.DType(), append(shape[:last].Clone(), taps*inputs)...)
	padding := env.New(x.DType(), inputs)
	for i := range padding.Len() {
		if zero != nil {
			padding.SetInt64(i, zero.Int64(0))
		}
	}
	before, after := o.Padding(spatial)
	o.Walk(env, spatial, positions, before, after, func(position int, met []Tap) {
		for b := range sx[0] {
			env.Work(taps * inputs)
			row := (b*count + position) * taps * inputs
			for k := range taps { // elements beyond even the padding are not taps
				copyRun(y, row+k*inputs, padding, 0, inputs)
			}
			for _, t := range met {
				if t.At >= 0 {
					copyRun(y, row+t.Kernel*inputs, x, (b*image+t.At)*sx[last]+first, inputs)
				}
			}
		}
	})
	return y
}

// columnsOf returns the columns first to first+n−1 of a tensor.
func columnsOf(env *Env, t *tensor.Tensor, first, n int) *tensor.Tensor {
	s := t.Shape().Clone()
	all := s[len(s)-1]
	s[len(s)-1] = n
	y := env.New(t.DType(), s...)
	for row := range tensor.Shape(s[:len(s)-1]).Elements() {
		copyRun(y, row*n, t, row*all+first, n)
	}
	return y
}
