package cpu

import (
	"fmt"
	"slices"

	"github.com/rlxc/rlxc/backend/cpu/kernel"
	"github.com/rlxc/rlxc/ir"
	"github.com/rlxc/rlxc/tensor"
)

// qNormBlock is the approximate number of elements that a quantised norm processes at a time. They stay in the first-level cache.
const qNormBlock = 4096

func qNormRows(cols int) int { return max(1, qNormBlock/max(1, cols)) }

func (d *processor) qLayerNormEntry() entry {
	return entry{
		Supports: func(n *ir.Node) bool {
			return normKernel(n, n.Op.(ir.QLayerNorm).Axes)
		},
		Scratch: func(n *ir.Node) []int64 {
			s := n.Inputs[ir.LayerNormX].Type.Sizes()
			cols := s[len(s)-n.Op.(ir.QLayerNorm).Axes:].Elements()
			return []int64{int64(d.Threads() * align(4*qNormRows(cols)*cols))}
		},
		Bind: bindQLayerNorm,
	}
}

func bindQLayerNorm(b *binder, n *ir.Node, in, out []operand) (step, error) {
	op := n.Op.(ir.QLayerNorm)
	x, residual, y := in[ir.LayerNormX], in[ir.LayerNormResidual], out[0]
	cols := x.shape[len(x.shape)-op.Axes:].Elements()
	rows := x.shape[:len(x.shape)-op.Axes].Elements()
	if rows == 0 || cols == 0 {
		return step{}, nil
	}
	ones := slices.Repeat([]float32{1}, cols)
	set, quantized := b.d.set, is8Bit(residual.dtype)
	block := qNormRows(cols)
	scratch, each := b.scratchBytes(0), align(4*block*cols)
	parts, perPart := rowParts(rows, cols)
	return step{parts: parts, run: func(m *machine, part, worker int) {
		yScale, yZero := in[ir.QLayerNormYScale].f32(m)[0], byteAt(&in[ir.QLayerNormYZero], m)
		if yScale == 0 || yScale != yScale {
			m.fail(fmt.Errorf("the scale of the result is %v: quantising divides by it", yScale))
			return
		}
		own := scratch.part(worker*each, block*cols, tensor.F32)
		for lo, end := part*perPart, min((part+1)*perPart, rows); lo < end; lo += block {
			hi := min(lo+block, end)
			rounded := own.f32(m)[:(hi-lo)*cols]
			args := kernel.NormArgs{Dst: rounded, DstRow: cols, X: x.f32(m)[lo*cols:], XRow: cols, ResRow: cols, Scale: ones,
				Bias: in[ir.LayerNormBias].f32(m), Epsilon: op.Eps}
			switch {
			case quantized:
				args.Residual = rounded
				dequantizeValues(set, residual.dtype, rounded, residual.bytes(m)[lo*cols:hi*cols],
					in[ir.QLayerNormResidualScale].f32(m)[0], byteAt(&in[ir.QLayerNormResidualZero], m))
			case residual.span > 0:
				args.Residual = residual.f32(m)[lo*cols:]
			}
			if op.Float {
				rounded = out[1].f32(m)[lo*cols : hi*cols]
				args.Dst = rounded
			}
			if in[ir.LayerNormScale].span > 0 {
				args.Scale = in[ir.LayerNormScale].f32(m)
			}
			if op.RMS { // called by name: through a function value args would move to the heap
				set.RMSNorm(&args, 0, hi-lo, cols)
			} else {
				set.LayerNorm(&args, 0, hi-lo, cols)
			}
			quantizeValues(set, y.dtype, y.bytes(m)[lo*cols:hi*cols], rounded, yScale, yZero)
		}
	}}, nil
}
