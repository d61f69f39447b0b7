// Package driver calls NVIDIA's driver library, libcuda, which it opens at run time without cgo. It needs no toolkit: kernels
// come as PTX text, which the driver compiles.
package driver

import (
	"errors"
	"fmt"
	"os"
	"sync"
	"unsafe"

	"github.com/rlxc/rlxc/internal/dynlib"
)

// EnvLibrary names the environment variable that holds the path of the library; a path that does not open is an error.
const EnvLibrary = "RLXC_CUDA"

// oldest is the version of the driver's API that the kernels' PTX needs.
const oldest = 12000

// ErrNotFound: the library was not found.
var ErrNotFound = errors.New("no NVIDIA driver was found: libcuda.so.1 is missing (it comes with the driver; " +
	EnvLibrary + " may name its path)")

// procs are the functions in use; a field's name is the C name without "cu".
type procs struct {
	Init, DriverGetVersion, GetErrorName, GetErrorString                                                  proc
	DeviceGetCount, DeviceGet, DeviceGetName, DeviceGetAttribute, DeviceTotalMem_v2                       proc
	DevicePrimaryCtxRetain, DevicePrimaryCtxRelease_v2, CtxSetCurrent                                     proc
	CtxSynchronize, MemGetInfo_v2                                                                         proc
	MemAlloc_v2, MemFree_v2, MemHostAlloc, MemFreeHost                                                    proc
	MemcpyHtoD_v2, MemcpyDtoH_v2, MemcpyHtoDAsync_v2, MemcpyDtoHAsync_v2, MemcpyDtoDAsync_v2, MemsetD8_v2 proc
	LinkCreate_v2, LinkAddData_v2, LinkComplete, LinkDestroy                                              proc
	ModuleLoadData, ModuleUnload, ModuleGetFunction, FuncSetAttribute, LaunchKernelEx                     proc
	StreamCreate, StreamDestroy_v2, StreamSynchronize                                                     proc
	StreamBeginCapture_v2, StreamEndCapture                                                               proc
	GraphInstantiateWithFlags, GraphLaunch, GraphExecDestroy, GraphDestroy                                proc
	EventCreate, EventDestroy_v2, EventRecord, EventRecordWithFlags, EventSynchronize, EventElapsedTime   proc
	TensorMapEncodeTiled                                                                                  proc
}

// A Library is libcuda, opened and initialised. It stays open as long as the process lives.
type Library struct {
	Path string
	c    procs
}

var (
	librariesMu sync.Mutex
	libraries   = map[string]*Library{}
)

// Open opens the library at path; with an empty path it looks at the environment variable, then where drivers put it.
func Open(path string) (*Library, error) {
	if path == "" {
		path = os.Getenv(EnvLibrary)
	}
	if path != "" {
		return open(path)
	}
	for _, p := range libraryPaths {
		l, err := open(p)
		if err == nil || !errors.Is(err, errNoFile) {
			return l, err
		}
	}
	return nil, ErrNotFound
}

// errNoFile says that the linker does not find a library.
var errNoFile = errors.New("the NVIDIA driver's library cannot be opened")

func open(path string) (*Library, error) {
	librariesMu.Lock()
	defer librariesMu.Unlock()
	if l := libraries[path]; l != nil {
		return l, nil
	}
	handle, err := dynlib.Open(path)
	if err != nil {
		return nil, fmt.Errorf("%w: %v", errNoFile, err)
	}
	l, err := link(func(name string) (uintptr, error) { return dynlib.Symbol(handle, name) })
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	l.Path = path
	libraries[path] = l
	return l, nil
}

// Register makes functions known as the library at a path; tests bring a separate driver so.
func Register(path string, find func(name string) (uintptr, error)) (*Library, error) {
	l, err := link(find)
	if err != nil {
		return nil, err
	}
	l.Path = path
	librariesMu.Lock()
	defer librariesMu.Unlock()
	libraries[path] = l
	return l, nil
}

// link resolves all functions and initialises the library.
func link(find func(name string) (uintptr, error)) (*Library, error) {
	l := &Library{}
	if err := dynlib.Link(&l.c, "cu", find, "cuTensorMapEncodeTiled"); err != nil { // which drivers before 12 lack
		return nil, fmt.Errorf("this NVIDIA driver is too old, %w: install one for CUDA %d or newer", err, oldest/1000)
	}
	if err := l.check(l.c.Init, "cuInit", 0); err != nil {
		return nil, err
	}
	version, err := l.Version()
	if err != nil {
		return nil, err
	}
	if version < oldest {
		return nil, fmt.Errorf("the NVIDIA driver is for CUDA %d.%d: install one for CUDA %d or newer",
			version/1000, version%1000/10, oldest/1000)
	}
	return l, nil
}

// Version is the version of CUDA that the driver is for: 1000·major + 10·minor.
func (l *Library) Version() (int, error) {
	var v int32
	err := l.check(l.c.DriverGetVersion, "cuDriverGetVersion", uintptr(unsafe.Pointer(&v)))
	return int(v), err
}
