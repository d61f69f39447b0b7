package cuda

import (
	"github.com/rlxc/rlxc/internal/backend"
	"github.com/rlxc/rlxc/internal/driver"
	"github.com/rlxc/rlxc/internal/gpu"
)

// A buffer implements backend.Buffer.
type buffer struct {
	ctx  *driver.Context
	at   driver.Pointer
	size int64
}

// Allocate implements gpu.Driver.
func (d *Device) Allocate(what string, size int64) (backend.Buffer, error) {
	leave, err := d.ctx.Enter()
	if err != nil {
		return nil, err
	}
	defer leave()
	p, err := d.ctx.Alloc(what, size)
	if err != nil {
		return nil, err
	}
	return &buffer{d.ctx, p, size}, nil
}

// Owns implements gpu.Driver: all that use a device share its memory.
func (d *Device) Owns(b backend.Buffer) bool {
	own, ok := b.(*buffer)
	return ok && own.ctx.SameDevice(d.ctx)
}

// Size implements backend.Buffer.
func (b *buffer) Size() int64 { return b.size }

// ReadAt implements backend.Buffer.
func (b *buffer) ReadAt(p []byte, off int64) error {
	leave, err := b.ctx.Enter()
	if err != nil {
		return err
	}
	defer leave()
	return b.ctx.Read(p, b.at+driver.Pointer(off))
}

// WriteAt implements backend.Buffer.
func (b *buffer) WriteAt(p []byte, off int64) error {
	leave, err := b.ctx.Enter()
	if err != nil {
		return err
	}
	defer leave()
	return b.ctx.Write(b.at+driver.Pointer(off), p)
}

// Close implements backend.Buffer. A lost device has lost its memory too.
func (b *buffer) Close() {
	if leave, err := b.ctx.Enter(); err == nil {
		b.ctx.FreeMemory(b.at)
		leave()
	}
}

// pinned implements gpu.Staging.
type pinned struct {
	*driver.Pinned
	ctx *driver.Context
}

// Stage implements gpu.Driver.
func (d *Device) Stage(size int64) (gpu.Staging, error) {
	leave, err := d.ctx.Enter()
	if err != nil {
		return nil, err
	}
	defer leave()
	p, err := d.ctx.NewPinned(size)
	if err != nil {
		return nil, err
	}
	return &pinned{p, d.ctx}, nil
}

// Size implements gpu.Staging.
func (p *pinned) Size() int64 { return int64(len(p.Bytes())) }

// Close implements gpu.Staging.
func (p *pinned) Close() {
	if leave, err := p.ctx.Enter(); err == nil {
		p.Free()
		leave()
	}
}
