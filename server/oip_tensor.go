package server

import (
	"bytes"
	"encoding/binary"
	"errors"
	"io"
	"math"
	"net/http"
	"slices"
	"strconv"

	"github.com/rlxc/rlxc/internal/memory"
	"github.com/rlxc/rlxc/tensor"
)

// datatypes are the names of element types in the Open Inference Protocol.
var datatypes = map[tensor.DType]string{tensor.Bool: "BOOL", tensor.U8: "UINT8", tensor.U16: "UINT16", tensor.U32: "UINT32",
	tensor.U64: "UINT64",
	tensor.I8:  "INT8", tensor.I16: "INT16", tensor.I32: "INT32", tensor.I64: "INT64", tensor.F16: "FP16", tensor.BF16: "BF16",
	tensor.F32: "FP32",
	tensor.F64: "FP64", tensor.String: "BYTES"}

func dtypeNamed(name string) (tensor.DType, bool) {
	for d, n := range datatypes {
		if n == name {
			return d, true
		}
	}
	return tensor.Invalid, false
}

// elements are those of a tensor, in a list without the shape.
type elements struct{ *tensor.Tensor }

func (elements) wanted() string { return "a list" }
func (elements) schema() schema { return schema{} }

// stream implements streamed.
func (x elements) stream(e *encoder) error {
	t := x.Tensor
	return e.list(t.Len(), func(i int) error {
		switch d := t.DType(); {
		case d == tensor.String:
			return e.string(t.Strings()[i])
		case d == tensor.Bool:
			e.piece = strconv.AppendBool(e.piece, t.Int64(i) != 0)
		case d == tensor.U64:
			e.piece = strconv.AppendUint(e.piece, tensor.Of[uint64](t)[i], 10)
		case d == tensor.F32:
			return e.float(t.Float64(i), 32)
		case d.IsFloat():
			return e.float(t.Float64(i), 64)
		default:
			e.piece = strconv.AppendInt(e.piece, t.Int64(i), 10)
		}
		return e.put()
	})
}

// add adds an output to an answer, whose tensor it keeps.
func (a *oipAnswer) add(name string, t *tensor.Tensor, binary bool) error {
	r := oipResult{Name: name, Shape: append([]int{}, t.Shape()...), Datatype: datatypes[t.DType()]}
	switch {
	case r.Datatype == "":
		return failf(http.StatusUnprocessableEntity, "", "output %q is of type %v, which the protocol does not support", name, t.DType())
	case binary:
		size := rawSize(t)
		r.Parameters.Size = &size
		a.binary = append(a.binary, t)
	default:
		for i := range t.Len() {
			if !t.DType().IsFloat() {
				break
			}
			if v := t.Float64(i); math.IsNaN(v) || math.IsInf(v, 0) {
				return failf(http.StatusUnprocessableEntity, "outputs",
					"output %q has %v at element %d, which JSON lacks: ask for binary data", name, v, i)
			}
		}
		r.Data = elements{t}
	}
	a.Outputs = append(a.Outputs, r)
	return nil
}

// tensor reads an input, whose data may follow the JSON of the body. What it takes is asked for first.
func (c *call) tensor(x *oipInput) (*tensor.Tensor, error) {
	field := "inputs." + x.Name
	d, err := checkTensor(x.Name, x.Datatype, x.Shape)
	if err != nil {
		return nil, err
	}
	share := memory.ShareOf(c.ctx)
	if size := x.Parameters.Size; size != nil {
		data, err := c.tail(field, *size)
		if err == nil {
			err = share.Take(int64(len(data) + perString*tensor.Shape(x.Shape).Elements()))
		}
		if err != nil {
			return nil, err
		}
		return readRaw(x.Name, x.Datatype, x.Shape, data)
	}
	if len(x.Data) == 0 || x.Data[0] != '[' {
		return nil, invalid(field, "want data: a list")
	}
	each := max(d.Size(), 1)
	if d == tensor.String {
		each = perString
	}
	if err := share.Take(int64(each * (1 + bytes.Count(x.Data, []byte{','})))); err != nil {
		return nil, err
	}
	t, err := tensor.ParseJSON(x.Data, d)
	if err != nil {
		return nil, invalid(field, "%v", err)
	}
	if t.Len() != tensor.Shape(x.Shape).Elements() {
		return nil, invalid(field, "the shape %v has %d elements, but the data has %d", x.Shape, tensor.Shape(x.Shape).Elements(), t.Len())
	}
	return t.Reshape(x.Shape...), nil
}

