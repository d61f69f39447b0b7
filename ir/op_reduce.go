package ir

import (
	"fmt"
	"iter"
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

// reduceRow is the meaning of a reduction on a group of numbers, which may be gone through more than once. On integers, rows
// without a separate meaning go through real and truncate.
type reduceRow struct {
	real  func(x iter.Seq[float64]) float64
	whole func(x iter.Seq[int64]) int64
	wide  func(x iter.Seq[uint64]) uint64 // for unsigned 64 bits, as in binaryRow
	dims  func(x []Dim) Dim
}

var reduceTable = [NumReductions]reduceRow{
	Sum: {real: sum[float64], whole: sum[int64], dims: func(x []Dim) Dim { return foldDims(N(0), Dim.Add, x) }},
	Mean: {real: func(x iter.Seq[float64]) float64 { return sum(x) / float64(count(x)) },
		whole: mean[int64], wide: mean[uint64]},
	MaxOf: {real: largest[float64], whole: largest[int64], wide: largest[uint64],
		dims: func(x []Dim) Dim { return Max(x...) }},
	MinOf: {real: smallest[float64], whole: smallest[int64], wide: smallest[uint64],
		dims: func(x []Dim) Dim { return Min(x...) }},
	Prod: {real: product[float64], whole: product[int64], dims: func(x []Dim) Dim { return foldDims(N(1), Dim.Mul, x) }},
	L1: {real: func(x iter.Seq[float64]) float64 { return sum(each(x, math.Abs)) },
		whole: func(x iter.Seq[int64]) int64 { return sum(each(x, Unary{Fn: Abs}.Whole())) }, wide: sum[uint64]},
	L2:        {real: func(x iter.Seq[float64]) float64 { return math.Sqrt(sum(each(x, square))) }},
	LogSum:    {real: func(x iter.Seq[float64]) float64 { return math.Log(sum(x)) }},
	LogSumExp: {real: logSumExp},
	SumSquare: {real: func(x iter.Seq[float64]) float64 { return sum(each(x, square)) },
		whole: func(x iter.Seq[int64]) int64 { return sum(each(x, square)) }},
}

func init() {
	for r := NoReduction + 1; r < NumReductions; r++ {
		if reduceTable[r].real == nil {
			panic("ir: reduction " + r.String() + " has no row")
		}
	}
}

type numeric interface{ int64 | uint64 | float64 }

func sum[T numeric](x iter.Seq[T]) (s T) {
	for v := range x {
		s += v
	}
	return s
}

func product[T numeric](x iter.Seq[T]) T {
	p := T(1)
	for v := range x {
		p *= v
	}
	return p
}

func count[T numeric](x iter.Seq[T]) (n int) {
	for range x {
		n++
	}
	return n
}

func mean[T int64 | uint64](x iter.Seq[T]) T {
	n := count(x)
	if n == 0 {
		return 0
	}
	return sum(x) / T(n)
}

// largest is of a group that is not empty; NaN is larger than all.
func largest[T numeric](x iter.Seq[T]) (m T) {
	first := true
	for v := range x {
		if first {
			m, first = v, false
		}
		m = max(m, v)
	}
	return m
}

// smallest is of a group that is not empty; NaN is smaller than all.
func smallest[T numeric](x iter.Seq[T]) (m T) {
	first := true
	for v := range x {
		if first {
			m, first = v, false
		}
		m = min(m, v)
	}
	return m
}

func square[T numeric](x T) T { return x * x }

func each[T numeric](x iter.Seq[T], f func(T) T) iter.Seq[T] {
	return func(yield func(T) bool) {
		for v := range x {
			if !yield(f(v)) {
				return
			}
		}
	}
}

// logSumExp takes the largest out before the exponentials can overflow.
func logSumExp(x iter.Seq[float64]) float64 {
	if count(x) == 0 {
		return math.Inf(-1)
	}
	m := largest(x)
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

// reducedShape is s without the axes, or with axes of size 1 instead.
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

func (o Reduce) Eval(env *Env, in []*tensor.Tensor) ([]*tensor.Tensor, error) {
	x, row, y := in[0], reduceTable[o.Fn], env.Output(o, in)
	outer, reduced := strided{}, strided{}
	for i, stride := range x.Shape().Strides() {
		part := &outer
		if slices.Contains(o.Axes, i) {
			part = &reduced
		}
		part.sizes, part.strides = append(part.sizes, x.Shape()[i]), append(part.strides, stride)
	}
	i := 0
	group := tensor.Shape(reduced.sizes).Elements()
	outer.walk(func(start int) bool {
		env.Work(1 + group)
		switch {
		case x.Len() == 0 && (o.Fn == MaxOf || o.Fn == MinOf):
			setExtreme(y, i, o.Fn == MinOf)
		case x.DType().IsFloat():
			y.SetFloat64(i, row.real(pick(start, reduced, x.Float64)))
		case x.DType() == tensor.U64 && row.wide != nil:
			y.SetInt64(i, int64(row.wide(pick(start, reduced, func(i int) uint64 { return uint64(x.Int64(i)) }))))
		case row.whole != nil:
			y.SetInt64(i, row.whole(pick(start, reduced, x.Int64)))
		default:
			setTruncated(y, i, row.real(pick(start, reduced, x.Float64)))
		}
		i++
		return true
	})
	return []*tensor.Tensor{y}, nil
}

// strided are some axes of a tensor.
type strided struct{ sizes, strides []int }

// walk visits the positions of all elements along the axes, the last one fastest; none if one of them has size 0, however large the
// others are.
func (s strided) walk(visit func(at int) bool) {
	if tensor.Shape(s.sizes).Elements() == 0 {
		return
	}
	index, at := make([]int, len(s.sizes)), 0
	for visit(at) {
		k := len(index) - 1
		for ; k >= 0; k-- {
			index[k]++
			at += s.strides[k]
			if index[k] < s.sizes[k] {
				break
			}
			at -= s.strides[k] * s.sizes[k]
			index[k] = 0
		}
		if k < 0 {
			return
		}
	}
}

// pick returns the elements of the group that starts at a position.
func pick[T numeric](start int, group strided, at func(int) T) iter.Seq[T] {
	return func(yield func(T) bool) {
		group.walk(func(step int) bool { return yield(at(start + step)) })
	}
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

// ArgReduce returns the index (i64) of the largest element along Axis, or of the smallest when Min: of the first such, or
// of the last when Last. Nothing is larger or smaller than a NaN at index 0; a NaN elsewhere is not an element. onnxruntime does the
// same along an axis of a matrix, and returns the index of a NaN in a vector.
type ArgReduce struct {
	Min      bool `ir:"name"`
	Axis     int
	KeepDims bool
	Last     bool
}

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

func (o ArgReduce) Eval(env *Env, in []*tensor.Tensor) ([]*tensor.Tensor, error) {
	x := in[0]
	y := env.Output(o, in)
	if x.Shape()[o.Axis] == 0 {
		return nil, fmt.Errorf("%s of %v: axis %d has no elements", o.opName(), x, o.Axis)
	}
	less := func(i, j int) bool { return x.Int64(i) < x.Int64(j) }
	same := func(i, j int) bool { return x.Int64(i) == x.Int64(j) }
	switch {
	case x.DType().IsFloat():
		less = func(i, j int) bool { return x.Float64(i) < x.Float64(j) }
		same = func(i, j int) bool { return x.Float64(i) == x.Float64(j) }
	case x.DType() == tensor.U64:
		less = func(i, j int) bool { return uint64(x.Int64(i)) < uint64(x.Int64(j)) }
	}
	better := func(i, best int) bool {
		if o.Last && same(i, best) {
			return true
		}
		if o.Min {
			i, best = best, i
		}
		return less(best, i)
	}
	out := tensor.Of[int64](y)
	lines(env, x.Shape(), o.Axis, func(start, step int) {
		best := 0
		for i := range x.Shape()[o.Axis] {
			if better(start+i*step, start+best*step) {
				best = i
			}
		}
		out[0], out = int64(best), out[1:]
	})
	return []*tensor.Tensor{y}, nil
}
