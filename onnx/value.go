package onnx

import (
	"errors"
	"fmt"

	"google.golang.org/protobuf/proto"

	"github.com/rlxc/rlxc/internal/files"
	"github.com/rlxc/rlxc/onnx/onnxpb"
	"github.com/rlxc/rlxc/tensor"
)

// A Value is the content of a test data file: a tensor, a sequence or an optional.
type Value struct {
	Kind     Kind
	Tensor   *tensor.Tensor // content of a TensorKind; otherwise nil
	Elements []*Value       // elements of a SequenceKind; content of an OptionalKind, which has one element or none
	// Name is the name of the value in the file. Files may leave it empty.
	Name string
}

// Whole is the value as package tensor has it: elements in a sequence.
func (v *Value) Whole() *tensor.Tensor {
	if v.Kind == TensorKind {
		return v.Tensor
	}
	elems := make([]*tensor.Tensor, len(v.Elements))
	for i, e := range v.Elements {
		elems[i] = e.Whole()
	}
	return tensor.NewSequence(elems...)
}

// A Kind distinguishes values.
type Kind uint8

// The kinds of values.
const (
	TensorKind Kind = iota
	SequenceKind
	OptionalKind
)

// ReadTensor reads a file that holds one TensorProto. It fails as ReadValue does.
func ReadTensor(path string) (*tensor.Tensor, error) {
	v, err := ReadValue(path, nil)
	if err != nil {
		return nil, err
	}
	return v.Tensor, nil
}

// ReadValue reads a file that holds one value of type t, such as the type of the graph's input that it is for. The file does
// not say what it holds itself; without a type it is a tensor. It fails with ErrInvalid, with an error of the file system,
// or if t is a type that no file holds.
func ReadValue(path string, t *onnxpb.TypeProto) (*Value, error) {
	data, err := files.ReadFile(path, int64(maxFile))
	if err != nil {
		return nil, err
	}
	v, err := ParseValue(data, t)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return v, nil
}

// ParseValue reads the contents of a file as ReadValue does. Tensors may be views of data. It fails with ErrInvalid, or if t
// is a type that no file holds.
func ParseValue(data []byte, t *onnxpb.TypeProto) (*Value, error) {
	switch t.GetValue().(type) {
	case nil, *onnxpb.TypeProto_TensorType:
		return parse(data, new(onnxpb.TensorProto), tensorValue)
	case *onnxpb.TypeProto_SequenceType:
		return parse(data, new(onnxpb.SequenceProto), sequenceValue)
	case *onnxpb.TypeProto_OptionalType:
		return parse(data, new(onnxpb.OptionalProto), optionalValue)
	}
	return nil, errors.New("only tensors, sequences and optionals can be read from a file")
}

func parse[M proto.Message](data []byte, m M, read func(M) (*Value, error)) (*Value, error) {
	if err := unmarshal(data, m.ProtoReflect()); err != nil {
		return nil, invalid(fmt.Errorf("not an ONNX tensor: %w", diagnose(data, m, err)))
	}
	return read(m)
}

func tensorValue(tp *onnxpb.TensorProto) (*Value, error) {
	t, err := Tensor(tp)
	return &Value{Kind: TensorKind, Tensor: t, Name: tp.Name}, err
}

func sequenceValue(p *onnxpb.SequenceProto) (*Value, error) {
	v := &Value{Kind: SequenceKind, Name: p.Name}
	var err error
	switch onnxpb.SequenceProto_DataType(p.ElemType) {
	case onnxpb.SequenceProto_UNDEFINED:
	case onnxpb.SequenceProto_TENSOR:
		v.Elements, err = values(p.TensorValues, tensorValue)
	case onnxpb.SequenceProto_SEQUENCE:
		v.Elements, err = values(p.SequenceValues, sequenceValue)
	case onnxpb.SequenceProto_OPTIONAL:
		v.Elements, err = values(p.OptionalValues, optionalValue)
	default:
		return nil, invalid(fmt.Errorf("sequence %s: elements of type %d are not supported", Quote(p.Name), p.ElemType))
	}
	return v, err
}

func optionalValue(p *onnxpb.OptionalProto) (*Value, error) {
	v := &Value{Kind: OptionalKind, Name: p.Name}
	var err error
	switch onnxpb.OptionalProto_DataType(p.ElemType) {
	case onnxpb.OptionalProto_UNDEFINED: // it holds nothing
	case onnxpb.OptionalProto_TENSOR:
		v.Elements, err = values(held(p.TensorValue), tensorValue)
	case onnxpb.OptionalProto_SEQUENCE:
		v.Elements, err = values(held(p.SequenceValue), sequenceValue)
	case onnxpb.OptionalProto_OPTIONAL:
		v.Elements, err = values(held(p.OptionalValue), optionalValue)
	default:
		return nil, invalid(fmt.Errorf("optional %s: a value of type %d is not supported", Quote(p.Name), p.ElemType))
	}
	return v, err
}

func values[M any](from []M, read func(M) (*Value, error)) ([]*Value, error) {
	out := make([]*Value, len(from))
	for i, m := range from {
		v, err := read(m)
		if err != nil {
			return nil, fmt.Errorf("element %d: %w", i, err)
		}
		out[i] = v
	}
	return out, nil
}

// held is the list of one message, or of none when it is absent: an optional without value.
func held[M any](m *M) []*M {
	if m == nil {
		return nil
	}
	return []*M{m}
}
