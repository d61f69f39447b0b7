package main

import (
	"fmt"
	"math"

	"github.com/rlxc/rlxc/backend/cpu/_gen/a64"
)

// neonBlocks writes the kernels of products with weights of 4 or 8 bits in blocks.
func neonBlocks(u *neonUnit) {
	for _, bits := range []int{4, 8} {
		neonDecode(u, bits)
		neonUnpack(u, bits)
		neonDigits(u, bits)
	}
	neonQuantizeBlocks(u)
	pairs, dots := bytePairs, dotProd
	pairs.name, pairs.rows, dots.rows = "NEON", 2, 3 // which leaves room for sums of floats
	for _, kind := range []neonKind{pairs, dots} {
		fmt.Fprintf(&u.extra, "\nvar gemmBlocks%s = blockTile{rows: %d, kernels: [][]gemmBlocksFunc{\n", kind.name, kind.rows)
		for rows := 1; rows <= kind.rows; rows++ {
			fmt.Fprintf(&u.extra, "%d: {", rows)
			for vecs := 1; vecs <= neonTileVecs; vecs++ {
				name := fmt.Sprintf("gemmBlocks%s_%dx%d", kind.name, rows, vecs*neonTileVec)
				v := u.fn(name, blocksSignature, "%s is the gemmBlocksFunc of %d rows and %d vectors.", name, rows, vecs)
				neonBlocksTile(v, kind, rows, vecs)
				fmt.Fprintf(&u.extra, "%d: %s, ", vecs, name)
			}
			fmt.Fprintf(&u.extra, "},\n")
		}
		fmt.Fprintf(&u.extra, "}}\n")
	}
}

// neonDigits writes the tiles of products of few rows of digits, by SDOT.
func neonDigits(u *neonUnit, bits int) {
	fmt.Fprintf(&u.extra, "\nvar digitsQ%dDotProd = digitTile{step: 128, most: 16, kernels: map[int][][]digitsFunc{\n", bits)
	for _, digits := range []int{1, 3} {
		most := 1 + 1/digits
		fmt.Fprintf(&u.extra, "%d: {0: {},\n", digits)
		for rows := 1; rows <= most; rows++ {
			fmt.Fprintf(&u.extra, "%d: {", rows)
			for vecs := 1; vecs <= neonTileVecs; vecs++ {
				name := fmt.Sprintf("digitsQ%dDotProd_%dx%dx%d", bits, digits, rows, vecs*neonTileVec)
				v := u.fn(name, digitsSignature, "%s is the digitsFunc of %d digits, %d rows and %d vectors.", name, digits, rows, vecs)
				neonDigitTile(v, bits, digits, rows, vecs)
				fmt.Fprintf(&u.extra, "%d: %s, ", vecs, name)
			}
			fmt.Fprintf(&u.extra, "},\n")
		}
		fmt.Fprintf(&u.extra, "},\n")
	}
	fmt.Fprintf(&u.extra, "}}\n")
}

