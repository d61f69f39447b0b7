package cpu

import (
	"fmt"

	"github.com/rlxc/rlxc/backend/cpu/kernel"
	"github.com/rlxc/rlxc/internal/ops"
	"github.com/rlxc/rlxc/ir"
	"github.com/rlxc/rlxc/tensor"
)

// Recurrences with stored weights: quantised values or 16-bit floats. A product of many rows widens a block of a panel for all of them. A
// product of few rows multiplies quantised values by exact sums of bytes where the level has such an instruction: to widen a matrix for one
// row would cost more than to multiply it.

// boundStored returns the packed matrices of the directions of a weight.
func (d *processor) boundStored(w *ir.Value) (c coding, list []kernel.Stored, err error) {
	s := weightSizes(w)
	if w.Packed == nil {
		return c, nil, fmt.Errorf("the weight is not packed")
	}
	c = codingOf(w.Packed, s[2], s[1])
	list, err = c.operands(d.set, w.Packed, s[0])
	return c, list, err
}

// A fewProduct multiplies few rows by n columns of stored matrices [k,·] within one part.
type fewProduct struct {
	rows, k, n int
	bytes      *kernel.GemmDigits // nil: by floats
	floats     *kernel.GemmStored
}

func (d *processor) newFewProduct(c coding, rows, n int) fewProduct {
	f := fewProduct{rows: rows, k: c.k, n: n, floats: d.set.NewGemmStored(rows, n, c.k, 1)}
	if p := c.pack(d.set); !c.form.IsWide() && c.block == 0 {
		f.bytes = d.set.NewGemmDigits(rows, n, c.k, p.Block, p.Bits, kernel.FloatRows)
	}
	return f
}

// sizes are the bytes of scratch of the pieces of a product.
func (f *fewProduct) sizes() [3]int {
	if f.bytes == nil {
		return [3]int{align(f.floats.ScratchBytes())}
	}
	bytes, scales := f.bytes.Split()
	return [3]int{align(4 * f.k), align(bytes), align(4 * scales)}
}

func (f *fewProduct) scratchBytes() (all int) {
	for _, n := range f.sizes() {
		all += n
	}
	return all
}

// run multiplies; the columns of A are adjacent.
func (f *fewProduct) run(args *kernel.GemmArgs, b *kernel.Stored, scratch []byte) {
	if f.bytes == nil {
		for part := range f.floats.Parts() {
			f.floats.Run(part, args, b, scratch)
		}
		return
	}
	var pieces [3][]byte
	for i, n := range f.sizes() {
		pieces[i], scratch = scratch[:n], scratch[n:]
	}
	work, scales := kernel.Floats(pieces[0]), kernel.Floats(pieces[2])
	for r := range f.rows {
		f.bytes.Quantize(pieces[1], scales, work, args.A[r*args.ARow:][:f.k], r)
	}
	for part := range f.bytes.Parts() {
		f.bytes.Run(part, pieces[1], scales, args, b.Data())
	}
}

// fewInputs is the most rows of inputs that are multiplied as few: more of them are worth widening the weights for, by several workers.
const fewInputs = 4

// storedRecurrentScratch is what a worker needs for products with stored weights.
func (d *processor) storedRecurrentScratch(n *ir.Node, p *recurrentPlan) (bytes int) {
	rows, cols := p.steps*p.batch, p.gates*p.hidden
	if p.batch == 0 || p.hidden == 0 {
		return 0
	}
	coding := func(w *ir.Value, k int) coding {
		if w.Packed != nil {
			return codingOf(w.Packed, k, cols)
		}
		_, c, _ := recurrentCoding(w)
		return c
	}
	if w := n.Inputs[ops.RecurrentW]; isStoredRecurrent(w) {
		few := d.newFewProduct(coding(w, p.width), min(rows, fewInputs), cols)
		bytes = max(few.scratchBytes(), align(d.set.NewGemmStored(rows, cols, p.width, ceilDiv(d.Threads(), p.directions)).ScratchBytes()))
	}
	if r := n.Inputs[ops.RecurrentR]; isStoredRecurrent(r) {
		bytes = max(bytes, align(d.set.WidenBytes()))
		for _, sequences := range p.blockSizes(d.Threads()) {
			few := d.newFewProduct(coding(r, p.hidden), sequences, cols)
			bytes = max(bytes, few.scratchBytes())
		}
	}
	return bytes
}

