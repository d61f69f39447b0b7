// Package target describes what a device can do, as one value. Everything before planning asks it, never the backend.
package target

import (
	"fmt"

	"github.com/rlxc/rlxc/ir"
	"github.com/rlxc/rlxc/tensor"
)

// A Target describes a backend.
type Target struct {
	Name string
	// Align is the alignment in bytes of every buffer's offset in the arena.
	Align int64
	// Segment is the largest binding in bytes; 0 means no limit.
	Segment int64
	// Resizes reports whether giving a loaded program other sizes takes little time: less than a few steps do.
	Resizes bool
	// Kernels describes the kernel of every op that has one. The others run on the host.
	Kernels [ir.NumKinds]Kernel
}

// Runs is the place where an op runs.
type Runs uint8

// The places.
const (
	OnHost   Runs = iota // the host runs the op's own Eval
	OnKernel             // the device runs a kernel
	AsView               // the op does not run: its result is a view of its operand's memory
)

// A Kernel is what the passes before planning need to know of a kernel. Functions left nil mean no.
type Kernel struct {
	Runs Runs
	// Supports reports whether the kernel takes this node (of a bound or symbolic graph); nil: every node of the kind. A
	// node that it does not take runs on the host.
	Supports func(n *ir.Node) bool
	// Strided reports whether operand i may have these strides (in elements) instead of being row-major.
	Strided func(n *ir.Node, i int, strides []int) bool
	// InPlace reports whether the kernel may write result 0 over operand i, of equal size, which dies at the node.
	InPlace func(n *ir.Node, i int) bool
	// StridedResult reports whether the kernel writes result 0 by these strides and touches nothing else there: over an operand that
	// InPlace allows and that is a part of a buffer, though other operands be other parts of it; or into the result of a Concat, whose
	// kernel leaves what is there already.
	StridedResult func(n *ir.Node, strides []int) bool
	// Scratch returns the sizes in bytes of the buffers that the kernel needs while it runs.
	Scratch func(n *ir.Node) []int64
	// Algorithm returns a number for the algorithm that the kernel uses for a bound node; nil: one for all sizes. Of two nodes that differ
	// only in their number of rows, equal rows have results of equal bits if the algorithm is the same.
	Algorithm func(n *ir.Node) int
	// LateReads is the number of steps after its own during which the kernel may still read its operands (deferred host
	// kernels, asynchronous copies).
	LateReads func(n *ir.Node) int
	// TakesStored says of a node that the kernel runs whether it packs operand i, which a Dequantize or a Cast widens, as constants hold
	// it: as quantized values or 16-bit floats. nil: of none.
	TakesStored func(n *ir.Node, i int) bool
	// Shares reports whether steps of nodes that are alike share what is made for one: the kernel has nothing of its node but sizes, fields
	// of the op and operands.
	Shares func(n *ir.Node) bool
	// ReadsPacked reports whether the kernel of an attention reads the buffer of which its queries, keys and values are parts. Then the
	// casts or copies of the parts, which lie between the buffer and the attention, do not run.
	ReadsPacked func(n *ir.Node) bool
}

// AllStrides is the Strided of kernels that walk every operand by its strides.
func AllStrides(*ir.Node, int, []int) bool { return true }

// IsIndex reports whether d is a type of indices.
func IsIndex(d tensor.DType) bool { return d == tensor.I64 || d == tensor.I32 }

// New adds the entries of views and checks the others.
func New(t Target) (*Target, error) {
	for i := range t.Kernels {
		k, r := ir.Kind(i), &t.Kernels[i]
		switch {
		case k.Has(ir.View):
			*r = Kernel{Runs: AsView}
		case r.Runs == AsView:
			return nil, fmt.Errorf("target %s: the entry of %s disagrees with its trait View", t.Name, k)
		case r.Runs == OnHost && (r.Supports != nil || r.Strided != nil || r.InPlace != nil || r.StridedResult != nil || r.Scratch != nil):
			return nil, fmt.Errorf("target %s: the entry of %s describes a kernel and runs on the host", t.Name, k)
		}
	}
	if t.Align <= 0 {
		return nil, fmt.Errorf("target %s has no alignment", t.Name)
	}
	return &t, nil
}

