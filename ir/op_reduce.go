package ir

import (
	"fmt"
	"math"
	"slices"

	"github.com/rlxc/rlxc/tensor"
)

// Reduce combines the elements along Axes (sorted, not negative; none means that nothing is reduced), which stay with
// size 1 when KeepDims. Sums are taken in float64 (Eval) or float32 and better (kernels); those of integers wrap. Of no
// elements at all, a sum is 0, a product 1, a mean NaN (0 in integers), the largest the lowest value of the type (−∞ in
// floats), the smallest the highest, a logarithm −∞.
type Reduce struct {
	Fn       Reduction `ir:"name"`
	Axes     []int
	KeepDims bool
}

// reduceRow is the meaning of a reduction on a group of numbers. On integers, rows without a meaning of their own go
// through real and truncate.
type reduceRow struct {
	real  func(x []float64) float64
	whole func(x []int64) int64
	wide  func(x []uint64) uint64 // for unsigned 64 bits, as in binaryRow
	dims  func(x []Dim) Dim
}

var reduceTable = [NumReductions]reduceRow{
	Sum:  {real: sum[float64], whole: sum[int64], dims: func(x []Dim) Dim { return foldDims(N(0), Dim.Add, x) }},
	Mean: {real: func(x []float64) float64 { return sum(x) / float64(len(x)) }, whole: mean[int64], wide: mean[uint64]},
	MaxOf: {real: slices.Max[[]float64], whole: slices.Max[[]int64], wide: slices.Max[[]uint64],
		dims: func(x []Dim) Dim { return Max(x...) }},
	MinOf: {real: slices.Min[[]float64], whole: slices.Min[[]int64], wide: slices.Min[[]uint64],
		dims: func(x []Dim) Dim { return Min(x...) }},
	Prod: {real: product[float64], whole: product[int64], dims: func(x []Dim) Dim { return foldDims(N(1), Dim.Mul, x) }},
	L1: {real: func(x []float64) float64 { return sum(each(x, math.Abs)) },
		whole: func(x []int64) int64 { return sum(each(x, unaryTable[Abs].whole)) }, wide: sum[uint64]},
	L2:        {real: func(x []float64) float64 { return math.Sqrt(sum(each(x, square))) }},
	LogSum:    {real: func(x []float64) float64 { return math.Log(sum(x)) }},
	LogSumExp: {real: logSumExp},
	SumSquare: {real: func(x []float64) float64 { return sum(each(x, square)) },
		whole: func(x []int64) int64 { return sum(each(x, square)) }},
}

func init() {
	for r := NoReduction + 1; r < NumReductions; r++ {
		if reduceTable[r].real == nil {
			panic("ir: reduction " + r.String() + " has no row")
		}
	}
}

type numeric interface{ int64 | uint64 | float64 }

func sum[T numeric](x []T) (s T) {
	for _, v := range x {
		s += v
	}
	return s
}

func product[T numeric](x []T) T {
	p := T(1)
	for _, v := range x {
		p *= v
	}
	return p
}

func mean[T int64 | uint64](x []T) T {
	if len(x) == 0 {
		return 0
	}
	return sum(x) / T(len(x))
}

func square[T numeric](x T) T { return x * x }

func each[T numeric](x []T, f func(T) T) []T {
	y := make([]T, len(x))
	for i, v := range x {
		y[i] = f(v)
	}
	return y
}

// logSumExp takes the largest out before the exponentials can overflow.
func logSumExp(x []float64) float64 {
	if len(x) == 0 {
		return math.Inf(-1)
	}
	m := slices.Max(x)
	if math.IsInf(m, 0) {
		return m
	}
	return m + math.Log(sum(each(x, func(v float64) float64 { return math.Exp(v - m) })))
}

func foldDims(start Dim, f func(Dim, Dim) Dim, x []Dim) Dim {
	for _, d := range x {
		start = f(start, d)
	}
	return start
}

// Kind implements Op.
func (Reduce) Kind() Kind       { return KindReduce }
func (o Reduce) opName() string { return "reduce_" + o.Fn.String() }
func (Reduce) named() map[string]Op {
	m := map[string]Op{}
	for r := NoReduction + 1; r < NumReductions; r++ {
		m[Reduce{Fn: r}.opName()] = Reduce{Fn: r}
	}
	return m
}

// Infer implements Op. Bool has only a largest and a smallest value.
func (o Reduce) Infer(in []*Value) ([]Type, error) {
	t := in[0].Type
	boolean := t.DType == tensor.Bool && (o.Fn == MaxOf || o.Fn == MinOf)
	if !t.DType.IsFloat() && !t.DType.IsInt() && !boolean {
		return nil, fmt.Errorf("%s is not defined for %s", o.opName(), t.DType)
	}
	s, err := reducedShape(t.Shape, N(1), o.Axes, o.KeepDims)
	if err != nil {
		return nil, err
	}
	return []Type{TensorOf(t.DType, s...)}, nil
}

// reducedShape is s without the axes, or with one in their place.
func reducedShape[S ~[]E, E any](s S, one E, axes []int, keep bool) (S, error) {
	out := make(S, 0, len(s))
	next := 0
	for i, d := range s {
		switch {
		case next == len(axes) || axes[next] != i:
			out = append(out, d)
			continue
		case keep:
			out = append(out, one)
		}
		next++
	}
	if next != len(axes) {
		return nil, fmt.Errorf("axes %v of rank %d are not sorted, or outside", axes, len(s))
	}
	return out, nil
}

