package kernel

import (
	"fmt"
	"unsafe"
)

// pointer returns the address of the first element, or nil if there is none.
func pointer[T any](s []T) *T { return noescape(unsafe.SliceData(s)) }

// pointerAt returns the address of an element, or nil for an empty slice.
func pointerAt[T any](s []T, i int) *T {
	if len(s) == 0 {
		return nil
	}
	return noescape(&s[i])
}

// noescape hides p from escape analysis. Kernels are called through tables of functions, and the compiler assumes that such a function
// keeps its pointers. Every slice that a kernel reads would then be allocated on the heap in each run. Kernels keep no pointers, so this is
// safe.
//
// Between the two lines below, the address is a number. If the stack moved there, nothing would correct the number. So no call may be
// between the lines, and the race detector's check of pointers, which is a call, is off.
//
//go:nosplit
//go:nocheckptr
func noescape[T any](p *T) *T {
	bits := uintptr(unsafe.Pointer(p))
	return *(**T)(unsafe.Pointer(&bits))
}

// demand panics if s has fewer than n elements, as reading the last one would, but without reading it.
func demand[T any](s []T, n int) {
	if len(s) < n {
		panic(fmt.Sprintf("kernel: an operand of %d elements, %d are needed", len(s), n))
	}
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

// Floats reads memory, which is aligned for it, as float32.
func Floats(memory []byte) []float32 { return elementsOf[float32](memory) }

// bytesAs reads bytes as bytes of the other sign.
func bytesAs[T, F uint8 | int8](memory []F) []T {
	return unsafe.Slice((*T)(unsafe.Pointer(unsafe.SliceData(memory))), len(memory))
}

// bytesOfWords reads words as bytes.
func bytesOfWords(x []uint32) []byte {
	return unsafe.Slice((*byte)(unsafe.Pointer(unsafe.SliceData(x))), 4*len(x))
}

// bytesOfHalves reads 16-bit floats as bytes.
func bytesOfHalves(x []uint16) []byte {
	return unsafe.Slice((*byte)(unsafe.Pointer(unsafe.SliceData(x))), 2*len(x))
}

// bytesOfFloats reads floats as bytes.
func bytesOfFloats(x []float32) []byte {
	return unsafe.Slice((*byte)(unsafe.Pointer(unsafe.SliceData(x))), 4*len(x))
}
