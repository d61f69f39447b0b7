package cpu

import (
	"fmt"

	"github.com/rlxc/rlxc/backend/cpu/kernel"
	"github.com/rlxc/rlxc/internal/ops"
	"github.com/rlxc/rlxc/internal/packed"
	"github.com/rlxc/rlxc/internal/target"
	"github.com/rlxc/rlxc/ir"
	"github.com/rlxc/rlxc/tensor"
)

// The scratch buffers of a recurrence, in float32; those from the third on are of one with weights of bytes.
const (
	recurrentGates   = iota // [D, rows of x, gates·H]: what the inputs give to the gates
	recurrentStates         // [D, batch, parts·H]: what a cell has of each sequence
	recurrentShared         // scale, zero point and range of x
	recurrentInputs         // x in bytes
	recurrentHiddens        // [D, batch, H]: the states in bytes
	recurrentWorker         // by worker: the kernel's
	numRecurrentScratch

	recurrentCoded = recurrentShared // by worker: what products with coded weights need, of one with such
	recurrentWide  = recurrentInputs // R, widened for many steps
)

// recurrentRow is for RNNs, GRUs and LSTMs whose weights are constant. The inputs of all steps meet W in one product; then each part
// takes some sequences of one direction through all steps, in every one of which their states meet R in one product.
func (d *Device) recurrentRow() row {
	return row{
		Row: target.Row{
			Runs:     target.OnKernel,
			Supports: claimsRecurrent,
			TakesStored: func(n *ir.Node, i int) bool {
				return (i == ops.RecurrentW || i == ops.RecurrentR) && isCodedRecurrent(n.Inputs[i])
			},
			Scratch: func(n *ir.Node) []int64 {
				p := planRecurrent(n)
				sizes := []int64{recurrentGates: int64(p.directions) * int64(p.steps*p.batch) * int64(4*p.gates*p.hidden),
					recurrentStates: int64(p.directions*p.batch) * int64(4*p.parts*p.hidden)}
				if p.coded {
					sizes = append(sizes, int64(d.Threads()*d.codedRecurrentScratch(n, &p)), 4*int64(d.widenedStates(n, &p)))
				}
				if p.quantized {
					sizes = append(sizes, d.quantizedRecurrentScratch(&p)...)
				}
				return sizes
			},
		},
		bind: bindRecurrent,
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
		if !v.IsConst() && !isCodedRecurrent(v) {
			return false
		}
	}
	if n.HasOperand(ops.RecurrentLengths) && n.Inputs[ops.RecurrentLengths].Type.DType != tensor.I32 {
		return false
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

// recurrentPlan is the sizes of a bound recurrence.
type recurrentPlan struct {
	cell
	steps, batch, width, hidden, directions int
	reverse, batchFirst, quantized, coded   bool
}

// weightSizes are [D, gates·H, K] of a weight, which one of bytes has the other way round.
func weightSizes(w *ir.Value) tensor.Shape {
	s := w.Type.Sizes()
	if is8Bit(w.Type.DType) {
		return tensor.Shape{s[0], s[2], s[1]}
	}
	return s
}

func planRecurrent(n *ir.Node) recurrentPlan {
	x, r := n.Inputs[ops.RecurrentX].Type.Sizes(), weightSizes(n.Inputs[ops.RecurrentR])
	op, c, _ := cellOf(n.Op)
	p := recurrentPlan{cell: c, steps: x[0], batch: x[1], width: x[2], hidden: r[2], directions: r[0], quantized: isQuantizedRecurrence(n)}
	p.coded = isCodedRecurrent(n.Inputs[ops.RecurrentW]) || isCodedRecurrent(n.Inputs[ops.RecurrentR])
	if p.reverse = op.Reverse; op.BatchFirst {
		p.batchFirst, p.steps, p.batch = true, p.batch, p.steps
	}
	return p
}

// row is where a step of a sequence lies among the rows of x.
func (p *recurrentPlan) row(step, seq int) int {
	if p.batchFirst {
		return seq*p.steps + step
	}
	return step*p.batch + seq
}

// result is where h of a step of a sequence lies in the first result: [steps, D, batch, H], or [batch, steps, D, H].
func (p *recurrentPlan) result(step, direction, seq int) int {
	if p.batchFirst {
		return ((seq*p.steps+step)*p.directions + direction) * p.hidden
	}
	return ((step*p.directions+direction)*p.batch + seq) * p.hidden
}

// state is where the state of a sequence lies in the operands and results that hold it.
func (p *recurrentPlan) state(direction, seq int) int {
	if p.batchFirst {
		return (seq*p.directions + direction) * p.hidden
	}
	return (direction*p.batch + seq) * p.hidden
}

func bindRecurrent(b *binder, n *ir.Node) (step, error) {
	p := planRecurrent(n)
	if p.batch == 0 || p.hidden == 0 {
		return step{}, nil
	}
	own := 0
	if p.coded {
		own = b.d.codedRecurrentScratch(n, &p)
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
		return inTurn(append(inputs, widen, p.recurrence(b, n, states))...), nil
	}
	states, err := p.bindStates(b, n, own)
	if err != nil {
		return step{}, err
	}
	return inTurn(append(inputs, p.recurrence(b, n, states))...), nil
}

// bindInputs plans the product with W by its form; own is the scratch of a worker for codes.
func (p recurrentPlan) bindInputs(b *binder, n *ir.Node, own int) ([]step, error) {
	w := n.Inputs[ops.RecurrentW]
	if isCodedRecurrent(w) {
		one, err := p.codedInputs(b, n, own)
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
	if isCodedRecurrent(r) {
		return p.codedStates(b, n, own)
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

// inputs multiplies x by W for all steps, and adds the biases that are not added between.
func (p recurrentPlan) inputs(b *binder, n *ir.Node, w []float32) step {
	rows, cols := p.steps*p.batch, p.gates*p.hidden
	bias, _ := p.biases(n)
	x := b.operand(n.Inputs[ops.RecurrentX])
	gates := b.scratchBytes(recurrentGates).part(0, p.directions*rows*cols, tensor.F32)
	g := b.d.set.NewGemm(rows, cols, p.width)
	each, length := g.Parts(), len(w)/p.directions
	return step{parts: p.directions * each, run: func(m *machine, part, _ int) {
		d := part / each
		args := kernel.GemmArgs{A: x.f32(m), ARow: p.width, ACol: 1, B: w[d*length:][:length], C: gates.f32(m)[d*rows*cols:], CRow: cols,
			Alpha: 1, Bias: bias[d*cols:][:cols]}
		g.Run(part%each, &args)
	}}
}

// biases are what is added to the products with W and to those with R, by direction; nil for nothing.
func (p recurrentPlan) biases(n *ir.Node) (inputs, between []float32) {
	cols := p.gates * p.hidden
	inputs = make([]float32, p.directions*cols)
	if p.between < p.gates {
		between = make([]float32, p.directions*cols)
	}
	if !n.HasOperand(ops.RecurrentB) {
		return inputs, between
	}
	both := tensor.Of[float32](n.Inputs[ops.RecurrentB].Const.Aligned())
	for i := range inputs {
		at := i/cols*2*cols + i%cols
		if inputs[i] = both[at]; i%cols < p.between*p.hidden {
			inputs[i] += both[at+cols]
		} else {
			between[i] = both[at+cols]
		}
	}
	return inputs, between
}

// A stateProduct multiplies what begins each of a part's sequences of a direction, H values, by columns of R, and puts the products behind
// it.
type stateProduct func(m *machine, direction, worker int, sequences []float32)

// states plans the products of states with some columns of R, by the number of sequences.
func (p recurrentPlan) states(b *binder, n *ir.Node, r func(m *machine) []float32) func(sequences, lo, hi int) stateProduct {
	cols, each := p.gates*p.hidden, p.parts*p.hidden
	_, length := formats[formatF32].layout(b.d.set, p.hidden, cols)
	_, between := p.biases(n)
	return func(sequences, lo, hi int) stateProduct {
		g := b.d.set.NewGemm(sequences, hi-lo, p.hidden)
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

// recurrence takes the sequences through the steps. How many of them share a part changes no result: every element of a
// product is the same chain of sums. Those whose states are rounded by the range of all of them stay together.
func (p recurrentPlan) recurrence(b *binder, n *ir.Node, product func(sequences, lo, hi int) stateProduct) step {
	in, out := b.operands(n)
	in = append(in, make([]operand, ops.RecurrentP+1-min(ops.RecurrentP+1, len(in)))...)
	set, hidden := b.d.set, p.hidden
	cols, each := p.gates*hidden, p.parts*hidden
	gates := b.scratchBytes(recurrentGates).part(0, p.directions*p.steps*p.batch*cols, tensor.F32)
	states := b.scratchBytes(recurrentStates).part(0, p.directions*p.batch*each, tensor.F32)
	sizes := p.blockSizes(b.d.Threads())
	perBlock, rest := sizes[0], sizes[1]
	blocks := (p.batch + perBlock - 1) / perBlock
	// Of a cell that resets, the first product is of the gates before, the second of those after it, each of whole panels.
	lo, hi := 0, cols
	if p.reset != nil {
		panel := set.NewPackB(hidden, cols).Layout().Panel
		lo, hi = p.resets*hidden/panel*panel, min(cols, (p.resets*hidden+panel-1)/panel*panel)
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
				m.fail(n, fmt.Errorf("sequence_lens: %d of %d steps", count, p.steps))
				return
			}
			longest = max(longest, count)
			at, s := p.state(d, first+i), own[i*each:][:each]
			initial(s[:hidden], in[ops.RecurrentH].f32(m), at)
			if p.gates == lstmGates {
				initial(s[5*hidden:], in[ops.RecurrentC].f32(m), at)
			}
			for t := count; t < p.steps; t++ { // what lies after the length is zero
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

// blockSizes are the numbers of sequences of a part and of the last one.
func (p *recurrentPlan) blockSizes(threads int) [2]int {
	blocks := min(p.batch, (threads+p.directions-1)/p.directions)
	if p.quantized {
		blocks = 1
	}
	each := (p.batch + blocks - 1) / blocks
	return [2]int{each, p.batch - (p.batch-1)/each*each}
}

// time is the step of a sequence that a direction takes as its kth, −1 after its end.
func (p *recurrentPlan) time(m *machine, lengths *operand, seq, k int, backwards bool) int {
	switch count := p.length(m, lengths, seq); {
	case k >= count:
		return -1
	case backwards:
		return count - 1 - k
	}
	return k
}

// length is the number of steps of a sequence.
func (p *recurrentPlan) length(m *machine, lengths *operand, seq int) int {
	if lengths.span == 0 {
		return p.steps
	}
	return int(elements[int32](m, lengths)[seq])
}

// initial copies a part of an operand that may be absent, which means zeros.
func initial(dst, src []float32, at int) {
	if src == nil {
		clear(dst)
		return
	}
	copy(dst, src[at:])
}

// packRecurrent packs the weights of recurrences, their directions one after the other, and anew where a compiled file has them for
// another level of instructions.
func (d *Device) packRecurrent(g *ir.Graph) (count int, err error) {
	done := map[*ir.Value]*ir.Value{}
	for _, n := range g.Nodes {
		if _, _, ok := cellOf(n.Op); !ok || d.target.Where(n) != target.OnKernel {
			continue
		}
		for _, i := range []int{ops.RecurrentW, ops.RecurrentR} {
			w := n.Inputs[i]
			if done[w] == nil {
				p, err := d.packedDirections(w)
				if err != nil {
					return 0, n.Fail(fmt.Errorf("weight %q: %w", w.Name, err))
				}
				if p == nil {
					continue
				}
				done[w] = g.NewValue(w.Name, w.Type)
				done[w].Packed = p
				count++
			}
			d.replace(g, n, i, done[w])
		}
	}
	return count, nil
}

// packedDirections packs the matrices of w; nil where they are packed as this level reads them, whose data bind checks.
func (d *Device) packedDirections(w *ir.Value) (*ir.Packed, error) {
	if isCodedRecurrent(w) {
		return d.packRecurrentCodes(w)
	}
	layout, dtype, length := d.directionLayout(w)
	if w.Packed != nil && w.Packed.Layout == layout {
		return nil, nil
	}
	data := d.weights.take(dtype, length)
	if err := d.packDirections(w, data); err != nil {
		return nil, err
	}
	return d.weights.keep(layout, data), nil
}

// boundDirections is the packed weight w of a bound recurrence. One that only binding made a constant, and is small, is packed here.
func (d *Device) boundDirections(w *ir.Value) (*tensor.Tensor, error) {
	layout, dtype, length := d.directionLayout(w)
	if w.Packed == nil {
		data := tensor.New(dtype, length)
		return data, d.packDirections(w, data)
	}
	if w.Packed.Layout != layout {
		return nil, fmt.Errorf("the weight is not packed as %s, which this CPU level reads", layout)
	}
	return w.Packed.Data, holds(w.Packed, dtype, length)
}

// directionLayout is how the matrices of w are packed, and the size of all of them.
func (d *Device) directionLayout(w *ir.Value) (layout packed.Layout, dtype tensor.DType, length int) {
	s := weightSizes(w)
	if is8Bit(w.Type.DType) {
		p := d.set.NewPackS8(s[2], s[1])
		return p.Layout(), tensor.U8, s[0] * p.Bytes()
	}
	layout, length = formats[formatF32].layout(d.set, s[2], s[1])
	return layout, tensor.F32, s[0] * length
}

// packDirections packs the matrices of all directions.
func (d *Device) packDirections(w *ir.Value, dst *tensor.Tensor) error {
	directions, pack := w.Type.Sizes()[0], d.packDirection
	if is8Bit(w.Type.DType) {
		pack = d.packDirectionBytes
	}
	for k := range directions {
		if err := pack(w, k, partOf(dst, k, directions)); err != nil {
			return err
		}
	}
	return nil
}

// packDirection packs the transpose of one of the matrices [n,k] of w.
func (d *Device) packDirection(w *ir.Value, direction int, dst *tensor.Tensor) error {
	s := w.Type.Sizes()
	n, k := s[1], s[2]
	if w.Packed == nil {
		packF32(d, dst, floats(w.Const)[direction*n*k:][:n*k], k, n, 1, k)
		return nil
	}
	if w.Packed.Data == nil || w.Packed.Data.DType() != tensor.F32 {
		return fmt.Errorf("the packed weight does not hold %s", tensor.F32)
	}
	plain, err := unpack(&ir.Packed{Layout: w.Packed.Layout, Data: partOf(w.Packed.Data, direction, s[0])}, k, n)
	if err != nil {
		return err
	}
	packF32(d, dst, floats(plain), k, n, n, 1)
	return nil
}

// partOf is one of several equal parts of data.
func partOf(data *tensor.Tensor, i, parts int) *tensor.Tensor {
	length := data.Len() / parts
	size := data.DType().Size() * length
	t, err := tensor.FromBytes(data.DType(), tensor.Shape{length}, data.Bytes()[i*size:][:size])
	if err != nil {
		panic(err) // the bytes are as many
	}
	return t
}