// Where says how a node runs.
func (t *Target) Where(n *ir.Node) Runs {
	r := &t.Kernels[n.Op.Kind()]
	if r.Runs == OnKernel && (r.Supports != nil && !r.Supports(n) || ir.MayDivideByZero(n)) {
		return OnHost
	}
	return r.Runs
}

// Strided reports whether operand i of n may have these strides.
func (t *Target) Strided(n *ir.Node, i int, strides []int) bool {
	r := &t.Kernels[n.Op.Kind()]
	return t.Where(n) == OnKernel && r.Strided != nil && r.Strided(n, i, strides)
}

// Algorithm returns the number of the algorithm that runs a bound node; see Kernel.Algorithm.
func (t *Target) Algorithm(n *ir.Node) int {
	if r := &t.Kernels[n.Op.Kind()]; r.Algorithm != nil && t.Where(n) == OnKernel {
		return r.Algorithm(n)
	}
	return 0
}

// InPlace reports whether result 0 of n may take over operand i. A host step has read all its operands when it writes its
// result.
func (t *Target) InPlace(n *ir.Node, i int) bool { return t.InPlaceThere(t.Where(n), n, i) }

// InPlaceThere is InPlace for a node of which Where is known.
func (t *Target) InPlaceThere(where Runs, n *ir.Node, i int) bool {
	switch r := &t.Kernels[n.Op.Kind()]; where {
	case OnKernel:
		return r.InPlace != nil && r.InPlace(n, i)
	case OnHost:
		return len(n.Outputs) == 1
	}
	return false
}

// StridedResult reports whether n writes result 0 by these strides.
func (t *Target) StridedResult(n *ir.Node, strides []int) bool {
	r := &t.Kernels[n.Op.Kind()]
	return r.StridedResult != nil && t.Where(n) == OnKernel && r.StridedResult(n, strides)
}

// Scratch returns the sizes in bytes of the buffers that n needs while it runs.
func (t *Target) Scratch(n *ir.Node) []int64 { return t.ScratchThere(t.Where(n), n) }

// ScratchThere is Scratch for a node of which Where is known.
func (t *Target) ScratchThere(where Runs, n *ir.Node) []int64 {
	r := &t.Kernels[n.Op.Kind()]
	if where != OnKernel || r.Scratch == nil {
		return nil
	}
	return r.Scratch(n)
}

// LateReads is the number of steps after its own during which n may still read its operands.
func (t *Target) LateReads(n *ir.Node) int {
	late := 0
	if r := &t.Kernels[n.Op.Kind()]; r.LateReads != nil {
		late = r.LateReads(n)
	}
	if c, ok := n.Op.(ir.Custom); ok && c.Def != nil {
		late = max(late, c.Def.LateReads)
	}
	return late
}

// Late returns the target with kernels that read their operands for at least that many steps after their own.
func (t *Target) Late(steps int) *Target {
	late := *t
	for i := range late.Kernels {
		r := &late.Kernels[i]
		if own := r.LateReads; r.Runs != AsView {
			r.LateReads = func(n *ir.Node) int {
				if own == nil {
					return steps
				}
				return max(own(n), steps)
			}
		}
	}
	return &late
}

// ReadsPacked reports whether n reads the one buffer of which its operands are parts.
func (t *Target) ReadsPacked(n *ir.Node) bool {
	r := &t.Kernels[n.Op.Kind()]
	return t.Where(n) == OnKernel && r.ReadsPacked != nil && r.ReadsPacked(n)
}

// TakesStored reports whether n packs operand i in the form in which a model stores it.
func (t *Target) TakesStored(n *ir.Node, i int) bool {
	r := &t.Kernels[n.Op.Kind()]
	return r.TakesStored != nil && r.TakesStored(n, i) && t.Where(n) == OnKernel
}
