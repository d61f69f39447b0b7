package server

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"math"
	"net/http"
	"slices"

	"github.com/rlxc/rlxc/tensor"
)

// Datatypes are the names of element types in the Open Inference Protocol.
var Datatypes = map[tensor.DType]string{tensor.Bool: "BOOL", tensor.U8: "UINT8", tensor.U16: "UINT16", tensor.U32: "UINT32", tensor.U64: "UINT64",
	tensor.I8: "INT8", tensor.I16: "INT16", tensor.I32: "INT32", tensor.I64: "INT64", tensor.F16: "FP16", tensor.BF16: "BF16", tensor.F32: "FP32",
	tensor.F64: "FP64", tensor.String: "BYTES"}

func dtypeNamed(name string) (tensor.DType, bool) {
	for d, n := range Datatypes {
		if n == name {
			return d, true
		}
	}
	return tensor.Invalid, false
}

// numbers are the elements of tensors as Go slices, for JSON.
var numbers = map[tensor.DType]func(t *tensor.Tensor) any{
	tensor.F32:    func(t *tensor.Tensor) any { return tensor.Of[float32](t) },
	tensor.F64:    func(t *tensor.Tensor) any { return tensor.Of[float64](t) },
	tensor.U64:    func(t *tensor.Tensor) any { return tensor.Of[uint64](t) },
	tensor.String: func(t *tensor.Tensor) any { return t.Strings() },
	tensor.Bool: func(t *tensor.Tensor) any {
		out := make([]bool, t.Len())
		for i := range out {
			out[i] = t.Int64(i) != 0
		}
		return out
	},
}

// elements are the elements of any tensor.
func elements(t *tensor.Tensor) any {
	if f := numbers[t.DType()]; f != nil {
		return f(t)
	}
	if t.DType().IsFloat() {
		return t.Float64s()
	}
	return t.Int64s()
}

// add adds an output to an answer.
func (a *oipAnswer) add(name string, t *tensor.Tensor, binary bool) error {
	r := oipResult{Name: name, Shape: append([]int{}, t.Shape()...), Datatype: Datatypes[t.DType()]}
	switch {
	case r.Datatype == "":
		return failf(http.StatusUnprocessableEntity, "", "output %q is of type %v, which the protocol lacks", name, t.DType())
	case binary:
		data := RawTensor(t)
		r.Parameters = oipParameters{"binary_data_size": len(data)}
		if a.binary == nil {
			a.binary = []byte{}
		}
		a.binary = append(a.binary, data...)
	default:
		if t.DType().IsFloat() {
			for i := range t.Len() {
				if v := t.Float64(i); math.IsNaN(v) || math.IsInf(v, 0) {
					return failf(http.StatusUnprocessableEntity, "outputs", "output %q has %v at element %d, which JSON lacks: ask for binary data", name, v, i)
				}
			}
		}
		data, err := json.Marshal(elements(t)) // the session's memory is used again
		if err != nil {
			return err
		}
		if t.DType() == tensor.U8 { // which Go writes as base64
			data, err = json.Marshal(t.Int64s())
		}
		r.Data = json.RawMessage(data)
		if err != nil {
			return err
		}
	}
	a.Outputs = append(a.Outputs, r)
	return nil
}

// tensor reads an input, whose data may be the beginning of tail.
func (x *oipInput) tensor(tail []byte) (*tensor.Tensor, []byte, error) {
	field := "inputs." + x.Name
	if size, ok := x.Parameters["binary_data_size"]; ok {
		n, ok := size.(float64)
		if !ok || n < 0 || n > float64(len(tail)) || n != math.Trunc(n) {
			return nil, nil, invalid(field, "binary_data_size is %v, and %d bytes are left", size, len(tail))
		}
		t, err := ReadRawTensor(x.Name, x.Datatype, x.Shape, tail[:int(n)])
		return t, tail[int(n):], err
	}
	d, err := checkTensor(x.Name, x.Datatype, x.Shape)
	if err != nil {
		return nil, nil, err
	}
	if data := bytes.TrimSpace(x.Data); len(data) == 0 || data[0] != '[' {
		return nil, nil, invalid(field, "want data: a list")
	}
	t, err := tensor.ParseJSON(x.Data, d)
	if err != nil {
		return nil, nil, invalid(field, "%v", err)
	}
	if t.Len() != tensor.Shape(x.Shape).Elements() {
		return nil, nil, invalid(field, "the shape %v has %d elements, and the data %d", x.Shape, tensor.Shape(x.Shape).Elements(), t.Len())
	}
	return t.Reshape(x.Shape...), tail, nil
}

// checkTensor checks what is said of a tensor.
func checkTensor(name, datatype string, shape []int) (tensor.DType, error) {
	d, ok := dtypeNamed(datatype)
	if !ok {
		return d, invalid("inputs."+name, "there is no datatype %q", datatype)
	}
	if slices.ContainsFunc(shape, func(n int) bool { return n < 0 }) {
		return d, invalid("inputs."+name, "the shape %v has a negative size", shape)
	}
	if _, err := tensor.Shape(shape).CheckElements(d); err != nil {
		return d, invalid("inputs."+name, "%v", err)
	}
	return d, nil
}

// ReadRawTensor reads a tensor as the protocol writes it in binary: elements one after the other, little-endian; strings
// with their lengths in four bytes before them. It fails with status 400 (see Status) if the data does not have the type and
// the shape.
func ReadRawTensor(name, datatype string, shape []int, data []byte) (*tensor.Tensor, error) {
	d, err := checkTensor(name, datatype, shape)
	if err != nil {
		return nil, err
	}
	if d != tensor.String {
		t, err := tensor.FromBytes(d, shape, data)
		if err != nil {
			return nil, invalid("inputs."+name, "%v", err)
		}
		return t.Clone(), nil // aligned, and without the rest of the body
	}
	var list []string
	for len(data) > 0 {
		if len(data) < 4 || uint64(len(data)-4) < uint64(binary.LittleEndian.Uint32(data)) {
			return nil, invalid("inputs."+name, "a string is longer than what is left of the data")
		}
		n := 4 + int(binary.LittleEndian.Uint32(data))
		list, data = append(list, string(data[4:n])), data[n:]
	}
	if n := tensor.Shape(shape).Elements(); n != len(list) {
		return nil, invalid("inputs."+name, "the shape %v has %d elements, and the data %d", shape, n, len(list))
	}
	return tensor.FromStrings(list, shape...), nil
}

// RawTensor writes what ReadRawTensor reads.
func RawTensor(t *tensor.Tensor) []byte {
	if t.DType() != tensor.String {
		return t.Bytes()
	}
	var out []byte
	for _, s := range t.Strings() {
		out = append(binary.LittleEndian.AppendUint32(out, uint32(len(s))), s...)
	}
	return out
}
