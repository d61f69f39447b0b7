package cuda

import (
	"fmt"

	"github.com/rlxc/rlxc/internal/backend"
	"github.com/rlxc/rlxc/internal/driver"
	"github.com/rlxc/rlxc/ir"
	"github.com/rlxc/rlxc/tensor"
)

// An address is where something lies on the device: a driver.Pointer, or a place in the memory of a session, which is not known
// before a launch is recorded.
type address uint64

// Places have one of these bits. Below them, an arena's have its number and the offset.
const (
	inArena     address = 1 << 63
	inStatus    address = 1 << 62
	arenaShift          = 48
	offsetMask  address = 1<<arenaShift - 1
	statusBytes         = 16 // of a report: Status in _gen/common.cuh
)

// resolve finds the pointer of an address in a session's memory.
func (a address) resolve(m *arena) driver.Pointer {
	switch {
	case a&inArena != 0:
		return m.segments[a&^inArena>>arenaShift].at + driver.Pointer(a&offsetMask)
	case a&inStatus != 0:
		return m.status.at + driver.Pointer(a&offsetMask)
	}
	return driver.Pointer(a)
}

// An operand is where a value of a bound graph lies.
type operand struct {
	dtype    tensor.DType
	shape    tensor.Shape
	strides  []int // in elements
	width    int   // bytes an element
	at       address
	off      int            // in bytes, from the start of its root
	root     int            // ID of the root value
	constant *tensor.Tensor // of constants, on the host
}

// Axes implements backend.Operand.
func (o *operand) Axes() (shape tensor.Shape, strides []int) { return o.shape, o.strides }

// elements is the number of elements.
func (o *operand) elements() int { return o.shape.Elements() }

// contiguous reports whether the elements lie row-major without gaps.
func (o *operand) contiguous() bool { return ir.Layout{Strides: o.strides}.Contiguous(o.shape) }

// aligned reports whether the operand starts at a multiple of n bytes.
func (o *operand) aligned(n int) bool { return int(o.at&offsetMask)%n == 0 }

// pointer is the address, or null for an absent operand.
func (o *operand) pointer() address {
	if o == nil {
		return 0
	}
	return o.at
}

// binder resolves the operands of one program's steps.
type binder struct {
	d       *Device
	p       *backend.Planned
	own     weights  // constants of this binding alone
	node    *ir.Node // of the current step
	scratch []int    // the buffers of its scratch
	reports []report
}

// A report is a place where kernels leave an index that lies outside of an axis.
type report struct {
	node       *ir.Node
	axis, size int
}

// report makes a place for the current node.
func (b *binder) report(axis, size int) address {
	b.reports = append(b.reports, report{b.node, axis, size})
	return inStatus | address(statusBytes*(len(b.reports)-1))
}

// onDevice reports whether kernels can read and write a value: a tensor whose memory was planned, or a constant.
func (b *binder) onDevice(v *ir.Value) bool {
	if v.Type.Kind != ir.TensorType || v.Type.DType.Size() == 0 {
		return false
	}
	root := b.p.Layout(v).Root
	if root.IsConst() {
		return root.Const != nil
	}
	if v.Type.Sizes().Elements() == 0 {
		return true
	}
	_, ok := b.p.Slot(root)
	return ok
}

// place finds where a value lies, but for constants, which may not be on the device yet.
func (b *binder) place(v *ir.Value) operand {
	l := b.p.Layout(v)
	o := operand{dtype: v.Type.DType, width: v.Type.DType.Size(), strides: l.Strides, root: l.Root.ID}
	if v.Type.Kind == ir.TensorType {
		o.shape = v.Type.Sizes()
	}
	o.off = l.Offset * o.width
	if l.Root.IsConst() {
		o.constant = l.Root.Const
	} else if s, ok := b.p.Slot(l.Root); ok {
		o.at = inArena | address(s.Arena)<<arenaShift | address(s.Offset+int64(o.off))
	}
	return o
}

// operand is place with constants.
func (b *binder) operand(v *ir.Value) (operand, error) {
	o := b.place(v)
	if o.constant != nil {
		at, err := b.constant(o.constant)
		if err != nil {
			return o, err
		}
		o.at = at + address(o.off)
	}
	return o, nil
}

// operands resolves a node's operands, nil where they are absent, and its results.
func (b *binder) operands(n *ir.Node) (in, out []*operand, err error) { return b.operandsBut(n, nil) }

// operandsBut is operands that leaves constants at the positions that later has to be arranged.
func (b *binder) operandsBut(n *ir.Node, later func(i int) bool) (in, out []*operand, err error) {
	for i, v := range n.Inputs {
		var o *operand
		if v != nil {
			x := b.place(v)
			if later == nil || !later(i) {
				if x, err = b.operand(v); err != nil {
					return nil, nil, err
				}
			}
			o = &x
		}
		in = append(in, o)
	}
	for _, v := range n.Outputs {
		o := b.place(v)
		out = append(out, &o)
	}
	return in, out, nil
}

// option returns operand i, or nil where it is absent.
func option(in []*operand, i int) *operand {
	if i < len(in) {
		return in[i]
	}
	return nil
}

// scratchAt is where scratch buffer i of the current step lies.
func (b *binder) scratchAt(i int) address {
	s := b.p.Plan.Slots[b.scratch[i]]
	return inArena | address(s.Arena)<<arenaShift | address(s.Offset)
}

func (o *operand) String() string { return fmt.Sprintf("%s%v", o.dtype, o.shape) }
