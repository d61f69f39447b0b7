package native

import (
	"cmp"
	"errors"
	"fmt"
	"strings"
	"sync"

	"github.com/rlxc/rlxc/internal/dynlib"
)

// A Device makes buffers, pipelines and commands. Its methods may be called by several goroutines at once.
type Device struct {
	Adapter *Adapter

	lib    *Library
	handle uintptr
	queue  uintptr
	lost   *reply
	failed *reply // errors outside of every scope: a callback must exist, or the process ends

	// For tests: FailAt n > 0 makes the n-th call from now on fail. Live counts the buffers and bind groups that are not released.
	FailAt, Live int

	popped *reply // answer to the request to close an error scope
	made   *deviceDescriptor

	// Error scopes belong to the device and not to a thread, so whatever opens one holds the mutex, as do those who use the
	// caller or look at failed.
	mu sync.Mutex
	caller
}

// ErrLost says that the device does not answer any more: its driver reset it, or it was closed.
var ErrLost = errors.New("the GPU device was lost")

// ErrMemory says that the device has no room for a buffer.
var ErrMemory = errors.New("the device is out of memory")

const (
	filterValidation  = 1
	filterOutOfMemory = 2
)

// guarded runs f, which makes something, inside error scopes and returns the first error that the library reported.
func (d *Device) guarded(what string, f func()) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if err := d.alive(what); err != nil {
		return err
	}
	d.lib.c.DevicePushErrorScope.call(d.handle, filterOutOfMemory)
	d.lib.c.DevicePushErrorScope.call(d.handle, filterValidation)
	f()
	invalid, exhausted := d.pop(what), d.pop(what)
	return cmp.Or(invalid, exhausted)
}

// watched runs f, a part of a run, for callers that hold the mutex. Scopes would cost two callbacks each time: outside of
// them an error goes to failed before the function that made it returns.
func (d *Device) watched(what string, f func()) error {
	if err := d.alive(what); err != nil {
		return err
	}
	f()
	if !d.failed.done.Swap(false) {
		return d.alive(what)
	}
	return d.reported(what, uintptr(d.failed.status), d.failed.message)
}

// alive reports a device that does not answer any more, to callers that hold the mutex.
func (d *Device) alive(what string) error {
	if d.FailAt--; d.FailAt == 0 {
		return fmt.Errorf("%s: %w", what, ErrMemory)
	}
	if d.handle == 0 || d.lost.done.Load() {
		return fmt.Errorf("%s: %w", what, ErrLost)
	}
	return nil
}

// pop closes the innermost scope.
func (d *Device) pop(what string) error {
	r := d.popped
	r.done.Store(false)
	d.invokeWithInfo(d.lib.c.DevicePopErrorScope, d.lib.cb.info(d.lib.cb.handle, r.id), d.handle)
	if !r.done.Load() || r.status != 1 {
		return fmt.Errorf("%s: %w", what, ErrLost)
	}
	return d.reported(what, r.handle, r.message)
}

// reported makes an error of what the library reports, by WGPUErrorType. A device that is lost is reported as a mistake
// of the caller that uses it next.
func (d *Device) reported(what string, kind uintptr, message string) error {
	switch {
	case uint32(kind) == 1:
		return nil
	case uint32(kind) == 3:
		return fmt.Errorf("%s: %w", what, ErrMemory)
	case strings.Contains(message, "device is lost"):
		d.lost.done.Store(true)
		return fmt.Errorf("%s: %w", what, ErrLost)
	}
	return fmt.Errorf("%s: %s", what, message)
}

// reason makes one line of a library's report, which says over several what was caused by what.
func reason(s string) string {
	var parts []string
	for line := range strings.Lines(s) {
		if line = strings.TrimSpace(line); line != "" && line != "Caused by:" {
			parts = append(parts, line)
		}
	}
	if len(parts) == 0 {
		return "the library named no reason"
	}
	return strings.Join(parts, ": ")
}

// Usable reports whether the device answers, and has reported no error that belongs to no call.
func (d *Device) Usable() bool { return d.handle != 0 && !d.lost.done.Load() && !d.failed.done.Load() }

// Poll waits until all submitted work is done and its callbacks ran.
func (d *Device) Poll() error {
	return d.poll(new(caller))
}

func (d *Device) poll(c *caller) error {
	if d.handle == 0 || d.lost.done.Load() {
		return ErrLost
	}
	c.invoke(d.lib.c.DevicePoll, d.handle, 1, 0)
	if d.lost.done.Load() {
		return fmt.Errorf("%w: %s", ErrLost, reason(d.lost.message))
	}
	if d.failed.done.Load() {
		return fmt.Errorf("the GPU reports: %s", reason(d.failed.message))
	}
	return nil
}

// timestampPeriod is the nanoseconds of a tick. The C function returns a float, which comes in another kind of register.
func (d *Device) timestampPeriod() float32 {
	var period func(uintptr) float32
	dynlib.Func(&period, uintptr(d.lib.c.QueueGetTimestampPeriod))
	return period(d.queue)
}

// Lose makes the device one that answers no more, for tests.
func (d *Device) Lose() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.invoke(d.lib.c.DeviceDestroy, d.handle)
	d.invoke(d.lib.c.DevicePoll, d.handle, 0, 0)
}

// Close releases the device. Buffers and pipelines that are still there must not be used any more.
func (d *Device) Close() {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.handle == 0 {
		return
	}
	d.lib.c.DevicePoll.call(d.handle, 1, 0)
	d.lib.c.QueueRelease.call(d.queue)
	d.lib.c.DeviceDestroy.call(d.handle)
	d.lib.c.DeviceRelease.call(d.handle)
	d.handle = 0
	d.lost.drop()
	d.failed.drop()
	d.popped.drop()
}
