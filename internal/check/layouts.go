package check

import (
	"slices"

	"github.com/rlxc/rlxc/internal/target"
	"github.com/rlxc/rlxc/ir"
)

// A value is what the check knows of a value of the graph. Steps are positions in Plan.Steps; −1 is the caller, before the first.
type value struct {
	// written is the ID of the value that a step or the caller writes and whose memory this one shows: its own ID unless it is a
	// view; −1 for constants and their views. The other fields are those of a written value.
	written int32
	step    int32 // the step that writes it
	at      storage
	lost    int32 // the step that writes another result over it; never if none does
	read    int32 // the last step so far that reads it
	late    int32 // the last step so far during which an earlier step still reads it; unused if none does
	under   int32 // the ID of the value in the same buffer that was written before and is intact; −1 for none
}

// Positions that no step has.
const (
	unused = -2      // before all steps and the caller
	never  = 1 << 30 // after all steps and the caller
)

// A storage is where a step writes a result.
type storage uint8

const (
	alone storage = iota // the result is the root of its buffer
	over                 // it overwrites an operand of its step, which is lost
	part                 // it lies in its place in the result of a Concat that reads it
)

// layouts demands of every value that it is where the ops and the types put it.
func (s *state) layouts() error {
	for i := range s.values {
		s.values[i] = value{written: -1, lost: never, read: unused, late: unused, under: -1}
	}
	for _, v := range s.Graph.Inputs {
		if err := s.alone(nil, v, -1); err != nil {
			return err
		}
	}
	for i, n := range s.Graph.Nodes {
		step := s.form.nodes[i].step
		for _, v := range n.Inputs {
			if l := s.layoutOf(v); v.IsConst() && l != nil && (l.Root != v || !s.rowMajor(v, l)) {
				return reject(n, "the constant %s is not row-major", name(v))
			}
		}
		if step < 0 {
			if err := s.view(n); err != nil {
				return err
			}
			continue
		}
		for k, v := range n.Outputs {
			var err error
			switch l := s.layoutOf(v); {
			case l == nil:
				err = reject(n, "its result %s has no layout", name(v))
			case l.Root == v:
				err = s.alone(n, v, step)
			case k > 0:
				err = reject(n, "its result %s is in the memory of %s: only the first result may be", name(v), name(l.Root))
			case isPart(v, l.Root):
				err = s.part(n, v, l, step)
			default:
				err = s.over(n, v, l, step)
			}
			if err != nil {
				return err
			}
		}
	}
	for _, v := range s.Graph.Outputs {
		if l := s.layoutOf(v); l == nil || s.values[v.ID].written < 0 || l.Root.Def == nil || !contiguous(l) {
			return reject(nil, "output %s is not row-major, or shows an input or a constant: the caller cannot read it", name(v))
		}
	}
	return nil
}

// layoutOf returns the layout of a value; nil for nil and for constants without one, which are row-major.
func (s *state) layoutOf(v *ir.Value) *ir.Layout {
	if v == nil || v.ID >= len(s.Layouts) || s.Layouts[v.ID].Root == nil {
		return nil
	}
	return &s.Layouts[v.ID]
}

// rowMajor reports whether a layout shows the value row-major, from the start of a buffer.
func (s *state) rowMajor(v *ir.Value, l *ir.Layout) bool {
	return l.Offset == 0 && fitsType(v, l) && contiguous(l)
}

// alone takes a value that is the root of a buffer.
func (s *state) alone(n *ir.Node, v *ir.Value, step int32) error {
	l := s.layoutOf(v)
	if l == nil || l.Root != v || !s.rowMajor(v, l) {
		return reject(n, "%s is not row-major in separate memory", name(v))
	}
	s.write(v, step, alone)
	return nil
}

func (s *state) write(v *ir.Value, step int32, at storage) {
	x := &s.values[v.ID]
	x.written, x.step, x.at = int32(v.ID), step, at
}

// fitsType reports whether a layout has the sizes of the value's type.
func fitsType(v *ir.Value, l *ir.Layout) bool {
	return len(l.Strides) == len(l.Shape) && sameSizes(v.Type.Shape, l.Shape)
}

// isPart reports whether a value may be in a root as a part of what a Concat joins.
func isPart(v, root *ir.Value) bool {
	return root.Def != nil && root.Def.Op.Kind() == ir.KindConcat && root.Def != v.Def && slices.Contains(root.Def.Inputs, v)
}

