package check

import (
	"cmp"
	"slices"

	"github.com/rlxc/rlxc/internal/ranks"
	"github.com/rlxc/rlxc/internal/target"
	"github.com/rlxc/rlxc/ir"
	"github.com/rlxc/rlxc/planner"
)

// A use describes a buffer: who has it, and when.
type use struct {
	owner       *ir.Value // the root; nil for scratch, and for a buffer that nothing uses
	isScratch   bool
	first, last int32 // the steps from and to which it is in use; −1 and len(Steps) are the caller before and after a run; unused: none
	top         int32 // the ID of the value in it that was written last and is intact, the first of a list by value.under; −1 for none
	bytes       int64 // size that its kernel or its largest value needs
}

// lives lets the steps read and write, in the order in which they run. It demands that a step finds what it reads: the value has been
// written, and no other result is over it. Then it finds from when to when each buffer is in use.
func (s *state) lives() error {
	for _, v := range s.Graph.Inputs {
		if err := s.store(nil, v, -1); err != nil {
			return err
		}
	}
	for i, n := range s.Steps {
		if err := s.step(int32(i), n); err != nil {
			return err
		}
	}
	if err := s.grown(); err != nil {
		return err
	}
	end := int32(len(s.Steps))
	for _, list := range [][]*ir.Value{s.Graph.Outputs, s.Held} {
		for _, v := range list {
			if err := s.read(nil, v, end, 0); err != nil {
				return err
			}
		}
	}
	return nil
}

// step lets step i read its operands, use its scratch and write its results.
func (s *state) step(i int32, n *ir.Node) error {
	where, late := s.runs[i], int32(0)
	if where == target.AsView {
		return reject(n, "the target takes it for a view, and it is a step")
	}
	kernel := &s.Target.Kernels[n.Op.Kind()]
	if !s.NoLateReads {
		late = int32(s.Target.LateReads(n))
	}
	for k, v := range n.Inputs {
		l := s.layoutOf(v)
		if l == nil {
			continue
		}
		if !contiguous(l) && (where != target.OnKernel || kernel.Strided == nil || !kernel.Strided(n, k, l.Strides)) {
			return reject(n, "its operand %s has strides %v, by which it does not read operand %d", name(v), l.Strides, k)
		}
		if err := s.read(n, v, i, late); err != nil {
			return err
		}
	}
	sizes := s.Target.ScratchThere(where, n)
	if len(sizes) != len(s.Scratch[i]) {
		return reject(n, "it has %d buffers for scratch, and its kernel needs %d", len(s.Scratch[i]), len(sizes))
	}
	for k, b := range s.Scratch[i] {
		if b < 0 || b >= len(s.buffers) || s.buffers[b].owner != nil || s.buffers[b].isScratch {
			return reject(n, "its scratch %d is buffer %d, which is another's or none", k, b)
		}
		s.buffers[b].isScratch, s.buffers[b].bytes, s.buffers[b].first, s.buffers[b].last = true, sizes[k], i, i
	}
	for _, v := range n.Outputs {
		if err := s.store(n, v, i); err != nil {
			return err
		}
	}
	return nil
}

// read lets step i, or the caller after all steps, read a value; late is the number of later steps during which it may still read.
func (s *state) read(n *ir.Node, v *ir.Value, i, late int32) error {
	w := s.values[v.ID].written
	if w < 0 {
		return nil // a constant
	}
	x := &s.values[w]
	if x.step >= i {
		return reject(n, "it reads %s at step %d, and step %d writes it", name(v), i, x.step)
	}
	if x.lost < i {
		return reject(n, "it reads %s at step %d, and the result of step %d is over it", name(v), i, x.lost)
	}
	until := i
	if late > 0 {
		until = min(i+late, int32(len(s.Steps))-1)
		x.late = max(x.late, until)
	}
	x.read = max(x.read, i)
	b := &s.buffers[s.Buffers[s.Layouts[v.ID].Root.ID]]
	b.last = max(b.last, until)
	return nil
}

// store lets step i, or the caller before all steps, write a value. The values that it overwrites are lost: no later step may read them.
func (s *state) store(n *ir.Node, v *ir.Value, i int32) error {
	root, x := s.Layouts[v.ID].Root, &s.values[v.ID]
	number := s.Buffers[root.ID]
	if number < 0 || number >= len(s.buffers) {
		return reject(n, "%s has no buffer", name(v))
	}
	b := &s.buffers[number]
	if b.isScratch || b.owner != nil && b.owner != root {
		return reject(n, "%s is in buffer %d, which is another's", name(v), number)
	}
	if x.at == over {
		for w := b.top; w >= 0; {
			y := &s.values[w]
			if y.late >= i {
				return reject(n, "its result %s is over a value that an earlier step may still read until step %d", name(v), y.late)
			}
			w, y.lost, y.under = y.under, i, -1
		}
		b.top = -1
	}
	x.under, b.top = b.top, int32(v.ID)
	if b.owner == nil {
		b.owner, b.bytes, b.first = root, bytesOf(root), i
	}
	b.last = max(b.last, i)
	return nil
}

