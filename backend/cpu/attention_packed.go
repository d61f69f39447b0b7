package cpu

import (
	"fmt"
	"math"

	"github.com/rlxc/rlxc/backend/cpu/kernel"
	"github.com/rlxc/rlxc/ir"
	"github.com/rlxc/rlxc/tensor"
)

// packedAttention plans the kernel of packed attention.
func (d *processor) packedAttention(n *ir.Node) *kernel.PackedAttention {
	q, k, v := n.Inputs[ir.AttentionQ].Type.Sizes(), n.Inputs[ir.AttentionK].Type.Sizes(), n.Inputs[ir.AttentionV].Type.Sizes()
	sequences := n.Inputs[ir.AttentionSequences].Type.Sizes()[0]
	bf16From := 0
	if d.format == formatBF16 {
		bf16From = worthRounding
	}
	return d.set.NewPackedAttention(kernel.AttentionShape{Batch: sequences, Queries: q[1], Heads: q[2], Size: q[3], Keys: k[1],
		KVHeads: k[2], ValueSize: v[3]}, bf16From)
}

// packedAttentionScratch is the plan of the pieces, and then what each worker needs.
func (d *processor) packedAttentionScratch(n *ir.Node) []int64 {
	a := d.packedAttention(n)
	return []int64{int64(align(a.PlanBytes())), int64(d.Threads()) * int64(align(a.ScratchBytes()))}
}

// bindPackedAttention returns two phases: one thread divides the sequences into pieces, and then all threads take pieces.
func bindPackedAttention(b *binder, n *ir.Node, in, out []operand) step {
	op := n.Op.(ir.Attention)
	q, k, v, sequences, y := in[ir.AttentionQ], in[ir.AttentionK], in[ir.AttentionV], in[ir.AttentionSequences], out[0]
	a := b.d.packedAttention(n)
	args := kernel.AttentionArgs{QStride: headStride(&q), KStride: headStride(&k), VStride: headStride(&v), OutStride: headStride(&y),
		Scale: op.Scale, Softcap: op.Softcap}
	mask, positions := in[ir.AttentionMask], in[ir.AttentionPositions]
	var below [2]int
	if n.HasOperand(ir.AttentionMask) {
		st := maskStride(&mask)
		args.BiasStride, args.MaskStride = st, st
		for i, d := range mask.shape[max(0, len(mask.shape)-2):] {
			if d > 1 {
				below[i+2-min(2, len(mask.shape))] = d
			}
		}
	}
	var scores, index [2]operand // scores by relative position and their indices, for queries and for keys
	relative := func(m *machine, i int) kernel.RelativeScores {
		s, x := &scores[i], &index[i]
		if s.shape == nil {
			return kernel.RelativeScores{}
		}
		return kernel.RelativeScores{Scores: s.f32(m), Head: s.shape[2] * s.shape[3], N: s.shape[3], Index: elements[int64](m, x),
			IndexRow: x.shape[1]}
	}
	for i, at := range []int{ir.AttentionQueryScores, ir.AttentionKeyScores} {
		if n.HasOperand(at) {
			scores[i], index[i] = in[at], in[at+1]
			for axis, p := range below {
				if positions := index[i].shape[0]; p == 0 || positions < p {
					below[axis] = positions
				}
			}
		}
	}
	byPosition := n.HasOperand(ir.AttentionPositions)
	if byPosition {
		args.Window = windowOf(op, a.Queries, a.Keys)
	}
	plan, scratch, each := b.scratchBytes(0), b.scratchBytes(1), align(a.ScratchBytes())
	return inPhases(
		step{parts: 1, run: func(m *machine, _, _ int) {
			err := a.Plan(elements[int32](m, &sequences), plan.bytes(m))
			if err == nil && byPosition {
				err = a.Positions(elements[int32](m, &sequences), elements[int64](m, &positions), below[0], below[1])
			}
			for i := range scores {
				r := relative(m, i)
				if err == nil {
					err = r.Indices()
				}
			}
			if err != nil {
				m.fail(err)
			}
		}},
		step{parts: b.d.Threads(), run: func(m *machine, _, worker int) {
			own := args
			own.Q, own.K, own.V, own.Out = q.f32(m), k.f32(m), v.f32(m), y.f32(m)
			setMask(&own, m, &mask)
			if byPosition {
				own.KeyAt = elements[int64](m, &positions)
			}
			own.ByQuery, own.ByKey = relative(m, 0), relative(m, 1)
			a.Run(elements[int32](m, &sequences), &own, plan.bytes(m), scratch.bytes(m)[worker*each:][:each])
		}},
	)
}

// sumSequencesEntry sums the tokens of each sequence, for pooling.
var sumSequencesEntry = entry{
	Supports: func(n *ir.Node) bool { return n.Inputs[0].Type.DType == tensor.F32 },
	Bind: func(b *binder, n *ir.Node, in, out []operand) (step, error) {
		x, sequences, y := in[0], in[1], out[0]
		width, tokens, set := y.shape[1:].Elements(), x.shape[1], b.d.set
		fn, first := kernel.Add, float32(0)
		if n.Op.(ir.SumSequences).Largest {
			fn, first = kernel.Max, float32(math.Inf(-1))
		}
		return step{parts: y.shape[0], run: func(m *machine, r, _ int) {
			sequence := elements[int32](m, &sequences)[r*kernel.SequenceFields:]
			dst, src := y.f32(m)[r*width:][:width], x.f32(m)
			fill(dst, first)
			begin, end := int(sequence[0]), int(sequence[1])
			if begin < 0 || end > tokens {
				m.fail(fmt.Errorf("sequence %d is %v, of %d tokens", r, sequence[:kernel.SequenceFields], tokens))
				return
			}
			for t := begin; t < end; t++ {
				set.Binary(fn, dst, dst, src[t*width:][:width])
			}
		}}, nil
	},
}