// part demands that a result is where the Concat that makes its root wants it: at the sum of the sizes of the operands before it, with the
// strides of the root. The kernel must write by these strides, and the Concat must be a kernel, which leaves such operands alone.
func (s *state) part(n *ir.Node, v *ir.Value, l *ir.Layout, step int32) error {
	root := l.Root
	axis, start, times := root.Def.Op.(ir.Concat).Axis, 0, 0
	for _, x := range root.Def.Inputs {
		if x == v {
			times++
		} else if times == 0 {
			start += x.Type.Shape[axis].Int()
		}
	}
	stride, same := 1, fitsType(v, l) && v.Type.DType == root.Type.DType && times == 1
	for i := len(l.Shape) - 1; same && i >= 0; i-- {
		same = l.Shape[i] <= 1 || l.Strides[i] == stride
		if i == axis {
			same = same && l.Offset == start*stride
		}
		stride *= root.Type.Shape[i].Int()
	}
	if !same && v.Type.Elements() > 0 {
		return reject(n, "its result %s is at element %d of %s with strides %v, and %s wants it from %d of axis %d on", name(v), l.Offset,
			name(root), l.Strides, root.Def.Label(), start, axis)
	}
	if !s.stridedResult(n, step, l.Strides) || s.Target.Where(root.Def) != target.OnKernel {
		return reject(n, "its kernel does not write %s by strides %v into %s", name(v), l.Strides, name(root))
	}
	s.write(v, step, part)
	return nil
}

// stridedResult reports whether the kernel of a step writes result 0 by strides and touches nothing else.
func (s *state) stridedResult(n *ir.Node, step int32, strides []int) bool {
	k := &s.Target.Kernels[n.Op.Kind()]
	return s.runs[step] == target.OnKernel && k.StridedResult != nil && k.StridedResult(n, strides)
}

// over demands that a result in the memory of another value is over an operand: over all of it, row-major, or over the same elements of a
// slice of a buffer. The kernel must permit it, and what else it reads of the buffer must be elsewhere or be read in the same way.
func (s *state) over(n *ir.Node, v *ir.Value, l *ir.Layout, step int32) error {
	if !fitsType(v, l) {
		return reject(n, "the layout of its result %s has the shape %v, and the type is %v", name(v), l.Shape, v.Type)
	}
	if v.Type.Elements() == 0 { // nothing is written
		s.write(v, step, over)
		return nil
	}
	root, whole := l.Root, s.whole(v, l)
	at := -1
	for i, x := range n.Inputs {
		if o := s.layoutOf(x); o == nil || o.Root != root || s.values[x.ID].written < 0 {
			continue
		} else if s.Target.InPlaceThere(s.runs[step], n, i) && (whole && s.whole(x, o) ||
			!whole && x.Type.Equal(v.Type) && sameElements(o, l) && injective(l) && s.stridedResult(n, step, l.Strides)) {
			at = i
			break
		}
	}
	if at < 0 {
		return reject(n, "its result %s is at element %d of %s with strides %v, where the kernel may not write it: no operand that it may "+
			"write over is there", name(v), l.Offset, name(root), l.Strides)
	}
	for i, x := range n.Inputs {
		o := s.layoutOf(x)
		if i == at || o == nil || o.Root != root {
			continue
		}
		if whole && !(s.whole(x, o) && s.Target.InPlaceThere(s.runs[step], n, i)) || !whole && !disjoint(l, o) {
			return reject(n, "its result %s is over its operand %s, which it reads in another way", name(v), name(x))
		}
	}
	s.write(v, step, over)
	return nil
}

// whole reports whether a value shows all bytes of its root, row-major.
func (s *state) whole(v *ir.Value, l *ir.Layout) bool {
	return s.rowMajor(v, l) && bytesOf(v) == bytesOf(l.Root)
}

func bytesOf(v *ir.Value) int64 { return int64(v.Type.DType.Bytes(v.Type.Elements())) }

// view demands that a view shows the elements of its operand that its op means. Element [i,j,…] of the view is at
// offset + i·stride[0] + j·stride[1] + …, and the element of the operand must be at the same address.
func (s *state) view(n *ir.Node) error {
	x, v := n.Inputs[0], n.Outputs[0]
	in, l := s.layoutOf(x), s.layoutOf(v)
	if in == nil && x.IsConst() {
		own := ir.OwnLayout(x)
		in = &own
	}
	switch {
	case v.Type.DType.Size() == 0:
		return reject(n, "elements of %s do not start at bytes: no view can show some", v.Type.DType)
	case in == nil || l == nil || !fitsType(v, l):
		return reject(n, "the layout of the view %s does not have the shape %v", name(v), v.Type.Shape)
	case l.Root != in.Root:
		return reject(n, "the view %s shows memory of %s, and its operand is in %s", name(v), name(l.Root), name(in.Root))
	}
	s.values[v.ID].written = s.values[x.ID].written
	if slices.Contains(l.Shape, 0) {
		return nil // it shows nothing
	}
	same := false
	switch op := n.Op.(type) {
	case ir.Reshape:
		same = s.sameSequence(in, l)
	case ir.Transpose:
		same = l.Offset == in.Offset
		for i, axis := range op.Perm {
			same = same && (l.Shape[i] == 1 || l.Strides[i] == in.Strides[axis])
		}
	case ir.Slice:
		same = sliceOf(in, l, op)
	case ir.Expand:
		same = l.Offset == in.Offset
		for i, size := range l.Shape {
			k, stride := i-(len(l.Shape)-len(in.Shape)), 0
			if k >= 0 && in.Shape[k] != 1 {
				stride = in.Strides[k]
			}
			same = same && (size == 1 || l.Strides[i] == stride)
		}
	}
	if !same {
		return reject(n, "the view %s is at element %d of %s with strides %v, which is not what %+v shows of its operand at element %d "+
			"with strides %v", name(v), l.Offset, name(l.Root), l.Strides, n.Op, in.Offset, in.Strides)
	}
	return nil
}

