package rlxc_test

import (
	"context"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/proto"

	"github.com/rlxc/rlxc"
	"github.com/rlxc/rlxc/ir"
	"github.com/rlxc/rlxc/onnx"
	"github.com/rlxc/rlxc/onnx/onnxpb"
	"github.com/rlxc/rlxc/tensor"
)

// TestPackedAttention holds a model that leaves padding out by onnxruntime's operators to the same with a mask, which onnxruntime runs on CUDA
// alone; and attention to be one by rows.
func TestPackedAttention(t *testing.T) {
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
				shape.Dim = append(shape.Dim, &onnxpb.TensorShapeProto_Dimension{Value: &onnxpb.TensorShapeProto_Dimension_DimParam{DimParam: dim}})
			}
			kind := map[tensor.DType]int32{tensor.F32: 1, tensor.I32: 6}[d]
			return &onnxpb.ValueInfoProto{Name: name, Type: &onnxpb.TypeProto{Value: &onnxpb.TypeProto_TensorType{TensorType: &onnxpb.TypeProto_Tensor{ElemType: kind, Shape: shape}}}}
		}
		x := value("x", tensor.F32, "batch", "seq", "hidden")
		x.Type.GetTensorType().Shape.Dim[2].Value = &onnxpb.TensorShapeProto_Dimension_DimValue{DimValue: hidden}
		return &onnxpb.ModelProto{IrVersion: 8, OpsetImport: []*onnxpb.OperatorSetIdProto{{Version: 17}, {Domain: "com.microsoft", Version: 1}},
			Graph: &onnxpb.GraphProto{Name: "g", Node: nodes, Input: []*onnxpb.ValueInfoProto{x, value("counts", tensor.I32, "batch")},
				Output:      []*onnxpb.ValueInfoProto{{Name: "y"}},
				Initializer: []*onnxpb.TensorProto{onnx.FromTensor("w", wide), onnx.FromTensor("b", bias)}}}
	}
	packed := model(node("RemovePadding", []string{"x", "counts"}, []string{"t", "offset", "sums", "longest"}, 0),
		node("PackedAttention", []string{"t", "w", "b", "offset", "sums"}, []string{"a", ""}[:1], heads),
		node("RestorePadding", []string{"a", "offset"}, []string{"y"}, 0))
	padded := model(node("Attention", []string{"x", "w", "b", "counts"}, []string{"y"}, heads))
	padded.Graph.Node[0].Attribute = append(padded.Graph.Node[0].Attribute, &onnxpb.AttributeProto{Name: "mask_filter_value", Type: onnxpb.AttributeProto_FLOAT, F: -3e38})
	run := func(p *onnxpb.ModelProto, in rlxc.Tensors) *rlxc.Tensor {
		m, err := rlxc.FromProto(proto.Clone(p).(*onnxpb.ModelProto), "packed")
		require.NoError(t, err)
		defer m.Close()
		program, err := m.Compile(context.Background(), rlxc.CompileOptions{Verify: true})
		require.NoError(t, err)
		defer program.Close()
		for _, n := range program.Graph().Nodes {
			if n.Op.Kind() == ir.KindAttention {
				require.Equal(t, p == packed, n.HasOperand(ir.AttentionRows))
			}
		}
		s, err := program.NewSession()
		require.NoError(t, err)
		defer s.Close()
		out, err := s.Run(context.Background(), in)
		require.NoError(t, err)
		return out["y"].Clone()
	}
	counts := []int32{3, 1, 7, 5}
	in := rlxc.Tensors{"x": weight(len(counts), 7, hidden), "counts": tensor.FromSlice(counts)}
	want, got := run(padded, in), run(packed, in)
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
}
