package lower

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rlxc/rlxc/internal/ops"
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

// Images that stay as large are not copied.
func TestResizeToItsSize(t *testing.T) {
	for mode, same := range map[string]bool{"linear": true, "nearest": true, "cubic": false} {
		s := &sketch{}
		size := s.ints(1, 16, 5, 7)
		if !same {
			size = s.ints(1, 16, 5, 8)
		}
		g, err := s.lower(13, s.node("Resize", s.input("x", tensor.F32, 1, 16, 5, 7), "", "", size, stringAttr("mode", mode)))
		require.NoError(t, err)
		require.Equal(t, same, g.Outputs[0] == g.Inputs[0], mode)
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

// TestRepeats: resizing to a multiple that only repeats elements is views and a copy, and computes what the operator does.
func TestRepeats(t *testing.T) {
	for _, c := range []struct {
		coordinates, nearest string
		scales               []float32
		views                bool
	}{
		{"asymmetric", "floor", []float32{1, 1, 2, 3}, true},
		{"half_pixel", "round_prefer_floor", []float32{1, 1, 4, 2}, true},
		{"half_pixel", "round_prefer_ceil", []float32{1, 1, 5, 1}, true},
		{"asymmetric", "ceil", []float32{1, 1, 2, 2}, false},
		{"half_pixel", "floor", []float32{1, 1, 2, 2}, false},
		{"align_corners", "round_prefer_floor", []float32{1, 1, 2, 2}, false},
		{"asymmetric", "floor", []float32{1, 2, 2, 2}, false},
		{"asymmetric", "floor", []float32{1, 1, 1.5, 2}, false},
	} {
		x := tensor.New(tensor.F32, 2, 3, 4, 6)
		for i := range x.Len() {
			x.SetFloat64(i, float64(i))
		}
		s := &sketch{}
		text := func(name, value string) *onnxpb.AttributeProto {
			return &onnxpb.AttributeProto{Name: name, Type: onnxpb.AttributeProto_STRING, S: []byte(value)}
		}
		g, err := s.lower(19, s.node("Resize", s.input("x", tensor.F32, "n", 3, 4, 6), "", s.constant(tensor.FromSlice(c.scales)),
			text("mode", "nearest"),
			text("coordinate_transformation_mode", c.coordinates), text("nearest_mode", c.nearest)))
		require.NoError(t, err)
		require.Equal(t, c.views, !slices.Contains(opNames(g), "onnx.Resize"), "%+v", c)
		got, err := ir.Interpret(g, []*tensor.Tensor{x})
		require.NoError(t, err)
		op := ops.Resize{Scales: tensor.FromSlice(c.scales).Float64s(), Mode: "nearest", Coordinates: c.coordinates, Nearest: c.nearest}
		for i, d := range x.Shape() {
			op.Shape = append(op.Shape, ir.N(int(float32(d)*c.scales[i])))
		}
		want, err := ir.EvalOp(nil, op, []*tensor.Tensor{x})
		require.NoError(t, err)
		require.Equal(t, want[0].String(), got[0].String())
		require.Equal(t, want[0].Bytes(), got[0].Bytes(), "%+v", c)
	}
}
