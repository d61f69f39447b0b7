package cpu

import (
	"fmt"

	"github.com/rlxc/rlxc/internal/ops"
	"github.com/rlxc/rlxc/ir"
	"github.com/rlxc/rlxc/tensor"
)

// recurrentEntry is for RNNs, GRUs and LSTMs whose weights are constant. The inputs of all steps meet W in one product; then each part
// takes some sequences of one direction through all steps, in every one of which their states meet R in one product.
func (d *processor) recurrentEntry() entry {
	return entry{
		Supports: claimsRecurrent,
		TakesStored: func(n *ir.Node, i int) bool {
			return (i == ops.RecurrentW || i == ops.RecurrentR) && isStoredRecurrent(n.Inputs[i])
		},
		Scratch: func(n *ir.Node) []int64 {
			p := planRecurrent(n)
			sizes := []int64{recurrentGates: int64(p.directions) * int64(p.steps*p.batch) * int64(4*p.gates*p.hidden),
				recurrentStates: int64(p.directions*p.batch) * int64(4*p.parts*p.hidden)}
			if p.stored {
				sizes = append(sizes, int64(d.Threads()*d.storedRecurrentScratch(n, &p)), 4*int64(d.widenedStates(n, &p)))
			}
			if p.quantized {
				sizes = append(sizes, d.quantizedRecurrentScratch(&p)...)
			}
			return sizes
		},
		Bind: bindRecurrent,
	}
}

// claimsRecurrent takes recurrences of float32.
func claimsRecurrent(n *ir.Node) bool {
	op, c, ok := cellOf(n.Op)
	if !ok || n.Inputs[ops.RecurrentX].Type.DType != tensor.F32 {
		return false
	}
	quantized := isQuantizedRecurrence(n)
	for _, i := range []int{ops.RecurrentW, ops.RecurrentR} {
		v := n.Inputs[i]
		if v == nil || (v.Type.DType != tensor.F32) != quantized || len(v.Type.Shape) != 3 {
			return false
		}
		if !v.IsConst() && !isStoredRecurrent(v) {
			return false
		}
	}
	if quantized && !claimsRecurrentBytes(n) {
		return false
	}
	w, r := weightSizes(n.Inputs[ops.RecurrentW]), weightSizes(n.Inputs[ops.RecurrentR])
	hidden := r[2]
	if !r.Equal(tensor.Shape{op.Directions(), c.gates * hidden, hidden}) || !w[:2].Equal(r[:2]) {
		return false
	}
	if n.HasOperand(ops.RecurrentB) {
		b := n.Inputs[ops.RecurrentB]
		return b.Const != nil && b.Const.Shape().Equal(tensor.Shape{op.Directions(), 2 * c.gates * hidden})
	}
	return true
}

func bindRecurrent(b *binder, n *ir.Node, in, out []operand) (step, error) {
	p := planRecurrent(n)
	if p.batch == 0 || p.hidden == 0 {
		return step{}, nil
	}
	own := 0
	if p.stored {
		own = b.d.storedRecurrentScratch(n, &p)
	}
	inputs, err := p.bindInputs(b, n, own)
	if err != nil {
		return step{}, err
	}
	if b.d.widenedStates(n, &p) > 0 {
		widen, states, err := p.widenStates(b, n, own)
		if err != nil {
			return step{}, err
		}
		return inPhases(append(inputs, widen, p.recurrence(b, n, in, out, states))...), nil
	}
	states, err := p.bindStates(b, n, own)
	if err != nil {
		return step{}, err
	}
	return inPhases(append(inputs, p.recurrence(b, n, in, out, states))...), nil
}

// bindInputs plans the product with W by its form; own is the scratch of a worker for stored weights.
func (p recurrentPlan) bindInputs(b *binder, n *ir.Node, own int) ([]step, error) {
	w := n.Inputs[ops.RecurrentW]
	if isStoredRecurrent(w) {
		one, err := p.storedInputs(b, n, own)
		return []step{one}, err
	}
	data, err := b.d.boundDirections(w)
	if err != nil {
		return nil, err
	}
	if p.quantized {
		return p.quantizedInputs(b, n, data), nil
	}
	return []step{p.inputs(b, n, tensor.Of[float32](data))}, nil
}

// bindStates is bindInputs for R.
func (p recurrentPlan) bindStates(b *binder, n *ir.Node, own int) (func(sequences, lo, hi int) stateProduct, error) {
	r := n.Inputs[ops.RecurrentR]
	if isStoredRecurrent(r) {
		return p.storedStates(b, n, own)
	}
	data, err := b.d.boundDirections(r)
	if err != nil {
		return nil, err
	}
	if p.quantized {
		return p.quantizedStates(b, n, data), nil
	}
	r32 := tensor.Of[float32](data)
	return p.states(b, n, func(*machine) []float32 { return r32 }), nil
}

