package robustness

import (
	"google.golang.org/protobuf/proto"

	"github.com/rlxc/rlxc/onnx"
	"github.com/rlxc/rlxc/onnx/onnxpb"
	"github.com/rlxc/rlxc/tensor"
)

// The parts that the corpus builds models from.

func encode(m proto.Message) []byte {
	data, err := proto.Marshal(m)
	if err != nil {
		panic(err)
	}
	return data
}

func model(g *onnxpb.GraphProto, functions ...*onnxpb.FunctionProto) *onnxpb.ModelProto {
	return &onnxpb.ModelProto{IrVersion: 10, Graph: g, Functions: functions,
		OpsetImport: []*onnxpb.OperatorSetIdProto{{Version: 21}, {Domain: "local", Version: 1}, {Domain: "com.microsoft", Version: 1}}}
}

// inOpset is m of another version of ONNX's operators.
func inOpset(version int64, m *onnxpb.ModelProto) *onnxpb.ModelProto {
	m.OpsetImport[0].Version = version
	return m
}

func graph(inputs, outputs []*onnxpb.ValueInfoProto, nodes ...*onnxpb.NodeProto) *onnxpb.GraphProto {
	return &onnxpb.GraphProto{Name: "g", Input: inputs, Output: outputs, Node: nodes}
}

type infos = []*onnxpb.ValueInfoProto

// value declares a value: sizes are ints, or strings for symbols.
func value(name string, d tensor.DType, sizes ...any) *onnxpb.ValueInfoProto {
	shape := &onnxpb.TensorShapeProto{}
	for _, s := range sizes {
		dim := &onnxpb.TensorShapeProto_Dimension{}
		switch s := s.(type) {
		case int:
			dim.Value = &onnxpb.TensorShapeProto_Dimension_DimValue{DimValue: int64(s)}
		case string:
			dim.Value = &onnxpb.TensorShapeProto_Dimension_DimParam{DimParam: s}
		}
		shape.Dim = append(shape.Dim, dim)
	}
	return typed(name, &onnxpb.TypeProto{Value: &onnxpb.TypeProto_TensorType{
		TensorType: &onnxpb.TypeProto_Tensor{ElemType: int32(d), Shape: shape}}})
}

// ranked declares a tensor without a shape.
func unranked(name string, d tensor.DType) *onnxpb.ValueInfoProto {
	return typed(name, &onnxpb.TypeProto{Value: &onnxpb.TypeProto_TensorType{TensorType: &onnxpb.TypeProto_Tensor{ElemType: int32(d)}}})
}

func typed(name string, t *onnxpb.TypeProto) *onnxpb.ValueInfoProto {
	return &onnxpb.ValueInfoProto{Name: name, Type: t}
}

func names(list ...string) []string { return list }

func node(op string, in, out []string, attributes ...*onnxpb.AttributeProto) *onnxpb.NodeProto {
	return &onnxpb.NodeProto{OpType: op, Input: in, Output: out, Attribute: attributes}
}

func constant(out string, t *tensor.Tensor) *onnxpb.NodeProto {
	return node("Constant", nil, names(out), attribute("value", t))
}

func ints(v ...int64) *tensor.Tensor { return tensor.FromSlice(v) }

// attribute makes an attribute of the kind that the Go value has.
func attribute(name string, v any) *onnxpb.AttributeProto {
	a := &onnxpb.AttributeProto{Name: name}
	switch v := v.(type) {
	case int:
		a.Type, a.I = onnxpb.AttributeProto_INT, int64(v)
	case float64:
		a.Type, a.F = onnxpb.AttributeProto_FLOAT, float32(v)
	case string:
		a.Type, a.S = onnxpb.AttributeProto_STRING, []byte(v)
	case []string:
		a.Type = onnxpb.AttributeProto_STRINGS
		for _, s := range v {
			a.Strings = append(a.Strings, []byte(s))
		}
	case []float32:
		a.Type, a.Floats = onnxpb.AttributeProto_FLOATS, v
	case []int64:
		a.Type, a.Ints = onnxpb.AttributeProto_INTS, v
	case *tensor.Tensor:
		a.Type, a.T = onnxpb.AttributeProto_TENSOR, onnx.FromTensor("", v)
	case *onnxpb.GraphProto:
		a.Type, a.G = onnxpb.AttributeProto_GRAPH, v
	}
	return a
}

// body is a subgraph: its inputs and outputs need no types.
func body(inputs, outputs []string, nodes ...*onnxpb.NodeProto) *onnxpb.GraphProto {
	g := &onnxpb.GraphProto{Name: "body", Node: nodes}
	for _, name := range inputs {
		g.Input = append(g.Input, &onnxpb.ValueInfoProto{Name: name})
	}
	for _, name := range outputs {
		g.Output = append(g.Output, &onnxpb.ValueInfoProto{Name: name})
	}
	return g
}

var f32, i64, boolean = tensor.F32, tensor.I64, tensor.Bool