// Eval implements Op.
func (o Reduce) Eval(in []*tensor.Tensor) ([]*tensor.Tensor, error) {
	x, row := in[0], reduceTable[o.Fn]
	shape, err := reducedShape(x.Shape(), 1, o.Axes, o.KeepDims)
	if err != nil {
		return nil, err
	}
	y := tensor.New(x.DType(), shape...)
	starts, steps := groups(x.Shape(), o.Axes)
	for i, start := range starts {
		switch {
		case len(steps) == 0 && (o.Fn == MaxOf || o.Fn == MinOf):
			setExtreme(y, i, o.Fn == MinOf)
		case x.DType().IsFloat():
			y.SetFloat64(i, row.real(pick(start, steps, x.Float64)))
		case x.DType() == tensor.U64 && row.wide != nil:
			y.SetInt64(i, int64(row.wide(pick(start, steps, func(i int) uint64 { return uint64(x.Int64(i)) }))))
		case row.whole != nil:
			y.SetInt64(i, row.whole(pick(start, steps, x.Int64)))
		default:
			setTruncated(y, i, row.real(pick(start, steps, x.Float64)))
		}
	}
	return []*tensor.Tensor{y}, nil
}

// groups gives, for a reduction along axes, where each result's elements start and how far each lies from the start.
func groups(s tensor.Shape, axes []int) (starts, steps []int) {
	starts, steps = []int{0}, []int{0}
	for i, stride := range s.Strides() {
		list := &starts
		if slices.Contains(axes, i) {
			list = &steps
		}
		old := *list
		*list = make([]int, 0, len(old)*s[i])
		for _, at := range old {
			for k := range s[i] {
				*list = append(*list, at+k*stride)
			}
		}
	}
	return starts, steps
}

func pick[T numeric](start int, steps []int, at func(int) T) []T {
	out := make([]T, len(steps))
	for i, step := range steps {
		out[i] = at(start + step)
	}
	return out
}

// setExtreme writes the highest or the lowest value of the type.
func setExtreme(y *tensor.Tensor, i int, highest bool) {
	d := y.DType()
	switch {
	case d.IsFloat() && highest:
		y.SetFloat64(i, math.Inf(1))
	case d.IsFloat():
		y.SetFloat64(i, math.Inf(-1))
	case d.IsSigned() && highest:
		y.SetInt64(i, 1<<(d.Bits()-1)-1)
	case d.IsSigned():
		y.SetInt64(i, -1<<(d.Bits()-1))
	case highest:
		y.SetInt64(i, -1) // all bits; true
	}
}

// Content implements contenter for vectors of sizes reduced to one.
func (o Reduce) Content(in []*Value) []Dim {
	f, x := reduceTable[o.Fn].dims, in[0].Dims
	if f == nil || len(x) == 0 {
		return nil
	}
	if len(o.Axes) == 0 {
		return x
	}
	return []Dim{f(x)}
}

// ArgReduce gives the index (i64) of the largest element along Axis, or of the smallest when Min: of the first such, or
// of the last when Last.
type ArgReduce struct {
	Min      bool `ir:"name"`
	Axis     int
	KeepDims bool
	Last     bool
}

// Kind implements Op.
func (ArgReduce) Kind() Kind { return KindArgReduce }
func (o ArgReduce) opName() string {
	if o.Min {
		return "argmin"
	}
	return "argmax"
}
func (ArgReduce) named() map[string]Op {
	return map[string]Op{"argmax": ArgReduce{}, "argmin": ArgReduce{Min: true}}
}

// Infer implements Op.
func (o ArgReduce) Infer(in []*Value) ([]Type, error) {
	t := in[0].Type
	if !t.DType.IsFloat() && !t.DType.IsInt() {
		return nil, fmt.Errorf("%s is not defined for %s", o.opName(), t.DType)
	}
	s, err := reducedShape(t.Shape, N(1), []int{o.Axis}, o.KeepDims)
	if err != nil {
		return nil, err
	}
	if t.Shape[o.Axis].Is(0) {
		return nil, fmt.Errorf("%s of %v: axis %d has no elements", o.opName(), t, o.Axis)
	}
	return []Type{TensorOf(tensor.I64, s...)}, nil
}

// Eval implements Op.
func (o ArgReduce) Eval(in []*tensor.Tensor) ([]*tensor.Tensor, error) {
	x := in[0]
	shape, err := reducedShape(x.Shape(), 1, []int{o.Axis}, o.KeepDims)
	if err != nil {
		return nil, err
	}
	if x.Shape()[o.Axis] == 0 {
		return nil, fmt.Errorf("%s of %v: axis %d has no elements", o.opName(), x, o.Axis)
	}
	less := func(i, j int) bool { return x.Int64(i) < x.Int64(j) }
	switch {
	case x.DType().IsFloat():
		less = func(i, j int) bool { return x.Float64(i) < x.Float64(j) }
	case x.DType() == tensor.U64:
		less = func(i, j int) bool { return uint64(x.Int64(i)) < uint64(x.Int64(j)) }
	}
	better := func(i, best int) bool {
		if o.Min {
			i, best = best, i
		}
		return less(best, i) || o.Last && !less(i, best)
	}
	var out []int64
	lines(x.Shape(), o.Axis, func(start, step int) {
		best := 0
		for i := range x.Shape()[o.Axis] {
			if better(start+i*step, start+best*step) {
				best = i
			}
		}
		out = append(out, int64(best))
	})
	return []*tensor.Tensor{tensor.FromSlice(out, append([]int{}, shape...)...)}, nil
}
