package cpu

import (
	"slices"

	"github.com/rlxc/rlxc/internal/backend"
	"github.com/rlxc/rlxc/internal/target"
	"github.com/rlxc/rlxc/ir"
	"github.com/rlxc/rlxc/tensor"
)

// A step is a kernel with its operands fixed.
type step struct {
	node  *ir.Node
	parts int
	// run executes one part. No two parts with the same worker number run at once: it chooses the scratch.
	run func(m *machine, part, worker int)
	// then is the next phase, which starts when all parts of this one have ended; nil for the last phase.
	then      *step
	locations []location // locations of operands, results and scratch, if several steps share run; otherwise nil
}

// inPhases joins phases to one step.
func inPhases(phases ...step) step {
	for i := len(phases) - 1; i > 0; i-- {
		phases[i-1].then = &phases[i]
	}
	return phases[0]
}

// phasesOf lists the phases of a step.
func phasesOf(st step) (phases []step) {
	for phase := &st; phase != nil; phase = phase.then {
		phases = append(phases, *phase)
	}
	return phases
}

// oneAfterAnother joins steps whose parts do not depend on each other.
func oneAfterAnother(steps []step) step {
	var ends []int
	total := 0
	for _, s := range steps {
		total += s.parts
		ends = append(ends, total)
	}
	return step{parts: total, run: func(m *machine, part, worker int) {
		i := 0
		for part >= ends[i] {
			i++
		}
		steps[i].run(m, part-(ends[i]-steps[i].parts), worker)
	}}
}

// An entry of the kernel table says how the processor runs an op: what the passes before planning need to know (target.Kernel), and how a
// node becomes a step.
type entry struct {
	Supports      func(n *ir.Node) bool
	Strided       func(n *ir.Node, i int, strides []int) bool
	InPlace       func(n *ir.Node, i int) bool
	StridedResult func(n *ir.Node, strides []int) bool
	Scratch       func(n *ir.Node) []int64
	Algorithm     func(n *ir.Node) int
	TakesStored   func(n *ir.Node, i int) bool
	ReadsPacked   func(n *ir.Node) bool
	Bind          bindFunc
	Shares        func(n *ir.Node) bool
	// AnyAddress reports whether the kernel reads operand i, bytes or rows that it copies, from any address; nil means no.
	AnyAddress func(n *ir.Node, i int) bool
}

// A bindFunc makes the step of a bound node. An absent operand is the zero operand.
type bindFunc func(b *binder, n *ir.Node, in, out []operand) (step, error)

// kernel is what the passes before planning need to know.
func (e *entry) kernel() target.Kernel {
	return target.Kernel{Runs: target.OnKernel, Supports: e.Supports, Strided: e.Strided, InPlace: e.InPlace,
		StridedResult: e.StridedResult, Scratch: e.Scratch, TakesStored: e.TakesStored, Shares: e.Shares, ReadsPacked: e.ReadsPacked,
		Algorithm: e.Algorithm}
}

// always is for kernels that share the steps of all nodes that are alike.
func always(*ir.Node) bool { return true }

// isEmpty reports whether no result of a node has an element. Its operands may have axes of any size then, beside one of none,
// which no kernel should walk along.
func isEmpty(n *ir.Node) bool {
	return !slices.ContainsFunc(n.Outputs, func(v *ir.Value) bool { return v.Type.Elements() > 0 })
}

// bindEmpty makes only the strings, which are not bytes of the arena.
func bindEmpty(b *binder, n *ir.Node) step {
	_, out := b.operands(n)
	return step{parts: 1, run: func(m *machine, _, _ int) {
		for i := range out {
			if o := &out[i]; o.dtype == tensor.String {
				m.objects[o.root] = tensor.New(tensor.String, o.shape...)
			}
		}
	}}
}

// typesOf copies values that have a type and nothing else.
func typesOf(values []*ir.Value) []*ir.Value {
	types := make([]*ir.Value, len(values))
	for i, v := range values {
		if v != nil {
			types[i] = &ir.Value{Type: v.Type}
		}
	}
	return types
}

// bindHost runs a node by its op's Eval, which allocates what it needs.
func bindHost(_ *binder, bound *ir.Node, in, out []operand) (step, error) {
	n := &ir.Node{Op: bound.Op, Inputs: typesOf(bound.Inputs), Outputs: typesOf(bound.Outputs)} // without the rest of the graph
	return step{parts: 1, run: func(m *machine, _, _ int) {
		args := make([]*tensor.Tensor, len(n.Inputs))
		for i, v := range n.Inputs {
			if v != nil {
				args[i] = in[i].tensor(m)
			}
		}
		results, err := backend.Eval(m.env, n, args)
		if err != nil {
			m.fail(err)
			return
		}
		for i, t := range results {
			if t.DType() == tensor.String {
				m.objects[out[i].root] = t
				continue
			}
			copy(out[i].bytes(m), t.Bytes())
		}
	}}, nil
}
