package main

import (
	"github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// transposeKernel writes the transposing copy by blocks of 8 × 8. The blocks at the edges run the same code with
// masked loads and stores: a source row after the last is read as the last, a result row after the last is left out.
func transposeKernel(g *gen) {
	v := avx2(g)
	v.fn("transposeAVX2", "func(dst *float32, dstRow int, src *float32, srcRow int, rows, cols int)", "transposeAVX2 is a transposeFunc.")
	dst, dstRow, src, srcRow := v.param("dst"), v.elements("dstRow"), v.param("src"), v.elements("srcRow")
	rows := v.param("rows") // left
	dstRow3, srcRow3 := v.GP64(), v.GP64()
	v.LEAQ(operand.Mem{Base: dstRow, Index: dstRow, Scale: 2}, dstRow3)
	v.LEAQ(operand.Mem{Base: srcRow, Index: srcRow, Scale: 2}, srcRow3)

	v.Label("row")
	from, to, cols := v.GP64(), v.GP64(), v.param("cols")
	v.MOVQ(src, from)
	v.MOVQ(dst, to)
	v.CMPQ(rows, operand.U8(8))
	v.JB(operand.LabelRef("edge"))
	v.Label("block")
	v.CMPQ(cols, operand.U8(8))
	v.JB(operand.LabelRef("edge"))
	last, lastTo := v.GP64(), v.GP64()
	v.LEAQ(operand.Mem{Base: from, Index: srcRow, Scale: 4}, last)
	v.LEAQ(operand.Mem{Base: to, Index: dstRow, Scale: 4}, lastTo)
	at := func(base, base4, stride, stride3 reg.Register, i int) operand.Mem {
		if i >= 4 {
			base = base4
		}
		return [4]operand.Mem{
			{Base: base},
			{Base: base, Index: stride, Scale: 1},
			{Base: base, Index: stride, Scale: 2},
			{Base: base, Index: stride3, Scale: 1},
		}[i%4]
	}
	// Half rows i and i+4 side by side: three fewer shuffles a row than whole rows.
	in := v.vecs(8)
	for i := range 4 {
		for half := range 2 {
			r := in[4*half+i]
			v.VBROADCASTF128(at(from, last, srcRow, srcRow3, i).Offset(16*half), r)
			v.VINSERTF128(operand.U8(1), at(from, last, srcRow, srcRow3, i+4).Offset(16*half), r, r)
		}
	}
	transpose4(v, in, func(i int, r reg.Register) { v.VMOVUPS(r, at(to, lastTo, dstRow, dstRow3, i)) })
	v.LEAQ(operand.Mem{Base: from, Index: srcRow, Scale: 8}, from)
	v.ADDQ(operand.U8(32), to)
	v.SUBQ(operand.U8(8), cols)
	v.JNZ(operand.LabelRef("block"))
	v.JMP(operand.LabelRef("next"))

	v.Label("edge")
	blockRows, blockCols, p := v.GP64(), v.GP64(), v.GP64()
	eight := v.GP64()
	v.MOVQ(operand.U32(8), eight)
	min8 := func(x, to reg.Register) mask {
		v.MOVQ(x, to)
		v.CMPQ(x, eight)
		v.CMOVQGT(eight, to)
		n := v.GP64()
		v.MOVQ(to, n)
		return v.tail(n)
	}
	v.Label("edgeBlock")
	rowMask := min8(rows, blockRows)
	in = v.vecs(8)
	left := v.GP64()
	v.MOVQ(cols, left)
	v.MOVQ(from, p)
	next := v.GP64()
	for i := range 8 {
		// Source rows are columns of the result.
		whole := v.YMM()
		v.VMASKMOVPS(operand.Mem{Base: p}, rowMask.Register, whole)
		if i < 4 {
			v.VMOVAPS(whole, in[i])
			v.VPERM2F128(operand.U8(0x11), whole, whole, in[4+i]) // upper half to both
		} else {
			v.VPERM2F128(operand.U8(0x20), whole, in[i-4], in[i-4]) // its lower half, this one's lower
			v.VPERM2F128(operand.U8(0x30), whole, in[i], in[i])     // its lower half, this one's upper
		}
		v.LEAQ(operand.Mem{Base: p, Index: srcRow, Scale: 1}, next)
		v.DECQ(left)
		v.CMOVQGT(next, p)
	}
	colMask := min8(cols, blockCols)
	v.MOVQ(to, p)
	transpose4(v, in, func(_ int, r reg.Register) {
		v.VMASKMOVPS(r, colMask.Register, operand.Mem{Base: p})
		v.ADDQ(dstRow, p)
		v.DECQ(blockRows)
		v.JZ(operand.LabelRef("stored"))
	})
	v.Label("stored")
	v.LEAQ(operand.Mem{Base: from, Index: srcRow, Scale: 8}, from)
	v.ADDQ(operand.U8(32), to)
	v.SUBQ(eight, cols)
	v.JG(operand.LabelRef("edgeBlock"))

	v.Label("next")
	v.ADDQ(operand.U8(32), src)
	v.LEAQ(operand.Mem{Base: dst, Index: dstRow, Scale: 8}, dst)
	v.SUBQ(operand.U8(8), rows)
	v.JG(operand.LabelRef("row"))
	v.VZEROUPPER()
	v.RET()
}

// transpose4 transposes 4 × 4 blocks: in[i] holds columns 0-3 of rows i and i+4, in[4+i] columns 4-7 of the same. Each
// of the 8 columns is stored as soon as it is there, because AVX2 has 16 registers.
func transpose4(v *simd, in []reg.VecVirtual, store func(i int, column reg.Register)) {
	for half := range 2 {
		r, t := in[4*half:][:4], v.vecs(4)
		v.VUNPCKLPS(r[1], r[0], t[0]) // a0 b0 a1 b1
		v.VUNPCKHPS(r[1], r[0], t[1]) // a2 b2 a3 b3
		v.VUNPCKLPS(r[3], r[2], t[2]) // c0 d0 c1 d1
		v.VUNPCKHPS(r[3], r[2], t[3]) // c2 d2 c3 d3
		for i, low := range []int{0b01_00_01_00, 0b11_10_11_10, 0b01_00_01_00, 0b11_10_11_10} {
			column := v.vec()
			v.VSHUFPS(operand.U8(low), t[2+i/2], t[i/2], column)
			store(4*half+i, column)
		}
	}
}
