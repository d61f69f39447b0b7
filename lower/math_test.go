package lower

import (
	"math"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rlxc/rlxc/ir"
	"github.com/rlxc/rlxc/onnx/onnxpb"
	"github.com/rlxc/rlxc/tensor"
)

func floatAttr(name string, v float32) *onnxpb.AttributeProto {
	return &onnxpb.AttributeProto{Name: name, Type: onnxpb.AttributeProto_FLOAT, F: v}
}

func stringAttr(name, v string) *onnxpb.AttributeProto {
	return &onnxpb.AttributeProto{Name: name, Type: onnxpb.AttributeProto_STRING, S: []byte(v)}
}

// reals is a constant f32 tensor.
func (s *sketch) reals(shape []int, v ...float32) string {
	return s.constant(tensor.FromSlice(v, append([]int{}, shape...)...))
}

// output adds one output to the node made last.
func (s *sketch) output(name string) string {
	n := s.g.Node[len(s.g.Node)-1]
	n.Output = append(n.Output, name)
	return name
}

// A valueCase is an operator on constants, with what it returns or the error that it is.
type valueCase struct {
	name  string
	opset int
	build func(s *sketch) string
	typ   string
	want  []float64
	err   string
}

func runValues(t *testing.T, cases []valueCase) {
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			s := &sketch{}
			g, err := s.lower(c.opset, c.build(s))
			var out []*tensor.Tensor
			if err == nil {
				out, err = ir.Interpret(g, nil)
			}
			if c.err != "" {
				require.ErrorContains(t, err, c.err)
				return
			}
			require.NoError(t, err)
			require.Equal(t, c.typ, out[0].String())
			got := out[0].Float64s()
			require.Len(t, got, len(c.want))
			for i, w := range c.want {
				if math.IsNaN(w) || math.IsInf(w, 0) {
					require.Equal(t, math.Float64bits(w)>>52, math.Float64bits(got[i])>>52, "element %d of %v", i, got)
				} else {
					require.InDelta(t, w, got[i], 1e-5, "element %d of %v", i, got)
				}
			}
		})
	}
}

var (
	nan = math.NaN()
	inf = math.Inf(1)
)

