//go:build !static

package dynlib

import "syscall"

// Open opens the library at a path, or of a name that the loader knows. It stays open.
func Open(path string) (uintptr, error) {
	h, err := syscall.LoadLibrary(path)
	return uintptr(h), err
}

// Symbol returns the address of a function of an open library.
func Symbol(handle uintptr, name string) (uintptr, error) {
	return syscall.GetProcAddress(syscall.Handle(handle), name)
}
