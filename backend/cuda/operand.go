package cuda

import (
	"github.com/rlxc/rlxc/internal/backend"
	"github.com/rlxc/rlxc/internal/driver"
	"github.com/rlxc/rlxc/internal/gpu"
	"github.com/rlxc/rlxc/ir"
	"github.com/rlxc/rlxc/tensor"
)

// An address is where something is on the device: a driver.Pointer, or a location in a segment, which is only known when a launch is
// recorded.
type address uint64

// Locations have this bit. Below it they have one more than the number of the segment, and the offset.
const (
	inSegment    address = 1 << 63
	segmentShift         = 48
	offsetMask   address = 1<<segmentShift - 1
)

// addressOf is the address that is off bytes after a location.
func addressOf(p gpu.Location, off int) address {
	return inSegment | address(p.Segment+1)<<segmentShift | address(p.Offset+int64(off))
}

// segments finds the memory of a segment.
type segments func(segment int) backend.Buffer

func (s segments) pointer(p gpu.Location) driver.Pointer {
	return s(p.Segment).(*buffer).at + driver.Pointer(p.Offset)
}

// resolve finds the pointer of an address.
func (a address) resolve(s segments) driver.Pointer {
	if a&inSegment == 0 {
		return driver.Pointer(a)
	}
	return s.pointer(gpu.Location{Segment: int(a&^inSegment>>segmentShift) - 1, Offset: int64(a & offsetMask)})
}

// An operand is a value and where it is.
type operand struct {
	gpu.Operand
	at       address
	constant *tensor.Tensor // the value on the host, if it is a constant; otherwise nil
}

// aligned reports whether the operand starts at a multiple of n bytes.
func (o *operand) aligned(n int) bool { return int(o.at&offsetMask)%n == 0 }

// pointer is the address, or null for an absent operand.
func (o *operand) pointer() address {
	if o == nil {
		return 0
	}
	return o.at
}

// fixed reports whether no kernel writes the operand, which may be absent.
func (o *operand) fixed() bool { return o == nil || o.constant != nil }

// binder resolves the operands of one program's steps.
type binder struct {
	d        *Device
	p        *gpu.Locations
	own      weights  // constants of this binding alone
	node     *ir.Node // node that is being bound
	scratch  []int    // indices of its scratch buffers in the plan
	launches []*launch
}

// Binder implements gpu.Driver.
func (d *Device) Binder(p *gpu.Locations) gpu.Binder { return &binder{d: d, p: p} }

// Abandon implements gpu.Binder.
func (b *binder) Abandon() {
	if leave, err := b.d.ctx.Enter(); err == nil {
		b.own.free(b.d.ctx)
		leave()
	}
}

// Reads implements gpu.Binder.
func (b *binder) Reads(*ir.Node, *ir.Value) bool { return true }

// Bind implements gpu.Binder.
func (b *binder) Bind(n *ir.Node, scratch []int) (int, error) {
	b.node, b.scratch = n, scratch
	e := b.d.table[n.Op.Kind()]
	launches, err := e.Launches(b, n)
	b.launches = append(b.launches, launches...)
	return len(launches), err
}

// report makes a location for an index of the current node that is outside of an axis.
func (b *binder) report(axis, size int) address {
	off := b.p.Report(b.node, func(index int64) error { return backend.OutOfRange(index, axis, size) })
	return addressOf(gpu.Location{Segment: gpu.Status}, off)
}

// Resolve implements gpu.Resolver.
func (b *binder) Resolve(v *ir.Value, arranged bool) (*operand, error) {
	l := b.p.Layout(v)
	o := &operand{Operand: gpu.Operand{DType: v.Type.DType, Shape: v.Type.Sizes(), Strides: l.Strides, Width: v.Type.DType.Size()}}
	if !l.Root.IsConst() {
		if at, ok := b.p.At(l.Root); ok {
			o.at = addressOf(at, l.Offset*o.Width)
		}
		return o, nil
	}
	if o.constant = l.Root.Const; arranged {
		return o, nil
	}
	at, err := b.constant(o.constant)
	o.at = at + address(l.Offset*o.Width)
	return o, err
}

// scratchAt is where scratch buffer i of the current step is.
func (b *binder) scratchAt(i int) address {
	at, _ := b.p.Buffer(b.scratch[i])
	return addressOf(at, 0)
}

// kinds numbers the element types as the kernels do (Kind in _gen/common.cuh).
var kinds = map[tensor.DType]int32{
	tensor.F32: 0, tensor.F16: 1, tensor.BF16: 2, tensor.F64: 3, tensor.I64: 4, tensor.I32: 5, tensor.I16: 6, tensor.I8: 7,
	tensor.U8: 8, tensor.U16: 9, tensor.U32: 10, tensor.Bool: 11,
}

// floats are the types that kernels of floats take, with what names of kernels have for them. They compute in float32.
var floats = map[tensor.DType]string{tensor.F32: "f32", tensor.F16: "f16", tensor.BF16: "bf16"}

func isFloat(d tensor.DType) bool { return floats[d] != "" }

// isCounted reports whether reductions take the type.
func isCounted(d tensor.DType) bool { return isFloat(d) || d == tensor.I64 || d == tensor.I32 }
