package onnx

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/proto"

	"github.com/rlxc/rlxc/onnx/onnxpb"
	"github.com/rlxc/rlxc/tensor"
)

// The parts that tests build models from.

func model(g *onnxpb.GraphProto) *onnxpb.ModelProto {
	return &onnxpb.ModelProto{IrVersion: 8, OpsetImport: []*onnxpb.OperatorSetIdProto{{Version: 17}}, Graph: g}
}

func graph(inputs []string, outputs []string, nodes ...*onnxpb.NodeProto) *onnxpb.GraphProto {
	return &onnxpb.GraphProto{Name: "g", Input: infos(inputs), Output: infos(outputs), Node: nodes}
}

func infos(names []string) (out []*onnxpb.ValueInfoProto) {
	for _, name := range names {
		out = append(out, &onnxpb.ValueInfoProto{Name: name, Type: &onnxpb.TypeProto{Value: &onnxpb.TypeProto_TensorType{
			TensorType: &onnxpb.TypeProto_Tensor{ElemType: int32(tensor.F32)},
		}}})
	}
	return out
}

func node(op, name string, inputs, outputs []string, attributes ...*onnxpb.AttributeProto) *onnxpb.NodeProto {
	return &onnxpb.NodeProto{OpType: op, Name: name, Input: inputs, Output: outputs, Attribute: attributes}
}

func add(name, a, b, out string) *onnxpb.NodeProto {
	return node("Add", name, []string{a, b}, []string{out})
}

func body(name string, g *onnxpb.GraphProto) *onnxpb.AttributeProto {
	return &onnxpb.AttributeProto{Name: name, Type: onnxpb.AttributeProto_GRAPH, G: g}
}

// bare is a graph as bodies are: without types.
func bare(outputs []string, nodes ...*onnxpb.NodeProto) *onnxpb.GraphProto {
	g := &onnxpb.GraphProto{Name: "body", Node: nodes}
	for _, name := range outputs {
		g.Output = append(g.Output, &onnxpb.ValueInfoProto{Name: name})
	}
	return g
}

// weighted is a model with one weight of n floats, from which the output is computed.
func weighted(n int) *onnxpb.ModelProto {
	g := graph([]string{"x"}, []string{"y"}, add("sum", "x", "w", "y"))
	g.Initializer = []*onnxpb.TensorProto{FromTensor("w", tensor.New(tensor.F32, n))}
	return model(g)
}

func write(t testing.TB, path string, m proto.Message) string {
	data, err := Marshal(m)
	require.NoError(t, err)
	require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o755))
	require.NoError(t, os.WriteFile(path, data, 0o600))
	return path
}