// sliceOf reports whether a layout is that slice of another one, and inside of it. A slice that walks backwards is a step, since no kernel
// and no rule of this package takes negative strides.
func sliceOf(in, l *ir.Layout, op ir.Slice) bool {
	offset := in.Offset
	for i, size := range l.Shape {
		start := op.Starts[i].Int()
		last := start + (size-1)*op.Steps[i]
		if start < 0 || op.Steps[i] < 0 || last >= in.Shape[i] || size > 1 && l.Strides[i] != in.Strides[i]*op.Steps[i] {
			return false
		}
		offset += start * in.Strides[i]
	}
	return l.Offset == offset
}

// sameSequence reports whether two layouts, read in row-major order, show the same addresses one after the other. Axes that continue each
// other are joined: [2,3,4] with strides [24,8,1] and [6,4] with strides [8,1] both become 6 by 8, then 4 by 1.
func (s *state) sameSequence(a, b *ir.Layout) bool {
	r := &s.axes
	r[0], r[1] = joinAxes(a, r[0][:0], r[1][:0])
	r[2], r[3] = joinAxes(b, r[2][:0], r[3][:0])
	return a.Offset == b.Offset && slices.Equal(r[0], r[2]) && slices.Equal(r[1], r[3])
}

// joinAxes appends the sizes and strides of a layout's axes from the last to the first, without axes of size 1.
func joinAxes(l *ir.Layout, sizes, strides []int) ([]int, []int) {
	for i := len(l.Shape) - 1; i >= 0; i-- {
		last := len(sizes) - 1
		switch {
		case l.Shape[i] == 1:
		case last >= 0 && l.Strides[i] == sizes[last]*strides[last]:
			sizes[last] *= l.Shape[i]
		default:
			sizes, strides = append(sizes, l.Shape[i]), append(strides, l.Strides[i])
		}
	}
	return sizes, strides
}

// contiguous reports whether a layout is row-major without gaps.
func contiguous(l *ir.Layout) bool {
	stride, same := 1, true
	for i := len(l.Shape) - 1; i >= 0; i-- {
		same = same && (l.Shape[i] == 1 || l.Strides[i] == stride)
		stride *= l.Shape[i]
	}
	return same || stride == 0
}

// sameElements reports whether two layouts of one shape show the same addresses.
func sameElements(a, b *ir.Layout) bool {
	for i, size := range a.Shape {
		if size > 1 && a.Strides[i] != b.Strides[i] {
			return false
		}
	}
	return a.Offset == b.Offset
}

// injective reports whether a layout shows each address once: from the smallest stride up, each stride is beyond all addresses that the
// axes before it reach. For example, [3,2] with strides [2,1] is, and strides [1,1] or [0,1] are not.
func injective(l *ir.Layout) bool {
	reach := 0
	for axes := 0; ; axes++ {
		next, rest := -1, 0 // the axis of the smallest stride beyond reach, and how many axes of more than one element there are
		for i, size := range l.Shape {
			if size <= 1 {
				continue
			}
			if rest++; l.Strides[i] > reach && (next < 0 || l.Strides[i] < l.Strides[next]) {
				next = i
			}
		}
		if next < 0 {
			return axes == rest
		}
		reach += (l.Shape[next] - 1) * l.Strides[next]
	}
}

// disjoint reports whether two layouts in one memory have no address in common. It cuts the memory into rows, and looks for a length of a
// row at which either layout has its own range of columns in each row. It tries each stride of a as the length, and one row that is as long
// as the memory. For example, queries, keys and values beside each other are the columns 0 to width, width to 2·width and 2·width to
// 3·width of rows of 3·width elements.
func disjoint(a, b *ir.Layout) bool {
	if slices.Contains(a.Shape, 0) || slices.Contains(b.Shape, 0) {
		return true
	}
	apart := func(row int) bool {
		lowA, highA := columns(a, row)
		lowB, highB := columns(b, row)
		return highA <= row && highB <= row && (highA <= lowB || highB <= lowA)
	}
	if apart(1 << 62) {
		return true
	}
	return slices.ContainsFunc(a.Strides, func(row int) bool { return row > 0 && apart(row) })
}

// columns returns the first and the end of the columns that a layout shows of rows of a length. The end is above the length if the layout
// crosses rows.
func columns(l *ir.Layout, row int) (low, high int) {
	low = l.Offset % row
	high = low + 1
	for i, size := range l.Shape {
		if l.Strides[i]%row != 0 {
			high += (size - 1) * l.Strides[i]
		}
	}
	return low, high
}
