package cpu

import (
	"sync"
	"unsafe"

	"github.com/rlxc/rlxc/ir"
	"github.com/rlxc/rlxc/tensor"
)

// A machine has the buffers that steps read and write, and the first error of a step.
type machine struct {
	bases     []unsafe.Pointer // addresses of the arena and of the buffers outside it
	locations []location       // locations of the step that runs, if several steps share its closure
	workers   []machine        // a machine for each worker, for steps inside a step
	// objects holds the values that are not bytes, which are strings, by the ID of their roots.
	objects []*tensor.Tensor

	env *ir.Env // environment of the steps that run by Eval

	mu  sync.Mutex
	err error // first error of a step; mu guards it
}

// A location is at a byte offset of a buffer, which may be a device tensor, or of a constant.
type location struct {
	constant unsafe.Pointer // nil for a buffer
	base     int            // the buffer: index in machine.bases
	off      int
}

// locationOf is the location of a constant.
func locationOf(data []byte) location {
	return location{constant: unsafe.Pointer(unsafe.SliceData(data))}
}

// fail keeps the first error of a run, to which the instance adds the node of the step; parts of a step may fail at once.
func (m *machine) fail(err error) {
	m.mu.Lock()
	if m.err == nil {
		m.err = err
	}
	m.mu.Unlock()
}
