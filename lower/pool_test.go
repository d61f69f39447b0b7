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

// TestPoolEnds has what onnxruntime 1.31.1 computes where windows reach beyond the padding, or are smaller than their stride.
func TestPoolEnds(t *testing.T) {
	wide := make([]float32, 129)
	wide[0], wide[128] = 130, 260
	by := func(stride int64, more ...any) []any { return append(more, intsAttr("strides", stride)) }
	same := func(auto string) []any { return by(4, autoPad(auto)) }
	for name, c := range map[string]struct {
		op     string
		opset  int
		x      []float32
		kernel int64
		attrs  []any
		want   []float64
	}{
		"window beyond the image":      {"AveragePool", 18, []float32{6}, 3, by(3), []float64{2}},
		"of 19":                        {"AveragePool", 19, []float32{6}, 3, by(3), []float64{6}},
		"rounded up":                   {"AveragePool", 18, []float32{6, 6}, 3, by(2, intAttr("ceil_mode", 1)), []float64{6}},
		"beyond the padding":           {"AveragePool", 18, []float32{6}, 3, by(2, intsAttr("pads", 0, 1)), []float64{2}},
		"wide, beyond the image":       {"AveragePool", 18, wide, 130, by(2), []float64{3}},
		"behind negative padding":      {"AveragePool", 19, []float32{1, 2, 3, 4}, 1, same("SAME_UPPER"), []float64{2}},
		"with an odd one behind":       {"AveragePool", 19, []float32{1, 2, 3, 4, 5, 6, 7}, 2, same("SAME_UPPER"), []float64{1.5, 5.5}},
		"with an odd one in front":     {"AveragePool", 19, []float32{1, 2, 3, 4}, 1, same("SAME_LOWER"), []float64{2}},
		"norms behind what is cut off": {"LpPool", 11, []float32{1, 2, 3, 4}, 1, same("SAME_UPPER"), []float64{2}},
	} {
		t.Run(name, func(t *testing.T) {
			s := &sketch{}
			attrs := append([]any{s.input("x", tensor.F32, 1, 1, "n"), intsAttr("kernel_shape", c.kernel)}, c.attrs...)
			if c.op == "AveragePool" {
				attrs = append(attrs, intAttr("count_include_pad", 1))
			}
			g, err := s.lower(c.opset, s.node(c.op, attrs...))
			require.NoError(t, err)
			y, err := ir.Interpret(g, []*tensor.Tensor{tensor.FromSlice(c.x, 1, 1, len(c.x))})
			require.NoError(t, err)
			require.InDeltaSlice(t, c.want, y[0].Float64s(), 1e-6)
		})
	}
}
