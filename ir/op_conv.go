package ir

import (
	"fmt"

	"github.com/rlxc/rlxc/tensor"
)

// Conv is act(x ∗ w + bias) + residual, a convolution with the channels last. Sums are float64 in Eval, and float32 or better in kernels.
// Operands: x [N,…,C], w […,C/Group,M] with the window's kernel first, bias [M] or nil, residual of the result's shape or nil. The result
// is [N,output positions…,M]. Channel m belongs to group m·Group/M, which reads C/Group channels of x.
type Conv struct {
	Window
	Group       int
	Act         UnaryFn
	Alpha, Beta float32 // Act's parameters, where it has some
}

// Activation is act.
func (o Conv) Activation() Unary { return Unary{Fn: o.Act, Alpha: o.Alpha, Beta: o.Beta} }

// The operand positions of Conv.
const (
	ConvX = iota
	ConvW
	ConvBias
	ConvResidual
)

func (Conv) Kind() Kind { return KindConv }

// channelsSecond turns a shape [N,…,C] into [N,C,…], the form that the methods of Window expect.
func channelsSecond(s Shape) Shape {
	n := len(s) - 1
	return append(Shape{s[0], s[n]}, s[1:n]...)
}

func (o Conv) Infer(in []*Value) ([]Type, error) {
	x, w := in[ConvX].Type, in[ConvW].Type
	if w.DType != x.DType || !x.DType.IsFloat() {
		return nil, fmt.Errorf("a convolution of %v with %v", x, w)
	}
	if o.Act >= NumUnary || o.Act != NoUnary && o.Activation().Real() == nil {
		return nil, fmt.Errorf("a convolution followed by %s", o.Act)
	}
	y, err := convolved(o.Window, o.Group, x, w)
	if err != nil {
		return nil, err
	}
	outputs := y.Shape[len(y.Shape)-1]
	if b := Operand(in, ConvBias); b != nil && (b.Type.DType != x.DType || len(b.Type.Shape) != 1 || Same(b.Type.Shape[0], outputs) == No) {
		return nil, fmt.Errorf("bias %v for %v channels", b.Type, outputs)
	}
	return []Type{y}, checkResidual(Operand(in, ConvResidual), y)
}

// convolved is the type of a convolution of x [N,…,C] with weights […,C/group,M].
func convolved(win Window, group int, x, w Type) (Type, error) {
	n := len(x.Shape)
	if n < 3 || len(w.Shape) != n {
		return Type{}, fmt.Errorf("a convolution of %v with %v", x, w)
	}
	inputs, outputs := w.Shape[n-2], w.Shape[n-1]
	if group < 1 || group > MaxSize || Same(outputs.Mod(N(group)), N(0)) == No {
		return Type{}, fmt.Errorf("%d groups of %v channels", group, outputs)
	}
	if Same(inputs.Mul(N(group)), x.Shape[n-1]) == No {
		return Type{}, fmt.Errorf("weights %v in %d groups for %v", w, group, x)
	}
	first := channelsSecond(x.Shape)
	if err := win.Fit(first); err != nil {
		return Type{}, err
	}
	if err := win.Covers(w.Shape[:n-2]); err != nil {
		return Type{}, err
	}
	y := win.Result(first, outputs)
	return TensorOf(x.DType, append(append(Shape{y[0]}, y[2:]...), outputs)...), nil
}

func (o Conv) Eval(env *Env, in []*tensor.Tensor) ([]*tensor.Tensor, error) {
	bias, residual := Operand(in, ConvBias), Operand(in, ConvResidual)
	sx, sw := in[ConvX].Shape(), in[ConvW].Shape()
	n := len(sx)
	inputs, outputs := sw[n-2], sw[n-1]
	if sx[n-1] != inputs*o.Group || outputs%o.Group != 0 || bias != nil && bias.Len() != outputs {
		return nil, fmt.Errorf("%v with %v in %d groups", in[ConvX], in[ConvW], o.Group)
	}
	y := env.Output(o, in)
	spatial, positions := sx[1:n-1], y.Shape()[1:n-1]
	x, w := env.Float64s(in[ConvX]), env.Float64s(in[ConvW])
	before, after := o.Padding(spatial)
	act := func(x float64) float64 { return x }
	if fn := o.Act; fn != NoUnary {
		act = func(x float64) float64 { return unaryTable[fn].real(x, o.Activation()) }
	}
	if inputs*outputs == 0 {
		o.Kernel = make([]int, len(o.Kernel)) // whose elements are without number
	}
	image, count := spatial.Elements(), positions.Elements()
	row := Make[float64](env, outputs)
	padding := Make[float64](env, sx[n-1]) // zeros count: times an infinite weight they are NaN
	o.Walk(env, spatial, positions, before, after, func(position int, taps []Tap) {
		for b := range sx[0] {
			clear(row)
			for _, t := range taps {
				pixel := padding
				if t.At >= 0 {
					pixel = x[(b*image+t.At)*sx[n-1]:][:sx[n-1]]
				}
				env.Work(inputs * outputs)
				for m := range outputs {
					first := m * o.Group / outputs * inputs
					for c, v := range pixel[first : first+inputs] {
						row[m] += w[(t.Kernel*inputs+c)*outputs+m] * v
					}
				}
			}
			at := (b*count + position) * outputs
			for m, s := range row {
				if bias != nil {
					s += bias.Float64(m)
				}
				s = act(s)
				if residual != nil {
					s += residual.Float64(at + m)
				}
				y.SetFloat64(at+m, s)
			}
		}
	})
	return []*tensor.Tensor{y}, nil
}

// convFlops: every element of the result is a sum over the taps and the channels of its group.
func convFlops(n *Node) Dim {
	w := n.Inputs[ConvW].Type.Shape
	return n.Outputs[0].Type.Shape.Elements().Mul(w[:len(w)-1].Elements()).Mul(N(2))
}
