package main

import (
	"math"

	"github.com/rlxc/rlxc/backend/cpu/_gen/a64"
)

// neonBytes is the elements that the kernels between float32 and bytes take at a time.
const neonBytes = 8

// neonQuantize writes the kernels between float32 and 8-bit integers.
func neonQuantize(u *neonUnit) {
	neonQuantizeRows(u)
	for _, k := range []struct {
		name             string
		toHalf, low, top a64.Op
	}{
		{"fromU8", a64.UXTLH, a64.UXTLS, a64.UXTL2S},
		{"fromS8", a64.SXTLH, a64.SXTLS, a64.SXTL2S},
	} {
		v := u.fn(k.name+"NEON", "func(dst *float32, src *uint8, n int, scale float32, zero int32)",
			"%sNEON is the kernel of quantizeFuncs, for a multiple of %d.", k.name, neonBytes)
		scale, zero := v.spread("scale"), v.of(a64.DUPW, v.Param("zero"))
		v.eachGroup(neonBytes, 4, 1, func(dst, src vreg) {
			half := v.of(k.toHalf, v.of(a64.LDRD(0), src))
			low, top := v.of(k.low, half), v.of(k.top, half)
			for i, x := range []vreg{low, top} {
				v.Do(a64.STRQ(16*i), v.mul(v.of(a64.SCVTF, v.of(a64.SUB, x, zero)), scale), dst)
			}
		})
	}
	neonMinMax(u)
	neonDequantize(u)
	neonSumBytes(u)
	neonMaxBytes(u)
	neonInterleave(u)
}

// neonQuantizeRows divides exactly without a division, as quantizeKernel does.
func neonQuantizeRows(u *neonUnit) {
	v := u.fn("quantizeNEON", "func(dst *uint8, dstRow int, src *float32, srcRow int, scale, inverse, lo, hi float32, zero int32, rows, "+
		"cols int)", "quantizeNEON is the kernel of quantizeFuncs, for a multiple of %d.", neonBytes)
	scale, inverse, zero := v.spread("scale"), v.spread("inverse"), v.of(a64.DUPW, v.Param("zero"))
	least := v.max(v.mul(v.spread("lo"), scale), v.num(-math.MaxFloat32))
	most := v.min(v.mul(v.spread("hi"), scale), v.num(math.MaxFloat32))
	dst, dstRow, src, rows := v.Param("dst"), v.Param("dstRow"), v.matrix("src"), v.Param("rows")
	v.Label("row")
	to, from, cols := v.copyInt(dst), v.copyInt(src.pointer), v.Param("cols")
	v.Label("vector")
	var codes [2]vreg
	for i := range codes {
		// NaN becomes the least.
		x := v.load(mem{from, 16 * i}, nil)
		x = v.min(v.choose(v.of(a64.FCMGT, x, least), x, least), most)
		quotient := v.mul(x, inverse)
		quotient = v.fma(quotient, v.fms(x, scale, quotient), inverse)
		codes[i] = v.of(a64.ADD, v.of(a64.FCVTNS, quotient), zero)
	}
	half := v.of(a64.XTNH, codes[0])
	v.Do(a64.XTN2H, half, codes[1])
	v.Do(a64.STRD(0), v.of(a64.XTNB, half), to)
	v.Go("ADD $8, %s", to)
	v.Go("ADD $32, %s", from)
	v.Go("SUBS $8, %s", cols)
	v.Branch("BNE", "vector")
	v.Go("ADD %s, %s", dstRow, dst)
	v.nextRow(src)
	v.Go("SUBS $1, %s", rows)
	v.Branch("BNE", "row")
	v.Ret()
}

func neonMinMax(u *neonUnit) {
	v := u.fn("minMaxNEON", "func(src *float32, n int, out *[2]float32)", "minMaxNEON is the kernel of quantizeFuncs.")
	src, out, w := v.Param("src"), v.Param("out"), v.newWalk(v.Param("n"))
	least, most := v.chains(v.num(math.Inf(1))), v.chains(v.num(math.Inf(-1)))
	// A NaN is passed over: no comparison with it holds.
	lower := func(acc, x vreg) { v.Do(a64.BIT, acc, x, v.of(a64.FCMGT, acc, x)) }
	higher := func(acc, x vreg) { v.Do(a64.BIT, acc, x, v.of(a64.FCMGT, x, acc)) }
	w.pass(func(at func(row vreg) mem, chain int, t *tail) {
		x := v.load(at(src), t)
		lowest, highest := x, x
		if t != nil {
			lowest, highest = v.choose(v.copy(t.mask), x, least[chain]), v.choose(v.copy(t.mask), x, most[chain])
		}
		lower(least[chain], lowest)
		higher(most[chain], highest)
	})
	v.Do(a64.STRS(0), v.fold(least, v.min), out)
	v.Do(a64.STRS(4), v.fold(most, v.max), out)
	v.Ret()
}

