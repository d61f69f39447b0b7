package conformance

import (
	"fmt"
	"math"
	"slices"

	"github.com/rlxc/rlxc/tensor"
)

// The tolerances: |got − want| ≤ atol + rtol·|want|. ONNX's own runner of these tests allows bfloat16 results two units in the
// last place (onnx/backend/test/runner), since its reference rounds to bfloat16 within an operator, in a separate order.
const (
	rtol     = 1e-3
	rtolBF16 = 1.0 / 64
	atol     = 1e-5
)

// compare reports the first difference between a result and the reference's.
func compare(got, want *tensor.Tensor) error {
	if got.IsSequence() && want.IsSequence() && got.Len() == want.Len() {
		for i, w := range want.Elems() {
			if err := compare(got.Elems()[i], w); err != nil {
				return fmt.Errorf("element %d %w", i, err)
			}
		}
		return nil
	}
	if got.DType() != want.DType() || got.IsSequence() != want.IsSequence() || !got.Shape().Equal(want.Shape()) {
		return fmt.Errorf("is %v, %v expected", got, want)
	}
	switch d := want.DType(); {
	case d == tensor.String:
		if !slices.Equal(got.Strings(), want.Strings()) {
			return fmt.Errorf("is %q, %q expected", got.Strings(), want.Strings())
		}
	case d.IsComplex():
		return compareNumbers(parts(got), parts(want), rtol)
	case d == tensor.BF16:
		return compareNumbers(got.Float64s(), want.Float64s(), rtolBF16)
	case d.IsFloat():
		return compareNumbers(got.Float64s(), want.Float64s(), rtol)
	default:
		for i, w := range want.Int64s() {
			if g := got.Int64(i); g != w {
				return fmt.Errorf("element %d is %d, %d expected", i, g, w)
			}
		}
	}
	return nil
}

func compareNumbers(got, want []float64, rtol float64) error {
	for i, w := range want {
		g := got[i]
		same := g == w || math.IsNaN(g) && math.IsNaN(w)
		if !same && !(math.Abs(g-w) <= atol+rtol*math.Abs(w)) {
			return fmt.Errorf("element %d is %v, %v expected", i, g, w)
		}
	}
	return nil
}

// parts are the real and imaginary parts of a complex tensor, one after the other.
func parts(t *tensor.Tensor) []float64 {
	var out []float64
	if t.DType() == tensor.C64 {
		for _, z := range tensor.Of[complex64](t) {
			out = append(out, float64(real(z)), float64(imag(z)))
		}
		return out
	}
	for _, z := range tensor.Of[complex128](t) {
		out = append(out, real(z), imag(z))
	}
	return out
}
