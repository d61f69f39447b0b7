package cpu

import (
	"sync"
	"unsafe"

	"github.com/rlxc/rlxc/ir"
	"github.com/rlxc/rlxc/tensor"
)

// A machine is what a step runs on: buffers, and the position for the first error.
type machine struct {
	bases     []unsafe.Pointer // of the buffers, in the arena and outside of it
	locations []location       // of the step that runs, if its closure is for others as well
	workers   []machine        // what a worker runs steps inside of a step on
	// objects holds, by the ID of a root, values that are not bytes: strings.
	objects []*tensor.Tensor

	env *ir.Env // of the steps of the host

	mu  sync.Mutex
	err error
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