// neonDigitTile takes bytes of B less 128, and their zero points too.
func neonDigitTile(v *neon, bits, digits, rows, vecs int) {
	v.Label("tile")
	acc := v.newSums(neonKind{}, rows, neonPair*vecs)
	rowsOf := func(name string) []vreg {
		row, at := v.elements(name+"Row"), []vreg{v.Param(name)}
		for len(at) < rows {
			at = append(at, v.plus(at[len(at)-1], row))
		}
		return at
	}
	var a []vreg // the digits of a row, then those of the next
	by := v.elements("aDigit")
	for _, at := range rowsOf("a") {
		for range digits {
			a = append(a, at)
			at = v.plus(at, by)
		}
	}
	aScale, b, bRow, blocks := rowsOf("aScale"), v.Param("b"), v.elements("bRow"), v.Param("blocks")
	v.Label("block")
	scaleAt := v.copyInt(b)
	v.Go("ADD %s<<1, %s", bRow, b)
	left := v.Param("groups")
	v.Label("step")
	sums := v.newSums(neonKind{}, rows*digits, neonPair*vecs)
	n := v.Param("step")
	v.Go("CMP %s, %s", n, left)
	v.Branch("BGE", "whole")
	v.set(n, left)
	v.Label("whole")
	v.Go("SUB %s, %s", n, left)
	v.Label("group")
	var words []vreg
	for _, at := range a {
		if bits == 4 {
			words = append(words, v.of(a64.LDRD(0), at))
		} else {
			words = append(words, v.of(a64.LDRS(0), at))
		}
		v.Go(fmt.Sprintf("ADD $%d, %%s", 32/bits), at)
	}
	for half := range 8 / bits {
		for i := range neonPair * vecs {
			x := v.load(mem{b, 16 * i}, nil)
			switch {
			case bits == 8:
				x = v.of(a64.EOR, x, v.bits(0x80808080))
			case half == 1:
				x = v.of(a64.USHR(4), x)
				fallthrough
			default:
				x = v.of(a64.AND, x, v.bits(nibbles))
			}
			for r, word := range words {
				v.Do(a64.SDOTE(half), sums[r][i][0], x, word)
			}
		}
	}
	v.Go("ADD %s, %s", bRow, b)
	v.Go("SUBS $1, %s", n)
	v.Branch("BNE", "group")
	zeroAt := v.plus(scaleAt, bRow)
	for r, at := range aScale {
		var scales, totals []vreg
		for d := range digits {
			scales, totals = append(scales, v.of(a64.LDRS(8*d), at)), append(totals, v.of(a64.LDRS(8*d+4), at))
		}
		v.Go(fmt.Sprintf("ADD $%d, %%s", 8*digits), at)
		for i := range neonPair * vecs {
			zero, scale := v.load(mem{zeroAt, 16 * i}, nil), v.load(mem{scaleAt, 16 * i}, nil)
			if bits == 8 {
				zero = v.sub(zero, v.num(128))
			}
			var all vreg
			for d := range digits {
				x := v.of(a64.SCVTF, sums[r*digits+d][i][0])
				v.Do(a64.FMLSE(0), x, zero, totals[d])
				switch {
				case digits == 1:
					v.fma(acc[r][i][0], x, v.of(a64.FMULE(0), scale, scales[0]))
				case d == 0:
					all = v.of(a64.FMULE(0), x, scales[0])
				default:
					v.Do(a64.FMLAE(0), all, x, scales[d])
				}
			}
			if digits > 1 {
				v.fma(acc[r][i][0], all, scale)
			}
		}
	}
	v.Branch("CBNZ", "step", left)
	v.Go("SUBS $1, %s", blocks)
	v.Branch("BNE", "block")
	t := &neonTile{v, neonKind{}.joined(v, acc), vecs}
	t.finish("a", "aScale", "c", "res")
}

// neonBlocksTile adds up blocks in integers and their scaled sums in floats. The bytes of A are taken less 128, so that nothing is
// to be added to a block's sum.
func neonBlocksTile(v *neon, kind neonKind, rows, vecs int) {
	v.Label("tile")
	acc := v.newSums(neonKind{}, rows, neonPair*vecs)
	rowsOf := func(name string) []vreg {
		row, at := v.elements(name+"Row"), []vreg{v.Param(name)}
		for len(at) < rows {
			at = append(at, v.plus(at[len(at)-1], row))
		}
		return at
	}
	l := &productLoop{neon: v, a: rowsOf("a"), b: v.Param("b"), bRow: v.elements("bRow"), i: v.Int()}
	aScale, bScale, bScaleRow, blocks := rowsOf("aScale"), v.Param("bScale"), v.elements("bScaleRow"), v.Param("blocks")
	v.Go("MOVD ZR, %s", l.i)
	v.Label("block")
	sums := v.newSums(kind, rows, neonPair*vecs)
	l.k = v.Param("words")
	l.fours(func() { l.fourSteps(kind, sums) })
	v.Branch("CBZ", "summed", l.k)
	v.Label("one")
	a := l.loadWords(kind, a64.LDRSX)
	v.Go("ADD $4, %s", l.i)
	l.step(kind, sums, a, 0)
	v.Go("SUB $1, %s", l.k)
	v.Branch("CBNZ", "one", l.k)
	v.Label("summed")
	exact := kind.joined(v, sums)
	for _, row := range exact {
		for _, x := range row {
			v.Do(a64.SCVTF, x, x)
		}
	}
	v.Branch(bit(gemmZeros), "factors", v.Param("flags"))
	zeros, totals := v.plus(bScale, l.bRow), []vreg{}
	for _, at := range aScale {
		totals = append(totals, v.of(a64.LDRS(4), at))
	}
	for i := range exact[0] {
		zero := v.sub(v.load(mem{zeros, 16 * i}, nil), v.num(128))
		for r, total := range totals {
			v.Do(a64.FMLSE(0), exact[r][i], zero, total)
		}
	}
	v.Label("factors")
	scales := []vreg{}
	for _, at := range aScale {
		scales = append(scales, v.of(a64.LDRS(0), at))
		v.Go("ADD $8, %s", at)
	}
	for i := range exact[0] {
		scale := v.load(mem{bScale, 16 * i}, nil)
		for r, x := range exact {
			v.fma(acc[r][i][0], x[i], v.of(a64.FMULE(0), scale, scales[r]))
		}
	}
	v.Go("ADD %s, %s", bScaleRow, bScale)
	v.Go("SUBS $1, %s", blocks)
	v.Branch("BNE", "block")
	t := &neonTile{v, neonKind{}.joined(v, acc), vecs}
	t.finish("a", "aScale", "c", "res")
}

