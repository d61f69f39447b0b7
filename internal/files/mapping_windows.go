package files

import (
	"errors"
	"os"
	"syscall"
	"unsafe"
)

func mapFile(f *os.File, size int) ([]byte, error) {
	section, err := syscall.CreateFileMapping(syscall.Handle(f.Fd()), nil, syscall.PAGE_READONLY, 0, 0, nil)
	if err != nil {
		return nil, os.NewSyscallError("CreateFileMapping", err)
	}
	defer syscall.CloseHandle(section) // the view keeps the section
	base, err := syscall.MapViewOfFile(section, syscall.FILE_MAP_READ, 0, 0, uintptr(size))
	if err != nil {
		return nil, os.NewSyscallError("MapViewOfFile", err)
	}
	// The conversion goes through the variable's address because vet takes every uintptr for memory that Go may move.
	return unsafe.Slice(*(**byte)(unsafe.Pointer(&base)), size), nil
}

// MapMemory leaves memory to Go.
func MapMemory(int) ([]byte, error) { return nil, errors.ErrUnsupported }

// Unmap ends a mapping.
func Unmap(data []byte) error {
	return os.NewSyscallError("UnmapViewOfFile", syscall.UnmapViewOfFile(uintptr(unsafe.Pointer(&data[0]))))
}

// evictFile leaves it to the system, which trims working sets anyway.
func evictFile([]byte) {}

// releasePages leaves the pages where they are.
func releasePages([]byte) {}

// duplicate returns nil: a file that is mapped cannot be truncated or deleted, and a second handle would be in the way of renames.
func duplicate(*os.File) *os.File { return nil }
