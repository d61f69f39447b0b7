package wgpu

import (
	"github.com/rlxc/rlxc/internal/backend"
	"github.com/rlxc/rlxc/internal/gpu"
	"github.com/rlxc/rlxc/internal/native"
)

// A buffer implements backend.Buffer. Its bytes pass through the host only on request.
type buffer struct {
	*native.Buffer
	gpu *native.Device
}

// Allocate implements gpu.Driver.
func (d *Device) Allocate(what string, size int64) (backend.Buffer, error) {
	b, err := d.gpu.Buffer(what, size, native.ForStorage|native.CopySource|native.CopyTarget)
	if err != nil {
		return nil, err
	}
	return &buffer{b, d.gpu}, nil
}

// Owns implements gpu.Driver: the GPU must be the same.
func (d *Device) Owns(b backend.Buffer) bool {
	own, ok := b.(*buffer)
	return ok && own.gpu == d.gpu
}

// Size implements backend.Buffer.
func (b *buffer) Size() int64 { return b.Buffer.Size }

// Close implements backend.Buffer.
func (b *buffer) Close() { b.Release() }

// ReadAt implements backend.Buffer.
func (b *buffer) ReadAt(p []byte, off int64) error {
	first, end := words(p, off)
	staging, err := b.gpu.Buffer("reading a buffer", end-first, native.MapRead|native.CopyTarget)
	if err != nil {
		return err
	}
	defer staging.Release()
	e := b.gpu.Encoder()
	if err := e.Begin(); err != nil {
		return err
	}
	e.Copy(staging, 0, b.Buffer, first, end-first)
	if err := e.Submit(); err != nil {
		return err
	}
	data, err := staging.Map(end - first)
	if err != nil {
		return err
	}
	copy(p, data[off-first:])
	return nil
}

// WriteAt implements backend.Buffer.
func (b *buffer) WriteAt(p []byte, off int64) error {
	first, end := words(p, off)
	if first == off && end == off+int64(len(p)) {
		return b.Write(off, p)
	}
	whole := make([]byte, end-first)
	if err := b.ReadAt(whole, first); err != nil {
		return err
	}
	copy(whole[off-first:], p)
	return b.Write(first, whole)
}

// words is the range of words that has the bytes: devices copy words.
func words(p []byte, off int64) (first, end int64) {
	return off &^ 3, (off + int64(len(p)) + 3) &^ 3
}

// staging implements gpu.Staging by a buffer that can be mapped.
type staging struct{ *native.Buffer }

// Stage implements gpu.Driver.
func (d *Device) Stage(size int64) (gpu.Staging, error) {
	b, err := d.gpu.Buffer("the staging buffer", size, native.MapRead|native.CopyTarget)
	if err != nil {
		return nil, err
	}
	return staging{b}, nil
}

// Size implements gpu.Staging.
func (s staging) Size() int64 { return s.Buffer.Size }

// Close implements gpu.Staging.
func (s staging) Close() { s.Release() }
