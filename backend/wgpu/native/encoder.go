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
	args    [6]uintptr
	finish  func() // made once
}

// Encoder makes an encoder.
func (d *Device) Encoder() *Encoder {
	e := &Encoder{d: d}
	e.finish = func() { e.command = e.d.lib.c.CommandEncoderFinish.call(e.handle, 0) }
	return e
}

// invoke calls a function with handles and numbers, through arguments that are reused.
func (e *Encoder) invoke(p proc, args ...uintptr) {
	n := copy(e.args[:], args)
	p.call(e.args[:n]...)
}

// Begin starts recording. Each Begin ends in Submit or Abandon.
func (e *Encoder) Begin() error {
	if e.d.handle == 0 || e.d.lost.done.Load() {
		return ErrLost
	}
	if e.handle = e.d.lib.c.DeviceCreateCommandEncoder.call(e.d.handle, 0); e.handle == 0 {
		return errors.New("the device gives no command encoder")
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
		e.pass = e.d.lib.c.CommandEncoderBeginComputePass.call(e.handle, 0)
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
	if e.d.handle == 0 || e.d.lost.done.Load() {
		return ErrLost
	}
	e.endPass()
	err := e.d.scoped("recording a run", e.finish)
	if err == nil {
		c.QueueSubmit.call(e.d.queue, 1, uintptr(unsafe.Pointer(&e.command)))
	}
	if e.command != 0 {
		c.CommandBufferRelease.call(e.command)
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
