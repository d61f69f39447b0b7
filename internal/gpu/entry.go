package gpu

import (
	"github.com/rlxc/rlxc/internal/target"
	"github.com/rlxc/rlxc/ir"
)

// An Entry is the row of a kernel table for one op. Its first four fields describe the kernel to the passes before planning, as in
// target.Kernel. Bind makes launches of a bound node. B is the backend's binder, O its operand and L its launch.
type Entry[B Resolver[O], O, L any] struct {
	Supports func(n *ir.Node) bool
	Strided  func(n *ir.Node, i int, strides []int) bool
	InPlace  func(n *ir.Node, i int) bool
	Scratch  func(n *ir.Node) []int64
	// Arranges reports whether Bind itself stores operand i, a constant, on the device, in a form of its own. nil means no operand.
	Arranges func(b B, n *ir.Node, i int) bool
	// Pieces reports whether operand i may be a constant that is larger than the device's largest binding. nil means no operand.
	Pieces func(i int) bool
	// Bind makes the launches, or returns ErrOnHost. Absent operands are nil.
	Bind func(b B, n *ir.Node, in, out []*O) ([]L, error)
}

// A Resolver finds the operands of a node.
type Resolver[O any] interface {
	// Resolve returns the operand of a value. If arranged is set, the value is a constant that the entry arranges; the operand then has the
	// constant's type and layout but no memory.
	Resolve(v *ir.Value, arranged bool) (*O, error)
}

// Kernel returns the description for the passes before planning.
func (e *Entry[B, O, L]) Kernel() target.Kernel {
	return target.Kernel{Runs: target.OnKernel, Supports: e.Supports, Strided: e.Strided, InPlace: e.InPlace, Scratch: e.Scratch}
}

// Launches resolves the operands of a node and returns the launches that Bind makes.
func (e *Entry[B, O, L]) Launches(b B, n *ir.Node) ([]L, error) {
	in, out := make([]*O, len(n.Inputs)), make([]*O, len(n.Outputs))
	var err error
	for i, v := range n.Inputs {
		if v == nil {
			continue
		}
		if in[i], err = b.Resolve(v, e.Arranges != nil && e.Arranges(b, n, i)); err != nil {
			return nil, err
		}
	}
	for i, v := range n.Outputs {
		if out[i], err = b.Resolve(v, false); err != nil {
			return nil, err
		}
	}
	return e.Bind(b, n, in, out)
}

// A Table is a backend's kernels by op. An op without an entry runs on the host.
type Table[B Resolver[O], O, L any] map[ir.Kind]Entry[B, O, L]

// Kernels returns the descriptions of all entries, for a target.
func (t Table[B, O, L]) Kernels() (kernels [ir.NumKinds]target.Kernel) {
	for kind, e := range t {
		kernels[kind] = e.Kernel()
	}
	return kernels
}
