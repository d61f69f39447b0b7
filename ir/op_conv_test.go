package ir_test

import (
	"math"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rlxc/rlxc/ir"
	"github.com/rlxc/rlxc/tensor"
)

// TestConvOfInfiniteWeights: padding is zeros, and zero times infinity is not a number.
func TestConvOfInfiniteWeights(t *testing.T) {
	op := ir.Conv{Window: ir.Window{Kernel: []int{2}, Strides: []int{1}, Dilations: []int{1}, Pads: []int{1, 1}, Auto: "NOTSET"}, Group: 1}
	x := tensor.FromSlice([]float32{1, 2}, 1, 2, 1)
	w := tensor.FromSlice([]float32{float32(math.Inf(1)), 1}, 2, 1, 1)
	out, err := ir.EvalOp(nil, op, []*tensor.Tensor{x, w})
	require.NoError(t, err)
	y := out[0].Float64s()
	require.Len(t, y, 3)
	require.True(t, math.IsNaN(y[0]), "%v", y)
	require.Equal(t, []float64{math.Inf(1), math.Inf(1)}, y[1:])
}

// TestConvRefuses gives every condition of a convolution's shape rule a graph that lacks it alone.
func TestConvRefuses(t *testing.T) {
	conv := func(x, w, group string) string {
		return `graph "" (%0: ` + x + `, %1: ` + w +
			`) { %2 = conv(%0, %1) {kernel=[3], strides=[1], dilations=[1], pads=[1,1], auto_pad="NOTSET", group=` + group + `} return %2 }`
	}
	_, err := ir.Parse(conv("f32[n,5,4]", "f32[3,2,6]", "2"))
	require.NoError(t, err)
	for text, lacks := range map[string]string{
		conv("f32[n,4]", "f32[3,4]", "1"):       "a convolution of",
		conv("f32[n,5,4]", "f32[3,1,4,6]", "1"): "a convolution of",
		conv("f32[n,5,4]", "f16[3,4,6]", "1"):   "a convolution of",
		conv("i32[n,5,4]", "i32[3,4,6]", "1"):   "a convolution of",
		conv("f32[n,5,4]", "f32[3,4,6]", "0"):   "0 groups of",
		conv("f32[n,5,4]", "f32[3,4,6]", "-1"):  "-1 groups of",
		conv("f32[n,5,4]", "f32[3,2,5]", "2"):   "2 groups",
		conv("f32[n,5,4]", "f32[3,3,6]", "2"):   "in 2 groups for",
		conv("f32[n,5,4]", "f32[2,4,6]", "1"):   "kernel",
		conv("f32[n,5,4]", "f32[k,4,6]", "1"):   "kernel",
	} {
		_, err := ir.Parse(text)
		require.ErrorContains(t, err, lacks, text)
	}
	x, w, bias := tensor.New(tensor.F32, 1, 5, 4), tensor.New(tensor.F32, 3, 4, 6), tensor.New(tensor.F32, 5)
	_, err = ir.EvalOp(nil, ir.Conv{Window: ir.Window{Kernel: []int{3}, Strides: []int{1}, Dilations: []int{1}, Pads: []int{1, 1}},
		Group: 1}, []*tensor.Tensor{x, w, bias})
	require.ErrorContains(t, err, "in 1 groups")
}

// TestActivations: the text of a convolution or of a product of floats may name every function of a number, that of a product of codes
// those that all kernels have.
func TestActivations(t *testing.T) {
	for act, ok := range map[string][2]bool{"relu": {true, true}, "silu": {true, false}, "leaky_relu": {true, false}, "is_nan": {},
		"not": {}, "sine": {}} {
		for i, text := range []string{
			`graph "" (%0: f32[n,5,4], %1: f32[1,4,6]) {
				%2 = conv(%0, %1) {kernel=[1], strides=[1], dilations=[1], pads=[0,0], auto_pad="NOTSET", group=1, act=` + act + `,
				alpha=0.5} return %2 }`,
			`graph "" (%0: f32[n,5,4], %1: f32[4,6]) { %2 = matmul(%0, %1) {act=` + act + `} return %2 }`,
			`graph "" (%0: u8[n,4]) { const %1: i8[4,6] = data const %2: f32[] = [1] %3 = onnx.QMatMul(%0, %1, _, _, %2, %2) {act=` +
				act + `} return %3 }`,
			`graph "" (%0: f32[n,16]) { const %1: u8[6,1,16] = data const %2: f32[6] = data
				%3 = matmul_nbits(%0, %1, %2) {k=16, n=6, bits=8, block=16, act=` + act + `} return %3 }`,
		} {
			_, err := ir.Parse(text)
			require.Equal(t, ok[i/2], err == nil, "%s: %v", text, err)
		}
	}
}
