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

// floats takes n float32 from the start of scratch memory, which is aligned for them.
func floats(scratch []byte, n int) []float32 {
	_ = scratch[:4*n]
	return unsafe.Slice((*float32)(unsafe.Pointer(unsafe.SliceData(scratch))), n)
}
