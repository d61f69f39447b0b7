// Package drivertest is a driver library in Go for tests without a device. It holds every call to what the real one asks for:
// arguments, order, and that what is taken is given back. Kernels do nothing, unless a test runs them (Emulator).
package drivertest

import (
	"fmt"
	"reflect"
	"regexp"
	"strings"
	"sync"
	"testing"
	"unsafe"

	"github.com/rlxc/rlxc/internal/dynlib"

	"github.com/rlxc/rlxc/internal/driver"
)

// A Driver is the state of the library.
type Driver struct {
	Name        string         // name of the device
	Capability  int            // compute capability of the device: 90 for 9.0
	Version     int32          // version of the driver
	Devices     int32          // number of devices
	NoCode      bool           // the driver refuses machine code that it did not compile itself
	Fail        map[string]int // status codes that functions return, by C name
	FailAt      int            // n > 0: the n-th call from now on fails, not counting calls that release something
	Calls       map[string]int // number of calls, by C name
	Kernels     map[string]int // number of recorded launches, by name of the kernel
	Copied      map[string]int // bytes of recorded copies, by direction: "up", "down", "on the device"
	Early       int            // number of launches that may start before the launch ahead of them has ended
	Sources     []string       // the sources that NVRTC compiled; it refuses sources that contain "refuse me"
	Log         []string       // names of the calls that run, copy or wait, in order
	Run         func(Launch)   // runs a kernel; if it is nil, graphs neither run kernels nor copy
	Free        int            // bytes of device memory that are free when the test begins
	Peak        int            // the most bytes of device memory that were allocated at a time
	recorded    []func()       // steps of the graph that is being captured
	graphs      map[uintptr][]func()
	mu          sync.Mutex
	problems    []string
	initialised bool
	context     int
	next        uintptr
	memory      map[uintptr][]byte
	held        int // bytes in memory
	pinned      map[uintptr][]byte
	functions   map[uintptr]string
	allowed     map[uintptr]uintptr // dynamic shared memory
	live        map[uintptr]string  // kind of each object that was not released, such as "stream", by handle
	capturing   uintptr             // stream that is being captured; 0 for none
	last        string              // name of the last recorded step
	names       [][]byte            // strings that calls returned
	sources     map[uintptr]string  // source of each program of NVRTC, by handle
	modules     [][]byte
}

// A Launch is a kernel with its parameters.
type Launch struct {
	Kernel  string
	Blocks  [3]uint32
	Threads int
	Params  []byte // and what follows them
}

// mostParams is more than the size of any kernel's parameters, which the driver knows and this one does not.
const mostParams = 2048

const (
	failed      = 999
	outOfMemory = 2
)

// lasting are calls that need no memory.
var lasting = regexp.MustCompile("Free|Destroy|Unload|Release|EndCapture|GetError|SetCurrent")

// New registers a fake library, and NVRTC beside it, which package driver finds until the test ends.
func New(t testing.TB) *Driver {
	t.Helper()
	d := &Driver{Name: "Fake", Capability: 90, Version: 12040, Devices: 1, Free: 1 << 33, Fail: map[string]int{}, Calls: map[string]int{},
		Kernels: map[string]int{}, Copied: map[string]int{}, next: 1 << 20, graphs: map[uintptr][]func(){},
		memory: map[uintptr][]byte{}, pinned: map[uintptr][]byte{}, functions: map[uintptr]string{}, allowed: map[uintptr]uintptr{},
		live: map[uintptr]string{}, sources: map[uintptr]string{}}
	path := "fake driver of " + t.Name()
	use(d)
	if err := driver.RegisterCompiler(path, find); err != nil {
		t.Fatal(err)
	}
	t.Setenv(driver.EnvCompiler, path)
	if _, err := driver.Register(path, find); err != nil {
		t.Fatal(err)
	}
	t.Setenv(driver.EnvLibrary, path)
	t.Cleanup(func() {
		d.mu.Lock()
		defer d.mu.Unlock()
		for _, p := range d.problems {
			t.Error(p)
		}
		if d.context > 0 {
			t.Errorf("the context was retained %d times more than released", d.context)
		}
		if len(d.memory) > 0 || len(d.pinned) > 0 || len(d.live) > 0 {
			t.Errorf("%d allocations, %d of pinned memory and %v were not given back", len(d.memory), len(d.pinned), d.live)
		}
	})
	return d
}

