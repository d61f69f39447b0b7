package onnx

import (
	"errors"
	"fmt"

	"github.com/rlxc/rlxc/onnx/onnxpb"
)

// attribute checks that an attribute holds what its type says, and returns the values of the graph around it that its
// bodies use.
func (c *checker) attribute(a *onnxpb.AttributeProto, s *scope, where func() string) (used []string) {
	held := [...]bool{
		onnxpb.AttributeProto_FLOAT:          a.F != 0,
		onnxpb.AttributeProto_INT:            a.I != 0,
		onnxpb.AttributeProto_STRING:         len(a.S) > 0,
		onnxpb.AttributeProto_TENSOR:         a.T != nil,
		onnxpb.AttributeProto_GRAPH:          a.G != nil,
		onnxpb.AttributeProto_SPARSE_TENSOR:  a.SparseTensor != nil,
		onnxpb.AttributeProto_TYPE_PROTO:     a.Tp != nil,
		onnxpb.AttributeProto_FLOATS:         len(a.Floats) > 0,
		onnxpb.AttributeProto_INTS:           len(a.Ints) > 0,
		onnxpb.AttributeProto_STRINGS:        len(a.Strings) > 0,
		onnxpb.AttributeProto_TENSORS:        len(a.Tensors) > 0,
		onnxpb.AttributeProto_GRAPHS:         len(a.Graphs) > 0,
		onnxpb.AttributeProto_SPARSE_TENSORS: len(a.SparseTensors) > 0,
		onnxpb.AttributeProto_TYPE_PROTOS:    len(a.TypeProtos) > 0,
	}
	problem := func(format string, args ...any) {
		c.add("%sattribute %s: %s", where(), Quote(a.Name), fmt.Sprintf(format, args...))
	}
	if int(a.Type) >= len(held) || a.Type < 0 {
		problem("there is no attribute type %d", a.Type)
		return nil
	}
	for kind, has := range held {
		if has && kind != int(a.Type) {
			problem("its type is %s, its value is in the field of %s", a.Type, onnxpb.AttributeProto_AttributeType(kind))
		}
	}
	if a.RefAttrName != "" {
		if !s.function {
			problem("it refers to attribute %s of a function, outside of any", Quote(a.RefAttrName))
		}
		return nil
	}
	switch a.Type {
	case onnxpb.AttributeProto_UNDEFINED:
		problem("it has no type")
	case onnxpb.AttributeProto_TENSOR, onnxpb.AttributeProto_GRAPH, onnxpb.AttributeProto_SPARSE_TENSOR,
		onnxpb.AttributeProto_TYPE_PROTO: // a field that is absent; numbers are 0 then
		if !held[a.Type] {
			problem("its type is %s, it holds none", a.Type)
		}
	}
	for _, t := range append([]*onnxpb.TensorProto{a.T}, a.Tensors...) {
		if err := checkTensor(t); err != nil {
			problem("%v", err)
		}
	}
	for _, t := range append([]*onnxpb.SparseTensorProto{a.SparseTensor}, a.SparseTensors...) {
		if err := checkSparse(t); err != nil {
			problem("%v", err)
		}
	}
	for _, g := range append([]*onnxpb.GraphProto{a.G}, a.Graphs...) {
		if g != nil {
			body := &scope{outer: s, path: where() + "attribute " + Quote(a.Name) + ": ", function: s.function}
			c.graph(g, body)
			used = append(used, body.captured...)
		}
	}
	return used
}

func checkTensor(t *onnxpb.TensorProto) error {
	if t == nil {
		return nil
	}
	_, _, err := describe(t)
	return err
}

func checkSparse(t *onnxpb.SparseTensorProto) error {
	if t == nil {
		return nil
	}
	_, err := readSparse(t)
	return err
}

// checkType checks the declared type of an input.
func checkType(t *onnxpb.TypeProto) error {
	switch v := t.GetValue().(type) {
	case nil:
		return errors.New("it has no type")
	case *onnxpb.TypeProto_TensorType:
		return checkTensorType(v.TensorType)
	case *onnxpb.TypeProto_SequenceType:
		return checkType(v.SequenceType.ElemType)
	case *onnxpb.TypeProto_OptionalType:
		return checkType(v.OptionalType.ElemType)
	}
	return nil
}

// forgetMinusOne makes sizes of −1 unknown.
func forgetMinusOne(t *onnxpb.TypeProto) {
	for _, dim := range t.GetTensorType().GetShape().GetDim() {
		if dim.GetDimValue() == -1 {
			dim.Value = nil
		}
	}
}

func checkTensorType(t *onnxpb.TypeProto_Tensor) error {
	d, err := DType(t.ElemType)
	if err != nil {
		return err
	}
	var known []int64
	for _, dim := range t.Shape.GetDim() {
		if v, ok := dim.Value.(*onnxpb.TensorShapeProto_Dimension_DimValue); ok {
			known = append(known, v.DimValue)
		}
	}
	_, _, err = shapeOf(d, known)
	return err
}
