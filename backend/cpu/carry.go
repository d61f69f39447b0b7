package cpu

import (
	"unsafe"

	"github.com/rlxc/rlxc/internal/backend"
)

// NewBuffer implements backend.Keeper.
func (d *Device) NewBuffer(size int64) (backend.Buffer, error) {
	return backend.NewHostBuffer(size), nil
}

// Takes implements backend.Keeper.
func (d *Device) Takes(b backend.Buffer) bool {
	_, ok := b.(*backend.HostBuffer)
	return ok
}

// Carry implements backend.Carrier: the steps work on the Buffers' memory.
func (in *instance) Carry(inputs, outputs []backend.Buffer) {
	carry(&in.machine, in.inputs, inputs)
	carry(&in.machine, in.outputs, outputs)
}

func carry(m *machine, operands []operand, buffers []backend.Buffer) {
	for i, b := range buffers {
		if base := operands[i].base; base > 0 {
			m.bases[base] = unsafe.Pointer(unsafe.SliceData(b.(*backend.HostBuffer).Bytes()))
		}
	}
}