func neonDequantize(u *neonUnit) {
	v := u.fn("dequantizeNEON", "func(dst *float32, dstRow int, sums *int32, sumsRow int, rowScale *float32, rowZero *int32, rowStep "+
		"int, colScale *float32, colSum, rowTotal, colZero *int32, bias *float32, rows, cols int)",
		"dequantizeNEON is the kernel of quantizeFuncs.")
	dst, sums, rowStep := v.matrix("dst"), v.matrix("sums"), v.elements("rowStep")
	rowScale, rowZero, rowTotal := v.Param("rowScale"), v.Param("rowZero"), v.Param("rowTotal")
	colScale, colSum, colZero, bias := v.Param("colScale"), v.Param("colSum"), v.Param("colZero"), v.Param("bias")
	v.eachRow(func(w *neonWalk) {
		scale, zero, total := v.of(a64.LD1R, rowScale), v.of(a64.LD1R, rowZero), v.of(a64.LD1R, rowTotal)
		pass := func(zeros bool) {
			w.pass(func(at func(row vreg) mem, _ int, t *tail) {
				x := v.load(at(sums.pointer), t)
				v.Do(a64.MLS, x, v.load(at(colSum), t), zero)
				if zeros {
					v.Do(a64.MLS, x, v.load(at(colZero), t), total)
				} else {
					x = v.of(a64.SUB, x, total)
				}
				y := v.mul(v.of(a64.SCVTF, x), v.mul(v.load(at(colScale), t), scale))
				v.store(v.add(y, v.load(at(bias), t)), at(dst.pointer), t)
			})
		}
		v.Branch("CBZ", "oneForAll", colZero)
		pass(true)
		v.Branch("B", "written")
		v.Label("oneForAll")
		pass(false)
		v.Label("written")
		v.Go("ADD %s, %s", rowStep, rowScale)
		v.Go("ADD %s, %s", rowStep, rowZero)
		v.Go("ADD $4, %s", rowTotal)
	}, dst, sums)
}

func neonSumBytes(u *neonUnit) {
	v := u.fn("sumBytesNEON", "func(dst *int32, src *uint8, srcRow, rows, chunks int)", "sumBytesNEON is the kernel of quantizeFuncs.")
	dst, src, srcRow, rows := v.Param("dst"), v.Param("src"), v.Param("srcRow"), v.Param("rows")
	v.Label("row")
	sums, from, chunks := []vreg{v.zero(), v.zero()}, v.copyInt(src), v.Param("chunks")
	v.Branch("CBZ", "done", chunks)
	v.Label("chunk")
	for i, sum := range sums {
		v.Do(a64.UADALPH, sum, v.of(a64.UADDLPB, v.load(mem{from, 16 * i}, nil)))
	}
	v.Go("ADD $32, %s", from)
	v.Go("SUBS $1, %s", chunks)
	v.Branch("BNE", "chunk")
	v.Label("done")
	v.Do(a64.STRS(0), v.of(a64.ADDV, v.of(a64.ADD, sums[0], sums[1])), dst)
	v.Go("ADD $4, %s", dst)
	v.Go("ADD %s, %s", srcRow, src)
	v.Go("SUBS $1, %s", rows)
	v.Branch("BNE", "row")
	v.Ret()
}

func neonMaxBytes(u *neonUnit) {
	v := u.fn("maxBytesNEON", "func(dst, a, b *uint8, flip uint32, n int)", "maxBytesNEON is the kernel of quantizeFuncs.")
	dst, a, b, n, flip := v.Param("dst"), v.Param("a"), v.Param("b"), v.Param("n"), v.of(a64.DUPW, v.Param("flip"))
	v.Label("vector")
	for i := range 2 {
		x, y := v.of(a64.EOR, v.load(mem{a, 16 * i}, nil), flip), v.of(a64.EOR, v.load(mem{b, 16 * i}, nil), flip)
		v.store(v.of(a64.EOR, v.of(a64.UMAXB, x, y), flip), mem{dst, 16 * i}, nil)
	}
	for _, p := range []vreg{dst, a, b} {
		v.Go("ADD $32, %s", p)
	}
	v.Go("SUBS $32, %s", n)
	v.Branch("BNE", "vector")
	v.Ret()
}

// neonInterleave brings the bytes of four rows together by pairs, then by pairs of pairs.
func neonInterleave(u *neonUnit) {
	v := u.fn("interleaveNEON", "func(dst *uint32, dstRow int, src *uint8, srcRow int, flip uint32, rows, cols int)",
		"interleaveNEON is the kernel of quantizeFuncs, for a multiple of %d.", neonBytes)
	dst, src, srcRow, flip, rows := v.matrix("dst"), v.Param("src"), v.Param("srcRow"), v.of(a64.DUPW, v.Param("flip")), v.Param("rows")
	v.Label("row")
	at, to, cols := []vreg{v.copyInt(src)}, v.copyInt(dst.pointer), v.Param("cols")
	for range 3 {
		at = append(at, v.plus(at[len(at)-1], srcRow))
	}
	v.Go("ADD %s, %s, %s", at[3], srcRow, src)
	v.Label("vector")
	var in []vreg
	for _, p := range at {
		in = append(in, v.of(a64.LDRD(0), p))
		v.Go("ADD $8, %s", p)
	}
	low, top := v.of(a64.ZIP1B, in[0], in[1]), v.of(a64.ZIP1B, in[2], in[3])
	v.Do(a64.STRQ(0), v.of(a64.EOR, v.of(a64.ZIP1H, low, top), flip), to)
	v.Do(a64.STRQ(16), v.of(a64.EOR, v.of(a64.ZIP2H, low, top), flip), to)
	v.Go("ADD $32, %s", to)
	v.Go("SUBS $8, %s", cols)
	v.Branch("BNE", "vector")
	v.nextRow(dst)
	v.Go("SUBS $1, %s", rows)
	v.Branch("BNE", "row")
	v.Ret()
}
