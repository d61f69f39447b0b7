package lower

import (
	"fmt"
	"slices"

	"github.com/rlxc/rlxc/ir"
	"github.com/rlxc/rlxc/onnx"
	"github.com/rlxc/rlxc/onnx/onnxpb"
	"github.com/rlxc/rlxc/tensor"
)

// declaredTypes are the types that a graph states of intermediate values and outputs.
func declaredTypes(g *onnxpb.GraphProto) map[string]*onnxpb.TypeProto {
	declared := make(map[string]*onnxpb.TypeProto, len(g.GetValueInfo())+len(g.GetOutput()))
	for _, v := range slices.Concat(g.GetValueInfo(), g.GetOutput()) {
		declared[v.GetName()] = v.GetType()
	}
	return declared
}

// typeOf reads a declared type: sizes are numbers or symbols; an axis without a name gets a separate symbol, made of
// name. In elements of sequences and optionals, no size stands for the same number twice.
func typeOf(tp *onnxpb.TypeProto, name string) (ir.Type, error) {
	if s := tp.GetSequenceType(); s != nil {
		e, err := typeOf(s.GetElemType(), "")
		return ir.Type{Kind: ir.SequenceType, Elem: &e}, err
	}
	if o := tp.GetOptionalType(); o != nil {
		e, err := typeOf(o.GetElemType(), "")
		return ir.Type{Kind: ir.OptionalType, Elem: &e}, err
	}
	tt := tp.GetTensorType()
	if tt == nil {
		return ir.Type{}, fmt.Errorf("%w: only tensors, sequences and optionals of them can be inputs", ErrUnsupported)
	}
	d := tensor.DType(tt.GetElemType())
	if !d.Valid() {
		return ir.Type{}, fmt.Errorf("%w: unknown element type %d", ErrInvalid, tt.GetElemType())
	}
	if tt.GetShape() == nil {
		return ir.Type{DType: d, Unranked: true}, nil
	}
	if n := len(tt.GetShape().GetDim()); n > maxAxes {
		return ir.Type{}, fmt.Errorf("%w: it has %d axes; rlxc takes up to %d", ErrUnsupported, n, maxAxes)
	}
	t := ir.TensorOf(d)
	t.Shape = ir.Shape{}
	for i, dim := range tt.GetShape().GetDim() {
		switch _, isSize := dim.GetValue().(*onnxpb.TensorShapeProto_Dimension_DimValue); {
		case isSize && dim.GetDimValue() < 0:
			return ir.Type{}, fmt.Errorf("%w: axis %d has size %d", ErrInvalid, i, dim.GetDimValue())
		case isSize:
			t.Shape = append(t.Shape, ir.N(int(dim.GetDimValue())))
		case name == "":
			t.Shape = append(t.Shape, ir.Sym(fresh))
		default:
			t.Shape = append(t.Shape, ir.Sym(onnx.SizeName(dim, name, i)))
		}
	}
	return t, nil
}

// checkDeclared compares a value's inferred type with what the model declares, nil for nothing. Another kind or element type makes the
// model invalid. Of sizes only contradictions in numbers count, and ErrInvalid is not part of the error.
func checkDeclared(t ir.Type, declared *onnxpb.TypeProto) error {
	kind, inner := ir.TensorType, (*onnxpb.TypeProto)(nil)
	switch v := declared.GetValue().(type) {
	case *onnxpb.TypeProto_TensorType:
	case *onnxpb.TypeProto_SequenceType:
		kind, inner = ir.SequenceType, v.SequenceType.GetElemType()
		if inner.GetMapType() != nil { // lowerZipMap warns of what it returns
			return nil
		}
	case *onnxpb.TypeProto_OptionalType:
		kind, inner = ir.OptionalType, v.OptionalType.GetElemType()
	default:
		return nil
	}
	if t.Kind != kind {
		return fmt.Errorf("%w: declared to be of another kind than %v", ErrInvalid, t)
	}
	if kind != ir.TensorType {
		if err := checkDeclared(*t.Elem, inner); err != nil {
			return fmt.Errorf("elements: %w", err)
		}
		return nil
	}
	tt := declared.GetTensorType()
	if d := tensor.DType(tt.GetElemType()); d != t.DType && d.Valid() {
		return fmt.Errorf("%w: declared %s, but it is %s", ErrInvalid, d.ONNX(), t.DType.ONNX())
	}
	if tt.GetShape() == nil || t.Unranked {
		return nil
	}
	if len(tt.GetShape().GetDim()) != len(t.Shape) {
		return fmt.Errorf("declared with %d axes, but its node returns %v", len(tt.GetShape().GetDim()), t.Shape)
	}
	for i, dim := range tt.GetShape().GetDim() {
		if dim.GetDimParam() == "" && dim.GetValue() != nil && ir.Same(ir.N(int(dim.GetDimValue())), t.Shape[i]) == ir.No {
			return fmt.Errorf("axis %d is declared as %d, but its node returns %v", i, dim.GetDimValue(), t.Shape)
		}
	}
	return nil
}
