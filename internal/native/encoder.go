package native

import (
	"errors"
	"unsafe"
)

// An Encoder records commands and submits them. It is reused from run to run, so that recording allocates nothing; one
// goroutine at a time uses it.
type Encoder struct {
	d       *Device
	handle  uintptr
	pass    uintptr
	command uintptr
	caller
}

// Encoder makes an encoder.
func (d *Device) Encoder() *Encoder { return &Encoder{d: d} }

// Begin starts recording. Each Begin ends in Submit or Abandon.
func (e *Encoder) Begin() error {
	if e.d.handle == 0 || e.d.lost.done.Load() {
		return ErrLost
	}
	if e.handle = e.invoke(e.d.lib.c.DeviceCreateCommandEncoder, e.d.handle, 0); e.handle == 0 {
		return errors.New("the device could not create a command encoder")
	}
	return nil
}

// Dispatch runs groups workgroups of a pipeline on a bind group. Dispatches that follow see what it wrote.
func (e *Encoder) Dispatch(p *Pipeline, g *BindGroup, groups [3]uint32) {
	c := &e.d.lib.c
	e.begin()
	e.invoke(c.ComputePassEncoderSetPipeline, e.pass, p.handle)
	e.invoke(c.ComputePassEncoderSetBindGroup, e.pass, 0, g.handle, 0, 0)
	e.invoke(c.ComputePassEncoderDispatchWorkgroups, e.pass, uintptr(groups[0]), uintptr(groups[1]), uintptr(groups[2]))
}

func (e *Encoder) begin() {
	if e.pass == 0 {
		e.pass = e.invoke(e.d.lib.c.CommandEncoderBeginComputePass, e.handle, 0)
	}
}

func (e *Encoder) endPass() {
	if e.pass != 0 {
		e.invoke(e.d.lib.c.ComputePassEncoderEnd, e.pass)
		e.invoke(e.d.lib.c.ComputePassEncoderRelease, e.pass)
		e.pass = 0
	}
}

// Copy copies n bytes, rounded up to a multiple of 4; the offsets are multiples of 4.
func (e *Encoder) Copy(dst *Buffer, to int64, src *Buffer, from, n int64) {
	e.endPass()
	e.invoke(e.d.lib.c.CommandEncoderCopyBufferToBuffer, e.handle, src.handle, uintptr(from), dst.handle, uintptr(to), uintptr((n+3)&^3))
}

// Submit sends what was recorded to the device. Nothing is sent when the library finds a mistake in it.
func (e *Encoder) Submit() error {
	c := &e.d.lib.c
	e.d.mu.Lock()
	defer e.d.mu.Unlock()
	if err := e.d.alive("recording a run"); err != nil {
		return err
	}
	e.endPass()
	err := e.d.watched("recording a run", func() { e.command = e.invoke(c.CommandEncoderFinish, e.handle, 0) })
	if err == nil {
		err = e.d.watched("a run", func() { e.invoke(c.QueueSubmit, e.d.queue, 1, uintptr(unsafe.Pointer(&e.command))) })
	}
	if e.command != 0 {
		e.invoke(c.CommandBufferRelease, e.command)
	}
	e.release()
	return err
}

// Abandon drops what was recorded.
func (e *Encoder) Abandon() {
	if e.handle != 0 && e.d.handle != 0 {
		e.endPass()
		e.release()
	}
}

func (e *Encoder) release() {
	e.invoke(e.d.lib.c.CommandEncoderRelease, e.handle)
	e.handle, e.command = 0, 0
}