// Callbacks of C cannot be given back, so there is one for each function, which calls the test's driver.
var (
	currentMu sync.Mutex
	current   *Driver
	callbacks = map[string]uintptr{}
)

func use(d *Driver) {
	currentMu.Lock()
	defer currentMu.Unlock()
	current = d
}

// find returns the address of a function.
func find(name string) (uintptr, error) {
	currentMu.Lock()
	defer currentMu.Unlock()
	if p, ok := callbacks[name]; ok {
		return p, nil
	}
	f, ok := functions[name]
	if !ok {
		return 0, fmt.Errorf("no function %s", name)
	}
	v := reflect.ValueOf(f)
	in := make([]reflect.Type, v.Type().NumIn()-1)
	for i := range in {
		in[i] = reflect.TypeFor[uintptr]()
	}
	callback := reflect.MakeFunc(reflect.FuncOf(in, []reflect.Type{reflect.TypeFor[uintptr]()}, false),
		func(args []reflect.Value) []reflect.Value {
			currentMu.Lock()
			d := current
			currentMu.Unlock()
			return []reflect.Value{reflect.ValueOf(d.call(name, v, args))}
		})
	callbacks[name] = dynlib.Callback(callback.Interface())
	return callbacks[name], nil
}

// call runs a function under the lock, unless it is to fail.
func (d *Driver) call(name string, f reflect.Value, args []reflect.Value) uintptr {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.Calls[name]++
	if code := d.Fail[name]; code != 0 {
		return uintptr(code)
	}
	if !lasting.MatchString(name) {
		if d.FailAt--; d.FailAt == 0 {
			return uintptr(outOfMemory)
		}
	}
	if !d.initialised && name != "cuInit" && name != "cuDriverGetVersion" && !strings.HasPrefix(name, "cuGetError") &&
		!strings.HasPrefix(name, "nvrtc") {
		d.problem("%s before cuInit", name)
	}
	return f.Call(append([]reflect.Value{reflect.ValueOf(d)}, args...))[0].Interface().(uintptr)
}

func (d *Driver) problem(format string, args ...any) uintptr {
	d.problems = append(d.problems, fmt.Sprintf(format, args...))
	return failed
}

// handle makes a handle of something that must be given back.
func (d *Driver) handle(what string, to uintptr) uintptr {
	d.next += 64
	d.live[d.next] = what
	put(to, d.next)
	return 0
}

// drop releases a handle.
func (d *Driver) drop(what string, h uintptr) uintptr {
	if d.live[h] != what {
		return d.problem("%#x is %q and no %s", h, d.live[h], what)
	}
	delete(d.live, h)
	return 0
}

func (d *Driver) is(what string, h uintptr) bool {
	if d.live[h] != what {
		d.problem("%#x is %q and no %s", h, d.live[h], what)
		return false
	}
	return true
}

// within reports whether that many bytes at p are in an allocation.
func (d *Driver) within(what string, in map[uintptr][]byte, p, n uintptr) bool {
	for at, b := range in {
		if p >= at && p+n <= at+uintptr(len(b)) {
			return true
		}
	}
	d.problem("%s: %d bytes at %#x are in no allocation", what, n, p)
	return false
}

// at makes a pointer of an address that C code was given.
func at[T any](p uintptr) *T { return *(**T)(unsafe.Pointer(&p)) }

func put[T any](p uintptr, v T) { *at[T](p) = v }

func text(p uintptr) string {
	n := uintptr(0)
	for *at[byte](p + n) != 0 {
		n++
	}
	return string(unsafe.Slice(at[byte](p), n))
}

// name returns a string to the caller.
func (d *Driver) name(s string, to uintptr) uintptr {
	b := append([]byte(s), 0)
	d.names = append(d.names, b)
	put(to, &b[0])
	return 0
}
