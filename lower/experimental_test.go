package lower

import (
	"math"
	"testing"

	"github.com/rlxc/rlxc/onnx/onnxpb"
)

func floatsAttr(name string, v ...float32) *onnxpb.AttributeProto {
	return &onnxpb.AttributeProto{Name: name, Type: onnxpb.AttributeProto_FLOATS, Floats: v}
}

// TestExperimental: values are what onnxruntime 1.31.1 returns.
func TestExperimental(t *testing.T) {
	image := func(s *sketch) string { return s.reals([]int{1, 1, 3, 3}, 0, 1, 2, 3, 4, 5, 6, 7, 8) }
	pixels := func(s *sketch) string { return s.reals([]int{1, 2, 1, 2}, -3, -2, -1, 0) }
	crop := func(border ...int64) func(*sketch) string {
		return func(s *sketch) string { return s.node("Crop", image(s), intsAttr("border", border...)) }
	}
	sized := func(height, width int64) func(*sketch) string {
		return func(s *sketch) string {
			return s.node("Crop", image(s), intsAttr("border", 0, 1, 9, 9), intsAttr("scale", height, width))
		}
	}
	softplus := func(x float64) float64 { return 2 * math.Log1p(math.Exp(x/2)) }
	const fits = "border [0 1 9 9] and scale"
	runValues(t, []valueCase{
		{"affine", 7, func(s *sketch) string {
			return s.node("Affine", pixels(s), floatAttr("alpha", 2), floatAttr("beta", 0.5))
		},
			"f32[1,2,1,2]", []float64{-5.5, -3.5, -1.5, 0.5}, ""},
		{"affine by default", 7, func(s *sketch) string { return s.node("Affine", pixels(s)) }, "f32[1,2,1,2]", []float64{-3, -2, -1, 0},
			""},
		{"no operator any more", 10, func(s *sketch) string { return s.node("Affine", pixels(s)) }, "", nil, "Affine"},
		{"scale", 7, func(s *sketch) string { return s.node("Scale", pixels(s), floatAttr("scale", 3)) }, "f32[1,2,1,2]",
			[]float64{-9, -6, -3, 0}, ""},
		{"scaled tanh", 7, func(s *sketch) string {
			return s.node("ScaledTanh", s.reals([]int{2}, 0, 1), floatAttr("alpha", 2), floatAttr("beta", 0.5))
		},
			"f32[2]", []float64{0, 2 * math.Tanh(0.5)}, ""},
		{"scaled tanh of what", 7, func(s *sketch) string { return s.node("ScaledTanh", pixels(s), floatAttr("alpha", 2)) }, "", nil,
			"alpha and beta are needed"},
		{"softplus", 7, func(s *sketch) string {
			return s.node("ParametricSoftplus", s.reals([]int{3}, -3, 0, 1), floatAttr("alpha", 2), floatAttr("beta", 0.5))
		},
			"f32[3]", []float64{softplus(-3), softplus(0), softplus(1)}, ""},
		{"thresholded", 7, func(s *sketch) string {
			return s.node("ThresholdedRelu", s.reals([]int{3}, 1, 1.5, 3), floatAttr("alpha", 1.5))
		},
			"f32[3]", []float64{0, 0, 3}, ""},
		{"image scaler", 7, func(s *sketch) string {
			return s.node("ImageScaler", pixels(s), floatAttr("scale", 2), floatsAttr("bias", 1, 2))
		},
			"f32[1,2,1,2]", []float64{-5, -3, 0, 2}, ""},
		{"image scaler of other channels", 7, func(s *sketch) string { return s.node("ImageScaler", image(s), floatsAttr("bias", 1, 2)) },
			"", nil, "2 entries of bias"},
		{"crop", 7, crop(1, 0, 0, 1), "f32[1,1,2,2]", []float64{1, 2, 4, 5}, ""},
		{"crop to a size", 7, sized(2, 1), "f32[1,1,2,1]", []float64{3, 6}, ""},
		{"crop beyond the image", 7, sized(3, 1), "", nil, fits},
		{"crop to less than nothing", 7, sized(2, -1), "", nil, fits},
		{"crop more than there is", 7, crop(2, 0, 2, 0), "", nil, "border [2 0 2 0]"},
		{"crop three sides", 7, crop(1, 1, 1), "", nil, "border [1 1 1]"},
		{"dynamic slice", 7, func(s *sketch) string { return s.node("DynamicSlice", image(s), s.ints(1), s.ints(2), s.ints(3)) },
			"f32[1,1,3,1]", []float64{1, 4, 7}, ""},
		{"normalised over a channel", 7, func(s *sketch) string { return s.node("MeanVarianceNormalization", pixels(s)) }, "f32[1,2,1,2]",
			[]float64{-1, 1, -1, 1}, ""},
		{"centred over channels", 7, func(s *sketch) string {
			return s.node("MeanVarianceNormalization", pixels(s), intAttr("across_channels", 1), intAttr("normalize_variance", 0))
		}, "f32[1,2,1,2]", []float64{-1.5, -0.5, 0.5, 1.5}, ""},
	})
}
