package cpu

import (
	"slices"

	"github.com/rlxc/rlxc/backend/cpu/kernel"
	"github.com/rlxc/rlxc/ir"
	"github.com/rlxc/rlxc/target"
	"github.com/rlxc/rlxc/tensor"
)

// rowParts cuts rows of cols elements into parts of about equal size.
func rowParts(rows, cols int) (parts, perPart int) {
	if rows == 0 || cols == 0 {
		return 0, 1
	}
	most := max(1, partElements/cols)
	parts = (rows + most - 1) / most
	return parts, (rows + parts - 1) / parts
}

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

var layerNormRow = row{
	Row: target.Row{
		Runs:     target.OnKernel,
		Supports: func(n *ir.Node) bool { return normKernel(n, n.Op.(ir.LayerNorm).Axes) },
		InPlace:  func(n *ir.Node, i int) bool { return i == ir.LayerNormX || i == ir.LayerNormResidual },
	},
	bind: func(b *binder, n *ir.Node) (step, error) {
		op := n.Op.(ir.LayerNorm)
		in, out := b.operands(n)
		x, y := in[ir.LayerNormX], out[0]
		var scale, bias, residual, sum operand
		if n.HasOperand(ir.LayerNormScale) {
			scale = in[ir.LayerNormScale]
		}
		if n.HasOperand(ir.LayerNormBias) {
			bias = in[ir.LayerNormBias]
		}
		if n.HasOperand(ir.LayerNormResidual) {
			residual = in[ir.LayerNormResidual]
		}
		if op.Sum {
			sum = out[1]
		}
		cols := x.shape[len(x.shape)-op.Axes:].Elements()
		rows := x.shape[:len(x.shape)-op.Axes].Elements()
		ones := slices.Repeat([]float32{1}, cols)
		set := b.d.set
		parts, perPart := rowParts(rows, cols)
		return step{parts: parts, run: func(m *machine, part, _ int) {
			args := kernel.NormArgs{
				Dst: y.f32(m), DstRow: cols, X: x.f32(m), XRow: cols, Residual: residual.f32(m), ResRow: cols,
				Sum: sum.f32(m), SumRow: cols, Scale: ones, Bias: bias.f32(m), Epsilon: op.Eps,
			}
			if scale.span > 0 {
				args.Scale = scale.f32(m)
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

var softmaxRow = row{
	Row: target.Row{
		Runs: target.OnKernel,
		Supports: func(n *ir.Node) bool {
			t, op := n.Inputs[0].Type, n.Op.(ir.Softmax)
			return t.DType == tensor.F32 && !op.Log && op.Axis == len(t.Shape)-1
		},
		InPlace: func(*ir.Node, int) bool { return true },
	},
	bind: func(b *binder, n *ir.Node) (step, error) {
		in, out := b.operands(n)
		x, y := in[0], out[0]
		cols := x.shape[len(x.shape)-1]
		rows := x.shape[:len(x.shape)-1].Elements()
		parts, perPart := rowParts(rows, cols)
		set := b.d.set
		return step{parts: parts, run: func(m *machine, part, _ int) {
			lo, hi := part*perPart, min((part+1)*perPart, rows)
			set.Softmax(y.f32(m)[lo*cols:], cols, x.f32(m)[lo*cols:], cols, hi-lo, cols)
		}}, nil
	},
}

// reduceKernels says which kernel combines the elements of a row.
var reduceKernels = map[ir.Reduction]kernel.ReduceOp{
	ir.Sum: kernel.ReduceSum, ir.Mean: kernel.ReduceSum, ir.SumSquare: kernel.ReduceSumSquares, ir.MaxOf: kernel.ReduceMax, ir.MinOf: kernel.ReduceMin,
}

var reduceRow = row{
	Row: target.Row{
		Runs: target.OnKernel,
		Supports: func(n *ir.Node) bool {
			t, op := n.Inputs[0].Type, n.Op.(ir.Reduce)
			if _, ok := reduceKernels[op.Fn]; !ok || t.DType != tensor.F32 || len(op.Axes) == 0 {
				return false
			}
			for i, axis := range op.Axes { // the last axes
				if axis != len(t.Shape)-len(op.Axes)+i {
					return false
				}
			}
			return true
		},
	},
	bind: func(b *binder, n *ir.Node) (step, error) {
		op := n.Op.(ir.Reduce)
		in, out := b.operands(n)
		x, y := in[0], out[0]
		outer := len(x.shape) - len(op.Axes)
		rows, cols := x.shape[:outer].Elements(), x.shape[outer:].Elements()
		parts, perPart := rowParts(rows, max(cols, 1))
		set, fn := b.d.set, reduceKernels[op.Fn]
		return step{parts: parts, run: func(m *machine, part, _ int) {
			lo, hi := part*perPart, min((part+1)*perPart, rows)
			dst := y.f32(m)[lo:hi]
			if cols == 0 {
				set.ReduceRows(fn, dst, nil, 0, hi-lo, 0)
			} else {
				set.ReduceRows(fn, dst, x.f32(m)[lo*cols:], cols, hi-lo, cols)
			}
			if op.Fn == ir.Mean {
				for i := range dst {
					dst[i] /= float32(cols)
				}
			}
		}}, nil
	},
}
