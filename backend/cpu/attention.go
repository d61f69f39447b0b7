package cpu

import (
	"github.com/rlxc/rlxc/backend/cpu/kernel"
	"github.com/rlxc/rlxc/internal/target"
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

// halfAttentionEntry is the entry of attention, with that of 16-bit floats: it widens some heads at a time. Its results are rounded to
// where queries are, as float32 results are written there.
func (d *processor) halfAttentionEntry() entry {
	plain := d.attentionEntry()
	e := withHalf(plain)
	e.StridedResult = plain.StridedResult
	return byTiles(e, func(n *ir.Node) []cut {
		if !target.HasHalf(n) || n.HasOperand(ir.AttentionSequences) {
			return nil
		}
		return d.headCuts(n)
	})
}

// mostHeadTiles bounds the phases of an attention of 16-bit floats. What the tiles of fewer widen would be the peak of encoders.
const mostHeadTiles = 16

// headCuts returns the tiles of an attention: some sequences, or some heads of one, with the keys and values that they read. A tile has
// work for all threads.
func (d *processor) headCuts(n *ir.Node) (list []cut) {
	q, k, y := n.Inputs[ir.AttentionQ].Type.Sizes(), n.Inputs[ir.AttentionK].Type.Sizes(), n.Outputs[0].Type.Sizes()
	batch, group := q[0], q[2]/max(k[2], 1) // query heads of one head of keys
	if y.Elements() == 0 || k[0] != batch || group*k[2] != q[2] {
		return nil
	}
	least := ceilDiv(tileRows*max(1, d.Threads()/2), group*q[1])
	each := max(ceilDiv(batch*k[2], mostHeadTiles), least) // pairs of a sequence and a head of keys
	sequences, heads := max(1, each/k[2]), min(each, k[2])
	if sequences >= batch && heads == k[2] {
		return nil
	}
	for first := 0; first < batch; first += sequences {
		for head := 0; head < k[2]; head += heads {
			number, own := min(sequences, batch-first), min(heads, k[2]-head)
			list = append(list, func(i int, o operand) operand {
				switch {
				case o.shape == nil:
					return o
				case i < 0 || i == ir.AttentionQ:
					return o.cut(0, first, number).cut(2, head*group, own*group)
				case i == ir.AttentionK || i == ir.AttentionV:
					return o.cut(0, first, number).cut(2, head, own)
				}
				rank := len(o.shape) // a mask [batch, heads, queries, keys], of which leading axes may be absent or repeat
				if rank > 3 && o.shape[rank-4] > 1 {
					o = o.cut(rank-4, first, number)
				}
				if rank > 2 && o.shape[rank-3] > 1 {
					o = o.cut(rank-3, head*group, own*group)
				}
				return o
			})
		}
	}
	return list
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