// neonUnpack goes down the blocks of a vector of columns.
func neonUnpack(u *neonUnit, bits int) {
	v := u.fn(fmt.Sprintf("unpackQ%dNEON", bits), "func(dst *uint32, sums *int32, src *float32, blocks, groups, cols int)",
		"unpackQ%dNEON is an unpackFunc that leaves the sums alone.", bits)
	dst, src, left, row := v.Param("dst"), v.Param("src"), v.Param("cols"), v.elements("cols")
	v.Label("columns")
	to, from, blocks := v.copyInt(dst), v.copyInt(src), v.Param("blocks")
	v.Label("block")
	v.Go("ADD %s, %s", row, from)
	var zero vreg
	if bits == 4 {
		zero = v.of(a64.MUL, v.of(a64.FCVTNS, v.load(mem{from, 0}, nil)), v.bits(0x01010101))
	}
	v.Go("ADD %s, %s", row, from)
	groups := v.Param("groups")
	v.Label("group")
	word := v.load(mem{from, 0}, nil)
	words := []vreg{word, v.of(a64.USHR(4), word)}[:8/bits]
	for _, x := range words {
		if bits == 4 {
			x = v.of(a64.SUBB, v.of(a64.AND, x, v.bits(nibbles)), zero)
		} else {
			x = v.of(a64.EOR, x, v.bits(0x80808080))
		}
		v.store(x, mem{to, 0}, nil)
		v.Go("ADD %s, %s", row, to)
	}
	v.Go("ADD %s, %s", row, from)
	v.Go("SUBS $1, %s", groups)
	v.Branch("BNE", "group")
	v.Go("SUBS $1, %s", blocks)
	v.Branch("BNE", "block")
	v.Go("ADD $16, %s", dst)
	v.Go("ADD $16, %s", src)
	v.Go(fmt.Sprintf("SUBS $%d, %%s", neonLanes), left)
	v.Branch("BNE", "columns")
	v.Ret()
}

