package lower

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rlxc/rlxc/internal/ops"
	"github.com/rlxc/rlxc/ir"
	"github.com/rlxc/rlxc/onnx/onnxpb"
	"github.com/rlxc/rlxc/tensor"
)

// TestRanksOfUnknownRanks holds that operands whose number of axes only a run knows leave that of the result to it as well.
func TestRanksOfUnknownRanks(t *testing.T) {
	vector, any := &ir.Value{Type: ir.TensorOf(tensor.I64, ir.Sym("n"))}, &ir.Value{Type: ir.Type{DType: tensor.I64, Unranked: true}}
	one, two := &ir.Value{Type: ir.TensorOf(tensor.I64, ir.N(1))}, &ir.Value{Type: ir.TensorOf(tensor.I64, ir.N(2))}
	matrix := &ir.Value{Type: ir.TensorOf(tensor.I64, ir.Sym("n"), ir.Sym("k"))}
	seen := map[string]bool{}
	for _, c := range []struct {
		op   string
		in   []*ir.Value
		want int
	}{
		{"Gather", []*ir.Value{vector, vector}, 1},
		{"Gather", []*ir.Value{vector, any}, -1},
		{"Gather", []*ir.Value{any, vector}, -1},
		{"Unsqueeze", []*ir.Value{vector, two}, 3},
		{"Unsqueeze", []*ir.Value{vector, vector}, -1},
		{"Squeeze", []*ir.Value{vector, vector}, -1},
		{"Squeeze", []*ir.Value{matrix, one}, 1},
		{"Squeeze", []*ir.Value{any, one}, -1},
		{"Reshape", []*ir.Value{any, two}, 2},
		{"Reshape", []*ir.Value{vector, vector}, -1},
		{"Expand", []*ir.Value{vector, two}, 2},
		{"Expand", []*ir.Value{matrix, one}, 2},
		{"Expand", []*ir.Value{any, two}, -1},
		{"ConstantOfShape", []*ir.Value{two}, 2},
		{"ConstantOfShape", []*ir.Value{vector}, -1},
		{"Range", []*ir.Value{any, any, any}, 1},
		{"OneHot", []*ir.Value{matrix, any, any}, 3},
		{"OneHot", []*ir.Value{any, any, any}, -1},
		{"Shape", []*ir.Value{any}, 1},
		{"Size", []*ir.Value{any}, 0},
		{"GatherND", []*ir.Value{matrix, matrix}, -1},
		{"GatherPacked", []*ir.Value{any, matrix}, 3},
		{"GatherPacked", []*ir.Value{matrix, any}, -1},
		{"MoEGroupRouter", []*ir.Value{any, vector}, 2},
		{"STFT", []*ir.Value{any, any}, 4},
		{"MelWeightMatrix", []*ir.Value{any}, 2},
		{"MatMul", []*ir.Value{any, matrix}, -1},
		{"MatMul", []*ir.Value{matrix, matrix}, 2},
		{"MatMulInteger", []*ir.Value{vector, matrix}, -1},
		{"QLinearMatMul", []*ir.Value{matrix, any, any, matrix}, 2},
		{"QLinearMatMul", []*ir.Value{matrix, matrix, any, vector}, -1},
		{"Add", []*ir.Value{vector, matrix}, 2},
		{"Add", []*ir.Value{any, matrix}, -1},
		{"Attention", []*ir.Value{matrix, vector}, 2},
		{"QAttention", []*ir.Value{matrix, vector}, 2},
		{"MultiHeadAttention", []*ir.Value{any}, 3},
		{"ExpandDims", []*ir.Value{matrix, any}, 3},
	} {
		require.Equal(t, c.want, deferredRank[c.op](c.in), c.op)
		seen[c.op] = true
	}
	require.Len(t, seen, len(deferredRank))
}

// TestFurtherResultsOfUnknownRank holds that the rank of result 0 is not taken for that of further results: keys with the cache before them
// have four axes, and the form of the mask, which is unknown, leaves the node to the run.
func TestFurtherResultsOfUnknownRank(t *testing.T) {
	s := &sketch{}
	x := s.input("x", tensor.F32, "batch", "seq", 8)
	s.node("MultiHeadAttention", x, x, x, "", s.input("mask", tensor.I32, "lengths"))
	n := s.g.Node[0]
	n.Domain, n.Output = "com.microsoft", []string{"y", "", "value"}
	n.Attribute = []*onnxpb.AttributeProto{intAttr("num_heads", 2)}
	g, err := s.lower(17, "value")
	require.NoError(t, err)
	require.Equal(t, []int{0, 2}, g.Nodes[0].Op.(ops.Deferred).Outputs)
	numbers := tensor.New(tensor.F32, 2, 3, 8)
	for i := range numbers.Len() {
		numbers.SetFloat64(i, float64(i%7))
	}
	out, err := ir.Interpret(g, []*tensor.Tensor{numbers, tensor.FromSlice([]int32{3, 2})})
	require.NoError(t, err)
	require.Equal(t, "f32[2,2,3,4]", out[0].String())
	require.Equal(t, numbers.Float64(4), out[0].Float64(3*4)) // head 1 of the first token
}

// TestConstantsAreTokenized holds that an operator is prepared before it is evaluated at compile time.
func TestConstantsAreTokenized(t *testing.T) {
	s := &sketch{}
	text := tensor.New(tensor.String, 1)
	text.Strings()[0] = "a b c"
	s.node("Tokenizer", s.constant(text))
	n := s.g.Node[0]
	n.Domain = "com.microsoft"
	n.Attribute = []*onnxpb.AttributeProto{{Name: "separators", Type: onnxpb.AttributeProto_STRINGS, Strings: [][]byte{[]byte(" ")}},
		{Name: "pad_value", Type: onnxpb.AttributeProto_STRING, S: []byte("#")}, intAttr("mark", 0), intAttr("mincharnum", 1)}
	g, err := s.lower(17, n.Output[0])
	require.NoError(t, err)
	require.Equal(t, []string{"a", "b", "c"}, g.Outputs[0].Const.Strings())
}
