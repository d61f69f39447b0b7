package cpu

import (
	"slices"
	"unsafe"

	"github.com/rlxc/rlxc/internal/backend"
	"github.com/rlxc/rlxc/ir"
	"github.com/rlxc/rlxc/planner"
	"github.com/rlxc/rlxc/tensor"
)

// An operand is a value of a bound graph, and where it is.
type operand struct {
	location
	dtype   tensor.DType
	outside bool // the operand is not in the arena
	shape   tensor.Shape
	strides []int // distances between neighbours along each axis, in elements
	span    int   // number of elements from the first to the last, gaps included; bytes if width is 0
	width   int   // bytes of an element; 0 for types of less than a byte
	root    int   // ID of the root value
	// slot n > 0 places the operand location.off bytes after machine.locations[n-1]. It is used if several steps share a closure. 0 means
	// that location is the operand's own.
	slot int
}

// at is the address of the operand's first element.
func (o *operand) at(m *machine) unsafe.Pointer {
	p, off := &o.location, o.off
	if o.slot > 0 {
		p = &m.locations[o.slot-1]
		off += p.off
	}
	if p.constant != nil {
		return unsafe.Add(p.constant, off)
	}
	return unsafe.Add(m.bases[p.base], off)
}

// bytes is the operand's memory, from its first element to its last.
func (o *operand) bytes(m *machine) []byte {
	n := o.span * max(o.width, 1)
	if n == 0 {
		return nil
	}
	return unsafe.Slice((*byte)(o.at(m)), n)
}

// elements sees the operand's memory, from its first element to its last, as elements of T.
func elements[T tensor.Element](m *machine, o *operand) []T {
	if o.span == 0 {
		return nil
	}
	return unsafe.Slice((*T)(o.at(m)), o.span)
}

func (o *operand) f32(m *machine) []float32 { return elements[float32](m, o) }

// Axes implements backend.Operand.
func (o *operand) Axes() (shape tensor.Shape, strides []int) { return o.shape, o.strides }

// len is the number of elements.
func (o *operand) len() int { return o.shape.Elements() }

// tensor shows a row-major operand as a tensor, for host kernels.
func (o *operand) tensor(m *machine) *tensor.Tensor {
	if o.dtype == tensor.String {
		return m.objects[o.root].Reshape(o.shape...)
	}
	t, err := tensor.FromBytes(o.dtype, o.shape, o.bytes(m))
	if err != nil {
		panic(err) // the plan gave the buffer its size
	}
	return t
}

// binder resolves the operands of one program's steps.
type binder struct {
	d         *processor
	p         *backend.Planned
	scratch   []int          // indices of the scratch buffers of the step that is being bound
	inner     *operand       // scratch of an op inside that step, if it is not a buffer of its own; otherwise nil
	slots     int            // number of slots of that step, if several steps share its closure
	room      []location     // memory for the locations of the next steps
	registers map[int]filled // registers with repeated constants, by the ID of the constant
	// instead has operands that replace values in that step: float32 ones of 16-bit values, and those of the values of a tile, which the
	// plan does not have. The last one of a value counts.
	instead []substitute
	widened map[*tensor.Tensor]*tensor.Tensor // constants that the tiles of that step have as float32; nil if it runs at once
}

// A substitute is the operand that a step has in place of a value.
type substitute struct {
	id int // ID of the value
	operand
}

// A filled register has the number of a constant, repeated, as long as the constant is that one.
type filled struct {
	number *tensor.Tensor
	data   []byte
}

// operand resolves a value.
func (b *binder) operand(v *ir.Value) operand {
	for _, s := range slices.Backward(b.instead) {
		if s.id == v.ID {
			return s.operand
		}
	}
	l := b.p.Layout(v)
	o := operand{dtype: v.Type.DType, shape: l.Shape, strides: l.Strides, span: l.Span(), width: v.Type.DType.Size(), root: l.Root.ID}
	if o.width == 0 {
		o.span = v.Type.DType.Bytes(o.span)
	}
	o.location = b.location(l.Root, l.Offset*o.width)
	o.outside = !l.Root.IsConst() && b.p.Problem.Buffers[o.base].Boundary == planner.DeviceTensor
	return o
}

// location resolves the location at an offset of a root.
func (b *binder) location(root *ir.Value, off int) location {
	p := location{base: b.p.Buffers[root.ID]}
	switch {
	case root.Packed != nil && root.Packed.Data != nil: // what lacks its data, the kernel refuses
		return locationOf(root.Packed.Data.Bytes())
	case root.Const != nil:
		p = locationOf(root.Const.Bytes())
	}
	p.off = off
	return p
}

