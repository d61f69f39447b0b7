package liveness

import (
	"slices"

	"github.com/rlxc/rlxc/ir"
)

// takeOut takes the buffers of device tensors out of the arena, if a value is all of its buffer and the only one that shows it at the
// graph's boundary. Other tensors that a run returns would change with it, and an input that is an output as well would be
// read after the run. No result takes over such a buffer, and it takes over no other.
func (m *Memory) takeOut(values []*ir.Value) {
	m.separate = make([]bool, len(m.values))
	shown := make([]int, len(m.values)) // by buffer: how many inputs and outputs it has
	for _, v := range slices.Concat(m.g.Inputs, m.g.Outputs) {
		if b := m.of(v); b >= 0 {
			shown[b]++
		}
	}
	for _, v := range values {
		b := m.of(v)
		if b < 0 || shown[b] != 1 || v.Type.DType.Size() == 0 { // strings are not bytes
			continue
		}
		if whole(v, m.layout(v)) && v.Type.DType == m.values[b].Type.DType {
			m.separate[b], m.Bytes[b] = true, 0
		}
	}
	for s, over := range m.Over {
		if len(over) > 0 && m.separate[m.Writes[s][0]] {
			m.Over[s] = nil
		}
	}
}

// Returns reports whether the caller finds an output that has the layout l: its elements are in order, and a device tensor is all of its
// buffer. It is the condition of New about outputs at other sizes than those of New; v may be of a copy of the graph.
func (m *Memory) Returns(v *ir.Value, l ir.Layout) bool {
	return l.Contiguous() && (!m.IsDeviceTensor(v) || whole(v, l))
}

// IsDeviceTensor reports whether a value is outside of the arena.
func (m *Memory) IsDeviceTensor(v *ir.Value) bool {
	b := m.of(v)
	return b >= 0 && m.separate[b]
}
