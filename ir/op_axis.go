package ir

import (
	"fmt"
	"math"
	"slices"

	"github.com/rlxc/rlxc/tensor"
)

// The ops here work along one axis and keep the shape.

// lines calls f for every line of elements along an axis, with where it starts and the distance from one to the next. Without an
// element there are none, however long the other axes are.
func lines(env *Env, s tensor.Shape, axis int, f func(start, step int)) {
	if s.Elements() == 0 {
		return
	}
	step := s[axis+1:].Elements()
	for outer := range env.Range(s[:axis].Elements()) {
		for inner := range step {
			env.Work(s[axis])
			f(outer*s[axis]*step+inner, step)
		}
	}
}

// Softmax is exp(x − max) / Σ exp(x − max) along Axis, or its logarithm when Log. A line that holds nothing but −∞ becomes
// NaN.
type Softmax struct {
	Axis int
	Log  bool
}

func (Softmax) Kind() Kind { return KindSoftmax }

func (o Softmax) Infer(in []*Value) ([]Type, error) {
	t := in[0].Type
	if !t.DType.IsFloat() {
		return nil, fmt.Errorf("softmax is not defined for %s", t.DType)
	}
	return []Type{t}, axisWithin(o.Axis, len(t.Shape))
}

func (o Softmax) Eval(env *Env, in []*tensor.Tensor) ([]*tensor.Tensor, error) {
	x := in[0]
	y := env.New(x.DType(), x.Shape()...)
	if y.Len() == 0 {
		return []*tensor.Tensor{y}, nil
	}
	line := Make[float64](env, x.Shape()[o.Axis])
	lines(env, x.Shape(), o.Axis, func(start, step int) {
		for i := range line {
			line[i] = x.Float64(start + i*step)
		}
		softmax(line, o.Log)
		for i, v := range line {
			y.SetFloat64(start+i*step, v)
		}
	})
	return []*tensor.Tensor{y}, nil
}

// softmax works in place.
func softmax(x []float64, log bool) {
	if len(x) == 0 {
		return
	}
	m := slices.Max(x)
	total := 0.0
	for i, v := range x {
		x[i] = v - m
		total += math.Exp(x[i])
	}
	for i, v := range x {
		if log {
			x[i] = v - math.Log(total)
		} else {
			x[i] = math.Exp(v) / total
		}
	}
}

// CumSum sums along Axis up to each element, without it when Exclusive, from the end when Reverse.
type CumSum struct {
	Axis               int
	Exclusive, Reverse bool
}

func (CumSum) Kind() Kind { return KindCumSum }

func (o CumSum) Infer(in []*Value) ([]Type, error) {
	t := in[0].Type
	if !t.DType.IsFloat() && !t.DType.IsInt() {
		return nil, fmt.Errorf("cumsum is not defined for %s", t.DType)
	}
	return []Type{t}, axisWithin(o.Axis, len(t.Shape))
}

// Eval implements Op. Sums of integers wrap.
func (o CumSum) Eval(env *Env, in []*tensor.Tensor) ([]*tensor.Tensor, error) {
	x := in[0]
	y := env.New(x.DType(), x.Shape()...)
	n := x.Shape()[o.Axis]
	lines(env, x.Shape(), o.Axis, func(start, step int) {
		if o.Reverse {
			start, step = start+(n-1)*step, -step
		}
		if x.DType().IsFloat() {
			cumulate(n, o.Exclusive, func(i int) float64 { return x.Float64(start + i*step) },
				func(i int, s float64) { y.SetFloat64(start+i*step, s) })
		} else {
			cumulate(n, o.Exclusive, func(i int) int64 { return x.Int64(start + i*step) },
				func(i int, s int64) { y.SetInt64(start+i*step, s) })
		}
	})
	return []*tensor.Tensor{y}, nil
}

func cumulate[T numeric](n int, exclusive bool, get func(int) T, set func(int, T)) {
	var s T
	for i := range n {
		v := get(i)
		if exclusive {
			set(i, s)
		}
		s += v
		if !exclusive {
			set(i, s)
		}
	}
}
