package main

import (
	"fmt"
	"math"

	"github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// q4Kernels writes the kernels of products with weights of 4 or 8 bits in blocks. A word of packed weights of 4 bits has for one column the
// numbers of eight neighbouring k: byte j holds those of k = j, in its lower half, and k = 4 + j.
func q4Kernels(v *simd) {
	decodeKernel(v, 4)
	decodeKernel(v, 8)
	quantizeBlocksKernel(v)
	narrow, widened := byteDots{simd: v, name: v.name, how: pairwise}, byteDots{simd: v, name: "Q8" + v.name, how: inHalves}
	narrow.unpackKernel(4)
	narrow.unpackKernel(8)
	narrow.tiles()
	widened.tiles()
	narrow.digitTiles(4)
}

// q4VNNI writes those that gain from 8-bit dot products, which have room for any two bytes.
func q4VNNI(v *simd) {
	d := byteDots{v, "VNNI", dotProducts}
	d.unpackKernel(4)
	d.unpackKernel(8)
	d.tiles()
	d.digitTiles(4)
	d.digitTiles(8)
}

// The ways to add the products of four unsigned bytes of A with four signed ones of B.
const (
	dotProducts = iota // in one instruction
	pairwise           // the sums of two may not exceed 16 bits: B has 5 bits
	inHalves           // bytes at even and odd positions separate, widened to 16 bits
)

// byteDots writes kernels that multiply bytes.
type byteDots struct {
	*simd
	name string
	how  int
}

// ones is what pairwise addition needs: 1 in every 16 bits.
func (d byteDots) ones() (r reg.VecVirtual) {
	if d.how == pairwise {
		r = d.constantBits(0x00010001)
	}
	return r
}

// a is a word of A in every lane, as add takes it.
func (d byteDots) a(at operand.Mem) []reg.Register {
	x := d.vec()
	d.VBROADCASTSS(at, x)
	if d.how != inHalves {
		return []reg.Register{x}
	}
	odd := d.vec()
	d.VPSRLW(operand.U8(8), x, odd)
	d.VANDPS(d.bits(0x00ff00ff), x, x)
	return []reg.Register{x, odd}
}

// b is a vector of words of B, as add takes it.
func (d byteDots) b(at operand.Mem, reused bool) []operand.Op {
	if d.how != inHalves && !reused {
		return []operand.Op{at}
	}
	x := d.vec()
	d.VMOVUPS(at, x)
	if d.how != inHalves {
		return []operand.Op{x}
	}
	odd := d.vec()
	d.VPSRAW(operand.U8(8), x, odd)
	d.VPSLLW(operand.U8(8), x, x)
	d.VPSRAW(operand.U8(8), x, x)
	return []operand.Op{x, odd}
}

// add adds the products of four bytes in each lane.
func (d byteDots) add(b []operand.Op, a []reg.Register, acc, ones reg.Register) {
	if d.how == dotProducts {
		d.VPDPBUSD(b[0], a[0], acc)
		return
	}
	for i := range a {
		x := d.vec()
		if d.how == pairwise {
			d.VPMADDUBSW(b[i], a[i], x)
			d.VPMADDWD(ones, x, x)
		} else {
			d.VPMADDWD(b[i], a[i], x)
		}
		d.VPADDD(x, acc, acc)
	}
}

const nibbles = 0x0f0f0f0f

// decodeKernel goes down the rows one vector of columns at a time, with their scales and zero points in registers.
func decodeKernel(v *simd, bits int) {
	v.fn(fmt.Sprintf("decodeQ%d%s", bits, v.name), "func(dst *float32, src *uint8, scale, zero *float32, groups, cols int)",
		"decodeQ%d%s is a decodeFunc.", bits, v.name)
	dst, src, scalePointer, zeroPointer := v.param("dst"), v.param("src"), v.param("scale"), v.param("zero")
	left, row := v.param("cols"), v.elements("cols")
	var numbers reg.VecVirtual
	if v.wide && bits == 4 {
		numbers = v.vec()
		v.VMOVUPS(v.table("numbers", func() {
			for i := range 16 {
				v.AppendDatum(operand.U32(math.Float32bits(float32(i))))
			}
		}), numbers)
	}
	v.Label("columns")
	scale, zero := v.vec(), v.vec()
	v.VMOVUPS(operand.Mem{Base: scalePointer}, scale)
	v.VMOVUPS(operand.Mem{Base: zeroPointer}, zero)
	to, from, groups := v.GP64(), v.GP64(), v.param("groups")
	v.MOVQ(dst, to)
	v.MOVQ(src, from)
	v.Label("group")
	word := v.vec()
	v.VMOVUPS(operand.Mem{Base: from}, word)
	for k := range 32 / bits {
		x := v.vec()
		v.VPSRLD(operand.U8(k%4*8+k/4*4), word, x)
		if numbers != nil {
			v.VPERMPS(numbers, x, x) // which looks at 4 bits
		} else {
			v.VANDPS(v.bits(1<<bits-1), x, x)
			v.VCVTDQ2PS(x, x)
		}
		v.VSUBPS(zero, x, x)
		v.VMULPS(scale, x, x)
		v.VMOVUPS(x, operand.Mem{Base: to})
		v.ADDQ(row, to)
	}
	v.ADDQ(row, from)
	v.DECQ(groups)
	v.JNZ(operand.LabelRef("group"))
	for _, p := range []reg.GPVirtual{dst, src, scalePointer, zeroPointer} {
		v.ADDQ(operand.U8(4*v.lanes), p)
	}
	v.SUBQ(operand.U8(v.lanes), left)
	v.JNZ(operand.LabelRef("columns"))
	v.VZEROUPPER()
	v.RET()
}

// unpackKernel writes words of four signed bytes, zero points taken off from those of 4 bits, 128 from those of 8; what it adds up
// is taken times −128.
func (d byteDots) unpackKernel(bits int) {
	v := d.simd
	v.fn(fmt.Sprintf("unpackQ%d%s", bits, d.name), "func(dst *uint32, sums *int32, src *float32, blocks, groups, cols int)",
		"unpackQ%d%s is an unpackFunc.", bits, d.name)
	dst, sums, src, left := v.param("dst"), v.param("sums"), v.param("src"), v.param("cols")
	row := v.elements("cols")
	one, ones := v.constantBits(0x01010101), d.ones()
	change := v.constantBits(map[int]uint32{4: nibbles, 8: 0x80808080}[bits])
	v.Label("columns")
	to, toSum, from, blocks := v.GP64(), v.GP64(), v.GP64(), v.param("blocks")
	v.MOVQ(dst, to)
	v.MOVQ(sums, toSum)
	v.MOVQ(src, from)
	v.Label("block")
	zero, sum := v.vec(), v.vec()
	if bits == 4 {
		v.VCVTPS2DQ(operand.Mem{Base: from, Index: row, Scale: 1}, zero)
		v.VPMULLD(one, zero, zero)
	}
	v.LEAQ(operand.Mem{Base: from, Index: row, Scale: 2}, from)
	v.zero(sum)
	groups := v.param("groups")
	v.Label("group")
	for k := range 8 / bits {
		x := v.vec()
		v.VMOVUPS(operand.Mem{Base: from}, x)
		switch {
		case bits == 8:
			v.VXORPS(change, x, x)
		case k == 1:
			v.VPSRLD(operand.U8(4), x, x)
			fallthrough
		default:
			v.VANDPS(change, x, x)
			v.VPSUBB(zero, x, x)
		}
		v.VMOVUPS(x, operand.Mem{Base: to})
		d.add([]operand.Op{x}, []reg.Register{one}, sum, ones)
		v.ADDQ(row, to)
	}
	v.ADDQ(row, from)
	v.DECQ(groups)
	v.JNZ(operand.LabelRef("group"))
	total := v.vec()
	v.VPSLLD(operand.U8(7), sum, sum)
	v.zero(total)
	v.VPSUBD(sum, total, total)
	v.VMOVUPS(total, operand.Mem{Base: toSum})
	v.ADDQ(row, toSum)
	v.DECQ(blocks)
	v.JNZ(operand.LabelRef("block"))
	for _, p := range []reg.GPVirtual{dst, sums, src} {
		v.ADDQ(operand.U8(4*v.lanes), p)
	}
	v.SUBQ(operand.U8(v.lanes), left)
	v.JNZ(operand.LabelRef("columns"))
	v.VZEROUPPER()
	v.RET()
}

// constantBits loads a word into all lanes of a fresh register.
func (v *simd) constantBits(word uint32) reg.VecVirtual {
	r := v.vec()
	v.VMOVUPS(v.bits(word), r)
	return r
}

const quantizeBlocksSignature = "func(dst *uint8, offset int32, scale *float32, scaleStep int, src, rest *float32, blocks, block int)"

// quantizeBlocksKernel finds the largest magnitude of a block, and rounds and adds up in a second pass.
func quantizeBlocksKernel(v *simd) {
	v.fn("quantizeBlocks"+v.name, quantizeBlocksSignature, "quantizeBlocks%s is a quantizeBlocksFunc.", v.name)
	dst, scale, src, blocks, block := v.param("dst"), v.param("scale"), v.param("src"), v.param("blocks"), v.param("block")
	rest, scaleStep := v.param("rest"), v.elements("scaleStep")
	magnitude, offset := v.constantBits(absMask), v.spreadInt("offset")
	limit := v.constant(127)
	i := v.GP64()
	v.Label("block")
	most := v.vec()
	v.zero(most)
	v.XORQ(i, i)
	v.Label("search")
	x := v.vec()
	v.VANDPS(operand.Mem{Base: src, Index: i, Scale: 4}, magnitude, x)
	v.most(x, most, most)
	v.ADDQ(operand.U8(v.lanes), i)
	v.CMPQ(i, block)
	v.JB(operand.LabelRef("search"))
	v.foldLanes(most, v.most)
	largest, inverse := most.AsX(), v.XMM()
	v.VDIVSS(largest, limit.AsX(), inverse)
	v.VMINSS(v.f32(math.MaxFloat32), inverse, inverse) // where all are 0
	v.VDIVSS(limit.AsX(), largest, largest)
	v.VMOVSS(largest, operand.Mem{Base: scale})
	factor, back := v.vec(), v.vec()
	v.VBROADCASTSS(inverse, factor)
	v.VBROADCASTSS(largest, back)
	total := v.vec()
	v.zero(total)
	v.XORQ(i, i)
	v.Label("round")
	q := v.vec()
	v.VMULPS(operand.Mem{Base: src, Index: i, Scale: 4}, factor, q)
	v.VCVTPS2DQ(q, q)
	v.VPADDD(q, total, total)
	v.TESTQ(rest, rest)
	v.JZ(operand.LabelRef("store"))
	rounded, left := v.vec(), v.vec()
	v.VCVTDQ2PS(q, rounded)
	v.VMOVUPS(operand.Mem{Base: src, Index: i, Scale: 4}, left)
	v.VFNMADD231PS(back, rounded, left)
	v.VMOVUPS(left, operand.Mem{Base: rest, Index: i, Scale: 4})
	v.Label("store")
	v.VPADDD(offset, q, q)
	v.storeLowBytes(q, operand.Mem{Base: dst, Index: i, Scale: 1})
	v.ADDQ(operand.U8(v.lanes), i)
	v.CMPQ(i, block)
	v.JB(operand.LabelRef("round"))
	v.foldLanes(total, func(x, y, to reg.Register) { v.VPADDD(x, y, to) })
	v.VCVTDQ2PS(total.AsX(), total.AsX())
	v.VMOVSS(total.AsX(), operand.Mem{Base: scale, Disp: 4})
	v.LEAQ(operand.Mem{Base: src, Index: block, Scale: 4}, src)
	v.ADDQ(block, dst)
	v.ADDQ(scaleStep, scale)
	v.TESTQ(rest, rest)
	v.JZ(operand.LabelRef("next"))
	v.LEAQ(operand.Mem{Base: rest, Index: block, Scale: 4}, rest)
	v.Label("next")
	v.DECQ(blocks)
	v.JNZ(operand.LabelRef("block"))
	v.VZEROUPPER()
	v.RET()
}

const blocksSignature = "func(tiles, blocks, words int, a *float32, aRow int, aScale *float32, aScaleRow int, b *float32, bRow int, " +
	"bScale *float32, bScaleRow int, bSum *int32, c *float32, cRow int, cols int, alpha float32, bias, res *float32, resRow int, flags int)"

// tiles writes the tiles of quantised products whose sums are scaled block by block: as many vectors as a tile of floats has, and
// as many rows as leave room for sums both of integers and of floats.
func (d byteDots) tiles() {
	v, rows := d.simd, 2
	switch {
	case v.wide && d.how == inHalves:
		rows = 3
	case v.wide:
		rows = 4
	}
	fmt.Fprintf(&v.extra, "\nvar gemmBlocks%s = blockTile{rows: %d, kernels: [][]gemmBlocksFunc{\n", d.name, rows)
	for r := 1; r <= rows; r++ {
		fmt.Fprintf(&v.extra, "%d: {", r)
		for n := 1; n <= v.tileShape().vecs; n++ {
			kernel := fmt.Sprintf("gemmBlocks%s_%dx%d", d.name, r, n*v.lanes)
			v.fn(kernel, blocksSignature, "%s is the gemmBlocksFunc of %d rows and %d vectors.", kernel, r, n)
			d.tile(r, n)
			fmt.Fprintf(&v.extra, "%d: %s, ", n, kernel)
		}
		fmt.Fprintf(&v.extra, "},\n")
	}
	fmt.Fprintf(&v.extra, "}}\n")
}

func (d byteDots) tile(rows, vecs int) {
	v := d.simd
	v.Label("tile")
	sums, acc := make([][]reg.VecVirtual, rows), make([][]reg.VecVirtual, rows)
	for r := range rows {
		sums[r], acc[r] = v.vecs(vecs), v.vecs(vecs)
		for _, x := range acc[r] {
			v.zero(x)
		}
	}
	a, b, bRow := v.rowPointers("a", "aRow", rows), v.param("b"), v.elements("bRow")
	aScale, bScale, bSum := v.rowPointers("aScale", "aScaleRow", rows), v.param("bScale"), v.param("bSum")
	ones, blocks := d.ones(), v.param("blocks")
	v.Label("block")
	for i := range vecs {
		v.VMOVUPS(operand.Mem{Base: bSum, Disp: 4 * v.lanes * i}, sums[0][i])
		for r := 1; r < rows; r++ {
			v.VMOVAPS(sums[0][i], sums[r][i])
		}
	}
	words := v.param("words")
	v.Label("word")
	row := make([][]operand.Op, vecs)
	for i := range row {
		row[i] = d.b(operand.Mem{Base: b, Disp: 4 * v.lanes * i}, rows > 1)
	}
	for r := range rows {
		x := d.a(a.row(r))
		for i := range row {
			d.add(row[i], x, sums[r][i], ones)
		}
	}
	v.ADDQ(operand.U8(4), a.bases[0])
	v.ADDQ(bRow, b)
	v.DECQ(words)
	v.JNZ(operand.LabelRef("word"))
	eachOf(rows, vecs, func(r, i int) { v.VCVTDQ2PS(sums[r][i], sums[r][i]) })
	v.TESTQ(operand.U32(gemmZeros), v.slot("flags"))
	v.JZ(operand.LabelRef("factors"))
	zeros, total := v.vecs(vecs), v.vec()
	for i, zero := range zeros {
		v.VMOVUPS(operand.Mem{Base: bScale, Index: bRow, Scale: 1, Disp: 4 * v.lanes * i}, zero)
		v.VSUBPS(v.f32(128), zero, zero)
	}
	for r := range rows {
		v.VBROADCASTSS(aScale.vector(r, 4), total)
		for i, zero := range zeros {
			v.VFNMADD231PS(zero, total, sums[r][i])
		}
	}
	v.Label("factors")
	for r := range rows {
		scale := v.vec()
		v.VBROADCASTSS(aScale.row(r), scale)
		for i := range vecs {
			factor := v.vec()
			v.VMULPS(operand.Mem{Base: bScale, Disp: 4 * v.lanes * i}, scale, factor)
			v.VFMADD231PS(sums[r][i], factor, acc[r][i])
		}
	}
	v.ADDQ(operand.U8(8), aScale.bases[0])
	v.ADDQ(bRow, bSum)
	v.ADDQ(v.elements("bScaleRow"), bScale)
	v.DECQ(blocks)
	v.JNZ(operand.LabelRef("block"))
	c := v.rowPointers("c", "cRow", rows)
	last := v.tail(v.param("cols"))
	maskOf := func(i int) *mask {
		if i == vecs-1 {
			return &last
		}
		return nil
	}
	gemmEpilogue(v, acc, c, maskOf)
	eachOf(rows, vecs, func(r, i int) { v.store(acc[r][i], c.vector(r, 4*v.lanes*i), maskOf(i)) })
	by := v.elements("aScaleRow")
	v.IMUL3Q(operand.U8(rows), by, by)
	v.ADDQ(by, v.slot("aScale"))
	nextTile(v, rows, false)
}

const digitsSignature = "func(tiles, blocks, groups, step int, a *float32, aRow, aDigit int, aScale *float32, aScaleRow int, " +
	"b *float32, bRow int, c *float32, cRow int, cols int, alpha float32, bias, res *float32, resRow int, flags int)"

// digitTiles writes the tiles of products of few rows of digits, which read B as it is packed. The sums of step rows of words fit: those
// of VPMADDUBSW into 16 bits, the others exactly into a float32. For more than most rows of A, products of floats are as fast.
func (d byteDots) digitTiles(bits int) {
	v, step, most, rows := d.simd, 128, 16, map[int]int{1: 4, 3: 2}
	if d.how == pairwise {
		step, most = 4, 8
		if v.wide {
			most = 4
		}
	}
	if !v.wide {
		rows = map[int]int{1: 2, 3: 1}
	}
	fmt.Fprintf(&v.extra, "\nvar digitsQ%d%s = digitTile{step: %d, most: %d, kernels: map[int][][]digitsFunc{\n", bits, d.name, step, most)
	for _, digits := range []int{1, 3} {
		fmt.Fprintf(&v.extra, "%d: {", digits)
		for r := range rows[digits] + 1 {
			fmt.Fprintf(&v.extra, "%d: {", r)
			for n := 1; r > 0 && n <= v.tileShape().vecs; n++ {
				kernel := fmt.Sprintf("digitsQ%d%s_%dx%dx%d", bits, d.name, digits, r, n*v.lanes)
				v.fn(kernel, digitsSignature, "%s is the digitsFunc of %d digits, %d rows and %d vectors.", kernel, digits, r, n)
				d.digitTile(bits, digits, r, n)
				fmt.Fprintf(&v.extra, "%d: %s, ", n, kernel)
			}
			fmt.Fprintf(&v.extra, "},\n")
		}
		fmt.Fprintf(&v.extra, "},\n")
	}
	fmt.Fprintf(&v.extra, "}}\n")
}

func (d byteDots) digitTile(bits, digits, rows, vecs int) {
	v := d.simd
	v.Label("tile")
	acc, sums := make([][]reg.VecVirtual, rows), make([][][]reg.VecVirtual, rows)
	for r := range rows {
		acc[r] = v.vecs(vecs)
		for range digits {
			sums[r] = append(sums[r], v.vecs(vecs))
		}
		for _, x := range acc[r] {
			v.zero(x)
		}
	}
	a := []*rowPointers{v.rowPointers("a", "aRow", rows)}
	for by := v.elements("aDigit"); len(a) < digits; {
		next := *a[len(a)-1]
		next.bases = []reg.GPVirtual{v.GP64()}
		v.LEAQ(operand.Mem{Base: a[len(a)-1].bases[0], Index: by, Scale: 1}, next.bases[0])
		a = append(a, &next)
	}
	aScale, b, bRow, blocks := v.rowPointers("aScale", "aScaleRow", rows), v.param("b"), v.elements("bRow"), v.param("blocks")
	bScale, left, n := v.GP64(), v.GP64(), v.GP64()
	v.Label("block")
	v.MOVQ(b, bScale)
	v.LEAQ(operand.Mem{Base: b, Index: bRow, Scale: 2}, b)
	v.MOVQ(v.slot("groups"), left)
	v.Label("step")
	for r := range rows {
		for _, digit := range sums[r] {
			for _, x := range digit {
				v.zero(x)
			}
		}
	}
	v.MOVQ(v.slot("step"), n)
	v.CMPQ(left, n)
	v.CMOVQLT(left, n)
	v.SUBQ(n, left)
	v.Label("group")
	for line := 0; line < vecs*v.lanes*4; line += 64 {
		v.PREFETCHT0(operand.Mem{Base: b, Disp: digitsAhead + line})
	}
	for half := range 8 / bits {
		numbers := v.vecs(vecs)
		for i, x := range numbers {
			v.VMOVUPS(operand.Mem{Base: b, Disp: 4 * v.lanes * i}, x)
			if half == 1 {
				v.VPSRLD(operand.U8(4), x, x)
			}
			if bits == 4 {
				v.VANDPS(v.bits(nibbles), x, x)
			}
		}
		for r := range rows {
			for digit, of := range sums[r] {
				word := v.vec()
				v.VBROADCASTSS(a[digit].vector(r, 4*half), word)
				for i, x := range numbers {
					if d.how == dotProducts {
						v.VPDPBUSD(word, x, of[i])
						continue
					}
					pairs := v.vec()
					v.VPMADDUBSW(word, x, pairs)
					v.VPADDW(pairs, of[i], of[i])
				}
			}
		}
	}
	for _, digit := range a {
		v.ADDQ(operand.U8(32/bits), digit.bases[0])
	}
	v.ADDQ(bRow, b)
	v.DECQ(n)
	v.JNZ(operand.LabelRef("group"))
	for r, digit := range sums {
		factors := v.vecs(2 * digits) // scales and totals
		for i, x := range factors {
			v.VBROADCASTSS(aScale.vector(r, 4*i), x)
		}
		for i, all := range acc[r] {
			scale := operand.Mem{Base: bScale, Disp: 4 * v.lanes * i}
			for j := range digit {
				x := digit[j][i]
				if d.how == pairwise {
					v.VPMADDWD(v.bits(0x00010001), x, x)
				}
				v.VCVTDQ2PS(x, x)
				v.VFNMADD231PS(scale.Idx(bRow, 1), factors[2*j+1], x) // exact, as the sum is
			}
			sum := digit[0][i]
			if digits == 1 {
				factor := v.vec()
				v.VMULPS(scale, factors[0], factor)
				v.VFMADD231PS(sum, factor, all)
				continue
			}
			v.VMULPS(factors[0], sum, sum)
			for j := 1; j < digits; j++ {
				v.VFMADD231PS(digit[j][i], factors[2*j], sum)
			}
			v.VFMADD231PS(scale, sum, all)
		}
	}
	v.ADDQ(operand.U8(8*digits), aScale.bases[0])
	v.TESTQ(left, left)
	v.JNZ(operand.LabelRef("step"))
	v.DECQ(blocks)
	v.JNZ(operand.LabelRef("block"))
	c := v.rowPointers("c", "cRow", rows)
	last := v.tail(v.param("cols"))
	maskOf := func(i int) *mask {
		if i == vecs-1 {
			return &last
		}
		return nil
	}
	gemmEpilogue(v, acc, c, maskOf)
	eachOf(rows, vecs, func(r, i int) { v.store(acc[r][i], c.vector(r, 4*v.lanes*i), maskOf(i)) })
	by := v.elements("aScaleRow")
	v.IMUL3Q(operand.U8(rows), by, by)
	v.ADDQ(by, v.slot("aScale"))
	nextTile(v, rows, false)
}

// digitsAhead is how many bytes of B are asked for before their use.
const digitsAhead = 4 << 10
