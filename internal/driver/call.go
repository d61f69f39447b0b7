package driver

import (
	"errors"
	"fmt"
	"unsafe"

	"github.com/rlxc/rlxc/internal/dynlib"
)

// proc is the address of a C function.
type proc uintptr

// An Error is what a function of the driver returned.
type Error struct {
	Call string // the C function
	Code int    // CUresult
	Name string // "CUDA_ERROR_OUT_OF_MEMORY"
	Text string // the driver's own words
}

func (e *Error) Error() string {
	for _, k := range known {
		if k.code == e.Code {
			return fmt.Sprintf("%s (%s in %s)", k.err, e.Name, e.Call)
		}
	}
	return fmt.Sprintf("the NVIDIA driver reports %q (%s in %s)", e.Text, e.Name, e.Call)
}

// Is implements errors.Is for the errors below.
func (e *Error) Is(target error) bool {
	for _, k := range known {
		if k.code == e.Code && k.err == target {
			return true
		}
	}
	return false
}

// Errors whose causes users can remove.
var (
	ErrMemory    = errors.New("the device is out of memory")
	ErrNoDevice  = errors.New("the driver finds no NVIDIA device")
	ErrMismatch  = errors.New("the driver's library does not fit the kernel's module: restart the machine, or install one version of both")
	ErrBusy      = errors.New("the device cannot be used: it is in exclusive mode and another process has it, or it is in prohibited mode")
	ErrLost      = errors.New("the device was lost: open it again")
	ErrKernel    = errors.New("a kernel failed, which ends the use of the device in this process")
	ErrPTX       = errors.New("the driver cannot compile a kernel's PTX: it may be too old")
	ErrNoKernel  = errors.New("the kernel is not for this device")
	ErrResources = errors.New("the device has too few resources for a kernel")
)

var known = []struct {
	code int
	err  error
}{
	{2, ErrMemory}, {100, ErrNoDevice}, {803, ErrMismatch}, {46, ErrBusy}, {101, ErrNoDevice}, {201, ErrLost}, {709, ErrLost},
	{209, ErrNoKernel}, {218, ErrPTX}, {222, ErrPTX}, {700, ErrKernel}, {715, ErrKernel}, {716, ErrKernel}, {717, ErrKernel},
	{718, ErrKernel}, {719, ErrKernel}, {701, ErrResources}, {999, ErrLost},
}

// check runs a C function and makes its result an error. Pointers to Go memory must be converted to uintptr in the call itself,
// which keeps them alive.
//
//go:uintptrescapes
func (l *Library) check(p proc, name string, args ...uintptr) error {
	r := dynlib.Call(uintptr(p), args...)
	return l.result(name, r)
}

func (l *Library) result(name string, r uintptr) error {
	code := int(int32(r))
	if code == 0 {
		return nil
	}
	return &Error{Call: name, Code: code, Name: l.text(l.c.GetErrorName, code), Text: l.text(l.c.GetErrorString, code)}
}

// text asks the driver for the words of an error.
func (l *Library) text(p proc, code int) string {
	s := new(*byte)
	dynlib.Call(uintptr(p), uintptr(code), uintptr(unsafe.Pointer(s)))
	if *s == nil {
		return fmt.Sprint("error ", code)
	}
	return dynlib.Text(*s)
}