// neonQuantizeBlocks finds the largest magnitude of a block, and rounds and adds up in a second pass.
func neonQuantizeBlocks(u *neonUnit) {
	const step = 16
	v := u.fn("quantizeBlocksNEON", quantizeBlocksSignature, "quantizeBlocksNEON is a quantizeBlocksFunc.")
	dst, scale, src, blocks, limit := v.Param("dst"), v.Param("scale"), v.Param("src"), v.Param("blocks"), v.num(127)
	rest, scaleStep, offset := v.Param("rest"), v.elements("scaleStep"), v.of(a64.DUPW, v.Param("offset"))
	v.Label("block")
	most := v.zeroChains()
	from, left := v.copyInt(src), v.Param("block")
	v.Label("search")
	for i, m := range most {
		v.Do(a64.FMAX, m, m, v.of(a64.FABS, v.load(mem{from, 16 * i}, nil)))
	}
	v.Go(fmt.Sprintf("ADD $%d, %%s", 4*step), from)
	v.Go(fmt.Sprintf("SUBS $%d, %%s", step), left)
	v.Branch("BNE", "search")
	largest := v.fold(most, v.max)
	inverse := v.of(a64.FMIN, v.div(limit, largest), v.num(math.MaxFloat32)) // where all are 0
	back := v.div(largest, limit)
	v.Do(a64.STRS(0), back, scale)
	total, again := v.zero(), v.Param("block")
	v.Label("round")
	for half := range 2 {
		var codes [2]vreg
		for i := range codes {
			x := v.load(mem{src, 32*half + 16*i}, nil)
			q := v.of(a64.FCVTNS, v.mul(x, inverse))
			v.Do(a64.ADD, total, total, q)
			stored := fmt.Sprintf("stored%d", 2*half+i)
			v.Branch("CBZ", stored, rest)
			v.Do(a64.FMLS, x, v.of(a64.SCVTF, q), back)
			v.store(x, mem{rest, 32*half + 16*i}, nil)
			v.Label(stored)
			codes[i] = v.of(a64.ADD, q, offset)
		}
		words := v.of(a64.XTNH, codes[0])
		v.Do(a64.XTN2H, words, codes[1])
		v.Do(a64.STRD(8*half), v.of(a64.XTNB, words), dst)
	}
	v.Go(fmt.Sprintf("ADD $%d, %%s", 4*step), src)
	v.Branch("CBZ", "left", rest)
	v.Go(fmt.Sprintf("ADD $%d, %%s", 4*step), rest)
	v.Label("left")
	v.Go(fmt.Sprintf("ADD $%d, %%s", step), dst)
	v.Go(fmt.Sprintf("SUBS $%d, %%s", step), again)
	v.Branch("BNE", "round")
	v.Do(a64.STRS(4), v.of(a64.SCVTF, v.of(a64.ADDV, total)), scale)
	v.Go("ADD %s, %s", scaleStep, scale)
	v.Go("SUBS $1, %s", blocks)
	v.Branch("BNE", "block")
	v.Ret()
}

// neonDecode takes one number after the other out of words of four columns.
func neonDecode(u *neonUnit, bits int) {
	v := u.fn(fmt.Sprintf("decodeQ%dNEON", bits), "func(dst *float32, src *uint8, scale, zero *float32, groups, cols int)",
		"decodeQ%dNEON is a decodeFunc.", bits)
	dst, src, groups, cols, rowBytes := v.Param("dst"), v.Param("src"), v.Param("groups"), v.Param("cols"), v.elements("cols")
	v.Label("group")
	to, scale, zero, left := v.copyInt(dst), v.Param("scale"), v.Param("zero"), v.copyInt(cols)
	v.Label("columns")
	words, factor, offset := v.load(mem{src, 0}, nil), v.load(mem{scale, 0}, nil), v.load(mem{zero, 0}, nil)
	row := v.copyInt(to)
	for k := range 32 / bits {
		x := words
		if shift := 8*(k%4) + 4*(k/4); shift > 0 { // a byte has its second number in its upper half
			x = v.of(a64.USHR(shift), words)
		}
		x = v.of(a64.AND, x, v.bits(1<<bits-1))
		v.store(v.mul(v.sub(v.of(a64.SCVTF, x), offset), factor), mem{row, 0}, nil)
		v.Go("ADD %s, %s", rowBytes, row)
	}
	for _, p := range []vreg{src, scale, zero, to} {
		v.Go("ADD $16, %s", p)
	}
	v.Go(fmt.Sprintf("SUBS $%d, %%s", neonLanes), left)
	v.Branch("BNE", "columns")
	v.Go(fmt.Sprintf("MOVD $%d, %%s", 32/bits), left)
	v.Go("MUL %s, %s", rowBytes, left)
	v.Go("ADD %s, %s", left, dst)
	v.Go("SUBS $1, %s", groups)
	v.Branch("BNE", "group")
	v.Ret()
}
