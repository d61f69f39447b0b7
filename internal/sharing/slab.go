package sharing

import (
	"errors"
	"unsafe"

	"github.com/rlxc/rlxc/internal/files"
	"github.com/rlxc/rlxc/tensor"
)

// A Slab is memory for many buffers that are made one after the other and live as long as each other, such as the weights
// of a model. It asks for huge pages: weights are read from end to end in every run, and a small page every 4 KiB costs more
// than the reading. And it takes them from the system where it can, not from Go's heap, which would let as much garbage
// gather beside them before it collects. The zero value is ready for use.
type Slab struct {
	free   []byte
	before []byte   // free without the last buffer, if that is in it
	chunks [][]byte // memory from the operating system
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
			return tensor.AlignedBytes(n) // a small model does not want large pages
		}
		s.grow(max(slabChunk, (size+hugePage-1)&^(hugePage-1)))
	}
	b := s.free[:n:n]
	s.before, s.free = s.free, s.free[size:]
	return b
}

// GiveBack takes back the last buffer, which must not be touched any more.
func (s *Slab) GiveBack(b []byte) {
	if s.before != nil {
		clear(b)
		s.free, s.before = s.before, nil
	}
}

// grow takes a chunk that starts on a large page.
func (s *Slab) grow(chunk int) {
	s.Trim()
	raw, err := files.MapMemory(chunk + hugePage)
	if err == nil {
		s.chunks = append(s.chunks, raw)
	} else {
		raw = make([]byte, chunk+hugePage)
	}
	skip := int(-uintptr(unsafe.Pointer(&raw[0])) & (hugePage - 1))
	s.free = raw[skip : skip+chunk]
	files.AdviseHuge(s.free)
}

// Tensor is Take for a tensor.
func (s *Slab) Tensor(d tensor.DType, shape ...int) *tensor.Tensor {
	t, err := tensor.FromBytes(d, shape, s.Take(d.Bytes(tensor.Shape(shape).Elements())))
	if err != nil {
		panic(err) // of strings, which are not packed
	}
	return t
}

// Trim returns to the system what no buffer has taken: a large page reaches beyond the last one.
func (s *Slab) Trim() {
	files.ReleasePages(s.free)
	s.free, s.before = nil, nil
}

// Close releases all buffers: they must not be touched any more. It fails with an error of unmapping.
func (s *Slab) Close() error {
	var errs []error
	for _, c := range s.chunks {
		errs = append(errs, files.Unmap(c))
	}
	*s = Slab{}
	return errors.Join(errs...)
}
