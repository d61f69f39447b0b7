package wholemodels

import (
	"context"
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/proto"

	"github.com/rlxc/rlxc"
	"github.com/rlxc/rlxc/internal/inside"
	"github.com/rlxc/rlxc/onnx"
	"github.com/rlxc/rlxc/onnx/onnxpb"
	"github.com/rlxc/rlxc/tensor"
)

// TestPackedAttention holds a model that leaves padding out by onnxruntime's operators to the same with a mask, which onnxruntime runs on
// CUDA alone; and attention to be one by rows.
func TestPackedAttention(t *testing.T) {
	t.Chdir(root)
	const hidden, heads = 8, 2
	r := rand.New(rand.NewPCG(4, 4))
	weight := func(shape ...int) *tensor.Tensor {
		x := tensor.New(tensor.F32, shape...)
		for i := range x.Len() {
			x.SetFloat64(i, r.Float64()*2-1)
		}
		return x
	}
	wide := weight(hidden, 3*hidden)
	bias := weight(3 * hidden)
	node := func(op string, in, out []string, heads int64) *onnxpb.NodeProto {
		n := &onnxpb.NodeProto{OpType: op, Domain: "com.microsoft", Name: op, Input: in, Output: out}
		if heads > 0 {
			n.Attribute = []*onnxpb.AttributeProto{{Name: "num_heads", Type: onnxpb.AttributeProto_INT, I: heads}}
		}
		return n
	}
	model := func(nodes ...*onnxpb.NodeProto) *onnxpb.ModelProto {
		value := func(name string, d tensor.DType, dims ...string) *onnxpb.ValueInfoProto {
			shape := &onnxpb.TensorShapeProto{}
			for _, dim := range dims {
				shape.Dim = append(shape.Dim,
					&onnxpb.TensorShapeProto_Dimension{Value: &onnxpb.TensorShapeProto_Dimension_DimParam{DimParam: dim}})
			}
			kind := map[tensor.DType]int32{tensor.F32: 1, tensor.I32: 6}[d]
			return &onnxpb.ValueInfoProto{Name: name,
				Type: &onnxpb.TypeProto{Value: &onnxpb.TypeProto_TensorType{TensorType: &onnxpb.TypeProto_Tensor{ElemType: kind,
					Shape: shape}}}}
		}
		x := value("x", tensor.F32, "batch", "seq", "hidden")
		x.Type.GetTensorType().Shape.Dim[2].Value = &onnxpb.TensorShapeProto_Dimension_DimValue{DimValue: hidden}
		for i := range nodes {
			nodes[i] = proto.Clone(nodes[i]).(*onnxpb.NodeProto)
		}
		return &onnxpb.ModelProto{IrVersion: 8,
			OpsetImport: []*onnxpb.OperatorSetIdProto{{Version: 18}, {Domain: "com.microsoft", Version: 1}},
			Graph: &onnxpb.GraphProto{Name: "g", Node: nodes, Input: []*onnxpb.ValueInfoProto{x, value("counts", tensor.I32, "batch"),
				value("bias", tensor.F32, "texts", "heads", "seq", "seq")},
				Output:      []*onnxpb.ValueInfoProto{{Name: "y"}},
				Initializer: []*onnxpb.TensorProto{onnx.FromTensor("w", wide), onnx.FromTensor("b", bias)}}}
	}
	remove := node("RemovePadding", []string{"x", "counts"}, []string{"t", "offset", "sums", "longest"}, 0)
	restore := node("RestorePadding", []string{"a", "offset"}, []string{"y"}, 0)
	project := &onnxpb.NodeProto{OpType: "MatMul", Name: "project", Input: []string{"t", "w"}, Output: []string{"qkv"}}
	split := &onnxpb.NodeProto{OpType: "Split", Name: "split", Input: []string{"qkv"}, Output: []string{"q", "k", "v"},
		Attribute: []*onnxpb.AttributeProto{{Name: "axis", Type: onnxpb.AttributeProto_INT, I: 1},
			{Name: "num_outputs", Type: onnxpb.AttributeProto_INT, I: 3}}}
	one := func(inputs ...string) []*onnxpb.NodeProto {
		return []*onnxpb.NodeProto{remove, node("PackedAttention", inputs, []string{"a"}, heads), restore}
	}
	several := func(inputs ...string) []*onnxpb.NodeProto {
		return []*onnxpb.NodeProto{remove, project, split, node("PackedMultiHeadAttention", inputs, []string{"a"}, heads), restore}
	}
	padded := node("Attention", []string{"x", "w", "b", "counts"}, []string{"y"}, heads)
	padded.Attribute = append(padded.Attribute, &onnxpb.AttributeProto{Name: "mask_filter_value", Type: onnxpb.AttributeProto_FLOAT,
		F: -3e38})
	biased := proto.Clone(padded).(*onnxpb.NodeProto)
	biased.Input = append(biased.Input, "", "bias")
	run := func(t *testing.T, nodes []*onnxpb.NodeProto, in rlxc.Tensors) (y *rlxc.Tensor, text string) {
		m, err := rlxc.FromProto(model(nodes...), "packed")
		require.NoError(t, err)
		defer m.Close()
		program, err := m.Compile(context.Background(), rlxc.CompileOptions{Verify: true})
		require.NoError(t, err)
		defer program.Close()
		s, err := program.NewSession()
		require.NoError(t, err)
		defer s.Close()
		for range 2 { // the second from plans that there are
			out, err := s.Run(context.Background(), in)
			require.NoError(t, err)
			y = out["y"].Clone()
		}
		return y, inside.Program(program).Graph().String()
	}
	for _, counts := range [][]int32{{3, 1, 7, 5}, {7, 7, 7, 7}, {2, 0, 1, 6}} {
		for _, c := range []struct {
			padded *onnxpb.NodeProto
			packed []*onnxpb.NodeProto
			bias   []int
		}{
			{padded, one("t", "w", "b", "offset", "sums"), nil},
			{padded, several("q", "k", "v", "b", "offset", "sums"), nil},
			{biased, one("t", "w", "b", "offset", "sums", "bias"), []int{1, heads}},
			{biased, one("t", "w", "b", "offset", "sums", "bias"), []int{len(counts), heads}},
			{biased, one("t", "w", "b", "offset", "sums", "bias"), []int{len(counts), 1}},
			{biased, several("q", "k", "v", "b", "offset", "sums", "bias"), []int{1, 1}},
			{biased, several("q", "k", "v", "b", "offset", "sums", "bias"), []int{len(counts), heads}},
		} {
			t.Run(fmt.Sprintf("%v/%s/%v", counts, c.packed[len(c.packed)-2].OpType, c.bias), func(t *testing.T) {
				in := rlxc.Tensors{"x": weight(len(counts), 7, hidden), "counts": tensor.FromSlice(counts),
					"bias": weight(append(c.bias, 7, 7)...)}
				if c.bias == nil {
					in["bias"] = weight(1, 1, 7, 7)
				}
				want, _ := run(t, []*onnxpb.NodeProto{c.padded}, in)
				got, text := run(t, c.packed, in)
				require.Equal(t, want.String(), got.String())
				for b, n := range counts {
					for i := range 7 * hidden {
						w := want.Float64(b*7*hidden + i)
						if i >= int(n)*hidden {
							w = 0
						}
						require.InDelta(t, w, got.Float64(b*7*hidden+i), 1e-5, "text %d", b)
					}
				}
				// The same IR as without padding by the pass: nothing is padded in between, and no list of positions is made.
				require.Contains(t, text, "rlxc.Pack(")
				require.Contains(t, text, "rlxc.Unpack(")
				for _, other := range []string{"rlxc.Deferred", "scatter", "softmax"} {
					require.NotContains(t, text, other)
				}
			})
		}
	}
}
