package lower

import (
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rlxc/rlxc/internal/ops"
	"github.com/rlxc/rlxc/ir"
	"github.com/rlxc/rlxc/onnx/onnxpb"
	"github.com/rlxc/rlxc/tensor"
)

func autoPad(v string) *onnxpb.AttributeProto {
	return &onnxpb.AttributeProto{Name: "auto_pad", Type: onnxpb.AttributeProto_STRING, S: []byte(v)}
}

// Images keep symbols for sizes, and the result has them once they have numbers.
func TestWindowsOverSymbols(t *testing.T) {
	for _, c := range []struct {
		name  string
		build func(s *sketch, x string) string
		want  string // for 2 images of 9 × 6
	}{
		{"patches", func(s *sketch, x string) string {
			return s.node("Conv", x, s.constant(tensor.New(tensor.F32, 5, 3, 2, 2)), intsAttr("strides", 2, 2))
		}, "f32[2,5,4,3]"},
		{"same", func(s *sketch, x string) string {
			return s.node("Conv", x, s.constant(tensor.New(tensor.F32, 5, 3, 3, 3)), intsAttr("strides", 2, 2), autoPad("SAME_UPPER"))
		}, "f32[2,5,5,3]"},
		{"groups and dilations", func(s *sketch, x string) string {
			return s.node("Conv", x, s.constant(tensor.New(tensor.F32, 6, 1, 3, 3)), intAttr("group", 3), intsAttr("dilations", 2, 1),
				intsAttr("pads", 1, 1, 0, 1))
		}, "f32[2,6,6,6]"},
		{"transposed", func(s *sketch, x string) string {
			return s.node("ConvTranspose", x, s.constant(tensor.New(tensor.F32, 3, 4, 2, 2)), intsAttr("strides", 2, 2))
		}, "f32[2,4,18,12]"},
		{"pool, rounded up", func(s *sketch, x string) string {
			return s.node("MaxPool", x, intsAttr("kernel_shape", 2, 2), intsAttr("strides", 2, 2), intAttr("ceil_mode", 1))
		}, "f32[2,3,5,3]"},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := &sketch{}
			g, err := s.lower(13, c.build(s, s.input("x", tensor.F32, "batch", 3, "height", "width")))
			require.NoError(t, err)
			got, err := ir.Interpret(g, []*tensor.Tensor{tensor.New(tensor.F32, 2, 3, 9, 6)})
			require.NoError(t, err)
			require.Equal(t, c.want, got[0].String())
			bound, err := g.Bind(ir.Binding{"batch": 2, "height": 9, "width": 6}, true)
			require.NoError(t, err)
			require.Equal(t, c.want, bound.Outputs[0].Type.String())
		})
	}
}

// TestTransposedTiles: a ConvTranspose whose windows are side by side is a product, and means what the operator does.
func TestTransposedTiles(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	draw := func(shape ...int) *tensor.Tensor {
		x := tensor.New(tensor.F32, shape...)
		for i := range x.Len() {
			x.SetFloat64(i, r.Float64()-0.5)
		}
		return x
	}
	for _, kernel := range [][]int{{2, 2}, {3, 1}, {4}, {2, 1, 2}} {
		image, sizes, strides := []int{2, 3}, []any{"n", 3}, []int64(nil)
		for i, k := range kernel {
			image, sizes, strides = append(image, 4+i), append(sizes, string(rune('a'+i))), append(strides, int64(k))
		}
		x, w, bias := draw(image...), draw(append([]int{3, 5}, kernel...)...), draw(5)
		s := &sketch{}
		g, err := s.lower(13, s.node("ConvTranspose", s.input("x", tensor.F32, sizes...), s.constant(w), s.constant(bias),
			intsAttr("strides", strides...)))
		require.NoError(t, err)
		for _, n := range g.Nodes {
			require.NotEqual(t, "onnx.ConvTranspose", ir.OpName(n.Op))
		}
		got, err := ir.Interpret(g, []*tensor.Tensor{x})
		require.NoError(t, err)
		op := ops.ConvTranspose{Group: 1, OutputPadding: make([]int, len(kernel)), Window: ir.Window{Kernel: kernel, Strides: kernel,
			Dilations: slices.Repeat([]int{1}, len(kernel)), Pads: make([]int, 2*len(kernel)), Auto: "NOTSET"}}
		want, err := ir.EvalOp(nil, op, []*tensor.Tensor{x, w, bias})
		require.NoError(t, err)
		require.Equal(t, want[0].Shape(), got[0].Shape())
		require.InDeltaSlice(t, tensor.Of[float32](want[0]), tensor.Of[float32](got[0]), 1e-6)
	}
}

