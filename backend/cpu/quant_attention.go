package cpu

import (
	"fmt"

	"github.com/rlxc/rlxc/backend/cpu/kernel"
	"github.com/rlxc/rlxc/ir"
	"github.com/rlxc/rlxc/target"
	"github.com/rlxc/rlxc/tensor"
)

func (d *Device) qAttentionRow() row {
	return row{
		Row: target.Row{
			Runs: target.OnKernel,
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
				return []int64{int64(d.Threads()) * int64(align(d.qAttention(n).ScratchBytes()))}
			},
		},
		bind: bindQAttention,
	}
}

// qAttention plans the kernel of a bound node.
func (d *Device) qAttention(n *ir.Node) *kernel.QAttention {
	q, v := n.Inputs[ir.QAttentionQ].Type.Sizes(), n.Inputs[ir.QAttentionV].Type.Sizes()
	return d.set.NewQAttention(kernel.QAttentionShape{Batch: q[0], Queries: q[1], Heads: q[2], Size: q[3], Keys: v[1], ValueSize: v[3]})
}

func bindQAttention(b *binder, n *ir.Node) (step, error) {
	in, out := b.operands(n)
	in = append(in, make([]operand, ir.QAttentionYZero+1-len(in))...)
	y := out[0]
	if y.len() == 0 {
		return step{}, nil
	}
	a := b.d.qAttention(n)
	mask := in[ir.QAttentionMask]
	scratch, each := b.scratchBytes(0), align(a.ScratchBytes())
	probs := n.Op.(ir.QAttention).ProbType(n.Inputs)
	return step{parts: a.Parts(), run: func(m *machine, part, worker int) {
		heads := func(i int) kernel.CodeHeads {
			zero := &in[ir.QAttentionQZero+2*i]
			return kernel.CodeHeads{Codes: in[i].bytes(m), Stride: headStride(&in[i]), Zero: byteAt(zero, m), Signed: in[i].dtype == tensor.I8}
		}
		valid := true
		// codes reads how something is rounded; no scale leaves it as it is.
		codes := func(i int, signed bool) (c kernel.Codes) {
			if in[i].span == 0 {
				return c
			}
			c = kernel.Codes{Scale: in[i].f32(m)[0], Zero: byteAt(&in[i+1], m), Signed: signed}
			if c.Scale == 0 || c.Scale != c.Scale {
				m.fail(n, fmt.Errorf("a scale is %v: quantising divides by it", c.Scale))
				valid = false
			}
			return c
		}
		args := kernel.QAttentionArgs{
			Q: heads(ir.QAttentionQ), K: heads(ir.QAttentionK), V: heads(ir.QAttentionV),
			Scale: in[ir.QAttentionQScale].f32(m)[0] * in[ir.QAttentionKScale].f32(m)[0], VScale: in[ir.QAttentionVScale].f32(m)[0],
			Mask: mask.f32(m), Scores: codes(ir.QAttentionScoreScale, in[ir.QAttentionScoreZero].dtype == tensor.I8),
			Probs: codes(ir.QAttentionProbScale, probs == tensor.I8), OutStride: headStride(&y),
		}
		if mask.span > 0 {
			args.MaskStride = maskStride(&mask)
		}
		if y.dtype == tensor.F32 {
			args.Out = y.f32(m)
		} else {
			args.Codes = codes(ir.QAttentionYScale, y.dtype == tensor.I8)
			args.Codes.Dst = y.bytes(m)
		}
		if valid {
			a.Run(part, &args, scratch.bytes(m)[worker*each:][:each])
		}
	}}, nil
}
