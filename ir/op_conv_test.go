package ir_test

import (
	"math"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rlxc/rlxc/ir"
	"github.com/rlxc/rlxc/tensor"
)

// TestConvOfInfiniteWeights: padding is zeros, and zero times infinity is no number.
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
		return `graph "" (%0: ` + x + `, %1: ` + w + `) { %2 = conv(%0, %1) {kernel=[3], strides=[1], dilations=[1], pads=[1,1], auto_pad="NOTSET", group=` + group + `} return %2 }`
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
	} {
		_, err := ir.Parse(text)
		require.ErrorContains(t, err, lacks, text)
	}
	x, w, bias := tensor.New(tensor.F32, 1, 5, 4), tensor.New(tensor.F32, 3, 4, 6), tensor.New(tensor.F32, 5)
	_, err = ir.EvalOp(nil, ir.Conv{Window: ir.Window{Kernel: []int{3}, Strides: []int{1}, Dilations: []int{1}, Pads: []int{1, 1}}, Group: 1}, []*tensor.Tensor{x, w, bias})
	require.ErrorContains(t, err, "in 1 groups")
}
