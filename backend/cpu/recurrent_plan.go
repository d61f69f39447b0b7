package cpu

import (
	"github.com/rlxc/rlxc/internal/ops"
	"github.com/rlxc/rlxc/ir"
	"github.com/rlxc/rlxc/tensor"
)

// The scratch buffers of a recurrence, in float32; those from the third on are of one with weights of bytes.
const (
	recurrentGates   = iota // x·W plus biases: [D, rows of x, gates·H]
	recurrentStates         // state of the cells for each sequence: [D, batch, parts·H]
	recurrentShared         // scale, zero point and range of x
	recurrentInputs         // quantised x
	recurrentHiddens        // quantised states: [D, batch, H]
	recurrentWorker         // scratch of the kernel for each worker
	numRecurrentScratch

	recurrentStored = recurrentShared // scratch of products with stored weights, for each worker, of a recurrence with such weights
	recurrentWide   = recurrentInputs // R in float32, decoded once if there are many steps
)

// recurrentPlan is the sizes of a bound recurrence.
type recurrentPlan struct {
	cell
	steps, batch, width, hidden, directions int
	reverse, batchFirst, quantized, stored  bool
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
	p.stored = isStoredRecurrent(n.Inputs[ops.RecurrentW]) || isStoredRecurrent(n.Inputs[ops.RecurrentR])
	if p.reverse = op.Reverse; op.BatchFirst {
		p.batchFirst, p.steps, p.batch = true, p.batch, p.steps
	}
	return p
}

// row is where a step of a sequence is among the rows of x.
func (p *recurrentPlan) row(step, seq int) int {
	if p.batchFirst {
		return seq*p.steps + step
	}
	return step*p.batch + seq
}

// result is where h of a step of a sequence is in the first result: [steps, D, batch, H], or [batch, steps, D, H].
func (p *recurrentPlan) result(step, direction, seq int) int {
	if p.batchFirst {
		return ((seq*p.steps+step)*p.directions + direction) * p.hidden
	}
	return ((step*p.directions+direction)*p.batch + seq) * p.hidden
}

// state is where the state of a sequence is in the operands and results that hold it.
func (p *recurrentPlan) state(direction, seq int) int {
	if p.batchFirst {
		return (seq*p.directions + direction) * p.hidden
	}
	return (direction*p.batch + seq) * p.hidden
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

// A stateProduct multiplies what begins each of a part's sequences of a direction, H values, by columns of R, and puts the products after
// it.
type stateProduct func(m *machine, direction, worker int, sequences []float32)

// blockSizes are the numbers of sequences of a part and of the last one.
func (p *recurrentPlan) blockSizes(threads int) [2]int {
	blocks := min(p.batch, ceilDiv(threads, p.directions))
	if p.quantized {
		blocks = 1
	}
	each := ceilDiv(p.batch, blocks)
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

func isQuantizedRecurrence(n *ir.Node) bool {
	_, ok := n.Op.(ops.DynamicQuantizeLSTM)
	return ok
}

// isStoredRecurrent reports whether a weight of a recurrence is packed as stored, or will be.
func isStoredRecurrent(w *ir.Value) bool {
	if w.Packed != nil {
		return w.Type.DType == tensor.F32 && isStoredForm(w.Packed.Layout.Form)
	}
	_, _, ok := recurrentCoding(w)
	return ok
}

// recurrentCoding is a weight of a recurrence as it is stored, and how the matrix of a direction is packed then.
func recurrentCoding(w *ir.Value) (stored storedWeight, c coding, ok bool) {
	if stored, ok = storedOf(w); !ok || stored.values.Rank() != 3 {
		return stored, c, false
	}
	s := stored.values.Shape()
	c, ok = stored.coding(s[2], s[1], 2, 0, 1)
	return stored, c, ok
}
