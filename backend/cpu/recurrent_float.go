package cpu

import (
	"github.com/rlxc/rlxc/backend/cpu/kernel"
	"github.com/rlxc/rlxc/internal/ops"
	"github.com/rlxc/rlxc/ir"
	"github.com/rlxc/rlxc/tensor"
)

// inputs multiplies x by W for all steps, and adds the biases, except those that a cell adds itself.
func (p recurrentPlan) inputs(b *binder, n *ir.Node, w []float32) step {
	rows, cols := p.steps*p.batch, p.gates*p.hidden
	bias, _ := p.biases(n)
	x := b.operand(n.Inputs[ops.RecurrentX])
	gates := b.scratchBytes(recurrentGates).part(0, p.directions*rows*cols, tensor.F32)
	g := b.d.set.NewGemm(rows, cols, p.width, b.d.Threads())
	each, length := g.Parts(), len(w)/p.directions
	return step{parts: p.directions * each, run: func(m *machine, part, _ int) {
		d := part / each
		args := kernel.GemmArgs{A: x.f32(m), ARow: p.width, ACol: 1, B: w[d*length:][:length], C: gates.f32(m)[d*rows*cols:], CRow: cols,
			Alpha: 1, Bias: bias[d*cols:][:cols]}
		g.Run(part%each, &args)
	}}
}

// states plans the products of states with some columns of R, by the number of sequences.
func (p recurrentPlan) states(b *binder, n *ir.Node, r func(m *machine) []float32) func(sequences, lo, hi int) stateProduct {
	cols, each := p.gates*p.hidden, p.parts*p.hidden
	_, length := formats[formatF32].layout(b.d.set, p.hidden, cols)
	_, between := p.biases(n)
	return func(sequences, lo, hi int) stateProduct {
		g := b.d.set.NewGemm(sequences, hi-lo, p.hidden, 1)
		return func(m *machine, d, _ int, s []float32) {
			args := kernel.GemmArgs{A: s, ARow: each, ACol: 1, B: r(m)[d*length:][:length][lo*p.hidden:], C: s[p.hidden+lo:], CRow: each,
				Alpha: 1}
			if between != nil {
				args.Bias = between[d*cols:][lo:hi]
			}
			for part := range g.Parts() {
				g.Run(part, &args)
			}
		}
	}
}
