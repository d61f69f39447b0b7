package lower

import (
	"testing"

	"github.com/stretchr/testify/require"

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
			return s.node("Conv", x, s.constant(tensor.New(tensor.F32, 6, 1, 3, 3)), intAttr("group", 3), intsAttr("dilations", 2, 1), intsAttr("pads", 1, 1, 0, 1))
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
		{func(s *sketch, w string) string { return s.node("GlobalAveragePool", s.input("x", tensor.F32, 1, 3)) }, "no spatial axes"},
	} {
		s := &sketch{}
		_, err := s.lower(13, c.build(s, s.constant(tensor.New(tensor.F32, 5, 3, 2, 2))))
		require.ErrorContains(t, err, c.want)
	}

	// What symbols left open is checked at Bind, or by the kernel of a convolution in groups.
	s := &sketch{}
	g, err := s.lower(13, s.node("Conv", s.input("x", tensor.F32, 1, "channels", 8, 8), s.constant(tensor.New(tensor.F32, 5, 3, 2, 2))))
	require.NoError(t, err)
	_, err = g.Bind(ir.Binding{"channels": 4}, true)
	require.ErrorContains(t, err, "16 and 12")
	s = &sketch{}
	g, err = s.lower(13, s.node("Conv", s.input("x", tensor.F32, 1, "channels", 8, 8), s.constant(tensor.New(tensor.F32, 6, 3, 2, 2)), intAttr("group", 2)))
	require.NoError(t, err)
	_, err = ir.Interpret(g, []*tensor.Tensor{tensor.New(tensor.F32, 1, 4, 8, 8)})
	require.ErrorContains(t, err, "has 4 channels")
}
