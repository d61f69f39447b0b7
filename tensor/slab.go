package tensor

import "unsafe"

// A Slab is memory for many buffers that are made one after the other and live as long as each other, such as the weights
// of a model. It asks for huge pages: weights are read from end to end in every run, and a small page every 4 KiB costs more
// than the reading. The zero value is ready for use.
type Slab struct{ free []byte }

const (
	hugePage  = 2 << 20
	slabChunk = 16 << 20
)

// Take gives n zeroed bytes whose base is aligned to 64.
func (s *Slab) Take(n int) []byte {
	size := (n + 63) &^ 63
	if size > len(s.free) {
		if size < hugePage && s.free == nil {
			return AlignedBytes(n) // a small model does not want large pages
		}
		chunk := max(slabChunk, (size+hugePage-1)&^(hugePage-1))
		raw := make([]byte, chunk+hugePage)
		skip := int(-uintptr(unsafe.Pointer(&raw[0])) & (hugePage - 1))
		s.free = raw[skip : skip+chunk]
		adviseHuge(s.free)
	}
	b := s.free[:n:n]
	s.free = s.free[size:]
	return b
}

// Tensor is Take for a tensor.
func (s *Slab) Tensor(d DType, shape ...int) *Tensor {
	return &Tensor{dtype: d, shape: Shape(shape).Clone(), data: s.Take(d.Bytes(Shape(shape).Elements()))}
}
