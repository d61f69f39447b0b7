package cpu

import (
	"github.com/rlxc/rlxc/backend/cpu/kernel"
	"github.com/rlxc/rlxc/ir"
	"github.com/rlxc/rlxc/tensor"
)

// normKernel reports whether the kernels take a norm over the last axes: of float32, scale and bias of its rows' length.
func normKernel(n *ir.Node, axes int) bool {
	x := n.Inputs[ir.LayerNormX].Type
	if x.DType != tensor.F32 {
		return false
	}
	inner := x.Shape[len(x.Shape)-axes:]
	for _, i := range []int{ir.LayerNormScale, ir.LayerNormBias} {
		if n.HasOperand(i) && !n.Inputs[i].Type.Shape.Equal(inner) {
			return false
		}
	}
	return true
}

var layerNormEntry = entry{
	Supports: func(n *ir.Node) bool { return normKernel(n, n.Op.(ir.LayerNorm).Axes) },
	InPlace:  func(n *ir.Node, i int) bool { return i == ir.LayerNormX || i == ir.LayerNormResidual },
	Shares:   always,
	Bind: func(b *binder, n *ir.Node, in, out []operand) (step, error) {
		op := n.Op.(ir.LayerNorm)
		x, scale, bias, residual := &in[ir.LayerNormX], &in[ir.LayerNormScale], &in[ir.LayerNormBias], &in[ir.LayerNormResidual]
		y, sum := &out[0], &operand{}
		if op.Sum {
			sum = &out[1]
		}
		cols := x.shape[len(x.shape)-op.Axes:].Elements()
		rows := x.shape[:len(x.shape)-op.Axes].Elements()
		if scale.span == 0 {
			scale = onesOf(cols)
		}
		set := b.d.set
		parts, perPart := rowParts(rows, cols)
		return step{parts: parts, run: func(m *machine, part, _ int) {
			args := kernel.NormArgs{
				Dst: y.f32(m), DstRow: cols, X: x.f32(m), XRow: cols, Residual: residual.f32(m), ResRow: cols,
				Sum: sum.f32(m), SumRow: cols, Scale: scale.f32(m), Bias: bias.f32(m), Epsilon: op.Eps,
			}
			lo, hi := part*perPart, min((part+1)*perPart, rows)
			if op.RMS { // called by name: through a function value args would move to the heap
				set.RMSNorm(&args, lo, hi, cols)
			} else {
				set.LayerNorm(&args, lo, hi, cols)
			}
		}}, nil
	},
}
