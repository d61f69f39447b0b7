package cpu

import (
	"fmt"

	"github.com/rlxc/rlxc/ir"
	"github.com/rlxc/rlxc/tensor"
)

// perTensor reports whether scale and zero point are one number each.
func perTensor(n *ir.Node) bool {
	return len(n.Inputs[1].Type.Shape) == 0
}

var quantizeEntry = entry{
	Supports: func(n *ir.Node) bool {
		return perTensor(n) && is8Bit(n.Op.(ir.Quantize).To) && n.Inputs[0].Type.DType == tensor.F32 &&
			n.Inputs[1].Type.DType == tensor.F32
	},
	Bind: func(b *binder, n *ir.Node, in, out []operand) (step, error) {
		x, scale, zero, y := in[0], in[1], in[2], out[0]
		set := b.d.set
		parts, cut := spread(y.len())
		return step{parts: parts, run: func(m *machine, part, _ int) {
			s := scale.f32(m)[0]
			if s == 0 || s != s {
				m.fail(fmt.Errorf("the scale is %v: quantising divides by it", s))
				return
			}
			lo, hi := cut(part)
			quantizeValues(set, y.dtype, y.bytes(m)[lo:hi], x.f32(m)[lo:hi], s, byteAt(&zero, m))
		}}, nil
	},
}

var dequantizeEntry = entry{
	Supports: func(n *ir.Node) bool {
		o := n.Op.(ir.Dequantize)
		last := len(n.Inputs[0].Type.Shape) - 1
		return (o.Block == 0 || o.Axis == last) && is8Bit(n.Inputs[0].Type.DType) && o.To == tensor.F32 &&
			n.Inputs[1].Type.DType == tensor.F32
	},
	Bind: func(b *binder, n *ir.Node, in, out []operand) (step, error) {
		x, scale, zero, y := in[0], in[1], in[2], out[0]
		set := b.d.set
		decode := func(dst []float32, src []byte, s float32, z int32) { dequantizeValues(set, x.dtype, dst, src, s, z) }
		if perTensor(n) {
			parts, cut := spread(y.len())
			return step{parts: parts, run: func(m *machine, part, _ int) {
				lo, hi := cut(part)
				decode(y.f32(m)[lo:hi], x.bytes(m)[lo:hi], scale.f32(m)[0], byteAt(&zero, m))
			}}, nil
		}
		zeroAt := func(m *machine, i int) int32 {
			z := zero
			if z.span > 0 {
				z.off, z.span = z.off+i, 1
			}
			return byteAt(&z, m)
		}
		axis, block := n.Op.(ir.Dequantize).Axis, n.Op.(ir.Dequantize).Block
		size := y.shape[axis]
		if block > 0 { // of the last axis
			blocks := ceilDiv(size, block)
			runs := y.shape[:axis].Elements() * blocks
			parts, perPart := rowParts(runs, block)
			return step{parts: parts, run: func(m *machine, part, _ int) {
				dst, src, scales := y.f32(m), x.bytes(m), scale.f32(m)
				for r := part * perPart; r < min((part+1)*perPart, runs); r++ {
					row := r / blocks * size
					lo, hi := row+r%blocks*block, row+min((r%blocks+1)*block, size)
					decode(dst[lo:hi], src[lo:hi], scales[r], zeroAt(m, r))
				}
			}}, nil
		}
		inner := y.shape[axis+1:].Elements()
		runs := y.shape[:axis+1].Elements() // of one scale each
		parts, perPart := rowParts(runs, inner)
		return step{parts: parts, run: func(m *machine, part, _ int) {
			dst, src, scales := y.f32(m), x.bytes(m), scale.f32(m)
			for r := part * perPart; r < min((part+1)*perPart, runs); r++ {
				decode(dst[r*inner:][:inner], src[r*inner:][:inner], scales[r%size], zeroAt(m, r%size))
			}
		}}, nil
	},
}

var dynamicQuantizeEntry = entry{
	Scratch: func(n *ir.Node) []int64 { return []int64{int64(rangeBytes(n.Inputs[0].Type.Elements()))} },
	Bind: func(b *binder, n *ir.Node, in, out []operand) (step, error) {
		y, scale, zero := out[0], out[1], out[2]
		r := newRanges(b, in[0], b.scratchBytes(0))
		if r.parts == 0 { // of nothing the range is 0
			return step{parts: 1, run: func(m *machine, _, _ int) { scale.f32(m)[0], zero.bytes(m)[0] = 1, 0 }}, nil
		}
		quantize := step{parts: r.parts, run: func(m *machine, part, _ int) {
			s, z := r.scale(m)
			if part == 0 {
				scale.f32(m)[0], zero.bytes(m)[0] = s, z
			}
			lo, hi := r.cut(part)
			r.set.QuantizeU8(y.bytes(m)[lo:hi], r.x.f32(m)[lo:hi], s, z)
		}}
		return inPhases(r.step(), quantize), nil
	},
}
