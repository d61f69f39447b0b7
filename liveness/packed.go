package liveness

import (
	"slices"

	"github.com/rlxc/rlxc/ir"
)

// packedQKV is about attention whose queries, keys and values are the three parts of one buffer, [B,S,3·H·D] or [B,S,3,H,D].
// If the target's kernel allows it, the kernel reads that buffer directly, also where a cast or a copy is between, after which it
// looks dead. The extension answers for late reads of such a buffer in any case.
func (m *Memory) packedQKV() (f finding) {
	parent := map[int32]bool{}
	for s, n := range m.Steps {
		if n.Op.Kind() != ir.KindAttention {
			continue
		}
		if root := m.parent(n); root != nil && m.buffer[root.ID] >= 0 {
			b := m.buffer[root.ID]
			parent[b] = true
			if m.t.ReadsPacked(n) {
				f.reads = append(f.reads, read{s, b})
			}
		}
	}
	if len(parent) > 0 {
		f.claims = func(_ int, b int32) bool { return parent[b] }
	}
	return f
}

// maxCopies is the number of casts and copies that parent looks through.
const maxCopies = 3

// parent is the value whose three parts an attention node reads, or nil; the nearest where there are several. The parts are
// known by their strides, so that it does not matter which slices, reshapes and transposes they came by.
func (m *Memory) parent(n *ir.Node) *ir.Value {
	q, k, v := n.Inputs[ir.AttentionQ], n.Inputs[ir.AttentionK], n.Inputs[ir.AttentionV]
	shape := q.Type.Sizes()
	if shape.Elements() == 0 || !shape.Equal(k.Type.Sizes()) || !shape.Equal(v.Type.Sizes()) {
		return nil
	}
	keys, values := m.partOf(k, 1), m.partOf(v, 2)
	for _, root := range m.partOf(q, 0) {
		if slices.Contains(keys, root) && slices.Contains(values, root) {
			return root
		}
	}
	return nil
}

// partOf lists the values of which v, [B,S,H,D], is part 0, 1 or 2 of three that are beside each other in every position.
func (m *Memory) partOf(v *ir.Value, part int) (roots []*ir.Value) {
	shape := v.Type.Sizes()
	width := shape[2] * shape[3]
	packed := []int{3 * width * shape[1], 3 * width, shape[3], 1}
	for copies := range maxCopies + 1 {
		l, ok := m.through(v, copies)
		if !ok {
			break
		}
		fits := l.Offset == part*width && l.Root.Type.Elements() == 3*shape.Elements()
		for axis, size := range shape {
			fits = fits && (size == 1 || l.Strides[axis] == packed[axis])
		}
		if fits {
			roots = append(roots, l.Root)
		}
	}
	return roots
}

// through returns the layout of a value in the memory from which it comes by views and a number of casts and copies; one fewer must
// have led to memory that is planned.
func (m *Memory) through(v *ir.Value, copies int) (ir.Layout, bool) {
	l := m.layouts[v.ID]
	if copies == 0 {
		return l, l.Root != nil
	}
	d := v.Def
	switch {
	case l.Root.Def == nil || !copyKinds[l.Root.Def.Op.Kind()]:
		return l, false
	case v == l.Root:
		return m.through(d.Inputs[0], copies-1)
	}
	below, ok := m.through(d.Inputs[0], copies)
	if !ok {
		return below, false
	}
	return ir.ViewLayout(d, below)
}

// copyKinds are the ops that parent looks through: elements stay where they are.
var copyKinds = [ir.NumKinds]bool{ir.KindCast: true, ir.KindCopy: true}
