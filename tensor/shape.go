package tensor

import (
	"fmt"
	"math"
	"strconv"
	"strings"
)

// A Shape is the size of a tensor along each axis. Nil and the empty shape are those of a scalar.
type Shape []int

// Elements is the product of the sizes. Shapes from untrusted input must have passed CheckElements.
func (s Shape) Elements() int {
	n := 1
	for _, d := range s {
		n *= d
	}
	return n
}

// CheckElements is Elements for untrusted shapes. It fails for negative sizes, and for products beyond int or the address space.
func (s Shape) CheckElements(d DType) (int, error) {
	n, zero, large := 1, false, false
	for i, k := range s {
		switch {
		case k < 0:
			return 0, fmt.Errorf("axis %d has negative size %d", i, k)
		case k == 0:
			zero = true
		case n > math.MaxInt64/16/k:
			large = true
		default:
			n *= k
		}
	}
	switch {
	case zero:
		return 0, nil
	case large:
		return 0, fmt.Errorf("shape %v of %s is larger than memory", s.Clone(), d) // a copy, or s would be on the heap
	}
	return n, nil
}

// elements returns the number of elements, as CheckElements does, and panics if the shape is invalid, which is a mistake of the caller.
func (s Shape) elements(function string, d DType) int {
	n, err := s.CheckElements(d)
	if err != nil {
		panic("tensor." + function + ": " + err.Error())
	}
	return n
}

// Equal reports whether two shapes have the same rank and sizes.
func (s Shape) Equal(t Shape) bool {
	if len(s) != len(t) {
		return false
	}
	for i := range s {
		if s[i] != t[i] {
			return false
		}
	}
	return true
}

// Strides are the row-major strides in elements.
func (s Shape) Strides() []int {
	st := make([]int, len(s))
	n := 1
	for i := len(s) - 1; i >= 0; i-- {
		st[i] = n
		n *= s[i]
	}
	return st
}

// Clone copies the shape.
func (s Shape) Clone() Shape { return append(Shape{}, s...) }

// String prints "[2,3]".
func (s Shape) String() string {
	var b strings.Builder
	b.WriteByte('[')
	for i, d := range s {
		if i > 0 {
			b.WriteByte(',')
		}
		b.WriteString(strconv.Itoa(d))
	}
	b.WriteByte(']')
	return b.String()
}

// Broadcast returns the shape that a and b broadcast to by NumPy's rules, which are ONNX's (Broadcasting.md). It fails if
// they do not broadcast.
func Broadcast(a, b Shape) (Shape, error) {
	if len(a) < len(b) {
		a, b = b, a
	}
	out := a.Clone()
	off := len(a) - len(b)
	for i, d := range b {
		switch c := out[off+i]; {
		case c == d || d == 1:
		case c == 1:
			out[off+i] = d
		default:
			return nil, fmt.Errorf("shapes %v and %v do not broadcast: axis %d is %d and %d", a, b, off+i, c, d)
		}
	}
	return out, nil
}
