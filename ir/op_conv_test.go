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
