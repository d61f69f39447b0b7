package ops

import (
	"fmt"
	"math"

	"github.com/rlxc/rlxc/ir"
	"github.com/rlxc/rlxc/tensor"
)

// Pools are over [N,…,C], as convolutions are.

// pooled are the types of what a pool returns: its values, and their indices.
func pooled(w ir.Window, in []*ir.Value) (values, indices ir.Type, err error) {
	x := in[0].Type
	if len(x.Shape) < 3 {
		return values, indices, fmt.Errorf("the operand has no spatial axes: [N,…,C] is needed")
	}
	last := len(x.Shape) - 1
	if err := w.Check(last - 1); err != nil {
		return values, indices, err
	}
	shape := x.Shape[:1:1]
	for i, d := range x.Shape[1:last] {
		if d.Is(0) {
			return values, indices, fmt.Errorf("%v has no elements to pool", x)
		}
		if ir.LessEqual(d.Add(ir.N(2*w.Strides[i])), ir.N(1+w.Lack(i))) == ir.Yes { // which onnxruntime refuses as well
			return values, indices, fmt.Errorf("axis %d: a window of %d elements does not fit into %v and its padding", i, w.Extent(i), d)
		}
		shape = append(shape, w.PoolPositions(i, d))
	}
	shape = append(shape, x.Shape[last])
	return ir.TensorOf(x.DType, shape...), ir.TensorOf(tensor.I64, shape...), nil
}

// images says how x [N,…,C] is cut.
func images(x *tensor.Tensor) (n int, spatial tensor.Shape, channels int) {
	last := x.Rank() - 1
	return x.Shape()[0], x.Shape()[1:last], x.Shape()[last]
}

// pool fills y, at each position of the window, with f of the taps on one channel, whose first element is at from and whose others are
// next apart.
func pool(w ir.Window, env *ir.Env, x, y *tensor.Tensor, f func(x []float64, from, next int, taps []ir.Tap) float64) {
	values := env.Float64s(x)
	n, s, channels := images(x)
	_, out, _ := images(y)
	before, after := w.Padding(s)
	size, indices := s.Elements(), out.Elements()
	w.Walk(env, s, out, before, after, func(position int, taps []ir.Tap) {
		for image := range n {
			for ch := range channels {
				env.Work(len(taps))
				y.SetFloat64((image*indices+position)*channels+ch, f(values, image*size*channels+ch, channels, taps))
			}
		}
	})
}

// AveragePool is the mean under a window.
type AveragePool struct {
	ir.Opaque[AveragePool]
	ir.Window
	CountIncludePad bool `ir:"count_include_pad"`
}

func (o AveragePool) Infer(in []*ir.Value) ([]ir.Type, error) {
	t, _, err := pooled(o.Window, in)
	return []ir.Type{t}, err
}

func (o AveragePool) Eval(env *ir.Env, in []*tensor.Tensor) ([]*tensor.Tensor, error) {
	y := env.Output(o, in)
	pool(o.Window, env, in[0], y, func(x []float64, from, next int, taps []ir.Tap) float64 {
		sum, n := 0.0, 0
		for _, t := range taps {
			if t.At >= 0 {
				sum += x[from+t.At*next]
			}
			if t.At >= 0 || o.CountIncludePad {
				n++
			}
		}
		return sum / float64(max(n, 1))
	})
	return []*tensor.Tensor{y}, nil
}

// LpPool is the p-norm of what is under a window.
type LpPool struct {
	ir.Opaque[LpPool]
	ir.Window
	P int
}

func (o LpPool) Infer(in []*ir.Value) ([]ir.Type, error) {
	if o.P < 1 {
		return nil, fmt.Errorf("p = %d is below 1", o.P)
	}
	t, _, err := pooled(o.Window, in)
	return []ir.Type{t}, err
}

func (o LpPool) Eval(env *ir.Env, in []*tensor.Tensor) ([]*tensor.Tensor, error) {
	y := env.Output(o, in)
	p := float64(o.P)
	pool(o.Window, env, in[0], y, func(x []float64, from, next int, taps []ir.Tap) float64 {
		sum := 0.0
		for _, t := range taps {
			if t.At >= 0 {
				sum += math.Pow(math.Abs(x[from+t.At*next]), p)
			}
		}
		return math.Pow(sum, 1/p)
	})
	return []*tensor.Tensor{y}, nil
}

// MaxPool is the largest element under a window, or its first NaN, and where it is in x, were that [N,C,…]. A window of padding alone
// returns Least and index 0.
type MaxPool struct {
	ir.Opaque[MaxPool]
	ir.Window
	ColumnMajor bool `ir:"storage_order"` // indices count along the first spatial axis first
	Results     int
}

