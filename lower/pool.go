package lower

import (
	"math"
	"slices"

	"github.com/rlxc/rlxc/ir"
	"github.com/rlxc/rlxc/tensor"
)

var poolRows = []row{
	{"MaxPool", 1, lowerMaxPool},
	{"AveragePool", 7, lowerAveragePool},
	{"LpPool", 2, lowerLpPool},
	{"GlobalMaxPool", 1, lowerGlobalPool(ir.MaxOf)},
	{"GlobalAveragePool", 1, lowerGlobalPool(ir.Mean)},
	{"MaxUnpool", 9, lowerMaxUnpool},
	{"LRN", 1, lowerLRN},
}

func lowerGlobalPool(fn ir.Reduction) func(*Context) []*ir.Value {
	return func(c *Context) []*ir.Value {
		x := c.In(0)
		if Rank(x) < 3 {
			c.Failf("%v has no spatial axes: [N,C,…] is needed", x.Type)
		}
		return []*ir.Value{c.Emit(ir.Reduce{Fn: fn, Axes: firstAxes(Rank(x))[2:], KeepDims: true}, x)}
	}
}

// poolWindow reads a pool's window; ceil and dilated are the versions that know ceil_mode and dilations.
func (c *Context) poolWindow(ceil, dilated int) window {
	w := c.fit(c.window(nil, c.Version() >= dilated))
	if c.Version() >= ceil {
		w.ceil = c.AttrBool("ceil_mode", false)
	}
	return w
}

// pool keeps a pool whose value at each place of the window is f of the taps on one channel, which begins at from.
func (c *Context) pool(w window, f func(x []float64, from int, taps []tap) float64) []*ir.Value {
	x := c.In(0).Type
	run := func(o ir.Custom, in []*tensor.Tensor) ([]*tensor.Tensor, error) {
		y := resultOf(o, 0)
		values := in[0].Float64s()
		s, out := in[0].Shape()[2:], y.Shape()[2:]
		before, after := w.padding(s)
		channels, size, places := in[0].Shape()[:2].Elements(), s.Elements(), out.Elements()
		w.walk(s, out, before, after, func(place int, taps []tap) {
			for ch := range channels {
				y.SetFloat64(ch*places+place, f(values, ch*size, taps))
			}
		})
		return []*tensor.Tensor{y}, nil
	}
	return c.Kernel(run, ir.TensorOf(x.DType, w.result(x.Shape, x.Shape[1])...))
}

// resultOf makes the tensor of a custom op's result.
func resultOf(o ir.Custom, i int) *tensor.Tensor {
	return tensor.New(o.Types[i].DType, o.Types[i].Sizes()...)
}

func lowerAveragePool(c *Context) []*ir.Value {
	w := c.poolWindow(10, 19)
	countPadding := c.AttrBool("count_include_pad", false)
	padding := w.auto != "NOTSET" && w.auto != "VALID" || slices.ContainsFunc(w.pads, func(p int) bool { return p != 0 })
	if x := c.In(0).Type; (countPadding || !padding) && c.tapped(w) {
		share := 1.0
		for _, k := range w.kernel {
			share /= float64(k)
		}
		return []*ir.Value{c.binary(ir.Mul, c.poolTaps(w, ir.Add, 0), c.Scalar(x.DType, share))}
	}
	return c.pool(w, func(x []float64, from int, taps []tap) float64 {
		sum, n := 0.0, 0
		for _, t := range taps {
			if t.at >= 0 {
				sum += x[from+t.at]
			}
			if t.at >= 0 || countPadding {
				n++
			}
		}
		return sum / float64(n)
	})
}

func lowerLpPool(c *Context) []*ir.Value {
	w, p := c.poolWindow(18, 18), float64(c.AttrInt("p", 2))
	if p < 1 {
		c.Failf("p = %v is below 1", p)
	}
	return c.pool(w, func(x []float64, from int, taps []tap) float64 {
		sum := 0.0
		for _, t := range taps {
			if t.at >= 0 {
				sum += math.Pow(math.Abs(x[from+t.at]), p)
			}
		}
		return math.Pow(sum, 1/p)
	})
}

