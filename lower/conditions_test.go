package lower

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rlxc/rlxc/internal/ops"
	"github.com/rlxc/rlxc/ir"
	"github.com/rlxc/rlxc/onnx/onnxpb"
	"github.com/rlxc/rlxc/tensor"
)

// strideless is an operator that Prepare takes as it is and Infer refuses.
type strideless struct{ ops.MaxPool }

func (o strideless) Prepare() (ir.Op, error) { return o.MaxPool, nil }

// TestConditions: each case fails without one condition that the tests of the operators let through.
func TestConditions(t *testing.T) {
	quantized := func(s *sketch, v ...uint8) string { return s.constant(tensor.FromSlice(v, 2, 2)) }
	byte1 := func(s *sketch, v ...uint8) string { return s.constant(tensor.FromSlice(v, len(v))) }
	scalar := func(s *sketch, v uint8) string { return s.constant(tensor.Scalar(v)) }
	seven := func(s *sketch) string { return s.reals([]int{1, 1, 7}, 1, 2, 3, 4, 5, 6, 7) }
	mel := func(bands, length, rate int64, low, high float32, attrs ...any) func(*sketch) string {
		return func(s *sketch) string {
			whole := func(v int64) string { return s.constant(tensor.Scalar(v)) }
			args := []any{whole(bands), whole(length), whole(rate), s.reals(nil, low), s.reals(nil, high)}
			return s.node("MelWeightMatrix", append(args, attrs...)...)
		}
	}
	runValues(t, []valueCase{
		{"a scale for each row", 21, func(s *sketch) string { // [1 2; 3 4]·diag(1, 10) by rows, times the unit matrix
			return s.node("QLinearMatMul", quantized(s, 1, 2, 3, 4), s.reals([]int{2}, 1, 10), byte1(s, 0, 0), quantized(s, 1, 0, 0, 1),
				s.reals(nil, 1), scalar(s, 0), s.reals(nil, 1), scalar(s, 0))
		}, "u8[2,2]", []float64{1, 2, 30, 40}, ""},
		{"a scale for each row of the result", 21, func(s *sketch) string {
			return s.node("QLinearMatMul", quantized(s, 10, 20, 30, 40), s.reals(nil, 1), scalar(s, 0), quantized(s, 1, 0, 0, 1),
				s.reals(nil, 1), scalar(s, 0), s.reals([]int{2}, 1, 10), byte1(s, 0, 0))
		}, "u8[2,2]", []float64{10, 20, 3, 4}, ""},
		{"one zero point beside scales of columns", 21, func(s *sketch) string {
			return s.node("QLinearMatMul", quantized(s, 1, 2, 3, 4), s.reals(nil, 1), scalar(s, 0), quantized(s, 6, 5, 5, 6),
				s.reals([]int{2}, 1, 10), scalar(s, 5), s.reals(nil, 1), scalar(s, 0))
		}, "u8[2,2]", []float64{1, 20, 3, 40}, ""},
		{"one zero point beside scales of rows", 21, func(s *sketch) string {
			return s.node("QLinearMatMul", quantized(s, 1, 2, 3, 4), s.reals([]int{2}, 1, 10), scalar(s, 0), quantized(s, 6, 5, 5, 6),
				s.reals(nil, 1), scalar(s, 5), s.reals(nil, 1), scalar(s, 0))
		}, "", nil, "operand 2: zero points u8[] beside scales f32[2]"},
		{"part of a bias", 13, func(s *sketch) string {
			return s.node("Gemm", s.reals([]int{1, 1}, 3), s.reals([]int{1, 2}, 1, 2), s.reals([]int{2}, 10, 20), floatAttr("beta", 0.5))
		}, "f32[1,2]", []float64{8, 16}, ""},
		{"quantised values without a zero point", 21, func(s *sketch) string {
			return s.node("QuantizeLinear", s.reals([]int{3}, -1, 100, 200), s.reals(nil, 1))
		}, "u8[3]", []float64{0, 100, 200}, ""},
		{"rounded up since opset 10", 10, func(s *sketch) string {
			return s.node("AveragePool", seven(s), intsAttr("kernel_shape", 2), intsAttr("strides", 2), intAttr("ceil_mode", 1))
		}, "f32[1,1,4]", []float64{1.5, 3.5, 5.5, 7}, ""},
		{"rounded up before", 9, func(s *sketch) string {
			return s.node("AveragePool", seven(s), intsAttr("kernel_shape", 2), intsAttr("strides", 2), intAttr("ceil_mode", 1))
		}, "", nil, "attribute ceil_mode is unknown to opset 9"},
		{"an ellipsis without a result", 13, func(s *sketch) string { // the axes of the ellipsis are first, once
			return s.node("Einsum", s.reals([]int{2, 1, 2}, 1, 2, 3, 4), stringAttr("equation", "...ba"))
		}, "f32[2,2,1]", []float64{1, 2, 3, 4}, ""},
		{"a causal convolution of four axes", 27, func(s *sketch) string {
			return s.node("CausalConvWithState", s.reals([]int{1, 1, 2, 1}, 1, 2), s.reals([]int{1, 1, 1}, 1))
		}, "", nil, "weights f32[1,1,1] for f32[1,1,2,1]"},
		{"a band", 17, mel(1, 8, 16, 0, 8), "f32[5,1]", []float64{0, 1, 0, 0, 0}, ""},
		{"the larger quotient of two", 19, func(s *sketch) string {
			return s.node("Resize", s.reals([]int{1, 2}, 1, 2), "", "", s.ints(3, 4), stringAttr("keep_aspect_ratio_policy", "not_smaller"))
		}, "f32[3,6]", []float64{1, 1, 1, 2, 2, 2, 1, 1, 1, 2, 2, 2, 1, 1, 1, 2, 2, 2}, ""},
		{"from a half", 13, func(s *sketch) string {
			return s.node("Range", s.reals(nil, 0.5), s.reals(nil, 3), s.reals(nil, 1))
		}, "f32[3]", []float64{0.5, 1.5, 2.5}, ""},
		{"no band", 17, mel(0, 8, 16, 0, 8), "", nil, "0 bands of 8 bins"},
		{"no bin", 17, mel(1, 0, 16, 0, 8), "", nil, "1 bands of 0 bins"},
		{"more than memory has", 17, mel(1<<20, 1<<20, 16, 0, 8), "", nil, "1048576 bands of 1048576 bins"},
		{"no rate", 17, mel(1, 8, 0, 0, 8), "", nil, "at 0 Hz"},
		{"below 0", 17, mel(1, 8, 16, -1, 8), "", nil, "from -1 to 8"},
		{"backwards", 17, mel(1, 8, 16, 4, 2), "", nil, "from 4 to 2"},
	})
}

