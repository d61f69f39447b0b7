//go:build !windows && !static

package dynlib

import (
	"runtime"

	"github.com/ebitengine/purego"
)

// Open opens the library at a path, or of a name that the linker knows. It stays open.
func Open(path string) (uintptr, error) {
	runtime.LockOSThread() // an error's text belongs to the thread that saw it
	defer runtime.UnlockOSThread()
	return purego.Dlopen(path, purego.RTLD_NOW|purego.RTLD_LOCAL)
}

// Symbol returns the address of a function of an open library.
func Symbol(handle uintptr, name string) (uintptr, error) { return purego.Dlsym(handle, name) }
