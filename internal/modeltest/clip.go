package modeltest

import (
	"errors"

	"github.com/rlxc/rlxc"
	"github.com/rlxc/rlxc/ir"
	"github.com/rlxc/rlxc/onnx/onnxpb"
	"github.com/rlxc/rlxc/tensor"
)

// ClipCount makes of kernels the operator com.example.ClipCount: it cuts the numbers of a matrix off at an attribute, times the offset, and
// counts for each row how many it cut.
func ClipCount(kernels rlxc.Op) rlxc.Op {
	kernels.Name = "com.example.ClipCount"
	kernels.Infer = func(in []ir.Type, _ ir.Attrs) ([]ir.Type, error) {
		if len(in) != 2 || len(in[0].Shape) != 2 {
			return nil, errors.New("ClipCount takes a matrix and an offset")
		}
		return []ir.Type{in[0], ir.TensorOf(tensor.I64, in[0].Shape[0])}, nil
	}
	kernels.Eval = func([]*tensor.Tensor, ir.Attrs) ([]*tensor.Tensor, error) { return nil, errors.New("not on the host") }
	return kernels
}

// Value is a graph's input or output of symbolic sizes.
func Value(name string, d tensor.DType, dims ...string) *onnxpb.ValueInfoProto {
	shape := &onnxpb.TensorShapeProto{}
	for _, s := range dims {
		shape.Dim = append(shape.Dim, &onnxpb.TensorShapeProto_Dimension{Value: &onnxpb.TensorShapeProto_Dimension_DimParam{DimParam: s}})
	}
	t := &onnxpb.TypeProto_Tensor{ElemType: int32(d), Shape: shape}
	return &onnxpb.ValueInfoProto{Name: name, Type: &onnxpb.TypeProto{Value: &onnxpb.TypeProto_TensorType{TensorType: t}}}
}

// ClipModel is Relu, ClipCount, and an addition after it, over numbers of a type.
func ClipModel(d tensor.DType) *onnxpb.ModelProto {
	limit := &onnxpb.AttributeProto{Name: "limit", Type: onnxpb.AttributeProto_FLOAT, F: 0.5}
	return &onnxpb.ModelProto{
		IrVersion:   8,
		OpsetImport: []*onnxpb.OperatorSetIdProto{{Version: 17}, {Domain: "com.example", Version: 1}},
		Graph: &onnxpb.GraphProto{
			Name: "clip",
			Node: []*onnxpb.NodeProto{
				{OpType: "Relu", Name: "relu", Input: []string{"x"}, Output: []string{"r"}},
				{OpType: "ClipCount", Domain: "com.example", Name: "clip", Input: []string{"r", "offset"},
					Output: []string{"c", "counts"}, Attribute: []*onnxpb.AttributeProto{limit}},
				{OpType: "Add", Name: "double", Input: []string{"c", "c"}, Output: []string{"y"}},
			},
			Input:  []*onnxpb.ValueInfoProto{Value("x", d, "rows", "columns"), Value("offset", tensor.I64)},
			Output: []*onnxpb.ValueInfoProto{Value("y", d, "rows", "columns"), Value("counts", tensor.I64, "rows")},
		},
	}
}