// TestConditionsOfStructure is TestConditions where only the graph or the error shows the difference.
func TestConditionsOfStructure(t *testing.T) {
	t.Run("a dilated window", func(t *testing.T) {
		s := &sketch{}
		pool := s.node("MaxPool", s.input("x", tensor.F32, 1, 1, 4), intsAttr("kernel_shape", 2), intsAttr("dilations", 2))
		s.g.Node[0].Output = s.g.Node[0].Output[:1]
		g, err := s.lower(13, pool)
		require.NoError(t, err)
		require.Equal(t, []string{"transpose", "onnx.MaxPool", "transpose"}, kinds(g))
	})
	t.Run("operands of a prepared operator", func(t *testing.T) {
		x := ir.NewGraph("").AddInput("x", ir.TensorOf(tensor.F32, ir.N(2)))
		_, err := checked(strideless{}, []*ir.Value{x})
		require.Error(t, err)
	})
	t.Run("values of TopK over any rank", func(t *testing.T) {
		for i, want := range []tensor.DType{tensor.F32, tensor.I64} {
			s := &sketch{}
			x := s.node("Reshape", s.input("x", tensor.F32, "n"), s.input("shape", tensor.I64, "rank"))
			s.node("TopK", x, s.ints(1))
			g, err := s.lower(21, s.g.Node[len(s.g.Node)-1].Output[i])
			require.NoError(t, err)
			require.True(t, g.Outputs[0].Type.Unranked)
			require.Equal(t, want, g.Outputs[0].Type.DType)
		}
	})
	t.Run("quantised values over any rank", func(t *testing.T) { // types follow from operands that the schema does not tie to results
		for _, c := range []struct {
			op         string
			from, want tensor.DType
			others     []*tensor.Tensor
		}{
			{"QuantizeLinear", tensor.F32, tensor.I8, []*tensor.Tensor{tensor.Scalar(float32(2)), tensor.Scalar(int8(1))}},
			{"QuantizeLinear", tensor.F32, tensor.U8, []*tensor.Tensor{tensor.Scalar(float32(2))}},
			{"DequantizeLinear", tensor.I8, tensor.F16, []*tensor.Tensor{tensor.New(tensor.F16)}},
		} {
			s := &sketch{}
			operands := []any{s.node("Reshape", s.input("x", c.from, "n"), s.input("shape", tensor.I64, "rank"))}
			for _, other := range c.others {
				operands = append(operands, s.constant(other))
			}
			g, err := s.lower(21, s.node(c.op, operands...))
			require.NoError(t, err)
			require.True(t, g.Outputs[0].Type.Unranked)
			require.Equal(t, c.want, g.Outputs[0].Type.DType, c.op)
		}
	})
	t.Run("weights with three axes", func(t *testing.T) {
		s := &sketch{}
		y := s.node("Attention", s.input("x", tensor.F32, 1, 2, 4), s.input("w", tensor.F32, 1, 4, 12), intAttr("num_heads", 2))
		s.g.Node[0].Domain = "com.microsoft"
		s.g.Output = []*onnxpb.ValueInfoProto{{Name: y}}
		_, err := Model(&onnxpb.ModelProto{Graph: &s.g,
			OpsetImport: []*onnxpb.OperatorSetIdProto{{Version: 21}, {Domain: "com.microsoft", Version: 1}}})
		require.ErrorContains(t, err, "input f32[1,2,4] and weights f32[1,4,12]")
	})
	t.Run("a known sequence joined", func(t *testing.T) {
		s := &sketch{}
		parts := s.node("SplitToSequence", s.input("x", tensor.F32, "n", 6), s.constant(tensor.Scalar(int64(2))), intAttr("axis", 1))
		g, err := s.lower(21, s.node("ConcatFromSequence", parts, intAttr("axis", 1)))
		require.NoError(t, err)
		require.Equal(t, "concat", ir.OpName(g.Outputs[0].Def.Op))
	})
	t.Run("an output that no node computes", func(t *testing.T) {
		_, err := (&sketch{}).lower(21, "nothing")
		require.ErrorContains(t, err, `output "nothing" is computed by no node`)
	})
	t.Run("the value of an optional that has none", func(t *testing.T) {
		s := &sketch{}
		s.input("x", tensor.F32, "n")
		none := s.node("Optional", &onnxpb.AttributeProto{Name: "type", Type: onnxpb.AttributeProto_TYPE_PROTO, Tp: s.g.Input[0].Type})
		_, err := s.lower(21, s.node("OptionalGetElement", none))
		require.ErrorContains(t, err, "the optional has no value")
	})
	t.Run("a scanned input of any rank", func(t *testing.T) {
		for axis, want := range map[int64]string{0: "", -1: "its axis counts from the end"} {
			s := &sketch{}
			x := s.node("Reshape", s.input("x", tensor.F32, "n"), s.input("shape", tensor.I64, "rank"))
			body := bodyProto([]string{"v"}, []string{"w"}, operation("Neg", []string{"v"}, "w"))
			s.g.Node = append(s.g.Node, &onnxpb.NodeProto{OpType: "Scan", Input: []string{x}, Output: []string{"all"},
				Attribute: []*onnxpb.AttributeProto{graphAttr("body", body), intAttr("num_scan_inputs", 1),
					intsAttr("scan_input_axes", axis)}})
			_, err := s.lower(21, "all")
			if want == "" {
				require.NoError(t, err)
			} else {
				require.ErrorContains(t, err, want)
			}
		}
	})
	t.Run("a size that only the body knows", func(t *testing.T) {
		s := &sketch{}
		s.input("x", tensor.F32, "n")
		body := bodyProto([]string{"i", "c", "v"}, []string{"c", "v", "at"}, operation("NonZero", []string{"v"}, "at"))
		n := &onnxpb.NodeProto{OpType: "Loop", Input: []string{s.input("m", tensor.I64), "", "x"}, Output: []string{"", "all"},
			Attribute: []*onnxpb.AttributeProto{graphAttr("body", body)}}
		s.g.Node = append(s.g.Node, n)
		g, err := s.lower(21, "all")
		require.NoError(t, err)
		inside := map[string]bool{}
		for _, v := range g.Outputs[0].Def.Subgraphs[0].Outputs {
			for _, d := range v.Type.Shape {
				d.Symbols(inside)
			}
		}
		for _, d := range g.Outputs[0].Type.Shape {
			if name, bare := d.Symbol(); bare && name != "n" {
				require.NotContains(t, inside, name)
			}
		}
	})
}