func TestElementwiseByVersion(t *testing.T) {
	vector := []int{2}
	runValues(t, []valueCase{
		{"clip by attributes", 10, func(s *sketch) string {
			return s.node("Clip", s.reals([]int{3}, -9, 0, 9), floatAttr("min", -1), floatAttr("max", 2))
		}, "f32[3]", []float64{-1, 0, 2}, ""},
		{"clip by operands", 11, func(s *sketch) string {
			return s.node("Clip", s.reals([]int{3}, -9, 0, 9), "", s.reals([]int{1}, 2))
		}, "f32[3]", []float64{-9, 0, 2}, ""},
		{"attributes where operands are due", 11, func(s *sketch) string {
			return s.node("Clip", s.reals(vector, 1, 2), floatAttr("min", -1))
		}, "", nil, "attribute min is unknown to opset 11"},
		{"mod of reals", 28, func(s *sketch) string {
			return s.node("Mod", s.reals(vector, -4.5, 5), s.reals(vector, 3, -3))
		}, "f32[2]", []float64{1.5, -1}, ""},
		{"mod of reals before opset 28", 27, func(s *sketch) string {
			return s.node("Mod", s.reals(vector, -4.5, 5), s.reals(vector, 3, -3))
		}, "", nil, "fmod must be 1 for float"},
		{"signed shift", 28, func(s *sketch) string {
			return s.node("BitShift", s.ints(-8, 8), s.ints(1, -1), stringAttr("direction", "RIGHT"))
		}, "i64[2]", []float64{-4, 0}, ""},
		{"signed shift before opset 28", 27, func(s *sketch) string {
			return s.node("BitShift", s.ints(-8, 8), s.ints(1, 1), stringAttr("direction", "RIGHT"))
		}, "", nil, "operand 0 (X) is int64; opset 27 takes uint8"},
		{"prelu by more slopes", 16, func(s *sketch) string { // as onnxruntime has it
			return s.node("PRelu", s.reals([]int{1}, -1), s.reals(vector, 1, 2))
		}, "f32[2]", []float64{-1, -2}, ""},
		{"mean", 13, func(s *sketch) string {
			return s.node("Mean", s.reals(vector, 1, 2), s.reals([]int{1}, 4), s.reals(vector, 1, 0))
		}, "f32[2]", []float64{2, 2}, ""},
		{"sum of one", 8, func(s *sketch) string { return s.node("Sum", s.reals(vector, 1, 2)) }, "f32[2]", []float64{1, 2}, ""},
		{"shrink of large whole numbers", 9, func(s *sketch) string {
			large := s.constant(tensor.FromSlice([]int64{1<<62 + 1, -1<<62 - 1}))
			return s.node("Sub", s.node("Shrink", large, floatAttr("bias", 1.5)), s.constant(tensor.FromSlice([]int64{1 << 62, -1 << 62})))
		}, "i64[2]", []float64{-1, 1}, ""},
		{"shrink of whole numbers", 9, func(s *sketch) string {
			return s.node("Shrink", s.constant(tensor.FromSlice([]int32{-3, 0, 1, 3})), floatAttr("lambd", 0.5), floatAttr("bias", 0.25))
		}, "i32[4]", []float64{-2, 0, 0, 2}, ""},
		{"shrink", 9, func(s *sketch) string {
			return s.node("Shrink", s.reals([]int{3}, -2, 0.5, 2), floatAttr("lambd", 1), floatAttr("bias", 0.25))
		}, "f32[3]", []float64{-1.75, 0, 1.75}, ""},
		{"gelu", 20, func(s *sketch) string {
			return s.node("Gelu", s.reals(vector, 1, 2), stringAttr("approximate", "tanh"))
		}, "f32[2]", []float64{0.841192, 1.954598}, ""},
		{"gelu by another name", 20, func(s *sketch) string {
			return s.node("Gelu", s.reals(vector, 1, 2),
				stringAttr("approximate", "x"))
		}, "", nil, "approximate"},
		{"gelu before it was", 19, func(s *sketch) string { return s.node("Gelu", s.reals(vector, 1, 2)) }, "", nil, "Gelu"},

		{"infinity in 8 bits", 23, func(s *sketch) string {
			return s.node("Cast", s.reals(vector, float32(-inf), 1e9), intAttr("to", int64(tensor.F8E4M3FNUZ)))
		}, "f8e4m3fnuz[2]", []float64{nan, 240}, ""},
		{"infinity in 8 bits from opset 24 on", 24, func(s *sketch) string {
			return s.node("Cast", s.reals(vector, float32(-inf), 1e9), intAttr("to", int64(tensor.F8E4M3FNUZ)))
		}, "f8e4m3fnuz[2]", []float64{-240, 240}, ""},
		{"no saturation", 19, func(s *sketch) string {
			return s.node("Cast", s.reals(vector, 1e9, 1), intAttr("to", int64(tensor.F8E5M2)), intAttr("saturate", 0))
		}, "f8e5m2[2]", []float64{inf, 1}, ""},
		{"saturation before opset 19", 18, func(s *sketch) string {
			return s.node("Cast", s.reals(vector, 1, 1), intAttr("to", int64(tensor.F16)), intAttr("saturate", 0))
		}, "", nil, "attribute saturate is unknown to opset 18"},
		{"rounding to powers of two", 24, func(s *sketch) string {
			return s.node("Cast", s.reals(vector, 1.4, 3), intAttr("to", int64(tensor.F8E8M0)), stringAttr("round_mode", "down"))
		}, "f8e8m0[2]", []float64{1, 2}, ""},
		{"a type of tomorrow", 28, func(s *sketch) string { return s.node("Cast", s.reals(vector, 1, 2), intAttr("to", 99)) }, "", nil,
			"element type 99"},
		{"cast like", 15, func(s *sketch) string { return s.node("CastLike", s.reals(vector, 1.5, 2), s.ints()) }, "i64[2]",
			[]float64{1, 2}, ""},

		{"dropout's mask", 13, func(s *sketch) string {
			s.node("Dropout", s.reals(vector, 1, 2), s.reals(nil, 0.5), s.constant(tensor.Scalar(false)), intAttr("seed", 1))
			return s.output("mask")
		}, "bool[2]", []float64{1, 1}, ""},
		{"dropout of nothing in training", 13, func(s *sketch) string {
			return s.node("Dropout", s.reals(vector, 1, 2), s.reals(nil, 0), s.constant(tensor.Scalar(true)))
		}, "f32[2]", []float64{1, 2}, ""},
		{"dropout in training", 13, func(s *sketch) string {
			x := s.node("ConstantOfShape", s.ints(20_000)) // 0
			y := s.node("Dropout", s.node("Exp", x), s.reals(nil, 0.75), s.constant(tensor.Scalar(true)), intAttr("seed", 1))
			kept := s.node("Cast", s.output("mask"), intAttr("to", int64(tensor.F32)))
			difference := s.node("ReduceMax", s.node("Abs", s.node("Sub", y, s.node("Mul", kept, s.reals(nil, 4)))))
			share := s.node("ReduceMean", kept)
			return s.node("Concat", difference, s.node("Round", s.node("Mul", share, s.reals(nil, 20))), intAttr("axis", 0))
		}, "f32[2]", []float64{0, 5}, ""},
	})
}

