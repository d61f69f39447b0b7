package tensor

import (
	"fmt"
	"unsafe"

	"github.com/x448/float16"
)

// A Tensor is a shape and row-major elements in little-endian bytes. It does not own the bytes, which may be a slice of a mapped file or
// of an arena. String tensors have their elements in a separate slice.
type Tensor struct {
	dtype DType
	shape Shape
	data  []byte
	strs  []string
	list  *list // elements of a sequence; nil for a tensor
}

// BFloat16 is the bit pattern of a bfloat16, for which Go has no type.
type BFloat16 uint16

// Element lists the Go types of a tensor's elements.
type Element interface {
	~float32 | ~float64 | ~int8 | ~int16 | ~int32 | ~int64 | ~uint8 | ~uint16 | ~uint32 | ~uint64 | ~bool |
		~complex64 | ~complex128
}

// dtypeOf returns the element type for a Go type.
func dtypeOf[T Element]() DType {
	var z T
	switch any(z).(type) {
	case float32:
		return F32
	case float64:
		return F64
	case int8:
		return I8
	case int16:
		return I16
	case int32:
		return I32
	case int64:
		return I64
	case uint8:
		return U8
	case uint16:
		return U16
	case uint32:
		return U32
	case uint64:
		return U64
	case bool:
		return Bool
	case complex64:
		return C64
	case complex128:
		return C128
	case float16.Float16:
		return F16
	case BFloat16:
		return BF16
	}
	return Invalid
}

// New makes a tensor of zeros. It panics for a negative size, or for more elements than memory holds: check untrusted shapes before (see
// Shape.CheckElements).
func New(d DType, shape ...int) *Tensor {
	n := Shape(shape).elements("New", d)
	t := &Tensor{dtype: d, shape: Shape(shape).Clone()}
	if d == String {
		t.strs = make([]string, n)
		return t
	}
	t.data = AlignedBytes(d.Bytes(n))
	return t
}

// AlignedBytes allocates n zero bytes aligned to 64, which suits vector loads and every dtype.
func AlignedBytes(n int) []byte {
	if n == 0 {
		return []byte{}
	}
	raw := make([]byte, n+63)
	off := int(-uintptr(unsafe.Pointer(&raw[0])) & 63)
	return raw[off : off+n : off+n]
}

// FromBytes returns a tensor that shares data. It fails if the length is not that of the shape and dtype.
func FromBytes(d DType, shape Shape, data []byte) (*Tensor, error) {
	if !d.Valid() || d == String {
		return nil, fmt.Errorf("a tensor of %s cannot be made from bytes", d)
	}
	n, err := shape.CheckElements(d)
	if err != nil {
		return nil, err
	}
	if want := d.Bytes(n); want != len(data) {
		return nil, fmt.Errorf("%s%v needs %d bytes, there are %d", d, shape, want, len(data))
	}
	return &Tensor{dtype: d, shape: shape.Clone(), data: data}, nil
}

// FromSlice makes a tensor that shares data. Without a shape it is a vector. It panics if len(data) is not the
// product of the sizes.
func FromSlice[T Element](data []T, shape ...int) *Tensor {
	if shape == nil {
		shape = []int{len(data)}
	}
	d := dtypeOf[T]()
	if Shape(shape).elements("FromSlice", d) != len(data) {
		panic(fmt.Sprintf("tensor.FromSlice: %d elements for shape %v", len(data), Shape(shape)))
	}
	var z T
	t := &Tensor{dtype: d, shape: Shape(shape).Clone()}
	if len(data) > 0 {
		t.data = unsafe.Slice((*byte)(unsafe.Pointer(&data[0])), len(data)*int(unsafe.Sizeof(z)))
	}
	return t
}

// FromStrings makes a string tensor. Without a shape it is a vector. It panics if len(data) is not the
// product of the sizes.
func FromStrings(data []string, shape ...int) *Tensor {
	if shape == nil {
		shape = []int{len(data)}
	}
	if Shape(shape).elements("FromStrings", String) != len(data) {
		panic(fmt.Sprintf("tensor.FromStrings: %d elements for shape %v", len(data), Shape(shape)))
	}
	return &Tensor{dtype: String, shape: Shape(shape).Clone(), strs: data}
}