// perString is what an element of strings takes beside its text.
const perString = 16

// tail reads that many bytes of what follows the JSON, as they come.
func (c *call) tail(field string, size int) (data []byte, err error) {
	if size < 0 || c.request.Header.Get(binaryHead) == "" {
		return nil, invalid(field, "binary_data_size is %d, but there is no binary data: set the header %s", size, ours(binaryHead))
	}
	in := io.LimitReader(c.body, int64(size))
	buffer := make([]byte, scanBuffer)
	for err == nil {
		var n int
		if n, err = in.Read(buffer); n > 0 {
			var full error
			if data, full = extend(memory.ShareOf(c.ctx), data, buffer[:n]...); full != nil {
				return nil, full
			}
		}
	}
	if err = bodyError(err); !errors.Is(err, io.EOF) {
		return nil, err
	}
	if len(data) < size {
		return nil, invalid(field, "binary_data_size is %d, but only %d bytes are left", size, len(data))
	}
	return data, nil
}

// checkTensor checks what is said of a tensor.
func checkTensor(name, datatype string, shape []int) (tensor.DType, error) {
	d, ok := dtypeNamed(datatype)
	if !ok {
		return d, invalid("inputs."+name, "unknown datatype %q", datatype)
	}
	if slices.ContainsFunc(shape, func(n int) bool { return n < 0 }) {
		return d, invalid("inputs."+name, "the shape %v has a negative size", shape)
	}
	if _, err := tensor.Shape(shape).CheckElements(d); err != nil {
		return d, invalid("inputs."+name, "%v", err)
	}
	return d, nil
}

// readRaw reads a tensor as the protocol writes it in binary: elements one after the other, little-endian; strings
// with their lengths in four bytes before them. It fails with status 400 if the data does not have the type and
// the shape.
func readRaw(name, datatype string, shape []int, data []byte) (*tensor.Tensor, error) {
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
	n := tensor.Shape(shape).Elements()
	if n > len(data)/4 {
		return nil, invalid("inputs."+name, "the shape %v has %d elements, but the data has %d bytes", shape, n, len(data))
	}
	list := make([]string, 0, n)
	for len(data) > 0 {
		if len(data) < 4 || uint64(len(data)-4) < uint64(binary.LittleEndian.Uint32(data)) || len(list) == n {
			return nil, invalid("inputs."+name, "the data does not hold %d strings", n)
		}
		end := 4 + int(binary.LittleEndian.Uint32(data))
		list, data = append(list, string(data[4:end])), data[end:]
	}
	if n != len(list) {
		return nil, invalid("inputs."+name, "the shape %v has %d elements, but the data has %d", shape, n, len(list))
	}
	return tensor.FromStrings(list, shape...), nil
}

func stringsOf(t *tensor.Tensor) []string {
	if t.DType() != tensor.String {
		return nil
	}
	return t.Strings()
}

// rawSize is how many bytes rawTensor writes.
func rawSize(t *tensor.Tensor) int {
	if t.DType() != tensor.String {
		return len(t.Bytes())
	}
	size := 0
	for _, s := range t.Strings() {
		size += 4 + len(s)
	}
	return size
}

// raw writes what rawTensor returns.
func (e *encoder) raw(t *tensor.Tensor) error {
	if t.DType() == tensor.String {
		for _, s := range t.Strings() {
			e.piece = binary.LittleEndian.AppendUint32(e.piece, uint32(len(s)))
			if err := e.put([]byte(s)...); err != nil {
				return err
			}
		}
		return nil
	}
	for data := t.Bytes(); len(data) > 0; {
		n := min(len(data), fullPiece)
		if err := e.put(data[:n]...); err != nil {
			return err
		}
		data = data[n:]
	}
	return nil
}

// rawTensor writes what readRaw reads.
func rawTensor(t *tensor.Tensor) []byte {
	if t.DType() != tensor.String {
		return bytes.Clone(t.Bytes())
	}
	var out []byte
	for _, s := range t.Strings() {
		out = append(binary.LittleEndian.AppendUint32(out, uint32(len(s))), s...)
	}
	return out
}
