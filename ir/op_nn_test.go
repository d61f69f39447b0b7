package ir

import (
	"math"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rlxc/rlxc/tensor"
)

func TestLayerNorm(t *testing.T) {
	x := f32(tensor.Shape{2, 2}, 1, 3, -4, -4)
	scale, bias := f32(nil, 10, 20), f32(nil, 1, 2)
	runText(t, []textCase{
		// row 1: mean 2, variance 1; row 2: variance 0
		{"plain", LayerNorm{Axes: 1}, ins{f32(nil, 1, 3)}, "f32[2] -1 1"},
		{"eps", LayerNorm{Axes: 1, Eps: 3}, ins{x}, "f32[2,2] -0.5 0.5 0 0"},
		{"scale and bias", LayerNorm{Axes: 1, Eps: 3}, ins{x, scale, bias}, "f32[2,2] -4 12 1 2"},
		{"bias alone", LayerNorm{Axes: 1, Eps: 3}, ins{x, nil, bias}, "f32[2,2] 0.5 2.5 1 2"},
		{"scalar scale", LayerNorm{Axes: 1, Eps: 3}, ins{x, of(tensor.F32, tensor.Shape{}, 2)}, "f32[2,2] -1 1 0 0"},
		{"both axes", LayerNorm{Axes: 2}, ins{f32(tensor.Shape{2, 2}, 1, 1, 3, 3), scale}, "f32[2,2] -10 -20 10 20"},
		{"residual and sum", LayerNorm{Axes: 1, Sum: true}, ins{f32(nil, 1, 1), nil, nil, f32(nil, 0, 2)}, "f32[2] -1 1; f32[2] 1 3"},
		{"rms", LayerNorm{Axes: 1, RMS: true}, ins{f32(nil, 3, 3, 3, 3), f32(nil, 1, 2, 3, 4)}, "f32[4] 1 2 3 4"},
		{"rms keeps the mean", LayerNorm{Axes: 1, RMS: true, Eps: 9}, ins{f32(nil, 4, 4)}, "f32[2] 0.80000001 0.80000001"},
		{"no rows", LayerNorm{Axes: 1}, ins{f32(tensor.Shape{0, 2})}, "f32[0,2]"},
		{"no columns", LayerNorm{Axes: 1}, ins{f32(tensor.Shape{2, 0})}, "f32[2,0]"},
		{"scale's size", LayerNorm{Axes: 1}, ins{x, f32(nil, 1, 2, 3)}, "error: operand 1, f32[3], does not fit [2]"},
		{"residual's rank", LayerNorm{Axes: 1}, ins{x, nil, nil, f32(nil, 1, 2)}, "error: residual f32[2] for f32[2,2]"},
		{"integers", LayerNorm{Axes: 1}, ins{i64(nil, 1)}, "error: layernorm is not defined for i64"},
	})
}

// attend is q [1,S,H,1], k [1,T,G,1] and v [1,T,G,1] of ones' exponents: with q = 0 all visible keys weigh the same, and
// the result is the mean of their values.
func attend(S, H, T, G int, values ...float32) ins {
	return ins{tensor.New(tensor.F32, 1, S, H, 1), tensor.New(tensor.F32, 1, T, G, 1), f32(tensor.Shape{1, T, G, 1}, values...)}
}

