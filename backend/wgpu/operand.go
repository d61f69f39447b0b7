package wgpu

import (
	"github.com/rlxc/rlxc/backend"
	"github.com/rlxc/rlxc/ir"
	"github.com/rlxc/rlxc/planner"
	"github.com/rlxc/rlxc/tensor"
)

// An operand is where a value of a bound graph lies on the device.
type operand struct {
	dtype    tensor.DType
	shape    tensor.Shape
	strides  []int // in elements
	off      int   // in bytes, from the start of its memory
	width    int   // bytes an element
	root     int   // ID of the root value
	memory   memory
	weight   *weight        // of constants, on the device
	constant *tensor.Tensor // of constants, on the host
}

// elements is the number of elements.
func (o *operand) elements() int { return o.shape.Elements() }

// first is the number of the operand's first element in its memory.
func (o *operand) first() int { return o.off / o.width }

// contiguous reports whether the elements lie row-major without gaps.
func (o *operand) contiguous() bool { return ir.Layout{Strides: o.strides}.Contiguous(o.shape) }

// binder resolves the operands of one program's steps.
type binder struct {
	d       *Device
	p       *backend.Planned
	own     map[*tensor.Tensor]*weight // constants of this binding alone
	scratch []int                      // the buffers of the current step's scratch
	status  int                        // words of the status memory in use
}

// layout gives the layout of a value; constants that no step looks at by strides have none of their own.
func (b *binder) layout(v *ir.Value) ir.Layout {
	if l := b.p.Layouts[v.ID]; l.Root != nil {
		return l
	}
	return ir.OwnLayout(v)
}

// slot finds the memory that the plan gave to a root, if it gave any.
func (b *binder) slot(root *ir.Value) (planner.Slot, bool) {
	i := b.p.Buffers[root.ID]
	if i < 0 {
		return planner.Slot{}, false
	}
	s := b.p.Plan.Slots[i]
	return s, s.Arena != planner.NoArena
}

// onDevice reports whether a value can be read and written by kernels: a tensor whose memory was planned, or a constant
// that one binding holds.
func (b *binder) onDevice(v *ir.Value, pieces bool) bool {
	if v.Type.Kind != ir.TensorType || v.Type.DType.Size() == 0 {
		return false
	}
	root := b.layout(v).Root
	if root.IsConst() {
		return root.Const != nil && (pieces || int64(len(root.Const.Bytes())) <= b.d.binding)
	}
	if v.Type.Sizes().Elements() == 0 {
		return true
	}
	_, ok := b.slot(root)
	return ok
}

// operand resolves a value that is on the device.
func (b *binder) operand(v *ir.Value) (operand, error) {
	l := b.layout(v)
	o := operand{dtype: v.Type.DType, shape: v.Type.Sizes(), width: v.Type.DType.Size(), strides: l.Strides, root: l.Root.ID}
	o.off = l.Offset * o.width
	if l.Root.IsConst() {
		w, err := b.weight(l.Root.Const)
		if err != nil {
			return o, err
		}
		o.weight, o.memory = w, memory{constant: w.pieces[0]}
		return o, nil
	}
	if s, ok := b.slot(l.Root); ok {
		o.off += int(s.Offset)
		o.memory.arena = s.Arena
	}
	return o, nil
}

// operands resolves a node's operands, absent ones as zero values, and its results.
func (b *binder) operands(n *ir.Node) (in, out []operand, err error) {
	for _, v := range n.Inputs {
		var o operand
		if v != nil {
			if o, err = b.operand(v); err != nil {
				return nil, nil, err
			}
		}
		in = append(in, o)
	}
	for _, v := range n.Outputs {
		o, err := b.operand(v)
		if err != nil {
			return nil, nil, err
		}
		out = append(out, o)
	}
	return in, out, nil
}

// scratchOperand resolves scratch buffer i of the current step as floats.
func (b *binder) scratchOperand(i int) operand {
	s := b.p.Plan.Slots[b.scratch[i]]
	n := int(s.Size) / 4
	return operand{dtype: tensor.F32, width: 4, shape: tensor.Shape{n}, strides: []int{1}, off: int(s.Offset), memory: memory{arena: s.Arena}}
}

// given reports whether operand i of n is there.
func given(n *ir.Node, i int) bool { return i < len(n.Inputs) && n.Inputs[i] != nil }
