package lower

import (
	"math"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/rlxc/rlxc/ir"
	"github.com/rlxc/rlxc/tensor"
)

// drawBytes draws a tensor of u8 or i8.
func drawBytes(r *rapid.T, shape ...int) *tensor.Tensor {
	x := tensor.New(rapid.SampledFrom([]tensor.DType{tensor.U8, tensor.I8}).Draw(r, "bytes"), shape...)
	seed := rapid.IntRange(0, 1000).Draw(r, "seed")
	for i := range x.Len() {
		x.Bytes()[i] = byte(seed + 37*i*i + 11*i)
	}
	return x
}

// less is x − zero in float32, the zero points along axis 0 where there are several.
func less(x, zero *tensor.Tensor) *tensor.Tensor {
	y := tensor.New(tensor.F32, x.Shape()...)
	each := max(1, x.Len()/zero.Len())
	for i := range x.Len() {
		y.SetFloat64(i, float64(x.Int64(i)-zero.Int64(i/each)))
	}
	return y
}

// Convolutions of bytes are products of bytes, or of floats that hold the sums, and compute what ONNX says: to the bit ConvInteger, to
// a rounding QLinearConv.
func TestConvBytes(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		win, sizes, attrs := drawWindow(r)
		groups := rapid.SampledFrom([]int{1, 1, 2}).Draw(r, "groups")
		outputs := 2 * groups
		x := drawBytes(r, append([]int{2, 3 * groups}, sizes...)...)
		w := drawBytes(r, append([]int{outputs, 3}, win.Kernel...)...)
		zero := func(d tensor.DType, shape ...int) *tensor.Tensor {
			z := tensor.New(d, shape...)
			for i := range z.Len() {
				z.SetInt64(i, int64(rapid.IntRange(0, 100).Draw(r, "zero")))
			}
			return z
		}
		xZero, wZero := zero(x.DType()), zero(w.DType(), outputs)
		attrs = append(attrs, intAttr("group", int64(groups)))
		run := func(op string, args func(s *sketch, x string) []any) (*tensor.Tensor, []string) {
			s := &sketch{}
			g, err := s.lower(13, s.node(op, append(args(s, s.input("x", x.DType(), inputs(x)...)), attrs...)...))
			require.NoError(r, err)
			got, err := ir.Interpret(g, []*tensor.Tensor{x})
			require.NoError(r, err)
			return got[0], opNames(g)
		}
		got, names := run("ConvInteger", func(s *sketch, x string) []any {
			return []any{x, s.constant(w), s.constant(xZero),
				s.constant(wZero)}
		})
		want := convolve(win, groups, less(x, xZero), less(w, wZero), tensor.New(tensor.F32, outputs))
		require.Equal(r, want.Shape(), got.Shape())
		for i := range want.Len() {
			require.Equal(r, int64(want.Float64(i)), got.Int64(i))
		}
		require.True(r, slices.Contains(names, "qconv") || slices.Contains(names, "onnx.QMatMul"), names)

		wScale, bias := drawTensor(r, outputs), tensor.New(tensor.I32, outputs)
		for i := range outputs {
			wScale.SetFloat64(i, 0.01+math.Abs(wScale.Float64(i)))
			bias.SetInt64(i, int64(1000*i-500))
		}
		yZero := zero(x.DType())
		scalar := func(s *sketch, v float32) string { return s.constant(tensor.Scalar(v)) }
		got, names = run("QLinearConv", func(s *sketch, x string) []any {
			return []any{x, scalar(s, 0.5), s.constant(xZero), s.constant(w), s.constant(wScale), s.constant(wZero), scalar(s, 300),
				s.constant(yZero), s.constant(bias)}
		})
		require.True(r, slices.Contains(names, "qconv") || slices.Contains(names, "onnx.QMatMul"), names)
		low, high := 0.0, 255.0
		if x.DType() == tensor.I8 {
			low, high = -128, 127
		}
		channel := want.Shape()[2:].Elements()
		for i := range want.Len() {
			m := i / channel % outputs
			real := (want.Float64(i)+float64(bias.Int64(m)))*0.5*wScale.Float64(m)/300 + float64(yZero.Int64(0))
			require.InDelta(r, min(max(real, low), high), float64(got.Int64(i)), 0.5+1e-3)
		}
	})
}
