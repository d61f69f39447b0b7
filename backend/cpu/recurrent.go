package cpu

import (
	"fmt"

	"github.com/rlxc/rlxc/backend/cpu/kernel"
	"github.com/rlxc/rlxc/ir"
	"github.com/rlxc/rlxc/ops"
	"github.com/rlxc/rlxc/target"
	"github.com/rlxc/rlxc/tensor"
)

// The scratch buffers of an LSTM, in float32.
const (
	lstmGates  = iota // [D, rows of x, 4H]: what the inputs give to the gates
	lstmStates        // [D, batch, 6H]: h, the gates, c
)

// lstmRow runs LSTMs whose weights are constant. The inputs of all steps meet W in one product; then each part takes some
// sequences of one direction through all steps, in every one of which their states meet R in one product.
var lstmRow = row{
	Row: target.Row{
		Runs:     target.OnKernel,
		Supports: claimsLSTM,
		Scratch: func(n *ir.Node) []int64 {
			p := planLSTM(n)
			return []int64{lstmGates: int64(p.directions) * int64(p.steps*p.batch) * int64(16*p.hidden), lstmStates: int64(p.directions*p.batch) * int64(24*p.hidden)}
		},
	},
	bind: bindLSTM,
}

// claimsLSTM takes LSTMs of float32 with the usual activations, without clip, peepholes and coupled gates.
func claimsLSTM(n *ir.Node) bool {
	op, ok := n.Op.(ops.LSTM)
	if !ok || !op.Usual() || n.HasOperand(ops.RecurrentP) || n.Inputs[ops.RecurrentX].Type.DType != tensor.F32 {
		return false
	}
	for _, i := range []int{ops.RecurrentW, ops.RecurrentR} {
		if v := n.Inputs[i]; v == nil || !v.IsConst() || v.Type.DType != tensor.F32 || len(v.Type.Shape) != 3 {
			return false
		}
	}
	if n.HasOperand(ops.RecurrentLengths) && n.Inputs[ops.RecurrentLengths].Type.DType != tensor.I32 {
		return false
	}
	w, r := n.Inputs[ops.RecurrentW].Type.Sizes(), n.Inputs[ops.RecurrentR].Type.Sizes()
	hidden := r[2]
	if !r.Equal(tensor.Shape{op.Directions(), 4 * hidden, hidden}) || !w[:2].Equal(r[:2]) {
		return false
	}
	if n.HasOperand(ops.RecurrentB) {
		b := n.Inputs[ops.RecurrentB]
		return b.Const != nil && b.Const.Shape().Equal(tensor.Shape{op.Directions(), 8 * hidden})
	}
	return true
}

// lstmPlan is the sizes of a bound LSTM.
type lstmPlan struct {
	steps, batch, width, hidden, directions int
	reverse, batchFirst                     bool
}

func planLSTM(n *ir.Node) lstmPlan {
	x, r := n.Inputs[ops.RecurrentX].Type.Sizes(), n.Inputs[ops.RecurrentR].Type.Sizes()
	p := lstmPlan{steps: x[0], batch: x[1], width: x[2], hidden: r[2], directions: r[0]}
	op := n.Op.(ops.LSTM)
	if p.reverse = op.Reverse; op.BatchFirst {
		p.batchFirst, p.steps, p.batch = true, p.batch, p.steps
	}
	return p
}

// row is where a step of a sequence lies among the rows of x.
func (p *lstmPlan) row(step, seq int) int {
	if p.batchFirst {
		return seq*p.steps + step
	}
	return step*p.batch + seq
}

// result is where h of a step of a sequence lies in the first result: [steps, D, batch, H], or [batch, steps, D, H].
func (p *lstmPlan) result(step, direction, seq int) int {
	if p.batchFirst {
		return ((seq*p.steps+step)*p.directions + direction) * p.hidden
	}
	return ((step*p.directions+direction)*p.batch + seq) * p.hidden
}

// state is where the state of a sequence lies in the operands and results that hold it.
func (p *lstmPlan) state(direction, seq int) int {
	if p.batchFirst {
		return (seq*p.directions + direction) * p.hidden
	}
	return (direction*p.batch + seq) * p.hidden
}