// Scalar makes a tensor of rank 0.
func Scalar[T Element](v T) *Tensor { return FromSlice([]T{v}, []int{}...).reshapeScalar() }

func (t *Tensor) reshapeScalar() *Tensor { t.shape = Shape{}; return t }

// DType is the element type.
func (t *Tensor) DType() DType { return t.dtype }

// Shape is the size along each axis. Callers must not change it.
func (t *Tensor) Shape() Shape { return t.shape }

// Rank is the number of axes.
func (t *Tensor) Rank() int { return len(t.shape) }

// Len is the number of elements.
func (t *Tensor) Len() int { return t.shape.Elements() }

// Bytes is the row-major little-endian storage, shared with the tensor; nil for strings.
func (t *Tensor) Bytes() []byte { return t.data }

// Strings is the storage of a string tensor, shared with the tensor.
func (t *Tensor) Strings() []string { return t.strs }

// Of returns the elements as a Go slice that shares the tensor's memory. The Go type must have the width of the dtype, but may be of
// another kind, such as uint16 for F16. Of panics for a wrong width, a misaligned base, or a sequence, so check the dtype first.
func Of[T Element](t *Tensor) []T {
	if t == nil {
		panic("tensor.Of: the tensor is nil: is its name misspelt?")
	}
	var z T
	w := int(unsafe.Sizeof(z))
	if t.dtype.Size() != w {
		panic(fmt.Sprintf("tensor.Of: %d-byte elements asked of a %s tensor", w, t.dtype))
	}
	if len(t.data) == 0 {
		return []T{}
	}
	p := unsafe.Pointer(&t.data[0])
	if uintptr(p)%unsafe.Alignof(z) != 0 {
		panic(fmt.Sprintf("tensor.Of: %s tensor at a misaligned address", t.dtype))
	}
	return unsafe.Slice((*T)(p), len(t.data)/w)
}

// Aligned returns t if its bytes are aligned for its element type, and a copy otherwise. Weights in files may start anywhere.
func (t *Tensor) Aligned() *Tensor {
	if t.list != nil {
		elems := make([]*Tensor, len(t.list.elems))
		for i, e := range t.list.elems {
			elems[i] = e.Aligned()
		}
		return NewSequence(elems...)
	}
	w := t.dtype.Size()
	if w <= 1 || len(t.data) == 0 || uintptr(unsafe.Pointer(&t.data[0]))%uintptr(min(w, 8)) == 0 {
		return t
	}
	return t.Clone()
}

// Clone copies the elements.
func (t *Tensor) Clone() *Tensor {
	if t.list != nil {
		c := make([]*Tensor, len(t.list.elems))
		for i, e := range t.list.elems {
			c[i] = e.Clone()
		}
		return NewSequence(c...)
	}
	c := New(t.dtype, t.shape...)
	copy(c.data, t.data)
	copy(c.strs, t.strs)
	return c
}

// Reshape returns the same elements with another shape. It panics if the number of elements differs.
func (t *Tensor) Reshape(shape ...int) *Tensor {
	if Shape(shape).elements("Reshape", t.dtype) != t.Len() {
		panic(fmt.Sprintf("tensor.Reshape: %v to %v", t.shape, Shape(shape)))
	}
	c := *t
	c.shape = Shape(shape).Clone()
	return &c
}

// Bitcast returns the same bytes as another dtype of the same width.
func (t *Tensor) Bitcast(d DType) *Tensor {
	if d.Bits() != t.dtype.Bits() {
		panic(fmt.Sprintf("tensor.Bitcast: %s to %s", t.dtype, d))
	}
	c := *t
	c.dtype = d
	return &c
}

// String describes the tensor without its elements: "f32[2,3]".
func (t *Tensor) String() string {
	if t.list != nil {
		return t.sequenceString()
	}
	return t.dtype.String() + t.shape.String()
}
