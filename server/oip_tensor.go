package server

import (
	"bytes"
	"encoding/binary"
	"errors"
	"io"
	"net/http"
	"slices"
	"strconv"

	"github.com/rlxc/rlxc/internal/jsontext"
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
		if i := jsontext.NotUTF8(t.Strings()); i >= 0 {
			return failf(http.StatusUnprocessableEntity, "outputs",
				"output %q has %q at element %d, which is not UTF-8: ask for binary data", name, t.Strings()[i], i)
		}
		for i := range t.Len() {
			if !t.DType().IsFloat() {
				break
			}
			if v := t.Float64(i); !isFinite(v) {
				return failf(http.StatusUnprocessableEntity, "outputs",
					"output %q has %v at element %d, which JSON lacks: ask for binary data", name, v, i)
			}
		}
		r.Data = elements{t}
	}
	a.Outputs = append(a.Outputs, r)
	return nil
}

// An input is a tensor as a request declares it. Each protocol makes inputs by newInput, and their elements by the methods: sizes are
// compared with the bytes that are there before memory is taken, and a number that the type does not hold is an error.
type input struct {
	name     string
	dtype    tensor.DType
	shape    []int
	elements int // product of the shape; it does not overflow
}

// newInput checks what a request declares.
func newInput(name, datatype string, shape []int) (x input, err error) {
	x = input{name: name, shape: shape}
	var ok bool
	if x.dtype, ok = dtypeNamed(datatype); !ok {
		return x, x.wrong("unknown datatype %q", datatype)
	}
	if slices.ContainsFunc(shape, func(n int) bool { return n < 0 }) {
		return x, x.wrong("the shape %v has a negative size", x.shape)
	}
	if x.elements, err = tensor.Shape(shape).CheckElements(x.dtype); err != nil {
		return x, x.wrong("%v", err)
	}
	return x, nil
}

// field is the name of the input in errors.
func (x *input) field() string { return "inputs." + x.name }

func (x *input) wrong(format string, args ...any) error { return invalid(x.field(), format, args...) }

// count fails if the shape has another number of elements than the data.
func (x *input) count(n int) error {
	if n != x.elements {
		return x.wrong("the shape %v has %d elements, but the data has %d", x.shape, x.elements, n)
	}
	return nil
}

// fits fails if binary data of that many bytes cannot be the elements. A string has at least the four bytes of its length.
func (x *input) fits(bytes int) error {
	if x.dtype == tensor.String {
		if x.elements > bytes/4 {
			return x.wrong("the shape %v has %d elements, but the data has %d bytes", x.shape, x.elements, bytes)
		}
		return nil
	}
	if want := memory.Product(int64(x.elements), int64(x.dtype.Size())); want != int64(bytes) {
		return x.wrong("the shape %v of %s needs %d bytes, but the data has %d", x.shape, ours(datatypes[x.dtype]), want, bytes)
	}
	return nil
}

// of returns a vector of elements in the shape and type of the input.
func (x *input) of(t *tensor.Tensor) (*tensor.Tensor, error) {
	if err := x.count(t.Len()); err != nil {
		return nil, err
	}
	if t.DType() != x.dtype {
		var err error
		if t, err = t.Exact(x.dtype); err != nil {
			return nil, x.wrong("%v", err)
		}
	}
	return t.Reshape(x.shape...), nil
}

// raw reads elements as the protocol writes them in binary: one after the other, little-endian; strings with their lengths in four bytes
// before them; bools as bytes that are 0 or 1. It asks the share for the memory of the tensor.
func (x *input) raw(share *memory.Share, data []byte) (*tensor.Tensor, error) {
	if err := x.fits(len(data)); err != nil {
		return nil, err
	}
	if x.dtype == tensor.String {
		return x.rawStrings(share, data)
	}
	if err := share.Take(int64(len(data))); err != nil {
		return nil, err
	}
	stored := x.dtype
	if stored == tensor.Bool {
		stored = tensor.U8
	}
	t, err := tensor.FromBytes(stored, tensor.Shape{x.elements}, data)
	if err != nil {
		return nil, x.wrong("%v", err)
	}
	if stored == x.dtype {
		t = t.Clone() // aligned, and without the rest of the body
	}
	return x.of(t)
}

// perString is what an element of strings takes beside its text.
const perString = 16

func (x *input) rawStrings(share *memory.Share, data []byte) (*tensor.Tensor, error) {
	if err := share.Take(memory.Sum(int64(len(data)), memory.Product(int64(x.elements), perString))); err != nil {
		return nil, err
	}
	list := make([]string, 0, x.elements)
	for len(data) > 0 {
		if len(data) < 4 || uint64(len(data)-4) < uint64(binary.LittleEndian.Uint32(data)) || len(list) == x.elements {
			return nil, x.wrong("the data does not hold %d strings", x.elements)
		}
		end := 4 + int(binary.LittleEndian.Uint32(data))
		list, data = append(list, string(data[4:end])), data[end:]
	}
	if err := x.count(len(list)); err != nil {
		return nil, err
	}
	return tensor.FromStrings(list, x.shape...), nil
}

// json reads elements as JSON. It asks the share for the memory of the tensor.
func (x *input) json(share *memory.Share, data []byte) (*tensor.Tensor, error) {
	if len(data) == 0 || data[0] != '[' {
		return nil, x.wrong("want data: a list")
	}
	most := 1 + bytes.Count(data, []byte{','})
	if x.elements > most {
		return nil, x.count(most)
	}
	each := max(x.dtype.Size(), 1)
	if x.dtype == tensor.String {
		each = perString
	}
	if err := share.Take(memory.Product(int64(most), int64(each))); err != nil {
		return nil, err
	}
	t, err := tensor.ParseJSON(data, x.dtype)
	if err != nil {
		return nil, x.wrong("%v", err)
	}
	return x.of(t)
}

// tensor reads an input, whose data may follow the JSON of the body.
func (c *call) tensor(q *oipInput) (*tensor.Tensor, error) {
	x, err := newInput(q.Name, q.Datatype, q.Shape)
	if err != nil {
		return nil, err
	}
	size := q.Parameters.Size
	switch {
	case size == nil:
		return x.json(c.share(), q.Data)
	case q.Data != nil:
		return nil, x.wrong("it has both data and binary_data_size: want one of them")
	case *size < 0 || c.request.Header.Get(binaryHead) == "":
		return nil, x.wrong("binary_data_size is %d, but there is no binary data: set the header %s", *size, ours(binaryHead))
	}
	if err := x.fits(*size); err != nil {
		return nil, err
	}
	data, err := c.tail(x.field(), *size)
	if err != nil {
		return nil, err
	}
	return x.raw(c.share(), data)
}

// tail reads that many bytes of what follows the JSON, as they come.
func (c *call) tail(field string, size int) (data []byte, err error) {
	in := io.LimitReader(c.body, int64(size))
	buffer := make([]byte, scanBuffer)
	for err == nil {
		var n int
		if n, err = in.Read(buffer); n > 0 {
			var full error
			if data, full = extend(c.share(), data, buffer[:n]...); full != nil {
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

// rawTensor writes what input.raw reads.
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
