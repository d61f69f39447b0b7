package driver

import (
	"fmt"
	"unsafe"
)

// Pointer is an address in a device's memory.
type Pointer uintptr

// Alloc takes memory of the device.
func (c *Context) Alloc(what string, size int64) (Pointer, error) {
	var p Pointer
	if err := c.l.check(c.l.c.MemAlloc_v2, "cuMemAlloc_v2", uintptr(unsafe.Pointer(&p)), uintptr(max(size, 1))); err != nil {
		return 0, fmt.Errorf("%d bytes for %s: %w", size, what, err)
	}
	return p, nil
}

// FreeMemory releases memory; 0 is none.
func (c *Context) FreeMemory(p Pointer) {
	if p != 0 {
		_ = c.l.check(c.l.c.MemFree_v2, "cuMemFree_v2", uintptr(p)) // fails only when the context is lost
	}
}

// Write copies bytes to the device, and waits.
func (c *Context) Write(to Pointer, data []byte) error {
	if len(data) == 0 {
		return nil
	}
	return c.l.check(c.l.c.MemcpyHtoD_v2, "cuMemcpyHtoD_v2", uintptr(to), uintptr(unsafe.Pointer(&data[0])), uintptr(len(data)))
}

// Read copies bytes from the device, and waits.
func (c *Context) Read(data []byte, from Pointer) error {
	if len(data) == 0 {
		return nil
	}
	return c.l.check(c.l.c.MemcpyDtoH_v2, "cuMemcpyDtoH_v2", uintptr(unsafe.Pointer(&data[0])), uintptr(from), uintptr(len(data)))
}

// Fill sets bytes of the device's memory.
func (c *Context) Fill(p Pointer, value byte, size int64) error {
	if size == 0 {
		return nil
	}
	return c.l.check(c.l.c.MemsetD8_v2, "cuMemsetD8_v2", uintptr(p), uintptr(value), uintptr(size))
}

// Pinned is memory of the host that the device copies from and to without the processor.
type Pinned struct {
	c     *Context
	bytes []byte
}

// NewPinned takes pinned memory.
func (c *Context) NewPinned(size int64) (*Pinned, error) {
	var p unsafe.Pointer
	if err := c.l.check(c.l.c.MemHostAlloc, "cuMemHostAlloc", uintptr(unsafe.Pointer(&p)), uintptr(max(size, 1)), 0); err != nil {
		return nil, fmt.Errorf("%d bytes of pinned memory of the host: %w", size, err)
	}
	return &Pinned{c, unsafe.Slice((*byte)(p), max(size, 1))}, nil
}

// Bytes is the memory.
func (p *Pinned) Bytes() []byte { return p.bytes }

// Free releases the memory; its bytes end with it.
func (p *Pinned) Free() {
	_ = p.c.l.check(p.c.l.c.MemFreeHost, "cuMemFreeHost", uintptr(unsafe.Pointer(&p.bytes[0])))
	p.bytes = nil
}
