package programs

import (
	"math"
	"slices"

	"github.com/rlxc/rlxc/internal/ops"
	"github.com/rlxc/rlxc/ir"
	"github.com/rlxc/rlxc/tensor"
)

// undefined reports whether an op makes integers that nothing prescribes, or that onnxruntime computes in floating point, or is one
// that onnxruntime mistakes.
func (e *evaluation) undefined() bool {
	integers := !e.out[0].DType().IsFloat()
	switch op := e.op.(type) {
	case ir.Cast:
		return e.in[0].t.DType().IsFloat() && op.To.IsInt() && !holds(op.To, e.in[0].t)
	case ir.Clip: // of 64 bits, onnxruntime compares 32
		for _, x := range e.in {
			if integers && x != nil && largestOf(x.t) >= 1<<31 {
				return true
			}
		}
	case ir.Binary:
		switch op.Fn {
		case ir.FMod:
			return integers && largestOf(e.in[0].t) > 1<<53
		case ir.Pow:
			return integers && !(math.Pow(largestOf(e.in[0].t), largestOf(e.in[1].t)) < 1<<31)
		}
	case ir.Reduce:
		return integers && e.reducedInFloat(op)
	case ops.Resize:
		from, to := e.in[0].t.Shape(), e.out[0].Shape()
		images := max(0, len(from)-2)
		return op.Mode == "cubic" && !slices.Equal(from[:images], to[:images])
	}
	return false
}

// reducedInFloat reports whether a reduction of integers is another in float64, which onnxruntime computes in and does not wrap.
func (e *evaluation) reducedInFloat(op ir.Reduce) bool {
	switch op.Fn {
	case ir.MaxOf, ir.MinOf:
		return false
	case ir.LogSum, ir.LogSumExp, ir.L2:
		return true
	case ir.Mean:
		op.Fn = ir.Sum
	}
	x := e.in[0].t
	magnitudes := floatsOf(nil, x.Shape())
	for i := range x.Len() {
		m := math.Abs(number(x, i))
		if op.Fn == ir.Prod {
			m = max(m, 1) // partial products may be large where a factor is 0
		}
		magnitudes.SetFloat64(i, m)
	}
	out, err := ir.EvalOp(nil, op, []*tensor.Tensor{magnitudes})
	return err != nil || largestOf(out[0]) > min(1<<53, float64(ends(e.out[0].DType())[1]))
}

// holds reports whether a type of integers has positions for all elements of t.
func holds(d tensor.DType, t *tensor.Tensor) bool {
	limits := ends(d)
	for i := range t.Len() {
		if x := t.Float64(i); !(x >= float64(limits[0]) && x <= float64(limits[1])) {
			return false
		}
	}
	return true
}

func largestOf(t *tensor.Tensor) (most float64) {
	for i := range t.Len() {
		most = max(most, math.Abs(number(t, i)))
	}
	return most
}
