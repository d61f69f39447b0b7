package onnx

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"

	"github.com/rlxc/rlxc/onnx/onnxpb"
	"github.com/rlxc/rlxc/tensor"
)

// A typedField is one of TensorProto's fields that hold elements when raw_data does not.
type typedField uint8

const (
	noField typedField = iota
	floatData
	int32Data
	stringData
	int64Data
	doubleData
	uint64Data
)

// typedFields says where TensorProto keeps each type (ONNX, TensorProto).
var typedFields = [tensor.NumDTypes]typedField{
	tensor.F32:        floatData,
	tensor.C64:        floatData,
	tensor.F64:        doubleData,
	tensor.C128:       doubleData,
	tensor.String:     stringData,
	tensor.I64:        int64Data,
	tensor.U64:        uint64Data,
	tensor.U32:        uint64Data,
	tensor.I32:        int32Data,
	tensor.I16:        int32Data,
	tensor.U16:        int32Data,
	tensor.I8:         int32Data,
	tensor.U8:         int32Data,
	tensor.Bool:       int32Data,
	tensor.F16:        int32Data,
	tensor.BF16:       int32Data,
	tensor.F8E4M3FN:   int32Data,
	tensor.F8E4M3FNUZ: int32Data,
	tensor.F8E5M2:     int32Data,
	tensor.F8E5M2FNUZ: int32Data,
	tensor.F8E8M0:     int32Data,
	tensor.U4:         int32Data,
	tensor.I4:         int32Data,
	tensor.F4E2M1:     int32Data,
	tensor.U2:         int32Data,
	tensor.I2:         int32Data,
}

// fieldNames are the names of the typed fields in messages.
var fieldNames = [...]string{
	floatData: "float_data", int32Data: "int32_data", stringData: "string_data", int64Data: "int64_data",
	doubleData: "double_data", uint64Data: "uint64_data",
}

// counts is the number of entries of each typed field.
func counts(tp *onnxpb.TensorProto) [len(fieldNames)]int {
	return [...]int{
		floatData: len(tp.FloatData), int32Data: len(tp.Int32Data), stringData: len(tp.StringData),
		int64Data: len(tp.Int64Data), doubleData: len(tp.DoubleData), uint64Data: len(tp.Uint64Data),
	}
}

// entries is how many entries of its typed field n elements of a type take.
func entries(d tensor.DType, n int) int {
	switch {
	case d.IsComplex():
		return 2 * n
	case d.Bits() > 0 && d.Bits() < 8:
		return d.Bytes(n)
	}
	return n
}

// DType is the element type that ONNX writes as code (TensorProto.DataType). It fails if ONNX has no such type, or rlxc does
// not support it.
func DType(code int32) (tensor.DType, error) {
	if code > 0 && code < int32(tensor.NumDTypes) {
		return tensor.DType(code), nil
	}
	if name, ok := onnxpb.TensorProto_DataType_name[code]; ok && code != 0 {
		return tensor.Invalid, fmt.Errorf("element type %s is not supported", name)
	}
	return tensor.Invalid, fmt.Errorf("there is no element type %d", code)
}

// shapeOf checks sizes from a file; n is the number of elements.
func shapeOf(d tensor.DType, dims []int64) (shape tensor.Shape, n int, err error) {
	shape = make(tensor.Shape, len(dims))
	for i, size := range dims {
		if size > math.MaxInt {
			return nil, 0, fmt.Errorf("axis %d has size %d, larger than memory", i, size)
		}
		shape[i] = int(size)
	}
	n, err = shape.CheckElements(d)
	return shape, n, err
}

// describe reads the declaration of a tensor and checks that its data is of that size.
func describe(tp *onnxpb.TensorProto) (d tensor.DType, shape tensor.Shape, err error) {
	d, err = DType(tp.DataType)
	if err != nil {
		return d, nil, err
	}
	shape, n, err := shapeOf(d, tp.Dims)
	if err != nil {
		return d, nil, err
	}
	if s := tp.Segment; s != nil && (s.Begin != 0 || s.End != int64(n)) {
		return d, nil, fmt.Errorf("the tensor is stored in segments, which is not supported: elements %d to %d of %d", s.Begin, s.End, n)
	}
	switch tp.DataLocation {
	case onnxpb.TensorProto_DEFAULT:
	case onnxpb.TensorProto_EXTERNAL:
		return d, nil, errors.New("the data is in another file, which was not loaded")
	default:
		return d, nil, fmt.Errorf("there is no data location %d", tp.DataLocation)
	}
	held, filled := counts(tp), 0
	for _, k := range held {
		if k > 0 {
			filled++
		}
	}
	field := typedFields[d]
	switch {
	case len(tp.RawData) == 0 && filled > 1: // beside raw_data, fields do not count
		return d, nil, errors.New("the data is given in two fields")
	case d == tensor.String && len(tp.RawData) > 0:
		return d, nil, errors.New("strings are given in raw_data: they belong in string_data")
	case len(tp.RawData) > 0:
		if want := d.Bytes(n); len(tp.RawData) != want {
			return d, nil, fmt.Errorf("%s%v needs %d bytes, raw_data has %d", d.ONNX(), shape, want, len(tp.RawData))
		}
	case n == 0 && filled == 0:
	case n == 0 || held[field] != entries(d, n):
		if filled == 0 {
			return d, nil, fmt.Errorf("%s%v has no data", d.ONNX(), shape)
		}
		return d, nil, fmt.Errorf("%s%v needs %d entries in %s, there are %d",
			d.ONNX(), shape, entries(d, n), fieldNames[field], held[field])
	}
	return d, shape, nil
}