// check compares the operands' sizes, which the node's types do not tell apart.
func (p *lstmPlan) check(n *ir.Node) error {
	state := tensor.Shape{p.directions, p.batch, p.hidden}
	if p.batchFirst {
		state = tensor.Shape{p.batch, p.directions, p.hidden}
	}
	for i, want := range []tensor.Shape{ops.RecurrentW: {p.directions, 4 * p.hidden, p.width}, ops.RecurrentLengths: {p.batch}, ops.RecurrentH: state, ops.RecurrentC: state} {
		if want != nil && n.HasOperand(i) && !n.Inputs[i].Type.Sizes().Equal(want) {
			return fmt.Errorf("operand %d is %s where %s is needed", i, n.Inputs[i].Type.Sizes(), want)
		}
	}
	return nil
}

func bindLSTM(b *binder, n *ir.Node) (step, error) {
	p := planLSTM(n)
	if err := p.check(n); err != nil {
		return step{}, err
	}
	var weights [2][]float32
	for i, k := range []int{p.width, p.hidden} {
		v := n.Inputs[ops.RecurrentW+i]
		layout, length := formats[formatF32].layout(b.d.set, k, 4*p.hidden)
		if v.Packed == nil || v.Packed.Layout != layout {
			return step{}, fmt.Errorf("the weight is not packed as %s, which this CPU level reads", layout)
		}
		if err := holds(v.Packed, formatF32, p.directions*length); err != nil {
			return step{}, err
		}
		weights[i] = tensor.Of[float32](v.Packed.Data)
	}
	if p.batch == 0 || p.hidden == 0 {
		return step{}, nil
	}
	return inTurn(p.inputs(b, n, weights[0]), p.recurrence(b, n, weights[1])), nil
}

// inputs multiplies x by W for all steps, and adds both biases.
func (p lstmPlan) inputs(b *binder, n *ir.Node, w []float32) step {
	rows, cols := p.steps*p.batch, 4*p.hidden
	bias := make([]float32, p.directions*cols)
	if n.HasOperand(ops.RecurrentB) {
		both := tensor.Of[float32](n.Inputs[ops.RecurrentB].Const.Aligned())
		for i := range bias {
			at := i/cols*2*cols + i%cols
			bias[i] = both[at] + both[at+cols]
		}
	}
	x := b.operand(n.Inputs[ops.RecurrentX])
	gates := b.scratchBytes(lstmGates).part(0, p.directions*rows*cols, tensor.F32)
	g := b.d.set.NewGemm(rows, cols, p.width)
	each, length := g.Parts(), len(w)/p.directions
	return step{parts: p.directions * each, run: func(m *machine, part, _ int) {
		d := part / each
		args := kernel.GemmArgs{A: x.f32(m), ARow: p.width, ACol: 1, B: w[d*length:][:length], C: gates.f32(m)[d*rows*cols:], CRow: cols, Alpha: 1, Bias: bias[d*cols:][:cols]}
		g.Run(part%each, &args)
	}}
}

// recurrence takes the sequences through the steps. How many of them share a part changes no result: every element of a
// product is the same chain of sums.
func (p lstmPlan) recurrence(b *binder, n *ir.Node, r []float32) step {
	in, out := b.operands(n)
	in = append(in, make([]operand, ops.RecurrentP-min(ops.RecurrentP, len(in)))...)
	set, hidden, length := b.d.set, p.hidden, len(r)/p.directions
	gates := b.scratchBytes(lstmGates).part(0, p.directions*p.steps*p.batch*4*hidden, tensor.F32)
	states := b.scratchBytes(lstmStates).part(0, p.directions*p.batch*6*hidden, tensor.F32)
	blocks := min(p.batch, (b.d.Threads()+p.directions-1)/p.directions)
	perBlock := (p.batch + blocks - 1) / blocks
	blocks = (p.batch + perBlock - 1) / perBlock
	whole, last := set.NewGemm(perBlock, 4*hidden, hidden), set.NewGemm(p.batch-(blocks-1)*perBlock, 4*hidden, hidden)
	return step{parts: p.directions * blocks, run: func(m *machine, part, _ int) {
		d, first := part/blocks, part%blocks*perBlock
		g := whole
		if part%blocks == blocks-1 {
			g = last
		}
		backwards := p.reverse || d == 1
		own := states.f32(m)[(d*p.batch+first)*6*hidden:][:g.M*6*hidden]
		x, y := gates.f32(m)[d*p.steps*p.batch*4*hidden:], out[0].f32(m)
		longest := 0
		for i := range g.M {
			count := p.length(m, &in[ops.RecurrentLengths], first+i)
			if count < 0 || count > p.steps {
				m.fail(n, fmt.Errorf("sequence_lens: %d of %d steps", count, p.steps))
				return
			}
			longest = max(longest, count)
			at, s := p.state(d, first+i), own[i*6*hidden:][:6*hidden]
			initial(s[:hidden], in[ops.RecurrentH].f32(m), at)
			initial(s[5*hidden:], in[ops.RecurrentC].f32(m), at)
			for t := count; t < p.steps; t++ { // what lies after the length is zero
				clear(y[p.result(t, d, first+i):][:hidden])
			}
		}
		args := kernel.GemmArgs{A: own, ARow: 6 * hidden, ACol: 1, B: r[d*length:][:length], C: own[hidden:], CRow: 6 * hidden, Alpha: 1}
		for k := range longest {
			for part := range g.Parts() {
				g.Run(part, &args)
			}
			for i := range g.M {
				count := p.length(m, &in[ops.RecurrentLengths], first+i)
				if k >= count {
					continue
				}
				t := k
				if backwards {
					t = count - 1 - k
				}
				s := own[i*6*hidden:][:6*hidden]
				lstmCell(set, s, x[p.row(t, first+i)*4*hidden:][:4*hidden])
				copy(y[p.result(t, d, first+i):], s[:hidden])
			}
		}
		for i := range g.M {
			at, s := p.state(d, first+i), own[i*6*hidden:][:6*hidden]
			if len(out) > 1 {
				copy(out[1].f32(m)[at:], s[:hidden])
			}
			if len(out) > 2 {
				copy(out[2].f32(m)[at:], s[5*hidden:])
			}
		}
	}}
}

