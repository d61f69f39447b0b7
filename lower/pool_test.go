package lower

import (
	"math"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rlxc/rlxc/ir"
	"github.com/rlxc/rlxc/tensor"
)

// GlobalLpPool is the p-norm of a channel, for any p.
func TestGlobalLpPool(t *testing.T) {
	x := tensor.FromSlice([]float32{1, -2, 3, 0.5, 0, -4}, 1, 2, 3)
	for p, want := range map[int64][]float64{
		1: {6, 4.5},
		2: {math.Sqrt(14), math.Sqrt(16.25)},
		3: {math.Cbrt(36), math.Cbrt(64.125)},
	} {
		s := &sketch{}
		g, err := s.lower(13, s.node("GlobalLpPool", s.input("x", tensor.F32, 1, 2, "n"), intAttr("p", p)))
		require.NoError(t, err)
		y, err := ir.Interpret(g, []*tensor.Tensor{x})
		require.NoError(t, err)
		require.Equal(t, tensor.Shape{1, 2, 1}, y[0].Shape())
		require.InDeltaSlice(t, want, y[0].Float64s(), 1e-6)
	}
	s := &sketch{}
	_, err := s.lower(13, s.node("GlobalLpPool", s.input("x", tensor.F32, 1, 2, "n"), intAttr("p", 0)))
	require.ErrorContains(t, err, "p = 0 is below 1")
}