// recurrence takes the sequences through the steps. How many of them share a part changes no result: every element of a
// product is the same chain of sums. Those whose states are rounded by the range of all of them stay together.
func (p recurrentPlan) recurrence(b *binder, n *ir.Node, in, out []operand, product func(sequences, lo, hi int) stateProduct) step {
	in = append(in, make([]operand, ops.RecurrentP+1-min(ops.RecurrentP+1, len(in)))...)
	set, hidden := b.d.set, p.hidden
	cols, each := p.gates*hidden, p.parts*hidden
	gates := b.scratchBytes(recurrentGates).part(0, p.directions*p.steps*p.batch*cols, tensor.F32)
	states := b.scratchBytes(recurrentStates).part(0, p.directions*p.batch*each, tensor.F32)
	sizes := p.blockSizes(b.d.Threads())
	perBlock, rest := sizes[0], sizes[1]
	blocks := ceilDiv(p.batch, perBlock)
	// Of a cell that resets, the first product is of the gates before, the second of those after it, each of whole panels.
	lo, hi := 0, cols
	if p.reset != nil {
		panel := set.NewPackB(hidden, cols).Layout().Panel
		lo, hi = p.resets*hidden/panel*panel, min(cols, ceilDiv(p.resets*hidden, panel)*panel)
	}
	whole, last := product(perBlock, 0, hi), product(rest, 0, hi)
	wholeReset, lastReset := product(perBlock, lo, cols), product(rest, lo, cols)
	return step{parts: p.directions * blocks, run: func(m *machine, part, worker int) {
		d, first := part/blocks, part%blocks*perBlock
		multiply, again, sequences := whole, wholeReset, perBlock
		if part%blocks == blocks-1 {
			multiply, again, sequences = last, lastReset, rest
		}
		gate := cellStep{set: set, hidden: hidden, activations: p.activations[d], inputForget: p.inputForget}
		if peepholes := in[ops.RecurrentP].f32(m); peepholes != nil {
			gate.peepholes = peepholes[d*3*hidden:][:3*hidden]
		}
		backwards := p.reverse || d == 1
		own := states.f32(m)[(d*p.batch+first)*each:][:sequences*each]
		x, y := gates.f32(m)[d*p.steps*p.batch*cols:], out[0].f32(m)
		longest := 0
		for i := range sequences {
			count := p.length(m, &in[ops.RecurrentLengths], first+i)
			if count < 0 || count > p.steps {
				m.fail(fmt.Errorf("sequence_lens: %d of %d steps", count, p.steps))
				return
			}
			longest = max(longest, count)
			at, s := p.state(d, first+i), own[i*each:][:each]
			initial(s[:hidden], in[ops.RecurrentH].f32(m), at)
			if p.gates == lstmGates {
				initial(s[5*hidden:], in[ops.RecurrentC].f32(m), at)
			}
			for t := count; t < p.steps; t++ { // what is after the length is zero
				clear(y[p.result(t, d, first+i):][:hidden])
			}
		}
		// all takes the sequences that have a step k through a part of it.
		all := func(k int, f func(t cellStep, s, x []float32)) {
			for i := range sequences {
				if t := p.time(m, &in[ops.RecurrentLengths], first+i, k, backwards); t >= 0 {
					f(gate, own[i*each:][:each], x[p.row(t, first+i)*cols:][:cols])
				}
			}
		}
		for k := range longest {
			multiply(m, d, worker, own)
			if p.reset != nil {
				all(k, p.reset)
				again(m, d, worker, own[hidden+cols:]) // what a reset leaves of h
			}
			all(k, p.next)
			for i := range sequences {
				if t := p.time(m, &in[ops.RecurrentLengths], first+i, k, backwards); t >= 0 {
					copy(y[p.result(t, d, first+i):], own[i*each:][:hidden])
				}
			}
		}
		for i := range sequences {
			at, s := p.state(d, first+i), own[i*each:][:each]
			if p.length(m, &in[ops.RecurrentLengths], first+i) == 0 { // the states of no steps are zeros
				clear(s)
			}
			if len(out) > 1 {
				copy(out[1].f32(m)[at:], s[:hidden])
			}
			if len(out) > 2 {
				copy(out[2].f32(m)[at:], s[5*hidden:])
			}
		}
	}}
}

// initial copies a part of an operand that may be absent, which means zeros.
func initial(dst, src []float32, at int) {
	if src == nil {
		clear(dst)
		return
	}
	copy(dst, src[at:])
}