// grown demands that an output which may have the memory of an input only appends to it. An op that may write over what is there must come
// after all that reads the input.
func (s *state) grown() error {
	for o, i := range s.Grown {
		if i < 0 {
			continue
		}
		v, in := s.Graph.Outputs[o], s.Graph.Inputs[i]
		n, x := v.Def, &s.values[in.ID]
		appends, operand := false, 0
		if n != nil && len(n.Outputs) == 1 {
			switch op := n.Op.(type) {
			case ir.Concat:
				appends = op.Axis == 0
			case ir.Append:
				operand = ir.AppendCache
				appends = op.Axis == 0 && x.read <= s.values[v.ID].step && x.late < s.values[v.ID].step
			}
		}
		if !appends || ir.Operand(n.Inputs, operand) != in || s.Layouts[v.ID].Root != v || !s.isOutside(s.Buffers[v.ID]) ||
			!s.isOutside(s.Buffers[in.ID]) {
			return reject(n, "output %s may have the memory of input %s, and does not only append to it", name(v), name(in))
		}
	}
	return nil
}

// isOutside reports whether a buffer is a device tensor, in memory outside of the arenas.
func (s *state) isOutside(buffer int) bool {
	return s.Problem.Buffers[buffer].Boundary == planner.DeviceTensor
}

// A sweep finds buffers that overlap. Its tables are reused.
type sweep struct {
	order  []int32 // buffers by arena and offset: a buffer's position is its rank
	rank   []int32 // position of each buffer in order
	begin  []int32 // first buffer whose use begins at step s, at index s + 1; −1 for none; next links the others
	end    []int32 // the same for the end of the use
	next   [2][]int32
	active ranks.Set // the ranks of the buffers in use
}

// memory demands that each buffer is inside of its arena, aligned and large enough, and that no two overlap that are in use at one step.
func (s *state) memory() error {
	w := &s.sweep
	w.order = w.order[:0]
	for b := range s.buffers {
		u := &s.buffers[b]
		if u.owner == nil && !u.isScratch {
			continue
		}
		slot := s.Memory.Slots[b]
		if slot.Arena == planner.NoArena {
			if !s.isOutside(b) && s.Target.Segment == 0 {
				return reject(s.user(u), "%s has no memory", s.what(u))
			}
			continue
		}
		if slot.Size < u.bytes {
			return reject(s.user(u), "%s needs %d bytes, and its buffer has %d", s.what(u), u.bytes, slot.Size)
		}
		if slot.Arena < 0 || slot.Arena >= len(s.Memory.Arenas) || slot.Offset < 0 ||
			slot.Offset > s.Memory.Arenas[slot.Arena].Size-slot.Size {
			return reject(s.user(u), "%s is at byte %d of arena %d and has %d, which is not inside", s.what(u), slot.Offset, slot.Arena,
				slot.Size)
		}
		if slot.Offset%s.Target.Align != 0 {
			return reject(s.user(u), "%s is at byte %d, which is not a multiple of %d", s.what(u), slot.Offset, s.Target.Align)
		}
		if slot.Size > 0 {
			w.order = append(w.order, int32(b))
		}
	}
	return s.overlaps()
}

// overlaps sweeps over the steps. At each step it adds the buffers whose use begins, compares them with their neighbours by address among
// those in use, and removes the buffers whose use ends.
func (s *state) overlaps() error {
	w, slots := &s.sweep, s.Memory.Slots
	slices.SortFunc(w.order, func(a, b int32) int {
		return cmp.Or(cmp.Compare(slots[a].Arena, slots[b].Arena), cmp.Compare(slots[a].Offset, slots[b].Offset))
	})
	w.rank, w.active = cleared(w.rank, len(s.buffers)), w.active.Reset(len(w.order))
	for i, list := range []*[]int32{&w.begin, &w.end} {
		*list = cleared(*list, len(s.Steps)+2)
		for k := range *list {
			(*list)[k] = -1
		}
		w.next[i] = cleared(w.next[i], len(s.buffers))
	}
	for r, b := range w.order {
		u := &s.buffers[b]
		w.rank[b] = int32(r)
		w.next[0][b], w.begin[u.first+1] = w.begin[u.first+1], b
		w.next[1][b], w.end[u.last+1] = w.end[u.last+1], b
	}
	for t := range w.begin {
		for b := w.begin[t]; b >= 0; b = w.next[0][b] {
			r := int(w.rank[b])
			for _, k := range [2]int{w.active.Below(r), w.active.Above(r)} {
				if k < 0 {
					continue
				}
				c := w.order[k]
				if p, q := slots[b], slots[c]; p.Arena == q.Arena && p.Offset < q.Offset+q.Size && q.Offset < p.Offset+p.Size {
					u, v := &s.buffers[b], &s.buffers[c]
					return reject(s.user(u), "%s at bytes %d to %d and %s at bytes %d to %d are both in use at step %d", s.what(u),
						p.Offset, p.Offset+p.Size, s.what(v), q.Offset, q.Offset+q.Size, t-1)
				}
			}
			w.active.Add(r)
		}
		for b := w.end[t]; b >= 0; b = w.next[1][b] {
			w.active.Remove(int(w.rank[b]))
		}
	}
	return nil
}

// user returns the node that a rejection of a buffer names.
func (s *state) user(u *use) *ir.Node {
	if u.isScratch {
		return s.Steps[u.first]
	}
	return u.owner.Def
}

// what is what a rejection calls a buffer.
func (s *state) what(u *use) string {
	if u.isScratch {
		return "the scratch of " + s.Steps[u.first].Label()
	}
	return name(u.owner)
}