func TestReductionsByVersion(t *testing.T) {
	cube := func(s *sketch) string { return s.reals([]int{1, 2, 2}, 1, 3, 3, 2) }
	zeros := func(s *sketch) string { return s.reals([]int{1, 2, 2}, 0, 0, 0, 0) }
	quarter, half := math.Log(0.25), math.Log(0.5)
	runValues(t, []valueCase{
		{"softmax over all axes from one on", 12, func(s *sketch) string { return s.node("Softmax", zeros(s)) }, "f32[1,2,2]",
			[]float64{0.25, 0.25, 0.25, 0.25}, ""},
		{"softmax over one", 13, func(s *sketch) string { return s.node("Softmax", zeros(s)) }, "f32[1,2,2]",
			[]float64{0.5, 0.5, 0.5, 0.5}, ""},
		{"its logarithm", 12, func(s *sketch) string { return s.node("LogSoftmax", zeros(s), intAttr("axis", -2)) }, "f32[1,2,2]",
			[]float64{quarter, quarter, quarter, quarter}, ""},
		{"its logarithm over one", 13, func(s *sketch) string { return s.node("LogSoftmax", zeros(s), intAttr("axis", -2)) },
			"f32[1,2,2]", []float64{half, half, half, half}, ""},
		{"hardmax over all axes from one on", 12, func(s *sketch) string { return s.node("Hardmax", cube(s)) }, "f32[1,2,2]",
			[]float64{0, 1, 0, 0}, ""},
		{"hardmax over one", 13, func(s *sketch) string { return s.node("Hardmax", cube(s), intAttr("axis", 1)) }, "f32[1,2,2]",
			[]float64{0, 1, 1, 0}, ""},

		{"axes by attribute", 11, func(s *sketch) string {
			return s.node("ReduceSum", cube(s), intsAttr("axes", -1), intAttr("keepdims", 0))
		}, "f32[1,2]", []float64{4, 5}, ""},
		{"axes by operand", 13, func(s *sketch) string { return s.node("ReduceSum", cube(s), s.ints(1, -3)) }, "f32[1,1,2]",
			[]float64{4, 5}, ""},
		{"axes by operand too early", 17, func(s *sketch) string { return s.node("ReduceMean", cube(s), s.ints(1)) }, "", nil,
			"the node has 2 operands, the operator 1"},
		{"axes by attribute too late", 18, func(s *sketch) string { return s.node("ReduceMean", cube(s), intsAttr("axes", 1)) }, "", nil,
			"attribute axes is unknown to opset 18"},
		{"an axis twice", 18, func(s *sketch) string { return s.node("ReduceMean", cube(s), s.ints(1, -2)) }, "", nil, "named twice"},
		{"all axes", 18, func(s *sketch) string { return s.node("ReduceMax", cube(s), intAttr("keepdims", 0)) }, "f32[]", []float64{3}, ""},
		{"no axes mean all", 18, func(s *sketch) string { return s.node("ReduceMax", cube(s), s.ints()) }, "f32[1,1,1]", []float64{3}, ""},
		{"no axes mean none", 18, func(s *sketch) string {
			return s.node("ReduceSumSquare", cube(s), s.ints(), intAttr("noop_with_empty_axes", 1))
		}, "f32[1,2,2]", []float64{1, 9, 9, 4}, ""},
		{"last of the largest", 12, func(s *sketch) string {
			return s.node("ArgMax", s.ints(1, 3, 3), intAttr("select_last_index", 1), intAttr("keepdims", 0))
		}, "i64[]", []float64{2}, ""},
		{"last of the largest too early", 11,
			func(s *sketch) string { return s.node("ArgMax", s.ints(1, 3, 3), intAttr("select_last_index", 1)) }, "", nil,
			"select_last_index"},
		{"sums", 14, func(s *sketch) string {
			return s.node("CumSum", s.ints(1, 2, 3), s.constant(tensor.Scalar(int32(-1))), intAttr("reverse", 1), intAttr("exclusive", 1))
		}, "i64[3]", []float64{5, 3, 0}, ""},
		{"unit vectors", 22, func(s *sketch) string { return s.node("LpNormalization", s.reals([]int{2, 2}, 3, 4, 0, 0)) }, "f32[2,2]",
			[]float64{0.6, 0.8, 0, 0}, ""},
		{"shares", 22, func(s *sketch) string {
			return s.node("LpNormalization", s.reals([]int{2, 2}, 3, 0, -1, 0), intAttr("p", 1), intAttr("axis", 0))
		}, "f32[2,2]", []float64{0.75, 0, -0.25, 0}, ""},
		{"mean and variance", 13, func(s *sketch) string {
			return s.node("MeanVarianceNormalization", s.reals([]int{2, 2}, 1, 5, 3, 9), intsAttr("axes", 0))
		}, "f32[2,2]", []float64{-1, -1, 1, 1}, ""},
	})
}

func TestReductionAlongAxesThatTheRunKnows(t *testing.T) {
	for _, c := range []struct {
		keep int64
		typ  string
		want string
	}{
		{1, "f32[u2.0,u2.1]", "f32[2,1]"},
		{0, "f32[u2.0]", "f32[2]"},
	} {
		s := &sketch{}
		x, axes := s.input("x", tensor.F32, "batch", 2), s.input("axes", tensor.I64, 1)
		g, err := s.lower(18, s.node("ReduceSum", x, axes, intAttr("keepdims", c.keep)))
		require.NoError(t, err)
		require.Equal(t, c.typ, g.Outputs[0].Type.String())
		out, err := ir.Interpret(g, []*tensor.Tensor{tensor.FromSlice([]float32{1, 2, 3, 4}, 2, 2), tensor.FromSlice([]int64{-1})})
		require.NoError(t, err)
		require.Equal(t, c.want, out[0].String())
		require.Equal(t, []float64{3, 7}, out[0].Float64s())
	}
}