// manySteps is the number of steps from which on R is widened once for all of them, where only floats can be multiplied: to widen it takes
// as long as a few products.
const manySteps = 4

// widenedStates is the number of floats of R, widened for the steps of a run; 0 where each step takes it as it is.
func (d *processor) widenedStates(n *ir.Node, p *recurrentPlan) int {
	r, cols := n.Inputs[ops.RecurrentR], p.gates*p.hidden
	if p.steps < manySteps || p.batch == 0 || p.hidden == 0 || !isStoredRecurrent(r) || r.Packed == nil {
		return 0
	}
	few := d.newFewProduct(codingOf(r.Packed, p.hidden, cols), p.blockSizes(d.Threads())[0], cols)
	if few.bytes != nil {
		return 0
	}
	_, length := formats[formatF32].layout(d.set, p.hidden, cols)
	return p.directions * length
}

// widenStates is the step that widens R, and states for that.
func (p recurrentPlan) widenStates(b *binder, n *ir.Node, own int) (step, func(sequences, lo, hi int) stateProduct, error) {
	cols := p.gates * p.hidden
	_, weights, err := b.d.boundStored(n.Inputs[ops.RecurrentR])
	if err != nil {
		return step{}, nil, err
	}
	all := b.d.widenedStates(n, &p)
	wide, worker := b.scratchBytes(recurrentWide).part(0, all, tensor.F32), b.scratchBytes(recurrentStored)
	set, panels, length := b.d.set, b.d.set.Panels(cols), all/p.directions
	widen := step{parts: p.directions * panels, run: func(m *machine, part, id int) {
		d := part / panels
		set.Widen(&weights[d], part%panels, cols, wide.f32(m)[d*length:][:length], worker.bytes(m)[id*own:][:own])
	}}
	return widen, p.states(b, n, wide.f32), nil
}

// storedInputs is inputs for stored weights.
func (p recurrentPlan) storedInputs(b *binder, n *ir.Node, own int) (step, error) {
	rows, cols := p.steps*p.batch, p.gates*p.hidden
	c, weights, err := b.d.boundStored(n.Inputs[ops.RecurrentW])
	if err != nil {
		return step{}, err
	}
	bias, _ := p.biases(n)
	x, worker := b.operand(n.Inputs[ops.RecurrentX]), b.scratchBytes(recurrentStored)
	gates := b.scratchBytes(recurrentGates).part(0, p.directions*rows*cols, tensor.F32)
	args := func(m *machine, d int) kernel.GemmArgs {
		return kernel.GemmArgs{A: x.f32(m), ARow: p.width, ACol: 1, C: gates.f32(m)[d*rows*cols:], CRow: cols, Alpha: 1,
			Bias: bias[d*cols:][:cols]}
	}
	if rows <= fewInputs {
		few := b.d.newFewProduct(c, rows, cols)
		return step{parts: p.directions, run: func(m *machine, d, id int) {
			a := args(m, d)
			few.run(&a, &weights[d], worker.bytes(m)[id*own:][:own])
		}}, nil
	}
	g := b.d.set.NewGemmStored(rows, cols, p.width, ceilDiv(b.d.Threads(), p.directions))
	each := g.Parts()
	return step{parts: p.directions * each, run: func(m *machine, part, id int) {
		a := args(m, part/each)
		g.Run(part%each, &a, &weights[part/each], worker.bytes(m)[id*own:][:own])
	}}, nil
}

// storedStates is states for stored weights.
func (p recurrentPlan) storedStates(b *binder, n *ir.Node, own int) (func(sequences, lo, hi int) stateProduct, error) {
	cols, each := p.gates*p.hidden, p.parts*p.hidden
	c, weights, err := b.d.boundStored(n.Inputs[ops.RecurrentR])
	if err != nil {
		return nil, err
	}
	_, between := p.biases(n)
	worker := b.scratchBytes(recurrentStored)
	return func(sequences, lo, hi int) stateProduct {
		few, from := b.d.newFewProduct(c, sequences, hi-lo), make([]kernel.Stored, len(weights))
		for i := range weights {
			from[i] = weights[i].From(lo)
		}
		return func(m *machine, d, id int, s []float32) {
			args := kernel.GemmArgs{A: s, ARow: each, ACol: 1, C: s[p.hidden+lo:], CRow: each, Alpha: 1}
			if between != nil {
				args.Bias = between[d*cols:][lo:hi]
			}
			few.run(&args, &from[d], worker.bytes(m)[id*own:][:own])
		}
	}, nil
}
