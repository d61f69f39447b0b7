package tensor

import (
	"errors"
	"unsafe"
)

// A Slab is memory for many buffers that are made one after the other and live as long as each other, such as the weights
// of a model. It asks for huge pages: weights are read from end to end in every run, and a small page every 4 KiB costs more
// than the reading. And it takes them from the system where it can, not from Go's heap, which would let as much garbage
// gather beside them before it collects. The zero value is ready for use.
type Slab struct {
	free   []byte
	before []byte   // free without the last buffer, if that is in it
	chunks [][]byte // of the system
}

const (
	hugePage  = 2 << 20
	slabChunk = 16 << 20
)

// Take returns n zeroed bytes whose base is aligned to 64.
func (s *Slab) Take(n int) []byte {
	size := (n + 63) &^ 63
	if size > len(s.free) {
		if size < hugePage && s.free == nil {
			s.before = nil
			return AlignedBytes(n) // a small model does not want large pages
		}
		s.grow(max(slabChunk, (size+hugePage-1)&^(hugePage-1)))
	}
	b := s.free[:n:n]
	s.before, s.free = s.free, s.free[size:]
	return b
}

// Return takes back the last buffer, which must not be touched any more.
func (s *Slab) Return(b []byte) {
	if s.before != nil {
		clear(b)
		s.free, s.before = s.before, nil
	}
}

// grow takes a chunk that starts on a large page.
func (s *Slab) grow(chunk int) {
	s.Trim()
	raw, err := mapMemory(chunk + hugePage)
	if err == nil {
		s.chunks = append(s.chunks, raw)
	} else {
		raw = make([]byte, chunk+hugePage)
	}
	skip := int(-uintptr(unsafe.Pointer(&raw[0])) & (hugePage - 1))
	s.free = raw[skip : skip+chunk]
	adviseHuge(s.free)
}

// Tensor is Take for a tensor.
func (s *Slab) Tensor(d DType, shape ...int) *Tensor {
	return &Tensor{dtype: d, shape: Shape(shape).Clone(), data: s.Take(d.Bytes(Shape(shape).Elements()))}
}

// Trim returns to the system what no buffer has taken: a large page reaches beyond the last one.
func (s *Slab) Trim() {
	ReleasePages(s.free)
	s.free, s.before = nil, nil
}

// Close releases all buffers: they must not be touched any more. It fails with an error of unmapping.
func (s *Slab) Close() error {
	var errs []error
	for _, c := range s.chunks {
		errs = append(errs, unmap(c))
	}
	*s = Slab{}
	return errors.Join(errs...)
}
