package main

import (
	"github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// convertKernels writes the conversions between float32 and the 16-bit floats, for whole vectors.
func convertKernels(v *simd) {
	const toNearestEven = 0
	narrow := func(name string, emit func(x reg.VecVirtual, to operand.Mem)) {
		v.fn(name+v.name, "func(dst *uint16, src *float32, n int)", "%s%s converts n floats, a multiple of %d.", name, v.name, v.lanes)
		v.convert(2, 4, func(dst, src operand.Mem) {
			x := v.vec()
			v.VMOVUPS(src, x)
			emit(x, dst)
		})
	}
	widen := func(name string, emit func(from operand.Mem, x reg.VecVirtual)) {
		v.fn(name+v.name, "func(dst *float32, src *uint16, n int)", "%s%s converts n floats, a multiple of %d.", name, v.name, v.lanes)
		v.convert(4, 2, func(dst, src operand.Mem) {
			x := v.vec()
			emit(src, x)
			v.VMOVUPS(x, dst)
		})
	}
	narrow("toF16", func(x reg.VecVirtual, to operand.Mem) { v.VCVTPS2PH(operand.U8(toNearestEven), x, to) })
	widen("fromF16", func(from operand.Mem, x reg.VecVirtual) { v.VCVTPH2PS(from, x) })
	narrow("toBF16", v.storeBF16)
	widen("fromBF16", func(from operand.Mem, x reg.VecVirtual) {
		v.VPMOVZXWD(from, x)
		v.VPSLLD(operand.U8(16), x, x)
	})
}

// convert walks over n elements, a vector at a time.
func (v *simd) convert(dstSize, srcSize int, body func(dst, src operand.Mem)) {
	dst, src, n, i := v.param("dst"), v.param("src"), v.param("n"), v.GP64()
	v.XORQ(i, i)
	v.Label("loop")
	body(operand.Mem{Base: dst, Index: i, Scale: uint8(dstSize)}, operand.Mem{Base: src, Index: i, Scale: uint8(srcSize)})
	v.ADDQ(operand.U8(v.lanes), i)
	v.CMPQ(i, n)
	v.JB(operand.LabelRef("loop"))
	v.VZEROUPPER()
	v.RET()
}

// storeBF16 stores the floats as bfloat16.
func (v *simd) storeBF16(x reg.VecVirtual, to operand.Mem) {
	v.roundBF16(x)
	v.VPSRLD(operand.U8(16), x, x)
	if v.wide {
		v.VPMOVDW(x, to)
		return
	}
	v.VPACKUSDW(x, x, x)
	v.VPERMQ(operand.U8(0b10_00), x, x)
	v.VMOVDQU(x.AsX(), to)
}

// roundBF16 rounds to the nearest bfloat16, ties to even, in the upper halves: adding 0x7fff and the lowest bit that
// stays carries into it as it should. A NaN would become an infinity, and has a bit set instead.
func (v *simd) roundBF16(x reg.VecVirtual) {
	const unordered = 3
	odd, quiet := v.vec(), v.vec()
	v.VPSRLD(operand.U8(16), x, odd)
	v.VANDPS(v.bits(1), odd, odd)
	v.VORPS(v.bits(0x00400000), x, quiet)
	v.VPADDD(v.bits(0x7fff), odd, odd)
	if v.wide {
		isNaN := v.K()
		v.VCMPPS(operand.U8(unordered), x, x, isNaN)
		v.VPADDD(odd, x, x)
		v.VMOVAPS(quiet, isNaN, x)
		return
	}
	isNaN := v.vec()
	v.VCMPPS(operand.U8(unordered), x, x, isNaN)
	v.VPADDD(odd, x, x)
	v.VBLENDVPS(isNaN, quiet, x, x)
}