func lowerMaxPool(c *Context) []*ir.Value {
	x, w := c.In(0).Type, c.poolWindow(10, 10)
	firstFastest := c.Version() >= 8 && c.AttrBool("storage_order", false)
	if !c.Wants(1) && c.tapped(w) {
		return []*ir.Value{c.poolTaps(w, ir.MaxFn, math.Inf(-1))}
	}
	shape := w.result(x.Shape, x.Shape[1])
	run := func(o ir.Custom, in []*tensor.Tensor) ([]*tensor.Tensor, error) {
		x := in[0]
		index := tensor.New(tensor.I64, o.Types[0].Sizes()...)
		y := resultOf(o, 0)
		s, out := x.Shape()[2:], y.Shape()[2:]
		number := func(at int) int { return at }
		if firstFastest {
			number = func(at int) int { return columnMajor(s, at) }
		}
		before, after := w.padding(s)
		channels, size, places := x.Shape()[:2].Elements(), s.Elements(), out.Elements()
		w.walk(s, out, before, after, func(place int, taps []tap) {
			for ch := range channels {
				best := -1
				for _, t := range taps {
					if t.at >= 0 && (best < 0 || compareElements(x, ch*size+t.at, ch*size+best) > 0) {
						best = t.at
					}
				}
				if best >= 0 {
					y.SetFloat64(ch*places+place, x.Float64(ch*size+best))
					index.SetInt64(ch*places+place, int64(ch*size+number(best)))
				}
			}
		})
		return []*tensor.Tensor{y, index}[:len(o.Types)], nil
	}
	types := []ir.Type{ir.TensorOf(x.DType, shape...), ir.TensorOf(tensor.I64, shape...)}
	return c.Kernel(run, types[:c.NumOutputs()]...)
}

// columnMajor numbers the elements of a shape with the first axis running fastest; at is the row-major number.
func columnMajor(s tensor.Shape, at int) int {
	n, stride := 0, s.Elements()
	for i := len(s) - 1; i >= 0; i-- {
		stride /= s[i]
		n += at % s[i] * stride
		at /= s[i]
	}
	return n
}

// lowerMaxUnpool puts elements back where a MaxPool over [N,C,…] took them, in a result of the size that the pool's window
// suggests, and then pads that behind to the size that operand 2 names.
func lowerMaxUnpool(c *Context) []*ir.Value {
	x, index := c.In(0), c.In(1)
	w := c.window(nil, false)
	shape := slices.Clone(x.Type.Shape)
	for i, d := range shape[2:] {
		pads := w.pads[i] + w.pads[len(w.kernel)+i]
		shape[2+i] = d.Sub(ir.N(1)).Mul(ir.N(w.strides[i])).Add(ir.N(w.kernel[i] - pads))
	}
	flat := func(v *ir.Value) *ir.Value { return c.reshape(v, ir.Shape{v.Type.Shape.Elements()}) }
	zero := c.expand(c.like(x, 0), ir.Shape{shape.Elements()})
	y := c.reshape(c.Emit(ir.ScatterElements{}, zero, flat(c.nonNegative(index)), flat(x)), shape)
	if c.Opt(2) == nil {
		return []*ir.Value{y}
	}
	want := c.Dims(2)
	if len(want) != len(shape) {
		c.Failf("output_shape %v for %v", ir.Shape(want), x.Type)
	}
	op := ir.Pad{Before: make([]ir.Dim, len(shape)), After: make([]ir.Dim, len(shape))}
	for i, d := range want {
		op.After[i] = d.Sub(shape[i])
	}
	return []*ir.Value{c.Emit(op, y)}
}

// lowerLRN divides by a power of the mean square over neighbouring channels.
func lowerLRN(c *Context) []*ir.Value {
	x, size := c.In(0).Type, c.AttrInt("size", 0)
	alpha, beta, bias := float64(c.AttrFloat("alpha", 1e-4)), float64(c.AttrFloat("beta", 0.75)), float64(c.AttrFloat("bias", 1))
	if len(x.Shape) < 3 || !x.DType.IsFloat() || size < 1 || size > maxWindow {
		c.Failf("%d channels of %v", size, x)
	}
	run := func(o ir.Custom, in []*tensor.Tensor) ([]*tensor.Tensor, error) {
		y, values := resultOf(o, 0), in[0].Float64s()
		channels, inner := in[0].Shape()[1], in[0].Shape()[2:].Elements()
		for i, v := range values {
			ch := i / inner % channels
			sum := 0.0
			for k := max(0, ch-(size-1)/2); k <= min(channels-1, ch+size/2); k++ {
				w := values[i+(k-ch)*inner]
				sum += w * w
			}
			y.SetFloat64(i, v/math.Pow(bias+alpha/float64(size)*sum, beta))
		}
		return []*tensor.Tensor{y}, nil
	}
	return c.Kernel(run, x)
}
