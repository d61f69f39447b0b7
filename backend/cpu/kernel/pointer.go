package kernel

import "unsafe"

// pointer gives the address of the first element, or nil if there is none.
func pointer[T any](s []T) *T { return unsafe.SliceData(s) }

// pointerAt gives the address of an element, or nil for an empty slice.
func pointerAt[T any](s []T, i int) *T {
	if len(s) == 0 {
		return nil
	}
	return &s[i]
}

// offset moves a pointer by n elements, inside its memory.
func offset[T any](p *T, n int) *T {
	return (*T)(unsafe.Add(unsafe.Pointer(p), n*int(unsafe.Sizeof(*p))))
}

// elementsOf reads memory, which is aligned for it, as elements of another type.
func elementsOf[T any](memory []byte) []T {
	var t T
	return unsafe.Slice((*T)(unsafe.Pointer(unsafe.SliceData(memory))), len(memory)/int(unsafe.Sizeof(t)))
}

// floats takes n float32 from the start of scratch memory.
func floats(scratch []byte, n int) []float32 { return elementsOf[float32](scratch)[:n:n] }
