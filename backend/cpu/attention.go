package cpu

import (
	"github.com/rlxc/rlxc/backend/cpu/kernel"
	"github.com/rlxc/rlxc/ir"
	"github.com/rlxc/rlxc/tensor"
)

func (d *processor) attentionEntry() entry {
	return entry{
		Supports: func(n *ir.Node) bool {
			if n.Inputs[ir.AttentionQ].Type.DType != tensor.F32 {
				return false
			}
			if !n.HasOperand(ir.AttentionMask) {
				return true
			}
			t := n.Inputs[ir.AttentionMask].Type.DType
			return t == tensor.F32 || t == tensor.Bool
		},
		// The kernel walks batch, sequence and head by strides; only the elements of a head must be together. A mask may have
		// any strides.
		Strided: func(n *ir.Node, i int, strides []int) bool {
			if i >= ir.AttentionSequences {
				return false
			}
			return i == ir.AttentionMask || strides[len(strides)-1] == 1 || n.Inputs[i].Type.Shape[3].Is(1)
		},
		// A part reads all of its queries, which no other part reads, before it writes its results; see kernel.AttentionArgs.
		InPlace:       func(_ *ir.Node, i int) bool { return i == ir.AttentionQ },
		StridedResult: func(*ir.Node, []int) bool { return true },
		Scratch: func(n *ir.Node) []int64 {
			if n.HasOperand(ir.AttentionSequences) {
				return d.packedAttentionScratch(n)
			}
			return []int64{int64(d.Threads()) * int64(align(d.attention(n).ScratchBytes()))}
		},
		Bind:   bindAttention,
		Shares: func(n *ir.Node) bool { return !n.HasOperand(ir.AttentionSequences) },
	}
}

// attention plans the kernel of a bound node.
func (d *processor) attention(n *ir.Node) *kernel.Attention {
	q, k, v := n.Inputs[ir.AttentionQ].Type.Shape, n.Inputs[ir.AttentionK].Type.Shape, n.Inputs[ir.AttentionV].Type.Shape
	shape := kernel.AttentionShape{Batch: q[0].Int(), Queries: q[1].Int(), Heads: q[2].Int(), Size: q[3].Int(), Keys: k[1].Int(),
		KVHeads: k[2].Int(), ValueSize: v[3].Int()}
	if d.format == formatBF16 && min(shape.Queries, shape.Keys) >= worthRounding {
		return d.set.NewAttentionBF16(shape)
	}
	return d.set.NewAttention(shape)
}

func bindAttention(b *binder, n *ir.Node, in, out []operand) (step, error) {
	if n.HasOperand(ir.AttentionSequences) {
		return bindPackedAttention(b, n, in, out), nil
	}
	op := n.Op.(ir.Attention)
	q, k, v, mask, y := &in[ir.AttentionQ], &in[ir.AttentionK], &in[ir.AttentionV], &in[ir.AttentionMask], &out[0]
	if y.len() == 0 {
		return step{}, nil
	}
	a := b.d.attention(n)
	args := kernel.AttentionArgs{
		QStride: headStride(q), KStride: headStride(k), VStride: headStride(v), OutStride: headStride(y),
		Scale: op.Scale, Softcap: op.Softcap, NaNGuard: op.NaNGuard,
	}
	args.Window = windowOf(op, q.shape[1], k.shape[1])
	if n.HasOperand(ir.AttentionMask) {
		st := maskStride(mask)
		args.BiasStride, args.MaskStride = st, st
	}
	scratch, each := b.scratchBytes(0), align(a.ScratchBytes())
	return step{parts: a.Parts(), run: func(m *machine, part, worker int) {
		own := args
		own.Q, own.K, own.V, own.Out = q.f32(m), k.f32(m), v.f32(m), y.f32(m)
		setMask(&own, m, mask)
		a.Run(part, &own, scratch.bytes(m)[worker*each:][:each])
	}}, nil
}
