package cpu

import (
	"github.com/rlxc/rlxc/backend/cpu/kernel"
	"github.com/rlxc/rlxc/internal/ops"
	"github.com/rlxc/rlxc/ir"
	"github.com/rlxc/rlxc/tensor"
)

// Recurrences with weights of bytes: the inputs of all steps are quantised at once, and the states of all sequences in every step.

// claimsRecurrentBytes reports whether sums over the weights are exact, and their scales and zero points constant.
func claimsRecurrentBytes(n *ir.Node) bool {
	for _, i := range []int{ops.RecurrentW, ops.RecurrentR} {
		if weightSizes(n.Inputs[i])[2] > maxS8 {
			return false
		}
	}
	for i := ops.QuantizedLSTMWScale; i <= ops.QuantizedLSTMRZero; i++ {
		w := weightSizes(n.Inputs[ops.RecurrentW])
		if v := n.Inputs[i]; v.Const == nil || v.Const.Len() != w[0] && v.Const.Len() != w[0]*w[1] {
			return false
		}
	}
	return true
}

// quantizedRecurrentScratch returns the sizes of the buffers recurrentShared, recurrentInputs, recurrentHiddens and recurrentWorker.
func (d *processor) quantizedRecurrentScratch(p *recurrentPlan) []int64 {
	rows := p.steps * p.batch
	return []int64{int64(cacheLine + rangeBytes(rows*p.width)), int64(rows) * int64(roundUp4(p.width)),
		int64(p.directions*p.batch) * int64(roundUp4(p.hidden)), int64(d.Threads() * p.workerBytes(d))}
}

// workerBytes is what a worker needs for a product of inputs or states.
func (p *recurrentPlan) workerBytes(d *processor) int {
	cols := p.gates * p.hidden
	inputs, states := d.set.NewGemmS8(p.steps*p.batch, cols, p.width, 1), d.set.NewGemmS8(p.batch, cols, p.hidden, 1)
	return align(max(inputs.ScratchBytes(), states.ScratchBytes())) + cacheLine
}

// directionArgs is what is known of the products with weight w of each direction, which is packed in data.
func directionArgs(n *ir.Node, w int, data *tensor.Tensor) []kernel.GemmS8Args {
	v := n.Inputs[ops.RecurrentW+w]
	scale, zero := n.Inputs[ops.QuantizedLSTMWScale+2*w].Const, n.Inputs[ops.QuantizedLSTMWZero+2*w].Const
	s := weightSizes(v)
	out := make([]kernel.GemmS8Args, s[0])
	for d := range out {
		a := kernel.GemmS8Args{B: partOf(data, d, s[0]).Bytes(), BScale: make([]float32, s[1]), BZero: make([]int32, s[1])}
		for c := range s[1] {
			// Each direction has one number, or one for each column.
			a.BScale[c] = float32(scale.Float64((d*s[1] + c) * scale.Len() / (s[0] * s[1])))
			a.BZero[c] = int32(zero.Int64((d*s[1]+c)*zero.Len()/(s[0]*s[1]))) - signFlip(v.Type.DType)
		}
		a.BZero = sharedZeros(a.BZero)
		out[d] = a
	}
	return out
}

// quantizedInputs is what inputs is, of bytes.
func (p recurrentPlan) quantizedInputs(b *binder, n *ir.Node, w *tensor.Tensor) []step {
	rows, cols, row := p.steps*p.batch, p.gates*p.hidden, roundUp4(p.width)
	x, shared := b.operand(n.Inputs[ops.RecurrentX]), b.scratchBytes(recurrentShared)
	scale, zero := shared.part(0, 1, tensor.F32), shared.part(4, 1, tensor.I32)
	bytes := b.scratchBytes(recurrentInputs).part(0, rows*row, tensor.U8)
	r := newRanges(b, x, shared.part(cacheLine, rangeBytes(rows*p.width), tensor.U8))
	steps := []step{r.step(), quantizeRows(r, x, bytes, row, scale, zero)}
	gates, worker, own := b.scratchBytes(recurrentGates).part(0, p.directions*rows*cols, tensor.F32), b.scratchBytes(recurrentWorker),
		p.workerBytes(b.d)
	bias, _ := p.biases(n)
	g, known := b.d.set.NewGemmS8(rows, cols, p.width, b.d.Threads()), directionArgs(n, 0, w)
	each := g.Parts()
	return append(steps, step{parts: p.directions * each, run: func(m *machine, part, id int) {
		d := part / each
		args := known[d]
		args.A, args.ARow, args.Scale, args.Zero = bytes.bytes(m), row, scale.f32(m), elements[int32](m, &zero)
		args.C, args.CRow, args.Bias = gates.f32(m)[d*rows*cols:][:rows*cols], cols, bias[d*cols:][:cols]
		g.Run(part%each, &args, worker.bytes(m)[id*own:][:g.ScratchBytes()])
	}})
}

// quantizedStates is what states is, of bytes.
func (p recurrentPlan) quantizedStates(b *binder, n *ir.Node, r *tensor.Tensor) func(sequences, lo, hi int) stateProduct {
	hidden, row, each := p.hidden, roundUp4(p.hidden), p.parts*p.hidden
	bytes := b.scratchBytes(recurrentHiddens).part(0, p.directions*p.batch*row, tensor.U8)
	worker, own, set, known := b.scratchBytes(recurrentWorker), p.workerBytes(b.d), b.d.set, directionArgs(n, 1, r)
	return func(sequences, _, _ int) stateProduct { // of all columns: no such cell resets
		g := set.NewGemmS8(sequences, p.gates*hidden, hidden, 1)
		return func(m *machine, d, id int, s []float32) {
			var lo, hi float32
			for i := range sequences {
				least, greatest := set.MinMax(s[i*each:][:hidden])
				lo, hi = min(lo, least), max(hi, greatest)
			}
			scale, zero := kernel.DynamicScale(lo, hi)
			a := bytes.bytes(m)[d*p.batch*row:][:p.batch*row]
			for i := range sequences {
				set.QuantizeU8(a[i*row:][:hidden], s[i*each:][:hidden], scale, zero)
			}
			args := known[d]
			scales, zeros := [1]float32{scale}, [1]int32{int32(zero)}
			args.A, args.ARow, args.Scale, args.Zero = a, row, scales[:], zeros[:]
			args.C, args.CRow = s[hidden:], each
			for part := range g.Parts() {
				g.Run(part, &args, worker.bytes(m)[id*own:][:g.ScratchBytes()])
			}
		}
	}
}