// length is the number of steps of a sequence.
func (p *lstmPlan) length(m *machine, lengths *operand, seq int) int {
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

// lstmCell takes s, which is h, the products of h with R and c, to the next state. x is what the inputs give to the gates.
func lstmCell(set *kernel.Set, s, x []float32) {
	hidden := len(s) / 6
	h, gates, c := s[:hidden], s[hidden:5*hidden], s[5*hidden:]
	set.Binary(kernel.Add, gates, gates, x)
	set.Unary(kernel.Unary{Op: kernel.Sigmoid}, gates[:3*hidden], gates[:3*hidden])
	set.Unary(kernel.Unary{Op: kernel.Tanh}, gates[3*hidden:], gates[3*hidden:])
	i, o, f, g := gates[:hidden], gates[hidden:2*hidden], gates[2*hidden:3*hidden], gates[3*hidden:]
	set.Binary(kernel.Mul, c, c, f)
	set.Binary(kernel.Mul, g, g, i)
	set.Binary(kernel.Add, c, c, g)
	set.Unary(kernel.Unary{Op: kernel.Tanh}, g, c)
	set.Binary(kernel.Mul, h, o, g)
}

// packLSTM packs the weights of LSTMs, their directions one after the other, and anew where a compiled file has them for
// another level of instructions.
func (d *Device) packLSTM(g *ir.Graph) (count int, err error) {
	done := map[*ir.Value]*ir.Value{}
	for _, n := range g.Nodes {
		if n.Op.Kind() != ir.KindKept || d.target.Where(n) != target.OnKernel {
			continue
		}
		for _, i := range []int{ops.RecurrentW, ops.RecurrentR} {
			w := n.Inputs[i]
			s := w.Type.Sizes()
			layout, length := formats[formatF32].layout(d.set, s[2], s[1])
			if w.Packed != nil && w.Packed.Layout == layout {
				continue // bind checks the data
			}
			v := done[w]
			if v == nil {
				data := d.weights.take(tensor.F32, s[0]*length)
				for k := range s[0] {
					if err := d.packDirection(w, k, partOf(data, k, s[0])); err != nil {
						return 0, n.Fail(fmt.Errorf("weight %q: %w", w.Name, err))
					}
				}
				v = g.NewValue(w.Name, w.Type)
				v.Packed = d.weights.keep(layout, data)
				done[w] = v
				count++
			}
			d.replace(g, n, i, v)
		}
	}
	return count, nil
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

// partOf is one of several equal parts of float32 data.
func partOf(data *tensor.Tensor, i, parts int) *tensor.Tensor {
	length := data.Len() / parts
	t, err := tensor.FromBytes(tensor.F32, tensor.Shape{length}, data.Bytes()[4*i*length:][:4*length])
	if err != nil {
		panic(err) // the bytes are as many
	}
	return t
}