// Tensor reads the elements of a tensor, wherever the message keeps them. raw_data and the typed fields of the same layout
// are seen and not copied, so that the tensor of a mapped model is a view of the file; it may start at any address
// (tensor.Tensor.Aligned). Data in another file must have been loaded, which Open does. It fails with ErrInvalid.
func Tensor(tp *onnxpb.TensorProto) (*tensor.Tensor, error) {
	d, shape, err := describe(tp)
	if err == nil {
		var t *tensor.Tensor
		if t, err = elements(tp, d, shape); err == nil {
			return t, nil
		}
	}
	return nil, invalid(fmt.Errorf("tensor %s: %w", Quote(tp.Name), err))
}

func elements(tp *onnxpb.TensorProto, d tensor.DType, shape tensor.Shape) (*tensor.Tensor, error) {
	switch {
	case shape.Elements() == 0:
		return tensor.New(d, shape...), nil
	case len(tp.RawData) > 0:
		return tensor.FromBytes(d, shape, rawBytes(tp.RawData, d))
	}
	switch typedFields[d] {
	case floatData:
		return tensor.FromBytes(d, shape, tensor.FromSlice(tp.FloatData).Bytes())
	case doubleData:
		return tensor.FromBytes(d, shape, tensor.FromSlice(tp.DoubleData).Bytes())
	case int64Data:
		return tensor.FromSlice(tp.Int64Data, shape...), nil
	case stringData:
		strs := make([]string, len(tp.StringData))
		for i, s := range tp.StringData {
			strs[i] = string(s)
		}
		return tensor.FromStrings(strs, shape...), nil
	case uint64Data:
		return narrow(tp.Uint64Data, d, shape)
	default:
		return narrow(tp.Int32Data, d, shape)
	}
}

// rawBytes returns bools that are 0 or 1, as Go's bool must be, and other types as they are.
func rawBytes(raw []byte, d tensor.DType) []byte {
	if d != tensor.Bool {
		return raw
	}
	out := make([]byte, len(raw))
	for i, b := range raw {
		if b != 0 {
			out[i] = 1
		}
	}
	return out
}

// narrow stores entries in the width of their type. An entry of an integer type is the value, and must fit; of any other type
// it is the bit pattern, which writers extend by zeros or by the sign.
func narrow[T int32 | uint64](from []T, d tensor.DType, shape tensor.Shape) (*tensor.Tensor, error) {
	t := tensor.New(d, shape...)
	out := t.Bytes()
	width := max(d.Size(), 1)
	low, high := int64(-1)<<(8*width-1), uint64(1)<<(8*width)-1 // at width 8 the shift leaves 0−1: all bits
	if d.IsUnsigned() {
		low = 0
	} else if d.IsSigned() && d.Size() > 0 {
		high >>= 1
	}
	for i, v := range from {
		if d == tensor.Bool && v != 0 {
			v = 1
		}
		if v < 0 && int64(v) < low || v > 0 && uint64(v) > high {
			return nil, fmt.Errorf("entry %d of %s is %d, which %s cannot hold", i, fieldNames[typedFields[d]], v, d.ONNX())
		}
		switch width {
		case 1:
			out[i] = byte(v)
		case 2:
			binary.LittleEndian.PutUint16(out[2*i:], uint16(v))
		case 4:
			binary.LittleEndian.PutUint32(out[4*i:], uint32(v))
		case 8:
			binary.LittleEndian.PutUint64(out[8*i:], uint64(v))
		}
	}
	return t, nil
}

// FromTensor writes a tensor as a message that shares the tensor's memory.
func FromTensor(name string, t *tensor.Tensor) *onnxpb.TensorProto {
	tp := &onnxpb.TensorProto{Name: name, DataType: int32(t.DType())}
	for _, size := range t.Shape() {
		tp.Dims = append(tp.Dims, int64(size))
	}
	if t.DType() != tensor.String {
		tp.RawData = t.Bytes()
		return tp
	}
	for _, s := range t.Strings() {
		tp.StringData = append(tp.StringData, []byte(s))
	}
	return tp
}