func TestAttention(t *testing.T) {
	with := func(in ins, mask *tensor.Tensor) ins { return append(in, mask) }
	three := attend(3, 1, 3, 1, 3, 6, 12)
	bools := func(shape tensor.Shape, v ...bool) *tensor.Tensor { return tensor.FromSlice(v, shape...) }
	runText(t, []textCase{
		{"mean", Attention{Scale: 1}, three, "f32[1,3,1,1] 7 7 7"},
		{"causal", Attention{Scale: 1, Causal: true}, three, "f32[1,3,1,1] 3 4.5 7"},
		{"window", Attention{Scale: 1, Window: 2}, three, "f32[1,3,1,1] 4.5 7 9"},
		{"causal window", Attention{Scale: 1, Window: 2, Causal: true}, three, "f32[1,3,1,1] 3 4.5 9"},
		{"causal from the start", Attention{Scale: 1, Causal: true}, attend(1, 1, 2, 1, 2, 4), "f32[1,1,1,1] 2"},
		{"causal after a cache", Attention{Scale: 1, Causal: true, Offset: true}, attend(1, 1, 2, 1, 2, 4), "f32[1,1,1,1] 3"},
		{"more queries than keys", Attention{Scale: 1, Causal: true, Offset: true, NaNGuard: true}, attend(2, 1, 1, 1, 5),
			"f32[1,2,1,1] 0 5"},
		{"grouped heads", Attention{Scale: 1}, attend(1, 4, 1, 2, 5, 7), "f32[1,1,4,1] 5 5 7 7"},
		{"bool mask", Attention{Scale: 1}, with(attend(1, 1, 2, 1, 2, 4), bools(tensor.Shape{2}, false, true)), "f32[1,1,1,1] 4"},
		{"finite mask over all", Attention{Scale: 1}, with(attend(1, 1, 2, 1, 2, 4), f32(tensor.Shape{1, 1, 1, 2}, -1e9, -1e9)),
			"f32[1,1,1,1] 3"},
		{"all excluded", Attention{Scale: 1}, with(attend(1, 1, 2, 1, 2, 4), bools(tensor.Shape{1}, false)), "f32[1,1,1,1] NaN"},
		{"all excluded, guarded", Attention{Scale: 1, NaNGuard: true}, with(attend(1, 1, 2, 1, 2, 4), bools(tensor.Shape{1}, false)),
			"f32[1,1,1,1] 0"},
		{"no keys", Attention{Scale: 1}, ins{tensor.New(tensor.F32, 1, 1, 1, 2), tensor.New(tensor.F32, 1, 0, 1, 2),
			tensor.New(tensor.F32, 1, 0, 1, 3)}, "f32[1,1,1,3] 0 0 0"},
		{"key sizes", Attention{Scale: 1}, ins{tensor.New(tensor.F32, 1, 1, 1, 2), tensor.New(tensor.F32, 1, 1, 1, 3),
			tensor.New(tensor.F32, 1, 1, 1, 3)}, "error: differ in size"},
		{"heads", Attention{Scale: 1}, attend(1, 3, 1, 2, 1, 1), "error: 3 query heads cannot share 2"},
		{"mask's shape", Attention{Scale: 1}, with(attend(1, 1, 2, 1, 2, 4), f32(nil, 1, 2, 3)),
			"error: mask: [3] does not broadcast to [1,1,1,2]"},
	})
}

func TestAttentionScores(t *testing.T) {
	// scores are 2·1·log 3/2 = log 3 and 0, so that the weights are 3/4 and 1/4
	in := ins{f32(tensor.Shape{1, 1, 1, 1}, 2), f32(tensor.Shape{1, 2, 1, 1}, float32(math.Log(3)), 0),
		f32(tensor.Shape{1, 2, 1, 2}, 4, 0, 8, 1)}
	out, err := EvalOp(nil, Attention{Scale: 0.5}, in)
	require.NoError(t, err)
	require.InDelta(t, 5, out[0].Float64(0), 1e-6)
	require.InDelta(t, 0.25, out[0].Float64(1), 1e-6)

	// a cap of 1 makes tanh(log 3) = 0.8 of log 3; the mask comes after the cap
	out, err = EvalOp(nil, Attention{Scale: 0.5, Softcap: 1}, append(in, f32(tensor.Shape{2}, 1.2, 2)))
	require.NoError(t, err)
	require.InDelta(t, 6, out[0].Float64(0), 1e-6, "0.8 + 1.2 and 0 + 2 weigh the same")
}

func TestRotary(t *testing.T) {
	x := f32(tensor.Shape{1, 2, 1, 4}, 1, 2, 3, 4, 5, 6, 7, 8)
	// position 0 does not turn, position 1 turns its first pair by 90° and its second by 180°
	cos, sin := f32(tensor.Shape{1, 2, 2}, 1, 1, 0, -1), f32(tensor.Shape{1, 2, 2}, 0, 0, 1, 0)
	one := func(v *tensor.Tensor) *tensor.Tensor {
		return f32(tensor.Shape{1, 2, 1}, float32(v.Float64(0)), float32(v.Float64(2)))
	}
	two := tensor.FromSlice(append(tensor.Of[float32](x), tensor.Of[float32](x)...), 2, 2, 1, 4)
	runText(t, []textCase{
		{"halves", Rotary{}, ins{x, cos, sin}, "f32[1,2,1,4] 1 2 3 4 -7 -6 5 -8"},
		{"interleaved", Rotary{Interleaved: true}, ins{x, cos, sin}, "f32[1,2,1,4] 1 2 3 4 -6 5 -7 -8"},
		{"part of the head", Rotary{}, ins{x, one(cos), one(sin)}, "f32[1,2,1,4] 1 2 3 4 -6 5 7 8"},
		{"one table for the batch", Rotary{}, ins{two, cos, sin}, "f32[2,2,1,4] 1 2 3 4 -7 -6 5 -8 1 2 3 4 -7 -6 5 -8"},
		{"too many angles", Rotary{}, ins{x, f32(tensor.Shape{1, 2, 3}, 1, 1, 1, 1, 1, 1), f32(tensor.Shape{1, 2, 3}, 0, 0, 0, 0, 0, 0)},
			"error: on axis 2"},
		{"positions", Rotary{}, ins{x, f32(tensor.Shape{1, 3, 1}, 1, 1, 1), f32(tensor.Shape{1, 3, 1}, 0, 0, 0)}, "error: on axis 1"},
	})
}