// locations resolves the locations of a node's operands, results and scratch, in this order. Those of other sizes are often the same.
func (b *binder) locations(n *ir.Node, before []location) []location {
	count := len(n.Inputs) + len(n.Outputs) + len(b.scratch)
	if len(b.room) < count {
		b.room = make([]location, max(count, locationsAtOnce))
	}
	all := b.room[:count:count]
	for i := range count - len(b.scratch) {
		v := ir.Operand(n.Inputs, i)
		if i >= len(n.Inputs) {
			v = n.Outputs[i-len(n.Inputs)]
		}
		if all[i] = (location{}); v == nil {
			continue
		}
		root, off := v, 0
		if l := ir.LayoutIn(b.p.Layouts, v); l != nil {
			root, off = l.Root, l.Offset*v.Type.DType.Size()
		}
		all[i] = b.location(root, off)
	}
	for i, buffer := range b.scratch {
		all[count-len(b.scratch)+i] = location{base: buffer}
	}
	if slices.Equal(all, before) {
		return before
	}
	b.room = b.room[count:]
	return all
}

// locationsAtOnce is how many locations are allocated at once.
const locationsAtOnce = 256

// share makes a step's operands and results, and the scratch that it resolves from now on, those of the machine's locations.
func (b *binder) share(n *ir.Node, in, out []operand) {
	for _, list := range [][]operand{in[:len(n.Inputs)], out} {
		for i := range list {
			b.slots++
			list[i].location, list[i].slot = location{}, b.slots
		}
	}
}

// onesOf is the scale of a norm that has none.
func onesOf(cols int) *operand {
	ones := tensor.FromSlice(slices.Repeat([]float32{1}, cols))
	return &operand{dtype: tensor.F32, location: locationOf(ones.Bytes()), span: cols, width: 4}
}

// operands resolves a node's operands, absent ones as zero values, and its results. They are the node's step's: it may point to them.
func (b *binder) operands(n *ir.Node) (in, out []operand) {
	count := max(len(n.Inputs), ir.DefOf(n.Op).MaxIn)
	all := make([]operand, count+len(n.Outputs))
	in, out = all[:count:count], all[count:]
	for i, v := range n.Inputs {
		if v != nil {
			in[i] = b.operand(v)
		}
	}
	for i, v := range n.Outputs {
		out[i] = b.operand(v)
	}
	return in, out
}

// scratchBytes resolves scratch buffer i of the current step.
func (b *binder) scratchBytes(i int) operand {
	if b.inner != nil {
		return *b.inner
	}
	o := operand{span: int(b.p.Plan.Slots[b.scratch[i]].Size), width: 1, dtype: tensor.U8}
	if b.slots > 0 {
		o.slot = 1 + b.slots + i
	} else {
		o.base = b.scratch[i]
	}
	return o
}

// part sees a piece of scratch as another type.
func (o operand) part(off, n int, d tensor.DType) operand {
	o.off += off
	o.dtype, o.width, o.span = d, d.Size(), n
	return o
}

// cut is a slice of an operand along an axis.
func (o operand) cut(axis, start, size int) operand {
	o.shape = slices.Clone(o.shape)
	o.shape[axis] = size
	o.off += start * o.strides[axis] * o.width
	o.span = ir.Layout{Shape: o.shape, Strides: o.strides}.Span()
	return o
}

// mergesRows reports whether all axes but the last are evenly strided, so that the tensor is one matrix. Strides of axes of
// size 1 do not matter.
func mergesRows(s tensor.Shape, strides []int) bool {
	inner := -1 // the next axis inwards that is longer than 1
	for i := len(s) - 2; i >= 0; i-- {
		if s[i] == 1 {
			continue
		}
		if inner >= 0 && strides[i] != s[inner]*strides[inner] {
			return false
		}
		inner = i
	}
	return true
}

// rowsApart reports whether the strides of result 0 of a node are those of a matrix whose rows may be further apart than they are long.
func rowsApart(n *ir.Node, strides []int) bool {
	s := n.Outputs[0].Type.Sizes()
	return len(s) > 1 && strides[len(s)-1] == 1 && mergesRows(s, strides)
}

// offsets returns, for every product of a batch, the operand's first element; the operand's leading axes broadcast. An operand without
// elements has none.
func offsets(lead tensor.Shape, o *operand) []int {
	out := make([]int, lead.Elements())
	if slices.Contains(o.shape, 0) {
		return out
	}
	st := lead.Strides()
	skip := len(lead) - (len(o.shape) - 2)
	for i := range out {
		for k := range lead {
			if j := k - skip; j >= 0 && o.shape[j] != 1 {
				out[i] += i / st[k] % lead[k] * o.strides[j]
			}
		}
	}
	return out
}

// rowStride is the distance of the rows of a tensor seen as a matrix: the stride of the innermost of its leading axes
// that is longer than 1.
func rowStride(o *operand) int {
	for i := len(o.shape) - 2; i >= 0; i-- {
		if o.shape[i] != 1 {
			return o.strides[i]
		}
	}
	return o.shape[len(o.shape)-1]
}

// rows is a number of rows of the operand, seen as one matrix, from a row on; an absent one stays absent.
func (o operand) rows(first, number int) operand {
	if o.shape == nil {
		return o
	}
	row, last := rowStride(&o), len(o.shape)-1
	o.shape, o.strides = tensor.Shape{number, o.shape[last]}, []int{row, o.strides[last]}
	o.span = ir.Layout{Shape: o.shape, Strides: o.strides}.Span()
	o.off += first * row * o.width
	return o
}
