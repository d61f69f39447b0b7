package cpu

import (
	"fmt"
	"unsafe"

	"github.com/rlxc/rlxc/backend/cpu/kernel"
	"github.com/rlxc/rlxc/internal/target"
	"github.com/rlxc/rlxc/ir"
	"github.com/rlxc/rlxc/tensor"
)

// perTensor reports whether scale and zero point are one number each.
func perTensor(n *ir.Node) bool {
	return len(n.Inputs[1].Type.Shape) == 0
}

func is8Bit(d tensor.DType) bool { return d == tensor.U8 || d == tensor.I8 }

// spread cuts a flat range into parts.
func spread(n int) (parts int, cut func(part int) (lo, hi int)) {
	parts = (n + partElements - 1) / partElements
	return parts, func(part int) (int, int) { return part * partElements, min((part+1)*partElements, n) }
}

// byteAt reads a zero point as the number that it is, 0 where there is none.
func byteAt(o *operand, m *machine) int32 {
	if o.span == 0 {
		return 0
	}
	return firstByte(o.dtype, o.bytes(m))
}

// firstByte is the first of 8-bit integers as the number that it is, 0 where there is none.
func firstByte(d tensor.DType, b []byte) int32 {
	switch {
	case b == nil:
		return 0
	case d == tensor.I8:
		return int32(int8(b[0]))
	}
	return int32(b[0])
}

// signed sees bytes as signed ones.
func signed(b []byte) []int8 {
	return unsafe.Slice((*int8)(unsafe.Pointer(unsafe.SliceData(b))), len(b))
}

// quantizeValues writes the quantised values of src to dst, of type d.
func quantizeValues(set *kernel.Set, d tensor.DType, dst []byte, src []float32, scale float32, zero int32) {
	if d == tensor.I8 {
		set.QuantizeS8(signed(dst), src, scale, int8(zero))
	} else {
		set.QuantizeU8(dst, src, scale, uint8(zero))
	}
}

// dequantizeValues writes to dst what quantised values of type d stand for.
func dequantizeValues(set *kernel.Set, d tensor.DType, dst []float32, src []byte, scale float32, zero int32) {
	if d == tensor.I8 {
		set.DequantizeS8(dst, signed(src), scale, int8(zero))
	} else {
		set.DequantizeU8(dst, src, scale, uint8(zero))
	}
}

var quantizeRow = row{
	Row: target.Row{
		Runs: target.OnKernel,
		Supports: func(n *ir.Node) bool {
			return perTensor(n) && is8Bit(n.Op.(ir.Quantize).To) && n.Inputs[0].Type.DType == tensor.F32 &&
				n.Inputs[1].Type.DType == tensor.F32
		},
	},
	bind: func(b *binder, n *ir.Node) (step, error) {
		in, out := b.operands(n)
		x, scale, y := in[0], in[1], out[0]
		var zero operand
		if n.HasOperand(2) {
			zero = in[2]
		}
		set := b.d.set
		parts, cut := spread(y.len())
		return step{parts: parts, run: func(m *machine, part, _ int) {
			s := scale.f32(m)[0]
			if s == 0 || s != s {
				m.fail(n, fmt.Errorf("the scale is %v: quantising divides by it", s))
				return
			}
			lo, hi := cut(part)
			quantizeValues(set, y.dtype, y.bytes(m)[lo:hi], x.f32(m)[lo:hi], s, byteAt(&zero, m))
		}}, nil
	},
}

var dequantizeRow = row{
	Row: target.Row{
		Runs: target.OnKernel,
		Supports: func(n *ir.Node) bool {
			o := n.Op.(ir.Dequantize)
			last := len(n.Inputs[0].Type.Shape) - 1
			return (o.Block == 0 || o.Axis == last) && is8Bit(n.Inputs[0].Type.DType) && o.To == tensor.F32 &&
				n.Inputs[1].Type.DType == tensor.F32
		},
	},
	bind: func(b *binder, n *ir.Node) (step, error) {
		in, out := b.operands(n)
		x, scale, y := in[0], in[1], out[0]
		var zero operand
		if n.HasOperand(2) {
			zero = in[2]
		}
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
			blocks := (size + block - 1) / block
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

// ranges finds the range of a tensor in parts: every part writes its least and greatest element to scratch, of which the
// range of all follows.
type ranges struct {
	set     *kernel.Set
	x       operand
	scratch operand
	parts   int
	cut     func(part int) (lo, hi int)
}

func newRanges(b *binder, x operand, scratch operand) *ranges {
	r := &ranges{set: b.d.set, x: x, scratch: scratch}
	r.parts, r.cut = spread(x.len())
	return r
}

// rangeBytes is the scratch that ranges of n elements need.
func rangeBytes(n int) int {
	parts, _ := spread(n)
	return 8 * parts
}

func (r *ranges) step() step {
	return step{parts: r.parts, run: func(m *machine, part, _ int) {
		lo, hi := r.cut(part)
		least, greatest := r.set.MinMax(r.x.f32(m)[lo:hi])
		out := r.found(m)
		out[2*part], out[2*part+1] = least, greatest
	}}
}

func (r *ranges) found(m *machine) []float32 {
	s := r.scratch
	s.dtype, s.width, s.span = tensor.F32, 4, 2*r.parts
	return s.f32(m)
}

// scale returns the scale and zero point that follow from all parts.
func (r *ranges) scale(m *machine) (scale float32, zero uint8) {
	var lo, hi float32
	found := r.found(m)
	for i := 0; i < len(found); i += 2 {
		lo, hi = min(lo, found[i]), max(hi, found[i+1])
	}
	return kernel.DynamicScale(lo, hi)
}

var dynamicQuantizeRow = row{
	Row: target.Row{
		Runs:    target.OnKernel,
		Scratch: func(n *ir.Node) []int64 { return []int64{int64(rangeBytes(n.Inputs[0].Type.Sizes().Elements()))} },
	},
	bind: func(b *binder, n *ir.Node) (step, error) {
		in, out := b.operands(n)
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
		return inTurn(r.step(), quantize), nil
	},
}
