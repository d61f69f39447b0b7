package modeltest

import (
	"github.com/rlxc/rlxc/onnx/onnxpb"
	"github.com/rlxc/rlxc/tensor"
)

// ControlModel has a graph of each kind inside: an If whose condition follows from x, of which both branches compute; a Loop of three
// iterations that carries a value and collects it; a Scan over what was collected; and a result whose size depends on data. x f32[n,4]→y
// f32[n,4], z f32[3,n,4].
func ControlModel() *onnxpb.ModelProto {
	node := func(op, out string, in []string, attributes ...*onnxpb.AttributeProto) *onnxpb.NodeProto {
		return &onnxpb.NodeProto{OpType: op, Name: out, Input: in, Output: []string{out}, Attribute: attributes}
	}
	whole := func(name string, x int64) *onnxpb.AttributeProto {
		return &onnxpb.AttributeProto{Name: name, Type: onnxpb.AttributeProto_INT, I: x}
	}
	body := func(name string, in, out []*onnxpb.ValueInfoProto, nodes ...*onnxpb.NodeProto) *onnxpb.AttributeProto {
		return &onnxpb.AttributeProto{Name: name, Type: onnxpb.AttributeProto_GRAPH,
			G: &onnxpb.GraphProto{Name: name, Node: nodes, Input: in, Output: out}}
	}
	values := func(v ...*onnxpb.ValueInfoProto) []*onnxpb.ValueInfoProto { return v }
	weights := &onnxpb.TensorProto{Name: "weights", DataType: int32(tensor.F32), Dims: []int64{4, 4}}
	for i := range 16 {
		weights.FloatData = append(weights.FloatData, float32(i%5)/8-0.2)
	}
	loop := node("Loop", "carried", []string{"three", "true", "chosen"}, body("body",
		values(value("iteration", tensor.I64), value("on", tensor.Bool), value("state", tensor.F32, "n", "4")),
		values(value("still", tensor.Bool), value("next", tensor.F32, "n", "4"), value("row", tensor.F32, "n", "4")),
		node("Identity", "still", []string{"on"}), node("MatMul", "moved", []string{"state", "weights"}),
		node("Tanh", "next", []string{"moved"}), node("Add", "row", []string{"next", "x"})))
	loop.Output = append(loop.Output, "rows")
	return &onnxpb.ModelProto{
		IrVersion: 8, OpsetImport: []*onnxpb.OperatorSetIdProto{{Version: 17}},
		Graph: &onnxpb.GraphProto{
			Name: "control",
			Initializer: []*onnxpb.TensorProto{weights,
				{Name: "three", DataType: int32(tensor.I64), Dims: []int64{1}, Int64Data: []int64{3}},
				{Name: "true", DataType: int32(tensor.Bool), Dims: []int64{1}, Int32Data: []int32{1}},
				{Name: "zero", DataType: int32(tensor.F32), Dims: []int64{1}, FloatData: []float32{0}}},
			Node: []*onnxpb.NodeProto{
				node("ReduceMax", "top", []string{"x"}, whole("keepdims", 0)), node("Greater", "positive", []string{"top", "zero"}),
				node("If", "chosen", []string{"positive"},
					body("then_branch", nil, values(value("then", tensor.F32, "n", "4")), node("MatMul", "then", []string{"x", "weights"})),
					body("else_branch", nil, values(value("else", tensor.F32, "n", "4")),
						node("MatMul", "product", []string{"x", "weights"}), node("Exp", "else", []string{"product"}))),
				loop,
				node("Scan", "z", []string{"rows"}, whole("num_scan_inputs", 1), body("body",
					values(value("one", tensor.F32, "n", "4")), values(value("scanned", tensor.F32, "n", "4")),
					node("MatMul", "turned", []string{"one", "weights"}), node("Sigmoid", "scanned", []string{"turned"}))),
				node("NonZero", "found", []string{"carried"}),
				node("Cast", "at", []string{"found"}, whole("to", int64(onnxpb.TensorProto_FLOAT))),
				node("ReduceSum", "all", []string{"at"}),
				node("Add", "y", []string{"carried", "all"}),
			},
			Input:  values(value("x", tensor.F32, "n", "4")),
			Output: values(value("y", tensor.F32, "n", "4"), value("z", tensor.F32, "3", "n", "4")),
		},
	}
}
