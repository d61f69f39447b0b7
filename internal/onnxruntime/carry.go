//go:build cgo

package onnxruntime

import (
	"fmt"

	ort "github.com/yalue/onnxruntime_go"

	"github.com/rlxc/rlxc/tensor"
)

// A carry takes tensors of one type into onnxruntime and out of it.
type carry struct {
	in  func(*tensor.Tensor) (ort.Value, error)
	out func(ort.Value) (*tensor.Tensor, error)
}

// carries has a row for each type that the binding carries as it is.
var carries = map[tensor.DType]carry{
	tensor.F32: numbers[float32](), tensor.F64: numbers[float64](), tensor.Bool: numbers[bool](),
	tensor.I8: numbers[int8](), tensor.I16: numbers[int16](), tensor.I32: numbers[int32](), tensor.I64: numbers[int64](),
	tensor.U8: numbers[uint8](), tensor.U16: numbers[uint16](), tensor.U32: numbers[uint32](), tensor.U64: numbers[uint64](),
	tensor.String: {stringsIn, stringsOut},
}

// numbers shares memory both ways: an input's elements are onnxruntime's, and a result's lie in Go's memory already.
func numbers[T interface {
	ort.TensorData
	tensor.Element
}]() carry {
	return carry{
		in: func(t *tensor.Tensor) (ort.Value, error) {
			data := tensor.Of[T](t.Aligned())
			if t.Rank() == 0 {
				return ort.NewScalar(data[0])
			}
			return ort.NewTensor(wide(t.Shape()), data)
		},
		out: func(v ort.Value) (*tensor.Tensor, error) {
			t, ok := v.(*ort.Tensor[T])
			if !ok {
				return nil, fmt.Errorf("onnxruntime returned a %T", v)
			}
			return tensor.FromSlice(t.GetData(), narrow(t.GetShape())...), nil
		},
	}
}

func stringsIn(t *tensor.Tensor) (ort.Value, error) {
	if t.Rank() == 0 {
		return nil, fmt.Errorf("a single string of rank 0 cannot be exchanged with onnxruntime")
	}
	v, err := ort.NewStringTensor(wide(t.Shape()))
	if err != nil {
		return nil, err
	}
	if err := v.SetContents(t.Strings()); err != nil {
		v.Destroy()
		return nil, err
	}
	return v, nil
}

func stringsOut(v ort.Value) (*tensor.Tensor, error) {
	t, ok := v.(*ort.StringTensor)
	if !ok {
		return nil, fmt.Errorf("onnxruntime returned a %T", v)
	}
	text, err := t.GetContents()
	if err != nil {
		return nil, err
	}
	return tensor.FromStrings(text, narrow(t.GetShape())...), nil
}

// toValue hands a tensor to onnxruntime.
func toValue(t *tensor.Tensor) (ort.Value, error) {
	if c, ok := carries[t.DType()]; ok {
		return c.in(t)
	}
	if t.Rank() == 0 || t.Len() == 0 {
		return nil, fmt.Errorf("%v cannot be exchanged with onnxruntime", t)
	}
	return ort.NewCustomDataTensor(wide(t.Shape()), t.Bytes(), ort.TensorElementDataType(t.DType()))
}

// convert returns the elements of a carrier in the type that they stand for, which holds each of them exactly.
func convert(t *tensor.Tensor, d tensor.DType) *tensor.Tensor {
	if t.DType() == d {
		return t
	}
	out := tensor.New(d, t.Shape()...)
	for i := range t.Len() {
		if d.IsFloat() {
			out.SetFloat64(i, t.Float64(i))
		} else {
			out.SetInt64(i, t.Int64(i))
		}
	}
	return out
}

func wide(s tensor.Shape) ort.Shape {
	out := make(ort.Shape, len(s))
	for i, n := range s {
		out[i] = int64(n)
	}
	return out
}

// narrow returns a shape as sizes; its callers have rank 1 and above.
func narrow(s []int64) []int {
	out := make([]int, len(s))
	for i, n := range s {
		out[i] = int(n)
	}
	return out
}
