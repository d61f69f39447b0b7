package lower

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rlxc/rlxc/ir"
	"github.com/rlxc/rlxc/onnx/onnxpb"
	"github.com/rlxc/rlxc/tensor"
)

// TestPackedSpelling shows what onnxruntime's way to leave padding out becomes: the ops of the pass unpad. Where token_offset does not come
// from RemovePadding, it is read as it is.
func TestPackedSpelling(t *testing.T) {
	build := func(removes bool) string {
		s := &sketch{}
		node := func(op string, results []string, operands ...string) {
			n := &onnxpb.NodeProto{OpType: op, Domain: "com.microsoft", Name: op, Input: operands, Output: results}
			if op == "PackedAttention" {
				n.Attribute = []*onnxpb.AttributeProto{intAttr("num_heads", 2)}
			}
			s.g.Node = append(s.g.Node, n)
		}
		if removes {
			s.input("x", tensor.F32, "batch", "seq", 4)
			s.input("counts", tensor.I32, "batch")
			node("RemovePadding", []string{"t", "offset", "sums", "longest"}, "x", "counts")
		} else {
			s.input("t", tensor.F32, "n", 4)
			s.input("offset", tensor.I32, "batch", "seq")
			s.input("sums", tensor.I32, "batch+1")
		}
		s.input("bias", tensor.F32, 1, 2, "seq", "seq")
		node("PackedAttention", []string{"a"}, "t", s.constant(tensor.New(tensor.F32, 4, 12)), s.constant(tensor.New(tensor.F32, 12)),
			"offset", "sums", "bias")
		node("RestorePadding", []string{"y"}, "a", "offset")
		s.g.Output = []*onnxpb.ValueInfoProto{{Name: "y"}}
		g, err := Model(&onnxpb.ModelProto{Graph: &s.g,
			OpsetImport: []*onnxpb.OperatorSetIdProto{{Version: 17}, {Domain: "com.microsoft", Version: 1}}})
		require.NoError(t, err)
		require.NoError(t, ir.Verify(g))
		var lines []string // of the nodes that are more than views
		for _, n := range g.Nodes {
			text := ir.OpName(n.Op)
			if k := n.Op.Kind(); k == ir.KindReshape || k == ir.KindSlice {
				continue
			}
			for _, v := range n.Inputs {
				for v != nil && v.Def != nil && (v.Def.Op.Kind() == ir.KindReshape || v.Def.Op.Kind() == ir.KindSlice) {
					v = v.Def.Inputs[0]
				}
				switch {
				case v == nil:
					text += " _"
				case v.Def == nil && v.Const == nil:
					text += " " + v.Name
				case v.Def != nil:
					text += " " + ir.OpName(v.Def.Op)
				}
			}
			lines = append(lines, text)
		}
		return strings.Join(lines, "\n")
	}
	// The deferred RemovePadding makes the lists that nothing reads here: it is dropped as such.
	require.Equal(t, strings.TrimSpace(`
rlxc.Pack counts x
rlxc.Deferred x counts
matmul rlxc.Pack
attention matmul matmul matmul bias rlxc.Pack rlxc.Pack
rlxc.Unpack attention rlxc.Pack x`), build(true))
	require.Equal(t, strings.TrimSpace(`
matmul t
concat sums sums sums sums
cast offset
dims
mod cast dims
attention matmul matmul matmul bias concat mod
expand
cast offset
scatter_nd expand cast attention`), build(false))
}

// TestRemovePaddingByConstants: lengths that are known give tokens, positions, sums and the longest at once, and those that do not fit are
// refused.
func TestRemovePaddingByConstants(t *testing.T) {
	remove := func(counts ...int32) (*ir.Graph, error) {
		s := &sketch{}
		n := &onnxpb.NodeProto{OpType: "RemovePadding", Domain: "com.microsoft", Output: []string{"t", "offset", "sums", "longest"},
			Input: []string{s.input("x", tensor.F32, 3, 4, 2), s.constant(tensor.FromSlice(counts))}}
		s.g.Node = append(s.g.Node, n)
		for _, name := range n.Output {
			s.g.Output = append(s.g.Output, &onnxpb.ValueInfoProto{Name: name})
		}
		return Model(&onnxpb.ModelProto{Graph: &s.g,
			OpsetImport: []*onnxpb.OperatorSetIdProto{{Version: 17}, {Domain: "com.microsoft", Version: 1}}})
	}
	g, err := remove(2, 4, 0)
	require.NoError(t, err)
	x := tensor.New(tensor.F32, 3, 4, 2)
	for i := range x.Len() {
		x.SetFloat64(i, float64(i))
	}
	got, err := ir.Interpret(g, []*tensor.Tensor{x})
	require.NoError(t, err)
	require.Equal(t, []float32{0, 1, 2, 3, 8, 9, 10, 11, 12, 13, 14, 15}, tensor.Of[float32](got[0]))
	require.Equal(t, tensor.Shape{6, 2}, got[0].Shape())
	require.Equal(t, []int32{0, 1, 4, 5, 6, 7, 2, 3, 8, 9, 10, 11}, tensor.Of[int32](got[1]))
	require.Equal(t, []int32{0, 2, 6, 6}, tensor.Of[int32](got[2]))
	require.Equal(t, []int32{4}, tensor.Of[int32](got[3]))

	for want, counts := range map[string][]int32{
		"sequence_token_count[1] is 5 of 4":  {2, 5, 0},
		"sequence_token_count[2] is -1 of 4": {2, 4, -1},
		"2 lengths for 3 sequences":          {2, 4},
	} {
		_, err := remove(counts...)
		require.ErrorContains(t, err, want)
	}
}