func TestConvErrors(t *testing.T) {
	for _, c := range []struct {
		build func(s *sketch, w string) string
		want  string
	}{
		{func(s *sketch, w string) string { return s.node("Conv", s.input("x", tensor.F32, 1, 4, 8, 8), w) }, "for f32[1,4,8,8]"},
		{func(s *sketch, w string) string {
			return s.node("Conv", s.input("x", tensor.F32, 1, 3, 8, 8), w, intAttr("group", 2))
		}, "2 groups"},
		{func(s *sketch, w string) string {
			return s.node("Conv", s.input("x", tensor.F32, 1, 3, 8, 8), w, intsAttr("strides", 0, 1))
		}, "stride 0"},
		{func(s *sketch, w string) string {
			return s.node("Conv", s.input("x", tensor.F32, 1, 3, 8, 8), w, intsAttr("pads", 1, 1))
		}, "pads has 2 entries, not 4"},
		{func(s *sketch, w string) string {
			return s.node("MaxPool", s.input("x", tensor.F32, 1, 3, 8, 8), intAttr("ceil_mode", 1))
		}, "kernel_shape is missing"},
		{func(s *sketch, _ string) string {
			return s.node("ConvInteger", s.input("x", tensor.U8, 1, 3, 2, 8), s.constant(tensor.New(tensor.I8, 5, 3, 3, 3)))
		}, "a window of 3 elements does not fit"},
		{func(s *sketch, _ string) string {
			return s.node("ConvInteger", s.input("x", tensor.U8, 1, 4, 8, 8), s.constant(tensor.New(tensor.I8, 5, 3, 3, 3)))
		}, "1 groups for u8[1,8,8,4]"},
		{func(s *sketch, _ string) string {
			return s.node("ConvInteger", s.input("x", tensor.U8, 1, 3, 8, 8), s.constant(tensor.New(tensor.I8, 5, 3, 3, 3)),
				intsAttr("pads", 1<<40, 0, 0, 0))
		}, "padding 1099511627776"},
		{func(s *sketch, w string) string { return s.node("GlobalAveragePool", s.input("x", tensor.F32, 1, 3)) }, "no spatial axes"},
	} {
		s := &sketch{}
		_, err := s.lower(13, c.build(s, s.constant(tensor.New(tensor.F32, 5, 3, 2, 2))))
		require.ErrorContains(t, err, c.want)
	}

	// What symbols left open is checked at Bind.
	s := &sketch{}
	g, err := s.lower(13, s.node("Conv", s.input("x", tensor.F32, 1, "channels", 8, 8), s.constant(tensor.New(tensor.F32, 5, 3, 2, 2))))
	require.NoError(t, err)
	_, err = g.Bind(ir.Binding{"channels": 4}, true)
	require.ErrorContains(t, err, "weights f32[2,2,3,5] in 1 groups for f32[1,8,8,4]")
	s = &sketch{}
	g, err = s.lower(13, s.node("Conv", s.input("x", tensor.F32, 1, "channels", 8, 8), s.constant(tensor.New(tensor.F32, 6, 3, 2, 2)),
		intAttr("group", 2)))
	require.NoError(t, err)
	_, err = ir.Interpret(g, []*tensor.Tensor{tensor.New(tensor.F32, 1, 4, 8, 8)})
	require.ErrorContains(t, err, "f32[1,8,8,4] with f32[2,2,3,6] in 2 groups")
}
