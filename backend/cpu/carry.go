package cpu

import (
	"unsafe"

	"github.com/rlxc/rlxc/internal/backend"
)

// NewBuffer implements backend.Device.
func (d *Device) NewBuffer(size int64) (backend.Buffer, error) {
	return backend.NewHostBuffer(size), nil
}

// Owns implements backend.Device.
func (d *Device) Owns(b backend.Buffer) bool {
	_, ok := b.(*backend.HostBuffer)
	return ok
}

// BindBuffers implements backend.Instance: the steps work on the Buffers' memory.
func (in *instance) BindBuffers(inputs, outputs []backend.Buffer) {
	bindBuffers(&in.machine, in.inputs, inputs)
	bindBuffers(&in.machine, in.outputs, outputs)
}

func bindBuffers(m *machine, operands []operand, buffers []backend.Buffer) {
	for i, b := range buffers {
		if o := &operands[i]; o.outside {
			m.bases[o.base] = unsafe.Pointer(unsafe.SliceData(b.(*backend.HostBuffer).Bytes()))
		}
	}
}
