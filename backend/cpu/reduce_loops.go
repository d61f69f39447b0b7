package cpu

import (
	"math"
	"slices"

	"github.com/rlxc/rlxc/ir"
	"github.com/rlxc/rlxc/tensor"
)

// Reductions that have no kernel, and those along axes that are not adjacent, add up in Go, floats in float64.

// A fold is how the elements of a group become one.
type fold[A float64 | int64 | uint64] struct {
	first A                    // result of no elements
	next  func(sum, v A) A     // adds an element to the result so far
	last  func(sum A, n int) A // computes the result of n elements from their sum; nil if it is the sum
	// largest subtracts the largest element from each element before next, and adds it to the result, so that exponentials do not overflow.
	largest bool
}

func sumOf[A float64 | int64 | uint64](f func(v A) A, last func(sum A, n int) A) fold[A] {
	return fold[A]{next: func(sum, v A) A { return sum + f(v) }, last: last}
}

func itself[A any](v A) A                               { return v }
func square[A float64 | int64 | uint64](v A) A          { return v * v }
func larger[A float64 | int64 | uint64](p, q A) A       { return max(p, q) }
func smaller[A float64 | int64 | uint64](p, q A) A      { return min(p, q) }
func product[A float64 | int64 | uint64](p, q A) A      { return p * q }
func meanOf[A float64 | int64 | uint64](sum A, n int) A { return sum / A(n) }

var realFolds = map[ir.Reduction]fold[float64]{
	ir.Sum:       sumOf(itself[float64], nil),
	ir.Mean:      sumOf(itself[float64], meanOf),
	ir.L1:        sumOf(math.Abs, nil),
	ir.SumSquare: sumOf(square[float64], nil),
	ir.L2:        sumOf(square[float64], func(sum float64, _ int) float64 { return math.Sqrt(sum) }),
	ir.LogSum:    sumOf(itself[float64], func(sum float64, _ int) float64 { return math.Log(sum) }),
	ir.LogSumExp: {next: func(sum, v float64) float64 { return sum + math.Exp(v) },
		last: func(sum float64, _ int) float64 { return math.Log(sum) }, largest: true},
	ir.Prod:  {first: 1, next: product[float64]},
	ir.MaxOf: {first: math.Inf(-1), next: larger[float64]},
	ir.MinOf: {first: math.Inf(1), next: smaller[float64]},
}

var wholeFolds = map[ir.Reduction]fold[int64]{
	ir.Sum:       sumOf(itself[int64], nil),
	ir.Mean:      sumOf(itself[int64], meanOf),
	ir.L1:        sumOf(ir.Unary{Fn: ir.Abs}.Whole(), nil),
	ir.SumSquare: sumOf(square[int64], nil),
	ir.Prod:      {first: 1, next: product[int64]},
	ir.MaxOf:     {first: math.MinInt64, next: larger[int64]},
	ir.MinOf:     {first: math.MaxInt64, next: smaller[int64]},
}

var wideFolds = map[ir.Reduction]fold[uint64]{
	ir.Sum:   sumOf(itself[uint64], nil),
	ir.Mean:  sumOf(itself[uint64], meanOf),
	ir.L1:    sumOf(itself[uint64], nil),
	ir.Prod:  {first: 1, next: product[uint64]},
	ir.MaxOf: {first: 0, next: larger[uint64]},
	ir.MinOf: {first: math.MaxUint64, next: smaller[uint64]},
}

// reduceLoops are the steps of reductions by type; they return nil for what has none.
var reduceLoops = map[tensor.DType]func(op ir.Reduce, x, y *operand) *step{
	tensor.F32: reduceOf[float32](realFolds), tensor.F64: reduceOf[float64](realFolds),
	tensor.I8: reduceOf[int8](wholeFolds), tensor.I16: reduceOf[int16](wholeFolds), tensor.I32: reduceOf[int32](wholeFolds),
	tensor.I64: reduceOf[int64](wholeFolds),
	tensor.U8:  reduceOf[uint8](wholeFolds), tensor.U16: reduceOf[uint16](wholeFolds), tensor.U32: reduceOf[uint32](wholeFolds),
	tensor.U64: reduceOf[uint64](wideFolds),
}

func reduceOf[T number, A float64 | int64 | uint64](folds map[ir.Reduction]fold[A]) func(op ir.Reduce, x, y *operand) *step {
	return func(op ir.Reduce, x, y *operand) *step {
		f, ok := folds[op.Fn]
		if !ok {
			return nil
		}
		st := reduceLoop[T](op, f, x, y)
		return &st
	}
}

// hasReduceLoop reports whether reduceLoops has a step.
func hasReduceLoop(op ir.Reduce, d tensor.DType) bool {
	f := reduceLoops[d]
	return f != nil && f(op, &operand{}, &operand{}) != nil
}

// reduceLoop reduces along any axes, which are cut into runs along the last of them.
func reduceLoop[T number, A float64 | int64 | uint64](op ir.Reduce, f fold[A], x, y *operand) step {
	src, dst := *x, *y
	var remaining, reduced walk
	for i, stride := range src.shape.Strides() {
		w := &remaining
		if slices.Contains(op.Axes, i) {
			w = &reduced
		}
		w.sizes, w.strides = append(w.sizes, src.shape[i]), append(w.strides, stride)
	}
	run, by := 1, 0
	if n := len(reduced.sizes); n > 0 {
		run, by = reduced.sizes[n-1], reduced.strides[n-1]
		reduced.sizes, reduced.strides = reduced.sizes[:n-1], reduced.strides[:n-1]
	}
	runs := reduced.sizes.Elements()
	parts, perPart := rowParts(dst.len(), max(runs*run, 1))
	group := func(s []T, from int, first A, next func(sum, v A) A) A {
		for i := range runs {
			at := from + reduced.at(i)
			for range run {
				first = next(first, A(s[at]))
				at += by
			}
		}
		return first
	}
	return step{parts: parts, run: func(m *machine, part, _ int) {
		d, s := elements[T](m, &dst), elements[T](m, &src)
		for i := part * perPart; i < min((part+1)*perPart, dst.len()); i++ {
			from, next, most := remaining.at(i), f.next, A(0)
			if f.largest {
				most = group(s, from, A(s[from]), larger[A])
				if v := float64(most); math.IsInf(v, 0) || v != v {
					d[i] = T(most)
					continue
				}
				next = func(sum, v A) A { return f.next(sum, v-most) }
			}
			sum := group(s, from, f.first, next)
			if f.last != nil {
				sum = f.last(sum, runs*run)
			}
			if f.largest {
				sum += most // not else: the sign of a zero would go
			}
			d[i] = T(sum)
		}
	}}
}

// A walk is some axes of a tensor.
type walk struct {
	sizes   tensor.Shape
	strides []int
}

// at is where element i along the axes is, the last one fastest.
func (w *walk) at(i int) (at int) {
	for k := len(w.sizes) - 1; k >= 0; k-- {
		at += i % w.sizes[k] * w.strides[k]
		i /= w.sizes[k]
	}
	return at
}