func (o MaxPool) Infer(in []*ir.Value) ([]ir.Type, error) {
	values, indices, err := pooled(o.Window, in)
	return first(o.Results, values, indices), err
}

func (o MaxPool) Eval(env *ir.Env, in []*tensor.Tensor) ([]*tensor.Tensor, error) {
	results := env.Outputs(o, in)
	x, y := in[0], results[0]
	n, s, channels := images(x)
	_, out, _ := images(y)
	number := func(at int) int { return at }
	if o.ColumnMajor {
		number = func(at int) int { return ColumnMajor(s, at) }
	}
	before, after := o.Padding(s)
	size, indices := s.Elements(), out.Elements()
	o.Walk(env, s, out, before, after, func(position int, taps []ir.Tap) {
		for i := range n * channels {
			image, ch := i/channels, i%channels
			env.Work(len(taps))
			best := -1
			element := func(at int) int { return (image*size+at)*channels + ch }
			isNaN := func(at int) bool { return math.IsNaN(x.Float64(element(at))) }
			for _, t := range taps {
				if t.At >= 0 && (best < 0 || !isNaN(best) && (isNaN(t.At) || compareElements(x, element(t.At), element(best)) > 0)) {
					best = t.At
				}
			}
			to := (image*indices+position)*channels + ch
			if best < 0 {
				y.SetFloat64(to, o.Least(x.DType()))
			} else {
				y.SetFloat64(to, x.Float64(element(best)))
				if len(results) > 1 {
					results[1].SetInt64(to, int64(i*size+number(best)))
				}
			}
		}
	})
	return results, nil
}

// Least is the result over a window of padding alone: the lowest number of an integer type, and of floats −math.MaxFloat32, which
// 16-bit floats round to −∞, or −math.MaxFloat64 in float64. onnxruntime computes the same; torch computes −∞.
func (MaxPool) Least(d tensor.DType) float64 {
	switch {
	case d == tensor.F64:
		return -math.MaxFloat64
	case d.IsFloat():
		return -math.MaxFloat32
	case d.IsSigned():
		return -math.Ldexp(1, d.Bits()-1)
	}
	return 0
}

// Steps returns, for each spatial axis, the difference between the indices of neighbours along the axis.
func (o MaxPool) Steps(spatial tensor.Shape) []int {
	steps := spatial.Strides()
	if o.ColumnMajor {
		for i, step := 0, 1; i < len(spatial); i++ {
			steps[i], step = step, step*spatial[i]
		}
	}
	return steps
}

// ColumnMajor numbers the elements of a shape with the first axis running fastest; at is the row-major number.
func ColumnMajor(s tensor.Shape, at int) int {
	n, stride := 0, s.Elements()
	for i := len(s) - 1; i >= 0; i-- {
		stride /= s[i]
		n += at % s[i] * stride
		at /= s[i]
	}
	return n
}

// LRN divides by a power of the mean square over neighbouring channels.
type LRN struct {
	ir.Opaque[LRN]
	Size              int
	Alpha, Beta, Bias float32
}

func (o LRN) Infer(in []*ir.Value) ([]ir.Type, error) {
	x := in[0].Type
	if len(x.Shape) < 3 || !x.DType.IsFloat() || o.Size < 1 || o.Size > MaxSize {
		return nil, fmt.Errorf("%d channels of %v", o.Size, x)
	}
	for _, v := range []float32{o.Alpha, o.Beta, o.Bias} {
		if math.IsNaN(float64(v)) || math.IsInf(float64(v), 0) {
			return nil, fmt.Errorf("alpha, beta and bias are %v, %v and %v: finite numbers are needed", o.Alpha, o.Beta, o.Bias)
		}
	}
	return []ir.Type{x}, nil
}

func (o LRN) Eval(env *ir.Env, in []*tensor.Tensor) ([]*tensor.Tensor, error) {
	y := env.Output(o, in)
	values := env.Float64s(in[0])
	alpha, beta, bias := float64(o.Alpha), float64(o.Beta), float64(o.Bias)
	channels, inner := in[0].Shape()[1], in[0].Shape()[2:].Elements()
	for i, v := range values {
		ch := i / inner % channels
		sum := 0.0
		env.Work(min(o.Size, channels))
		for k := max(0, ch-(o.Size-1)/2); k <= min(channels-1, ch+o.Size/2); k++ {
			w := values[i+(k-ch)*inner]
			sum += w * w
		}
		y.SetFloat64(i, v/math.Pow(bias+alpha/float64(o.Size)*sum, beta))
	}
	return []*tensor.Tensor{y}, nil
}
