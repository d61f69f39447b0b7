package cpu

import (
	"math"
	"unsafe"

	"github.com/rlxc/rlxc/backend/cpu/kernel"
	"github.com/rlxc/rlxc/ir"
	"github.com/rlxc/rlxc/tensor"
)

// The kernels multiply unsigned by signed bytes. Operands with the other sign are moved by 128, and their zero points with it: Σ(a − za)·(b
// − zb) stays.

func is8Bit(d tensor.DType) bool { return d == tensor.U8 || d == tensor.I8 }

// signed sees bytes as signed ones.
func signed(b []byte) []int8 {
	return unsafe.Slice((*int8)(unsafe.Pointer(unsafe.SliceData(b))), len(b))
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

// quantizeValues writes the quantised values of src to dst, of type d.
func quantizeValues(set *kernel.Set, d tensor.DType, dst []byte, src []float32, scale float32, zero int32) {
	if d == tensor.I8 {
		set.QuantizeS8(signed(dst), src, scale, int8(zero))
	} else {
		set.QuantizeU8(dst, src, scale, uint8(zero))
	}
}

// dequantizeValues dequantises values of type d to dst.
func dequantizeValues(set *kernel.Set, d tensor.DType, dst []float32, src []byte, scale float32, zero int32) {
	if d == tensor.I8 {
		set.DequantizeS8(dst, signed(src), scale, int8(zero))
	} else {
		set.DequantizeU8(dst, src, scale, uint8(zero))
	}
}

// ranges finds the range of a tensor in parts: every part writes its least and greatest element to scratch, of which the
// range of all follows.
type ranges struct {
	set     *kernel.Set
	x       operand
	scratch operand
	parts   int
	cut     func(part int) (lo, hi int)
	k, row  int // elements side by side, and from the first of them to the next: all of a row-major tensor, or rows that are further apart
}

func newRanges(b *binder, x operand, scratch operand) *ranges {
	r := &ranges{set: b.d.set, x: x, scratch: scratch}
	r.parts, r.cut = spread(x.len())
	if r.k, r.row = x.len(), x.len(); !(ir.Layout{Shape: x.shape, Strides: x.strides}).Contiguous() {
		r.k, r.row = x.shape[len(x.shape)-1], rowStride(&x)
	}
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
		x, least, greatest := r.x.f32(m), float32(math.Inf(1)), float32(math.Inf(-1))
		for next := lo; lo < hi; lo = next {
			next = min(hi, (lo/r.k+1)*r.k)
			low, high := r.set.MinMax(x[lo/r.k*r.row+lo%r.k:][:next-lo])
			least, greatest = min(least, low), max(greatest, high)
		}
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

func roundUp4(n int) int { return (n + 3) &^ 3 }

// signFlip returns what flipping the signs subtracts from b's values, and so from their zero point: 128 or 0.
func signFlip(d tensor.DType) int32 {
	if d == tensor.U8 {
		return 128
	}
	return 0
}

// zeroPhase brings the zero point of a to where the kernel reads it.
func zeroPhase(from, to operand, flip int32) step {
	return step{parts: 1, run: func(m *machine, _, _ int) { elements[int32](m, &to)[0] = byteAt(&from, m) + flip }}
}

// quantizeRows quantises rows of a tensor by the range of the whole tensor, and spaces them by row.
func quantizeRows(r *ranges, x, dst operand, row int, scale, zero operand) step {
	k, from := x.shape[len(x.shape)-1], rowStride(&x)
	rows := x.len() / max(k, 1)
	parts, perPart := rowParts(rows, k)
	parts = max(parts, 1) // nothing has a scale, too
	return step{parts: parts, run: func(m *machine, part, _ int) {
		s, z := r.scale(m)
		if part == 0 {
			scale.f32(m)[0], elements[int32](m, &zero)[0] = s, int32(z)
		}
		lo, hi := part*perPart, min((part+1)*perPart, rows)
		d, f := dst.bytes(m), x.f32(m)
		if row == k && from == k {
			r.set.QuantizeU8(d[lo*k:hi*k], f[lo*k:hi*k], s, z)
			return
		}
		for i := lo; i < hi; i++ {
			r.set.QuantizeU8(d[i*row:][:k], f[i*from:][:k], s, z)
		}
	}}
}
