package native

import "github.com/rlxc/rlxc/internal/dynlib"

// proc is the address of a C function.
type proc uintptr

// call runs a C function. Pointers to Go memory must be converted to uintptr in the call itself, which keeps them alive.
//
//go:uintptrescapes
func (p proc) call(args ...uintptr) uintptr {
	return dynlib.Call(uintptr(p), args...)
}

// A caller runs C functions through separate arguments, so that a call takes nothing from the heap. One goroutine at a
// time uses it. Pointers among the arguments must lead to memory of the heap that something else keeps alive: a stack may
// move while the function calls back.
type caller struct {
	args [11]uintptr
	info callbackInfo
}

func (c *caller) invoke(p proc, args ...uintptr) uintptr {
	n := copy(c.args[:], args)
	return dynlib.Call(uintptr(p), c.args[:n]...)
}