func TestMatMul(t *testing.T) {
	one, two := tensor.Shape{1, 1}, tensor.Shape{2, 2}
	a, b := f32(tensor.Shape{2, 2}, 1, 2, 3, 4), f32(tensor.Shape{2, 2}, 5, 6, 7, 8)
	runText(t, []textCase{
		{"plain", MatMul{}, ins{a, b}, "f32[2,2] 19 22 43 50"},
		{"transposed", MatMul{TransB: true}, ins{a, b}, "f32[2,2] 17 23 39 53"},
		{"epilogue", MatMul{Alpha: 0.5, Act: Relu}, ins{a, b, f32(nil, -20, 0), a}, "f32[2,2] 1 13 4.5 29"},
		{"batches", MatMul{}, ins{f32(tensor.Shape{2, 1, 1}, 2, 3), f32(tensor.Shape{1, 2}, 1, 10)}, "f32[2,1,2] 2 20 3 30"},
		{"integers wrap", MatMul{}, ins{i64(tensor.Shape{1, 1}, math.MaxInt64), i64(tensor.Shape{1, 1}, 2), i64(nil, 3)}, "i64[1,1] 1"},
		{"nothing to sum", MatMul{}, ins{tensor.New(tensor.F32, 1, 0), tensor.New(tensor.F32, 0, 2)}, "f32[1,2] 0 0"},
		{"inner sizes", MatMul{}, ins{a, f32(tensor.Shape{1, 2}, 1, 1)}, "error: inner sizes"},
		{"integers with alpha", MatMul{Alpha: 2}, ins{i64(tensor.Shape{1, 1}, 1), i64(tensor.Shape{1, 1}, 1)},
			"error: not defined for i64"},
		{"vectors", MatMul{}, ins{f32(nil, 1), b}, "error: at least two axes"},
		{"a vector on the right", MatMul{}, ins{b, f32(nil, 1)}, "error: at least two axes"},
		{"not square, transposed", MatMul{TransB: true}, ins{f32(tensor.Shape{1, 2}, 1, 10), f32(tensor.Shape{3, 2}, 1, 2, 3, 4, 5, 6)},
			"f32[1,3] 21 43 65"},
		{"integers with all", MatMul{},
			ins{i64(two, 1, 2, 3, 4), i64(two, 5, 6, 7, 8), i64(nil, 100, 200), i64(two, 1000, 2000, 3000, 4000)},
			"i64[2,2] 1119 2222 3143 4250"},
		{"parameters of act", MatMul{Act: HardSigmoid, ActAlpha: 0.5, ActBeta: 0.25}, ins{f32(one, 1), f32(one, 0.5)}, "f32[1,1] 0.5"},
		{"half a table", MatMul{}, ins{f32(one, 1.0009765625), of(tensor.F16, one, 2)}, "f32[1,1] 2.0019531"},
		{"bfloat16", MatMul{}, ins{f32(one, 1.0009765625), of(tensor.BF16, one, 2)}, "f32[1,1] 2.0019531"},
		{"two halves", MatMul{}, ins{of(tensor.F16, one, 1), of(tensor.BF16, one, 1)}, "error: matmul of f16 and bf16"},
		{"a wider b", MatMul{}, ins{f32(one, 1), of(tensor.F64, one, 1)}, "error: matmul of f32 and f64"},
		{"truths", MatMul{}, ins{of(tensor.Bool, one, 1), of(tensor.Bool, one, 1)}, "error: not defined for bool"},
		{"integers with act", MatMul{Act: Relu}, ins{i64(one, 1), i64(one, 1)}, "error: not defined for i64"},
		{"act to truths", MatMul{Act: IsNaN}, ins{a, b}, "error: a product followed by is_nan"},
		{"batches that differ", MatMul{}, ins{tensor.New(tensor.F32, 2, 1, 1), tensor.New(tensor.F32, 3, 1, 1)}, "error: do not broadcast"},
		{"bias's type", MatMul{}, ins{a, b, i64(nil, 1, 2)}, "error: a bias or residual of i64"},
		{"bias's size", MatMul{}, ins{a, b, f32(nil, 1)}, "error: bias f32[1] for 2 columns"},
		{"bias's rank", MatMul{}, ins{a, b, f32(tensor.Shape{1, 2}, 1, 2)}, "error: bias f32[1,2]"},
		{"residual's type", MatMul{}, ins{a, b, nil, i64(two, 1, 2, 3, 4)}, "error: a bias or residual of i64"},
		{"residual's rank", MatMul{}, ins{a, b, nil, f32(nil, 1, 2)}, "error: residual f32[2]"},
		{"residual's size", MatMul{}, ins{a, b, nil, f32(tensor.Shape{2, 1}, 1, 2)}, "error: residual f32[2,1]"},
	})
}
