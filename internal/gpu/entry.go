package gpu

import (
	"github.com/rlxc/rlxc/internal/target"
	"github.com/rlxc/rlxc/ir"
)

// An Entry of a kernel table says how a device runs an op: what the passes before planning need to know (target.Kernel), and how a bound
// node becomes launches. B is the backend's binder, O its operand and L its launch.
type Entry[B Resolver[O], O, L any] struct {
	Supports func(n *ir.Node) bool
	Strided  func(n *ir.Node, i int, strides []int) bool
	InPlace  func(n *ir.Node, i int) bool
	Scratch  func(n *ir.Node) []int64
	// Arranges reports whether Bind brings operand i, a constant, to the device in a separate form; nil for none.
	Arranges func(b B, n *ir.Node, i int) bool
	// Pieces reports whether operand i may be a constant above the device's largest binding; nil for none.
	Pieces func(i int) bool
	// Bind makes the launches, or returns ErrOnHost. Absent operands are nil.
	Bind func(b B, n *ir.Node, in, out []*O) ([]L, error)
}

// A Resolver finds the operands of a node. One that the entry arranges is described, and is nowhere yet.
type Resolver[O any] interface {
	Resolve(v *ir.Value, arranged bool) (*O, error)
}

// Kernel is what the passes before planning need to know.
func (e *Entry[B, O, L]) Kernel() target.Kernel {
	return target.Kernel{Runs: target.OnKernel, Supports: e.Supports, Strided: e.Strided, InPlace: e.InPlace, Scratch: e.Scratch}
}

// Launches resolves the operands of a node and binds it.
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

// A Table is the list of a backend's kernels. An op without an entry runs on the host.
type Table[B Resolver[O], O, L any] map[ir.Kind]Entry[B, O, L]

// Kernels are those of a target.
func (t Table[B, O, L]) Kernels() (kernels [ir.NumKinds]target.Kernel) {
	for kind, e := range t {
		kernels[kind] = e.Kernel()
	}
	return kernels
}
