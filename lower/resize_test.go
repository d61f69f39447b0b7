package lower

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rlxc/rlxc/ir"
	"github.com/rlxc/rlxc/onnx/onnxpb"
	"github.com/rlxc/rlxc/tensor"
)

func TestResizeKeepsSymbols(t *testing.T) {
	for _, c := range []struct {
		name  string
		build func(s *sketch, x string) string
		want  string
	}{
		{"by whole numbers", func(s *sketch, x string) string {
			return s.node("Resize", x, "", s.constant(tensor.FromSlice([]float32{1, 1, 2, 0.5})))
		}, "f32[batch,3,2*height,div(width,2)]"},
		{"to given sizes", func(s *sketch, x string) string {
			return s.node("Resize", x, "", "", s.ints(1, 3, 224, 224))
		}, "f32[1,3,224,224]"},
		{"as large as another image", func(s *sketch, x string) string {
			return s.node("Resize", x, "", "", s.node("Shape", s.input("y", tensor.F32, "batch", 3, "h", "w")))
		}, "f32[batch,3,h,w]"},
		{"before opset 10", func(s *sketch, x string) string {
			return s.node("Upsample", x, s.constant(tensor.FromSlice([]float32{1, 1, 2, 2})))
		}, "f32[batch,3,2*height,2*width]"},
	} {
		s := &sketch{}
		opset := 13
		if c.name == "before opset 10" {
			opset = 9
		}
		g, err := s.lower(opset, c.build(s, s.input("x", tensor.F32, "batch", 3, "height", "width")))
		require.NoError(t, err, c.name)
		require.Equal(t, c.want, g.Outputs[0].Type.String(), c.name)
	}
}

// A fraction of a symbol is known when the operator runs, and nothing comes of an empty image but its padding.
func TestResizeAtRun(t *testing.T) {
	for _, c := range []struct {
		scale float32
		x     *tensor.Tensor
		want  []float64
	}{
		{1.5, tensor.FromSlice([]float32{1, 2}), []float64{1, 2, 2}},
		{2, tensor.FromSlice([]float32{1, 2}), []float64{1, 1, 2, 2}},
		{2, tensor.New(tensor.F32, 0), []float64{}},
	} {
		s := &sketch{}
		g, err := s.lower(13, s.node("Resize", s.input("x", tensor.F32, "n"), "", s.constant(tensor.FromSlice([]float32{c.scale})),
			&onnxpb.AttributeProto{Name: "coordinate_transformation_mode", Type: onnxpb.AttributeProto_STRING, S: []byte("asymmetric")}))
		require.NoError(t, err)
		got, err := ir.Interpret(g, []*tensor.Tensor{c.x})
		require.NoError(t, err)
		require.Equal(t, c.want, got[0].Float64s())
	}
}
