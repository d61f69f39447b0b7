package arena

import (
	"fmt"
	"unsafe"

	"github.com/rlxc/rlxc/tensor"
)

// Arena is the memory of one session: one allocation that holds every planned buffer of a layout.
// One goroutine uses it at a time.
type Arena struct {
	layout  *Layout
	memory  []byte // as long as the layout asks; its capacity may be larger
	lengths map[int]int
}

// New allocates an arena. Its bytes are zero.
func New(l *Layout) *Arena {
	return &Arena{layout: l, memory: allocate(l.size, l.align)}
}

// allocate returns zeroed bytes on an aligned address.
func allocate(size, align int64) []byte {
	raw := make([]byte, size+align-1)
	skip := -int64(uintptr(unsafe.Pointer(unsafe.SliceData(raw)))) & (align - 1)
	return raw[skip : skip+size : skip+size]
}

// Rebind gives the arena another layout: that of another shape, say. It allocates only when the
// memory at hand is too small. What it holds is lost.
func (a *Arena) Rebind(l *Layout) {
	address := int64(uintptr(unsafe.Pointer(unsafe.SliceData(a.memory))))
	if l.size <= int64(cap(a.memory)) && address%l.align == 0 {
		a.memory = a.memory[:l.size]
	} else {
		a.memory = allocate(l.size, l.align)
	}
	a.layout = l
	clear(a.lengths)
}

// Layout returns where the buffers lie.
func (a *Arena) Layout() *Layout { return a.layout }

// Memory returns all bytes of the arena; Layout.Offset says what lies where.
func (a *Arena) Memory() []byte { return a.memory }

// Bytes returns the memory of a buffer, as long as its actual length.
func (a *Arena) Bytes(buffer int) ([]byte, error) {
	offset, err := a.layout.Offset(buffer)
	if err != nil {
		return nil, err
	}
	n := a.layout.Capacity(buffer)
	if length, ok := a.lengths[buffer]; ok {
		n = int64(a.layout.DType(buffer).Bytes(length))
	}
	return a.memory[offset : offset+n : offset+n], nil
}

// Length returns the number of elements that a buffer holds: what SetLength said, else all that
// were planned.
func (a *Arena) Length(buffer int) int {
	if n, ok := a.lengths[buffer]; ok {
		return n
	}
	return a.layout.elements(buffer)
}

// SetLength tells how many elements a buffer really holds, where its shape depends on data and
// only an upper bound was planned.
func (a *Arena) SetLength(buffer, elements int) error {
	if _, err := a.layout.Offset(buffer); err != nil {
		return err
	}
	if limit := a.layout.elements(buffer); elements < 0 || elements > limit {
		return fmt.Errorf("buffer %d (%s): %d elements, planned for 0 to %d", buffer, a.layout.problem.Buffers[buffer].Name, elements, limit)
	}
	if a.lengths == nil {
		a.lengths = map[int]int{}
	}
	a.lengths[buffer] = elements
	return nil
}

// Slice returns the elements of a buffer. T must be the Go type of the buffer's DType; uint16 also
// stands for the 16-bit floats, whose bits it then holds.
func Slice[T tensor.Element](a *Arena, buffer int) ([]T, error) {
	b, err := a.Bytes(buffer)
	if err != nil {
		return nil, err
	}
	return cast[T](a.layout, buffer, b)
}

// View returns n elements from byte offset on inside a buffer, as a view of its root has them.
func View[T tensor.Element](a *Arena, buffer int, offset int64, n int) ([]T, error) {
	b, err := a.Bytes(buffer)
	if err != nil {
		return nil, err
	}
	var zero T
	width := int64(unsafe.Sizeof(zero))
	if offset < 0 || n < 0 || offset > int64(len(b)) || int64(n) > (int64(len(b))-offset)/width {
		return nil, fmt.Errorf("buffer %d (%s): a view of %d elements at byte %d leaves its %d bytes", buffer, a.layout.problem.Buffers[buffer].Name, n, offset, len(b))
	}
	if offset%width != 0 {
		return nil, fmt.Errorf("buffer %d (%s): a view at byte %d is not aligned to its %d-byte elements", buffer, a.layout.problem.Buffers[buffer].Name, offset, width)
	}
	return cast[T](a.layout, buffer, b[offset:offset+int64(n)*width])
}

// cast sees the bytes of a buffer as elements.
func cast[T tensor.Element](l *Layout, buffer int, b []byte) ([]T, error) {
	have, want := l.DType(buffer), tensor.FromSlice[T](nil).DType()
	bits := want == tensor.U16 && (have == tensor.F16 || have == tensor.BF16)
	if want == tensor.Invalid || want != have && !bits {
		var zero T
		return nil, fmt.Errorf("buffer %d (%s) holds %s, not %T", buffer, l.problem.Buffers[buffer].Name, have, zero)
	}
	if len(b) == 0 {
		return []T{}, nil
	}
	var zero T
	return unsafe.Slice((*T)(unsafe.Pointer(&b[0])), len(b)/int(unsafe.Sizeof(zero))), nil
}
