package main

import (
	"fmt"
	"math"

	"github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// quantizeKernels writes the kernels between float32 and 8-bit integers.
func quantizeKernels(v *simd) {
	quantizeKernel(v)
	requantizeKernel(v, "requantize", false)
	requantizeKernel(v, "rescale", true)
	addKernel(v, "addU8", func(ops ...operand.Op) { v.VPMOVZXBD(ops...) })
	addKernel(v, "addS8", func(ops ...operand.Op) { v.VPMOVSXBD(ops...) })
	for _, k := range []struct {
		name  string
		widen func(ops ...operand.Op)
	}{
		{"fromU8", func(ops ...operand.Op) { v.VPMOVZXBD(ops...) }},
		{"fromS8", func(ops ...operand.Op) { v.VPMOVSXBD(ops...) }},
	} {
		v.fn(k.name+v.name, "func(dst *float32, src *uint8, n int, scale float32, zero int32)",
			"%s%s is the kernel of quantizeFuncs, for whole vectors.", k.name, v.name)
		scale, zero := v.spreadFloat("scale"), v.spreadInt("zero")
		v.convert(4, 1, func(dst, src operand.Mem) {
			x := v.vec()
			k.widen(src, x)
			v.VPSUBD(zero, x, x)
			v.VCVTDQ2PS(x, x)
			v.VMULPS(scale, x, x)
			v.VMOVUPS(x, dst)
		})
	}
	minMaxKernel(v)
	dequantizeKernel(v)
	interleaveKernel(v)
	if !v.wide {
		sumBytesKernel(v)
		maxBytesKernel(v)
	}
	pairKernel(v)
}

// spreadFloat and spreadInt give a parameter in all lanes.
func (v *simd) spreadFloat(name string) reg.VecVirtual {
	x := v.vec()
	v.VBROADCASTSS(v.slot(name), x)
	return x
}

func (v *simd) spreadInt(name string) reg.VecVirtual {
	x := v.vec()
	// vet takes VPBROADCASTD for a move of its whole result; the float instruction moves the same bits.
	v.VBROADCASTSS(v.slot(name), x)
	return x
}

// quantizeKernel divides exactly without a division: the quotient by the inverse is off by a unit at most, and one
// step with the exact remainder corrects it. The dividend is clamped to what the bounds stand for; those may be rounded,
// by far less than would change the integer.
func quantizeKernel(v *simd) {
	v.fn("quantize"+v.name, "func(dst *uint8, dstRow int, src *float32, srcRow int, scale, inverse, lo, hi float32, zero int32, rows, "+
		"cols int)", "quantize%s is the kernel of quantizeFuncs, for whole vectors.", v.name)
	src := v.matrix("src")
	v.quantizing(func(x reg.VecVirtual, i reg.Register) {
		v.VMOVUPS(operand.Mem{Base: src.pointer, Index: i, Scale: 4}, x)
	}, func() { v.nextRow(src) })
}

// requantizeKernel is quantizeKernel of what follows from sums: (sum − offset)·factor + bias. The sums are integers, or floats
// that hold integers.
func requantizeKernel(v *simd, name string, floats bool) {
	v.fn(name+v.name, "func(dst *uint8, dstRow int, sums *int32, sumsRow int, colOffset *int32, factor, bias *float32, scale, inverse, "+
		"lo, hi float32, zero int32, rows, cols int)", "%s%s is the kernel of quantizeFuncs, for whole vectors.", name, v.name)
	restore := v.flushSubnormals()
	q := v.quantizer()
	// A vector of columns at a time, so that what all rows share stays in registers.
	i, cols, from, to, rows := v.GP64(), v.param("cols"), v.GP64(), v.GP64(), v.GP64()
	sums, dst, sumsRow, dstRow := v.param("sums"), v.param("dst"), v.elements("sumsRow"), v.param("dstRow")
	v.XORQ(i, i)
	v.Label("column")
	column := func(name string) reg.VecVirtual {
		x := v.vec()
		v.VMOVUPS(operand.Mem{Base: v.param(name), Index: i, Scale: 4}, x)
		return x
	}
	offset, factor, bias := column("colOffset"), column("factor"), column("bias")
	v.LEAQ(operand.Mem{Base: sums, Index: i, Scale: 4}, from)
	v.LEAQ(operand.Mem{Base: dst, Index: i, Scale: 1}, to)
	v.Load(v.Param("rows"), rows)
	v.Label("row")
	x := v.vec()
	if floats {
		v.VMULPS(operand.Mem{Base: from}, factor, x)
	} else {
		v.VMOVUPS(operand.Mem{Base: from}, x)
		v.VPSUBD(offset, x, x)
		v.VCVTDQ2PS(x, x)
		v.VMULPS(factor, x, x)
	}
	v.VADDPS(bias, x, x)
	q.store(x, operand.Mem{Base: to})
	v.ADDQ(sumsRow, from)
	v.ADDQ(dstRow, to)
	v.DECQ(rows)
	v.JNZ(operand.LabelRef("row"))
	v.ADDQ(operand.U8(v.lanes), i)
	v.CMPQ(i, cols)
	v.JB(operand.LabelRef("column"))
	restore()
	v.VZEROUPPER()
	v.RET()
}

// addKernel is quantizeKernel of the sum of two rows of quantised values.
func addKernel(v *simd, name string, widen func(ops ...operand.Op)) {
	v.fn(name+v.name, "func(dst, a, b *uint8, aScale, bScale float32, aZero, bZero int32, scale, inverse, lo, hi float32, zero int32, "+
		"cols int)", "%s%s is the kernel of quantizeFuncs, for whole vectors.", name, v.name)
	type addend struct {
		at          reg.GPVirtual
		scale, zero reg.VecVirtual
	}
	a, b := addend{v.param("a"), v.spreadFloat("aScale"), v.spreadInt("aZero")},
		addend{v.param("b"), v.spreadFloat("bScale"), v.spreadInt("bZero")}
	y := v.vec()
	v.quantizing(func(x reg.VecVirtual, i reg.Register) {
		for _, t := range []struct {
			addend
			to reg.VecVirtual
		}{{a, x}, {b, y}} {
			widen(operand.Mem{Base: t.at, Index: i, Scale: 1}, t.to)
			v.VPSUBD(t.zero, t.to, t.to)
			v.VCVTDQ2PS(t.to, t.to)
			v.VMULPS(t.scale, t.to, t.to)
		}
		v.VADDPS(y, x, x)
	}, nil)
}

// quantizing writes the loops that quantise what load brings into a register; next moves its operands to the next row, where there is
// more than one.
func (v *simd) quantizing(load func(x reg.VecVirtual, i reg.Register), next func()) {
	restore := v.flushSubnormals()
	q := v.quantizer()
	dst, cols, i := v.param("dst"), v.param("cols"), v.GP64()
	var rows reg.GPVirtual
	if next != nil {
		rows = v.param("rows")
	}
	v.Label("row")
	v.XORQ(i, i)
	v.Label("vector")
	x := v.vec()
	load(x, i)
	q.store(x, operand.Mem{Base: dst, Index: i, Scale: 1})
	v.ADDQ(operand.U8(v.lanes), i)
	v.CMPQ(i, cols)
	v.JB(operand.LabelRef("vector"))
	if next != nil {
		v.ADDQ(v.param("dstRow"), dst)
		next()
		v.DECQ(rows)
		v.JNZ(operand.LabelRef("row"))
	}
	restore()
	v.VZEROUPPER()
	v.RET()
}

// quantizer holds the parameters of quantising in registers.
type quantizer struct {
	*simd
	scale, inverse, least, most, zero reg.VecVirtual
}

func (v *simd) quantizer() quantizer {
	q := quantizer{v, v.spreadFloat("scale"), v.spreadFloat("inverse"), v.spreadFloat("lo"), v.spreadFloat("hi"), v.spreadInt("zero")}
	v.VMULPS(q.scale, q.least, q.least)
	v.VMULPS(q.scale, q.most, q.most)
	v.VMAXPS(v.f32(-math.MaxFloat32), q.least, q.least)
	v.VMINPS(v.f32(math.MaxFloat32), q.most, q.most)
	return q
}

// store quantises x and stores the bytes.
func (q quantizer) store(x reg.VecVirtual, to operand.Mem) {
	quotient := q.vec()
	q.VMAXPS(q.least, x, x) // NaN becomes the least: it is the second source
	q.VMINPS(x, q.most, x)
	q.VMULPS(q.inverse, x, quotient)
	q.VFNMADD231PS(q.scale, quotient, x)
	q.VFMADD231PS(q.inverse, x, quotient)
	q.VCVTPS2DQ(quotient, quotient)
	q.VPADDD(q.zero, quotient, quotient)
	q.storeLowBytes(quotient, to)
}

// flushSubnormals has results too small for a normal float32 become 0, because they take a hundred cycles each: quotients by
// a large scale are such, and round to 0 anyway. It returns what emits the way back.
func (v *simd) flushSubnormals() (restore func()) {
	const flushToZero = 1 << 15
	old, changed, r := v.AllocLocal(4), v.AllocLocal(4), v.GP32()
	v.STMXCSR(old)
	v.MOVL(old, r)
	v.ORL(operand.U32(flushToZero), r)
	v.MOVL(r, changed)
	v.LDMXCSR(changed)
	return func() { v.LDMXCSR(old) }
}

// storeLowBytes stores the lowest byte of each lane.
func (v *simd) storeLowBytes(x reg.VecVirtual, to operand.Mem) {
	if v.wide {
		v.VPMOVDB(x, to)
		return
	}
	v.VANDPS(v.bits(0xff), x, x)
	v.VPACKUSDW(x, x, x)
	v.VPACKUSWB(x, x, x)
	upper := v.XMM()
	v.VEXTRACTF128(operand.U8(1), x, upper)
	v.VPUNPCKLDQ(upper, x.AsX(), upper)
	v.VMOVQ(upper, to)
}

func minMaxKernel(v *simd) {
	v.fn("minMax"+v.name, "func(src *float32, n int, out *[2]float32)", "minMax%s is the kernel of quantizeFuncs.", v.name)
	src, out := v.param("src"), v.param("out")
	w := v.newRowWalk(v.param("n"))
	highest, lowest := v.constant(math.Inf(1)), v.constant(math.Inf(-1))
	least, most := v.chains(highest), v.chains(lowest)
	w.pass(func(chain int, m *mask) {
		// A NaN is passed over: the accumulator is the second source, which is the result where one is NaN.
		x := v.vec()
		v.loadOr(w.at(src, chain), x, least[chain], m)
		v.VMINPS(least[chain], x, least[chain])
		if m != nil {
			v.loadOr(w.at(src, chain), x, most[chain], m)
		}
		v.VMAXPS(most[chain], x, most[chain])
	})
	v.fold(least, func(x, y, to reg.Register) { v.VMINPS(y, x, to) })
	v.fold(most, func(x, y, to reg.Register) { v.VMAXPS(y, x, to) })
	v.VMOVSS(least[0].AsX(), operand.Mem{Base: out})
	v.VMOVSS(most[0].AsX(), operand.Mem{Base: out, Disp: 4})
	v.VZEROUPPER()
	v.RET()
}

func dequantizeKernel(v *simd) {
	v.fn("dequantize"+v.name, "func(dst *float32, dstRow int, sums *int32, sumsRow int, rowScale *float32, rowZero *int32, rowStep int, "+
		"colScale *float32, colSum, rowTotal, colZero *int32, bias *float32, rows, cols int)",
		"dequantize%s is the kernel of quantizeFuncs.", v.name)
	rowScale, rowZero, rowTotal := v.param("rowScale"), v.param("rowZero"), v.param("rowTotal")
	operands := []matrix{v.matrix("dst"), v.matrix("sums"), v.vector("colScale"), v.vector("colSum"), v.vector("bias"), v.vector("colZero")}
	scale, zero, total := v.vec(), v.vec(), v.vec()
	colZero, bodies := operands[5].pointer, 0
	v.eachVector(operands, func() {
		v.VBROADCASTSS(operand.Mem{Base: rowScale}, scale)
		v.VBROADCASTSS(operand.Mem{Base: rowZero}, zero)
		step := v.elements("rowStep")
		v.ADDQ(step, rowScale)
		v.ADDQ(step, rowZero)
		v.VBROADCASTSS(operand.Mem{Base: rowTotal}, total)
		v.ADDQ(operand.U8(4), rowTotal)
	}, func(at []operand.Mem, m *mask) {
		x, colSum, factor, bias := v.vec(), v.vec(), v.vec(), v.vec()
		v.load(at[1], x, m)
		v.load(at[3], colSum, m)
		v.VPMULLD(zero, colSum, colSum)
		v.VPSUBD(colSum, x, x)
		bodies++
		oneForAll := fmt.Sprintf("oneForAll%d", bodies)
		v.VMOVAPS(total, colSum)
		v.TESTQ(colZero, colZero)
		v.JZ(operand.LabelRef(oneForAll))
		v.load(at[5], colSum, m)
		v.VPMULLD(total, colSum, colSum)
		v.Label(oneForAll)
		v.VPSUBD(colSum, x, x)
		v.VCVTDQ2PS(x, x)
		v.load(at[2], factor, m)
		v.VMULPS(scale, factor, factor)
		v.VMULPS(factor, x, x)
		v.load(at[4], bias, m)
		v.VADDPS(bias, x, x)
		v.store(x, at[0], m)
	})
	v.VZEROUPPER()
	v.RET()
}

// sumBytesKernel adds bytes in eights, by their distance from 0.
func sumBytesKernel(v *simd) {
	v.fn("sumBytes"+v.name, "func(dst *int32, src *uint8, srcRow, rows, chunks int)", "sumBytes%s is the kernel of quantizeFuncs.", v.name)
	dst, src, srcRow, rows := v.param("dst"), v.param("src"), v.param("srcRow"), v.param("rows")
	zero, from, chunks := v.YMM(), v.GP64(), v.GP64()
	v.zero(zero)
	v.Label("row")
	sum, x := v.YMM(), v.YMM()
	v.zero(sum)
	v.MOVQ(src, from)
	v.Load(v.Param("chunks"), chunks)
	v.TESTQ(chunks, chunks)
	v.JZ(operand.LabelRef("done"))
	v.Label("chunk")
	v.VPSADBW(operand.Mem{Base: from}, zero, x)
	v.VPADDQ(x, sum, sum)
	v.ADDQ(operand.U8(32), from)
	v.DECQ(chunks)
	v.JNZ(operand.LabelRef("chunk"))
	v.Label("done")
	upper := v.XMM()
	v.VEXTRACTF128(operand.U8(1), sum, upper)
	v.VPADDQ(upper, sum.AsX(), upper)
	v.VPSHUFD(operand.U8(0b11_10_11_10), upper, x.AsX())
	v.VPADDQ(upper, x.AsX(), upper)
	v.VMOVD(upper, operand.Mem{Base: dst})
	v.ADDQ(operand.U8(4), dst)
	v.ADDQ(srcRow, src)
	v.DECQ(rows)
	v.JNZ(operand.LabelRef("row"))
	v.VZEROUPPER()
	v.RET()
}

// maxBytesKernel takes the larger of unsigned bytes, each changed by flip on the way there and back.
func maxBytesKernel(v *simd) {
	v.fn("maxBytes"+v.name, "func(dst, a, b *uint8, flip uint32, n int)", "maxBytes%s is the kernel of quantizeFuncs.", v.name)
	dst, a, b, n, flip, i := v.param("dst"), v.param("a"), v.param("b"), v.param("n"), v.spreadInt("flip"), v.GP64()
	v.XORQ(i, i)
	v.Label("vector")
	x, y := v.vec(), v.vec()
	v.VXORPS(operand.Mem{Base: a, Index: i, Scale: 1}, flip, x)
	v.VXORPS(operand.Mem{Base: b, Index: i, Scale: 1}, flip, y)
	v.VPMAXUB(y, x, x)
	v.VXORPS(flip, x, x)
	v.VMOVUPS(x, operand.Mem{Base: dst, Index: i, Scale: 1})
	v.ADDQ(operand.U8(32), i)
	v.CMPQ(i, n)
	v.JB(operand.LabelRef("vector"))
	v.VZEROUPPER()
	v.RET()
}

// interleaveKernel widens the bytes of four rows to words and shifts them into position.
func interleaveKernel(v *simd) {
	v.fn("interleave"+v.name, "func(dst *uint32, dstRow int, src *uint8, srcRow int, flip uint32, rows, cols int)",
		"interleave%s is the kernel of quantizeFuncs.", v.name)
	dst, src, rows, cols := v.matrix("dst"), v.param("src"), v.param("rows"), v.param("cols")
	flip, row, row3 := v.spreadInt("flip"), v.param("srcRow"), v.GP64()
	v.LEAQ(operand.Mem{Base: row, Index: row, Scale: 2}, row3)
	from, i := v.GP64(), v.GP64()
	v.Label("row")
	v.MOVQ(src, from)
	v.XORQ(i, i)
	v.Label("vector")
	word := v.vec()
	v.VPMOVZXBD(operand.Mem{Base: from}, word)
	v.VXORPS(flip, word, word)
	for k, at := range []operand.Mem{{Base: from, Index: row, Scale: 1}, {Base: from, Index: row, Scale: 2},
		{Base: from, Index: row3, Scale: 1}} {
		x := v.vec()
		v.VPMOVZXBD(at, x)
		v.VPSLLD(operand.U8(8*(k+1)), x, x)
		v.VXORPS(x, word, word)
	}
	v.VMOVUPS(word, operand.Mem{Base: dst.pointer, Index: i, Scale: 4})
	v.ADDQ(operand.U8(v.lanes), from)
	v.ADDQ(operand.U8(v.lanes), i)
	v.CMPQ(i, cols)
	v.JB(operand.LabelRef("vector"))
	v.LEAQ(operand.Mem{Base: src, Index: row, Scale: 4}, src)
	v.nextRow(dst)
	v.DECQ(rows)
	v.JNZ(operand.LabelRef("row"))
	v.VZEROUPPER()
	v.RET()
}

// pairKernel writes pairs of bfloat16: a in the lower half of a word, b in the upper.
func pairKernel(v *simd) {
	v.fn("pairBF16"+v.name, "func(dst *float32, dstRow int, a *float32, aRow int, b *float32, bRow int, rows, cols int)",
		"pairBF16%s is a binaryFunc that rounds to pairs of bfloat16.", v.name)
	v.eachVector([]matrix{v.matrix("dst"), v.matrix("a"), v.matrix("b")}, nil, func(at []operand.Mem, m *mask) {
		x, y := v.vec(), v.vec()
		v.load(at[1], x, m)
		v.load(at[2], y, m)
		v.roundBF16(x)
		v.roundBF16(y)
		v.VPSRLD(operand.U8(16), x, x)
		v.VANDPS(v.bits(0xffff0000), y, y)
		v.VORPS(x, y, x)
		v.store(x, at[0], m)
	})
	v.VZEROUPPER()
	v.RET()
}
