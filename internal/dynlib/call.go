//go:build !static

package dynlib

import "github.com/ebitengine/purego"

// Call runs a C function of integers and pointers. Pointers to Go memory must be converted to uintptr in the call itself, which keeps them
// alive.
//
//go:uintptrescapes
func Call(f uintptr, args ...uintptr) uintptr {
	r, _, _ := purego.SyscallN(f, args...)
	return r
}

// Callback makes a Go function one that C can call. A process has at most 2000.
func Callback(f any) uintptr { return purego.NewCallback(f) }

// Func sets a Go function, of which f is a pointer, to a C function, for arguments or results that are floats.
func Func(f any, address uintptr) { purego.RegisterFunc(f, address) }
