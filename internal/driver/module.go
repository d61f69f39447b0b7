package driver

import (
	"fmt"
	"runtime"
	"slices"
	"strings"
	"unsafe"

	"github.com/rlxc/rlxc/internal/dynlib"
)

// A Module is kernels that are loaded.
type Module struct {
	c      *Context
	handle uintptr
}

// A Function is a kernel.
type Function uintptr

// The numbers of CUjit_option and of CUjitInputType and CUfunction_attribute.
const (
	jitErrorLog      = 5
	jitErrorLogSize  = 6
	jitInputPTX      = 1
	maxDynamicShared = 8
)

// Compile makes machine code for the device of PTX text.
func (c *Context) Compile(name, text string) ([]byte, error) {
	log := new([4096]byte)
	var pin runtime.Pinner // the library keeps its address between calls
	pin.Pin(log)
	defer pin.Unpin()
	options := []int32{jitErrorLog, jitErrorLogSize}
	values := []uintptr{uintptr(unsafe.Pointer(&log[0])), uintptr(len(log))}
	var state uintptr
	if err := c.l.check(c.l.c.LinkCreate_v2, "cuLinkCreate_v2", uintptr(len(options)), uintptr(unsafe.Pointer(&options[0])),
		uintptr(unsafe.Pointer(&values[0])), uintptr(unsafe.Pointer(&state))); err != nil {
		return nil, err
	}
	defer c.l.check(c.l.c.LinkDestroy, "cuLinkDestroy", state)
	data, label := append([]byte(text), 0), append([]byte(name), 0)
	fail := func(err error) ([]byte, error) {
		line, _, _ := strings.Cut(strings.TrimSpace(dynlib.Text(&log[0])), "\n")
		return nil, fmt.Errorf("kernels %s: %w: %s", name, err, line)
	}
	if err := c.l.check(c.l.c.LinkAddData_v2, "cuLinkAddData_v2", state, jitInputPTX, uintptr(unsafe.Pointer(&data[0])),
		uintptr(len(data)), uintptr(unsafe.Pointer(&label[0])), 0, 0, 0); err != nil {
		return fail(err)
	}
	var code unsafe.Pointer
	var size uintptr
	if err := c.l.check(c.l.c.LinkComplete, "cuLinkComplete", state, uintptr(unsafe.Pointer(&code)),
		uintptr(unsafe.Pointer(&size))); err != nil {
		return fail(err)
	}
	return slices.Clone(unsafe.Slice((*byte)(code), size)), nil
}

// Load loads machine code.
func (c *Context) Load(code []byte) (*Module, error) {
	m := &Module{c: c}
	if err := c.l.check(c.l.c.ModuleLoadData, "cuModuleLoadData", uintptr(unsafe.Pointer(&m.handle)),
		uintptr(unsafe.Pointer(&code[0]))); err != nil {
		return nil, err
	}
	return m, nil
}

// Unload releases a module.
func (m *Module) Unload() { _ = m.c.l.check(m.c.l.c.ModuleUnload, "cuModuleUnload", m.handle) }

// Function finds a kernel.
func (m *Module) Function(name string) (Function, error) {
	var f uintptr
	text := append([]byte(name), 0)
	if err := m.c.l.check(m.c.l.c.ModuleGetFunction, "cuModuleGetFunction", uintptr(unsafe.Pointer(&f)), m.handle,
		uintptr(unsafe.Pointer(&text[0]))); err != nil {
		return 0, fmt.Errorf("kernel %s: %w", name, err)
	}
	return Function(f), nil
}

// AllowShared lets a kernel be launched with that many bytes of dynamic shared memory, above the 48 KiB that all may have.
func (c *Context) AllowShared(f Function, bytes int) error {
	return c.l.check(c.l.c.FuncSetAttribute, "cuFuncSetAttribute", uintptr(f), maxDynamicShared, uintptr(bytes))
}
