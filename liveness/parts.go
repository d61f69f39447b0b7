package liveness

import (
	"slices"

	"github.com/rlxc/rlxc/internal/target"
	"github.com/rlxc/rlxc/ir"
)

// findParts finds the steps whose result 0 can be written where a Concat wants it: the kernel must write by strides, the Concat must
// read it once, and every reader takes its strides.
func (m *Memory) findParts() {
	for s, n := range m.Steps {
		op, ok := n.Op.(ir.Concat)
		if !ok || m.separate[m.Writes[s][0]] || m.t.Where(n) != target.OnKernel {
			continue
		}
		start := 0
		for _, v := range n.Inputs {
			l := part(v, n.Outputs[0], op.Axis, start)
			start += l.Shape[op.Axis]
			b := m.of(v)
			if b < 0 || m.values[b] != v || m.separate[b] || m.writer[b] < 0 || v.Type.DType.Size() == 0 {
				continue
			}
			from, at := int(m.writer[b]), map[int]ir.Layout{}
			if _, taken := m.parts[from]; taken || v != m.Steps[from].Outputs[0] || l.Shape.Elements() == 0 || joined(n, v) > 1 ||
				!m.t.StridedResult(m.Steps[from], l.Strides) || !m.strided(v, l, at) {
				continue
			}
			if m.parts == nil {
				m.parts = map[int]within{}
			}
			m.parts[from] = within{m.Writes[s][0], at, Inlay{Over: -1, Into: s}}
		}
	}
}

// joined is how often a node reads a value.
func joined(n *ir.Node, v *ir.Value) (count int) {
	for _, x := range n.Inputs {
		if x == v {
			count++
		}
	}
	return count
}

// weighParts keeps all of these steps if the program needs no more with them, and otherwise those, from the last one on, with which it does
// not: the result of a Concat is there from the first of them on.
func (m *Memory) weighParts(order []int) {
	all := m.parts
	if len(all) == 0 {
		return
	}
	with := m.needs(order)
	m.parts = map[int]within{}
	least := m.needs(order)
	if !least.below(with) {
		m.parts = all
		return
	}
	for _, s := range slices.Backward(order) {
		w, ok := all[s]
		if !ok {
			continue
		}
		m.parts[s] = w
		if with := m.needs(order); least.below(with) {
			delete(m.parts, s)
		} else {
			least = with
		}
	}
}

// part is the layout of a value that is a part of the result of a Concat along an axis, from an index on.
func part(v, whole *ir.Value, axis, start int) ir.Layout {
	l := ir.OwnLayout(whole)
	l.Shape = v.Type.Sizes()
	l.Offset = start * l.Strides[axis]
	return l
}
