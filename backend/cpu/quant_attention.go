package cpu

import (
	"fmt"

	"github.com/rlxc/rlxc/backend/cpu/kernel"
	"github.com/rlxc/rlxc/ir"
	"github.com/rlxc/rlxc/tensor"
)

func (d *processor) qAttentionEntry() entry {
	return entry{
		Supports: func(n *ir.Node) bool { // the kernel reads queries word by word
			size, known := n.Inputs[ir.QAttentionQ].Type.Shape[3].Const()
			return known && size%4 == 0
		},
		Strided: func(_ *ir.Node, i int, strides []int) bool {
			switch {
			case i == ir.QAttentionQ:
				return strides[3] == 1 && strides[0]%4 == 0 && strides[1]%4 == 0 && strides[2]%4 == 0
			case i <= ir.QAttentionV:
				return strides[3] == 1
			}
			return i == ir.QAttentionMask
		},
		Scratch: func(n *ir.Node) []int64 {
			if n.HasOperand(ir.QAttentionSequences) {
				a := d.packedQAttention(n)
				return []int64{int64(align(a.PlanBytes())), int64(d.Threads()) * int64(align(a.ScratchBytes()))}
			}
			return []int64{int64(d.Threads()) * int64(align(d.qAttention(n).ScratchBytes()))}
		},
		Bind: bindQAttention,
	}
}

// qAttention plans the kernel of a bound node.
func (d *processor) qAttention(n *ir.Node) *kernel.QAttention {
	q, v := n.Inputs[ir.QAttentionQ].Type.Sizes(), n.Inputs[ir.QAttentionV].Type.Sizes()
	return d.set.NewQAttention(kernel.QAttentionShape{Batch: q[0], Queries: q[1], Heads: q[2], Size: q[3], Keys: v[1], ValueSize: v[3]})
}

func bindQAttention(b *binder, n *ir.Node, in, out []operand) (step, error) {
	y := out[0]
	if y.len() == 0 {
		return step{}, nil
	}
	if n.HasOperand(ir.QAttentionSequences) {
		a, sequences := b.d.packedQAttention(n), in[ir.QAttentionSequences]
		plan, scratch, each := b.scratchBytes(0), b.scratchBytes(1), align(a.ScratchBytes())
		return inPhases(
			step{parts: 1, run: func(m *machine, _, _ int) {
				if err := a.Plan(elements[int32](m, &sequences), plan.bytes(m)); err != nil {
					m.fail(err)
				}
			}},
			step{parts: b.d.Threads(), run: func(m *machine, _, worker int) {
				if args, ok := qAttentionArgs(m, n, in, &y); ok {
					a.Run(elements[int32](m, &sequences), &args, plan.bytes(m), scratch.bytes(m)[worker*each:][:each])
				}
			}},
		), nil
	}
	a := b.d.qAttention(n)
	scratch, each := b.scratchBytes(0), align(a.ScratchBytes())
	return step{parts: a.Parts(), run: func(m *machine, part, worker int) {
		if args, ok := qAttentionArgs(m, n, in, &y); ok {
			a.Run(part, &args, scratch.bytes(m)[worker*each:][:each])
		}
	}}, nil
}

// packedQAttention plans the kernel of packed attention.
func (d *processor) packedQAttention(n *ir.Node) *kernel.PackedQAttention {
	q, v := n.Inputs[ir.QAttentionQ].Type.Sizes(), n.Inputs[ir.QAttentionV].Type.Sizes()
	sequences := n.Inputs[ir.QAttentionSequences].Type.Sizes()[0]
	return d.set.NewPackedQAttention(kernel.QAttentionShape{Batch: sequences, Queries: q[1], Heads: q[2], Size: q[3], Keys: v[1],
		ValueSize: v[3]}, &d.qPlans)
}

// qAttentionArgs reads the operands of a run; a scale that cannot be is its error.
func qAttentionArgs(m *machine, n *ir.Node, in []operand, y *operand) (args kernel.QAttentionArgs, valid bool) {
	heads := func(i int) kernel.QuantizedHeads {
		zero := &in[ir.QAttentionQZero+2*i]
		return kernel.QuantizedHeads{Quantized: in[i].bytes(m), Stride: headStride(&in[i]), Zero: byteAt(zero, m),
			Signed: in[i].dtype == tensor.I8}
	}
	valid = true
	// quantized reads how something is rounded; no scale leaves it unchanged.
	quantized := func(i int, signed bool) (c kernel.Quantized) {
		if in[i].span == 0 {
			return c
		}
		c = kernel.Quantized{Scale: in[i].f32(m)[0], Zero: byteAt(&in[i+1], m), Signed: signed}
		if c.Scale == 0 || c.Scale != c.Scale {
			m.fail(fmt.Errorf("a scale is %v: quantising divides by it", c.Scale))
			valid = false
		}
		return c
	}
	mask, probs := in[ir.QAttentionMask], n.Op.(ir.QAttention).ProbType(n.Inputs)
	args = kernel.QAttentionArgs{
		Q: heads(ir.QAttentionQ), K: heads(ir.QAttentionK), V: heads(ir.QAttentionV),
		Scale: in[ir.QAttentionQScale].f32(m)[0] * in[ir.QAttentionKScale].f32(m)[0], VScale: in[ir.QAttentionVScale].f32(m)[0],
		Mask: mask.f32(m), Scores: quantized(ir.QAttentionScoreScale, in[ir.QAttentionScoreZero].dtype == tensor.I8),
		Probs: quantized(ir.QAttentionProbScale, probs == tensor.I8), OutStride: headStride(y),
	}
	if mask.span > 0 {
		args.MaskStride = maskStride(&mask)
	}
	if y.dtype == tensor.F32 {
		args.Out = y.f32(m)
	} else {
		args.Quantized = quantized(ir.QAttentionYScale, y.dtype == tensor.I8)
		args.Quantized.Dst = y.bytes(m)
	}
	return args, valid
}
