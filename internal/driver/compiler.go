package driver

import (
	"errors"
	"fmt"
	"os"
	"strings"
	"sync"
	"unsafe"

	"github.com/rlxc/rlxc/internal/dynlib"
)

// EnvCompiler names the environment variable that holds the path of NVRTC, NVIDIA's library that compiles CUDA C++.
const EnvCompiler = "RLXC_NVRTC"

// ErrNoCompiler: the library was not found.
var ErrNoCompiler = errors.New("CUDA text needs NVIDIA's run-time compiler, and libnvrtc.so is not installed (it comes with the CUDA " +
	"toolkit and with nvidia-cuda-nvrtc of PyPI; " +
	EnvCompiler + " may name its path): install it, or use PTX")

// compilerProcs are the functions in use; a field's name is the C name without "nvrtc".
type compilerProcs struct {
	CreateProgram, CompileProgram, DestroyProgram, GetCUBINSize, GetCUBIN, GetProgramLogSize, GetProgramLog proc
}

var (
	compilersMu sync.Mutex
	compilers   = map[string]*compilerProcs{}
)

// RegisterCompiler makes functions known as NVRTC at a path; tests bring a separate compiler so.
func RegisterCompiler(path string, find func(name string) (uintptr, error)) error {
	compilersMu.Lock()
	defer compilersMu.Unlock()
	c, err := linkCompiler(find)
	compilers[path] = c
	return err
}

func linkCompiler(find func(name string) (uintptr, error)) (*compilerProcs, error) {
	c := &compilerProcs{}
	if err := dynlib.Link(c, "nvrtc", find); err != nil {
		return nil, fmt.Errorf("NVRTC is too old: %w", err)
	}
	return c, nil
}

// openCompiler opens NVRTC where the environment variable says, or where toolkits put it.
func openCompiler() (*compilerProcs, error) {
	compilersMu.Lock()
	defer compilersMu.Unlock()
	at := compilerPaths
	if path := os.Getenv(EnvCompiler); path != "" {
		at = []string{path}
	}
	for _, path := range at {
		if c := compilers[path]; c != nil {
			return c, nil
		}
		handle, err := dynlib.Open(path)
		if err != nil {
			continue
		}
		c, err := linkCompiler(func(name string) (uintptr, error) { return dynlib.Symbol(handle, name) })
		if err == nil {
			compilers[path] = c
		}
		return c, err
	}
	return nil, ErrNoCompiler
}

// CompileCUDA makes machine code for the device of CUDA C++ text, which has no headers. It fails where NVRTC is not installed, and where
// it refuses the text, with the first line that it says.
func (c *Context) CompileCUDA(name, text string) ([]byte, error) {
	n, err := openCompiler()
	if err != nil {
		return nil, err
	}
	program, source, label := new(uintptr), append([]byte(text), 0), append([]byte(name+".cu"), 0)
	if err := n.call(n.CreateProgram, uintptr(unsafe.Pointer(program)), uintptr(unsafe.Pointer(&source[0])),
		uintptr(unsafe.Pointer(&label[0])), 0, 0, 0); err != nil {
		return nil, err
	}
	defer n.call(n.DestroyProgram, uintptr(unsafe.Pointer(program)))
	var options []*byte
	for _, o := range []string{fmt.Sprintf("--gpu-architecture=sm_%d", c.Capability()), "--device-as-default-execution-space",
		"--std=c++17"} {
		options = append(options, &append([]byte(o), 0)[0])
	}
	size := new(uintptr)
	if failed := n.call(n.CompileProgram, *program, uintptr(len(options)), uintptr(unsafe.Pointer(&options[0]))); failed != nil {
		if n.call(n.GetProgramLogSize, *program, uintptr(unsafe.Pointer(size))) == nil && *size > 1 {
			log := make([]byte, *size)
			if n.call(n.GetProgramLog, *program, uintptr(unsafe.Pointer(&log[0]))) == nil {
				line, _, _ := strings.Cut(dynlib.Text(&log[0]), "\n")
				failed = fmt.Errorf("NVRTC cannot compile it: %s", line)
			}
		}
		return nil, failed
	}
	if err := n.call(n.GetCUBINSize, *program, uintptr(unsafe.Pointer(size))); err != nil {
		return nil, err
	}
	code := make([]byte, max(*size, 1))
	return code, n.call(n.GetCUBIN, *program, uintptr(unsafe.Pointer(&code[0])))
}

// call runs a C function and makes its result an error. Pointers to Go memory must be converted to uintptr in the call itself, which keeps
// them alive.
//
//go:uintptrescapes
func (*compilerProcs) call(p proc, args ...uintptr) error {
	if r := dynlib.Call(uintptr(p), args...); int32(r) != 0 {
		return fmt.Errorf("NVRTC returns error %d", int32(r))
	}
	return nil
}
