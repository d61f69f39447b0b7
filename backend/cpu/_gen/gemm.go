package main

import (
	"fmt"

	"github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// tileKind is what distinguishes one kind of product from another: what a word of 4 bytes holds, and the instruction that
// multiplies words and adds.
type tileKind struct {
	name     string // after gemmTile and gemm
	multiply func(b, a, acc reg.Register)
	integers bool // no epilogue

	// extract, where words hold several numbers that the instruction cannot take together, are the ways to get each:
	// the step is done once for each.
	extract []func(x reg.Register)
}

// tileShape is the largest register tile: its accumulators, one row of B and a few spare registers fill the file.
type tileShape struct{ rows, vecs int }

func (v *simd) tileShape() tileShape {
	if v.wide {
		return tileShape{8, 3}
	}
	return tileShape{6, 2}
}

func gemmF32(v *simd) {
	gemmTiles(v, tileKind{name: v.name, multiply: func(b, a, acc reg.Register) { v.VFMADD231PS(b, a, acc) }})
}

// gemmVNNI has four unsigned bytes of A against four signed ones of B.
func gemmVNNI(v *simd) {
	gemmTiles(v, tileKind{name: "VNNI", multiply: func(b, a, acc reg.Register) { v.VPDPBUSD(b, a, acc) }, integers: true})
}

// gemmBF16 has pairs of bfloat16.
func gemmBF16(v *simd) {
	gemmTiles(v, tileKind{name: "BF16", multiply: v.dotBF16})
}

// gemmWidenedBF16 has pairs of bfloat16 on a processor without an instruction for them: each half of a word becomes a
// float32.
func gemmWidenedBF16(v *simd) {
	gemmTiles(v, tileKind{
		name:     "BF16" + v.name,
		multiply: func(b, a, acc reg.Register) { v.VFMADD231PS(b, a, acc) },
		extract: []func(x reg.Register){
			func(x reg.Register) { v.VPSLLD(operand.U8(16), x, x) },
			func(x reg.Register) { v.VANDPS(v.bits(0xffff0000), x, x) },
		},
	})
}

// gemmTiles writes the kernels of all tiles up to the largest, and the table that holds them.
func gemmTiles(v *simd, kind tileKind) {
	shape := v.tileShape()
	v.tileTable(kind.name, shape, v.lanes, func(rows, vecs int) { gemmKernel(v, kind, rows, vecs) })
}

// tileTable writes the kernel of every tile up to the largest, and the table that holds them.
func (v *simd) tileTable(kind string, shape tileShape, lanes int, emit func(rows, vecs int)) {
	fmt.Fprintf(&v.extra, "\n// gemmTile%s is the tile of %d rows × %d columns.\n", kind, shape.rows, shape.vecs*lanes)
	fmt.Fprintf(&v.extra, "var gemmTile%s = gemmTile{rows: %d, vecs: %d, vec: %d, kernels: [][]gemmFunc{\n", kind, shape.rows, shape.vecs,
		lanes)
	for rows := 1; rows <= shape.rows; rows++ {
		fmt.Fprintf(&v.extra, "%d: {", rows)
		for vecs := 1; vecs <= shape.vecs; vecs++ {
			name := fmt.Sprintf("gemm%s_%dx%d", kind, rows, vecs*lanes)
			v.fn(name, gemmSignature, "%s is the gemmFunc of %d rows and %d vectors.", name, rows, vecs)
			emit(rows, vecs)
			fmt.Fprintf(&v.extra, "%d: %s, ", vecs, name)
		}
		fmt.Fprintf(&v.extra, "},\n")
	}
	fmt.Fprintf(&v.extra, "}}\n")
}

const gemmSignature = "func(tiles, k int, a *float32, aRow, aCol int, b *float32, bRow int, next uintptr, nextStep int, c *float32, " +
	"cRow int, cols int, alpha float32, bias, res *float32, resRow int, flags int)"

// Flags of a gemmFunc, as in kernel/gemm_tile.go.
const (
	gemmAccumulate = 1 << iota
	gemmScale
	gemmRelu
	gemmZeros
	gemmAtMost
)

// prefetchAhead is how far before its use a tile asks for the panel. A low tile streams weights from memory and asks
// far ahead; a high one finds its panel in the L2 cache, because the tiles before it have brought it there (next). A
// narrow one belongs to the last panel, after which is none.
func prefetchAhead(rows int, widest bool) (bytes int, next bool) {
	if rows <= 4 {
		return 8 << 10, false
	}
	return 1 << 10, widest
}

// gemmKernel writes one register tile: for each k a row of B in vecs registers, and each element of A broadcast
// against it. Rows of A and C are reached as base + {0, 1, 2, 3}·stride from two bases four rows apart, so any
// strides cost the same.
func gemmKernel(v *simd, kind tileKind, rows, vecs int) {
	v.Label("tile")
	acc := make([][]reg.VecVirtual, rows)
	for r := range acc {
		acc[r] = v.vecs(vecs)
		for _, x := range acc[r] {
			v.zero(x)
		}
	}
	ahead, hasNext := prefetchAhead(rows, vecs == v.tileShape().vecs)
	if hasNext && !kind.integers { // sums that C holds are there when the loop is done
		v.TESTQ(operand.U32(gemmAccumulate), v.param("flags"))
		v.JZ(operand.LabelRef("new"))
		c := v.rowPointers("c", "cRow", rows)
		for r := range rows {
			for line := 0; line < vecs*v.lanes*4; line += 64 {
				v.PREFETCHT0(c.vector(r, line))
			}
		}
		v.Label("new")
	}
	k := v.param("k")
	a := v.rowPointers("a", "aRow", rows)
	aCol := v.elements("aCol")
	b, bRow := v.param("b"), v.elements("bRow")
	var next, nextStep reg.GPVirtual
	if hasNext {
		next, nextStep = v.param("next"), v.param("nextStep")
	}
	v.TESTQ(k, k)
	v.JZ(operand.LabelRef("done"))
	v.Label("loop")
	for line := 0; line < vecs*v.lanes*4; line += 64 {
		v.PREFETCHT0(operand.Mem{Base: b, Disp: ahead + line})
		if hasNext {
			v.PREFETCHT1(operand.Mem{Base: next, Disp: line})
		}
	}
	extract := kind.extract
	if extract == nil {
		extract = []func(x reg.Register){func(x reg.Register) {}}
	}
	for _, get := range extract {
		row := v.vecs(vecs)
		for i, x := range row {
			v.VMOVUPS(operand.Mem{Base: b, Disp: 4 * v.lanes * i}, x)
			get(x)
		}
		for r := range rows {
			x := v.vec()
			v.VBROADCASTSS(a.row(r), x)
			get(x)
			for i := range row {
				kind.multiply(row[i], x, acc[r][i])
			}
		}
	}
	a.advance(aCol)
	v.ADDQ(bRow, b)
	if hasNext {
		v.ADDQ(nextStep, next)
	}
	v.DECQ(k)
	v.JNZ(operand.LabelRef("loop"))
	v.Label("done")
	c := v.rowPointers("c", "cRow", rows)
	last := v.tail(v.param("cols"))
	maskOf := func(i int) *mask {
		if i == vecs-1 {
			return &last
		}
		return nil
	}
	if kind.integers {
		addSums(v, func() {
			eachOf(rows, vecs, func(r, i int) { v.addInts(c.vector(r, 4*v.lanes*i), acc[r][i], maskOf(i)) })
		})
	} else {
		gemmEpilogue(v, acc, c, maskOf)
	}
	eachOf(rows, vecs, func(r, i int) { v.store(acc[r][i], c.vector(r, 4*v.lanes*i), maskOf(i)) })
	nextTile(v, rows, hasNext)
}

// addSums emits what adds the sums that C holds, which runs where the flags say so.
func addSums(v *simd, add func()) {
	v.TESTQ(operand.U32(gemmAccumulate), v.param("flags"))
	v.JZ(operand.LabelRef("alone"))
	add()
	v.Label("alone")
}

// addInts adds a vector of memory to integers.
func (v *simd) addInts(from operand.Mem, to reg.VecVirtual, m *mask) {
	x := v.vec()
	v.load(from, x, m)
	v.VPADDD(x, to, to)
}

// rowPointers reaches rows at equal distance from as few registers as possible.
type rowPointers struct {
	g               *gen
	bases           []reg.GPVirtual
	stride, stride3 reg.GPVirtual
}

// rowPointers loads a pointer and the stride of its rows, in 4-byte elements, from parameters.
func (g *gen) rowPointers(pointer, stride string, rows int) *rowPointers {
	p := &rowPointers{g: g, bases: []reg.GPVirtual{g.param(pointer)}, stride: g.elements(stride)}
	if rows > 3 {
		p.stride3 = g.GP64()
		g.LEAQ(operand.Mem{Base: p.stride, Index: p.stride, Scale: 2}, p.stride3)
	}
	for r := 4; r < rows; r += 4 {
		next := g.GP64()
		g.LEAQ(operand.Mem{Base: p.bases[len(p.bases)-1], Index: p.stride, Scale: 4}, next)
		p.bases = append(p.bases, next)
	}
	return p
}

// row is the address of the start of row r.
func (p *rowPointers) row(r int) operand.Mem {
	mem := operand.Mem{Base: p.bases[r/4]}
	switch r % 4 {
	case 1, 2:
		mem.Index, mem.Scale = p.stride, uint8(r%4)
	case 3:
		mem.Index, mem.Scale = p.stride3, 1
	}
	return mem
}

// vector is the address of row r, a number of bytes on.
func (p *rowPointers) vector(r, bytes int) operand.Mem { return p.row(r).Offset(bytes) }

// advance moves all rows by a number of bytes.
func (p *rowPointers) advance(by reg.Register) {
	for _, base := range p.bases {
		p.g.ADDQ(by, base)
	}
}

// gemmEpilogue finishes the accumulators as the flags say: add C, scale, add the bias, clamp, add the residual.
func gemmEpilogue(v *simd, acc [][]reg.VecVirtual, c *rowPointers, maskOf func(i int) *mask) {
	rows, vecs := len(acc), len(acc[0])
	each := func(do func(r, i int)) { eachOf(rows, vecs, do) }
	addRows := func(p *rowPointers) {
		each(func(r, i int) {
			x := v.vec()
			v.load(p.vector(r, 4*v.lanes*i), x, maskOf(i))
			v.VADDPS(x, acc[r][i], acc[r][i])
		})
	}
	flags := v.param("flags")
	v.TESTQ(operand.U32(gemmAccumulate), flags)
	v.JZ(operand.LabelRef("scale"))
	addRows(c)

	v.Label("scale")
	v.TESTQ(operand.U32(gemmScale), flags)
	v.JZ(operand.LabelRef("bias"))
	alpha := v.vec()
	v.VBROADCASTSS(v.slot("alpha"), alpha)
	each(func(r, i int) { v.VMULPS(alpha, acc[r][i], acc[r][i]) })

	v.Label("bias")
	bias := v.param("bias")
	v.TESTQ(bias, bias)
	v.JZ(operand.LabelRef("relu"))
	for i := range vecs {
		x := v.vec()
		v.load(operand.Mem{Base: bias, Disp: 4 * v.lanes * i}, x, maskOf(i))
		for r := range rows {
			v.VADDPS(x, acc[r][i], acc[r][i])
		}
	}

	v.Label("relu")
	v.TESTQ(operand.U32(gemmRelu), flags)
	v.JZ(operand.LabelRef("residual"))
	zero := v.vec()
	v.zero(zero)
	// The second source (first operand in Go's order) is the result where one is NaN: a NaN stays.
	each(func(r, i int) { v.VMAXPS(acc[r][i], zero, acc[r][i]) })
	v.TESTQ(operand.U32(gemmAtMost), flags)
	v.JZ(operand.LabelRef("residual"))
	most := v.spreadFloat("alpha")
	each(func(r, i int) { v.VMINPS(acc[r][i], most, acc[r][i]) })

	v.Label("residual")
	res := v.param("res")
	v.TESTQ(res, res)
	v.JZ(operand.LabelRef("store"))
	addRows(v.rowPointers("res", "resRow", rows))
	v.Label("store")
}

func eachOf(rows, vecs int, do func(r, i int)) {
	for r := range rows {
		for i := range vecs {
			do(r, i)
		}
	}
}

// nextTile continues with the next tile, if there is one, or returns.
func nextTile(v *simd, rows int, hasNext bool) {
	nextRows(v, func(by reg.Register) { v.IMUL3Q(operand.U8(rows), by, by) })
	if hasNext {
		by := v.param("nextStep")
		v.IMULQ(v.slot("k"), by)
		v.ADDQ(by, v.slot("next"))
	}
	v.DECQ(v.slot("tiles"))
	v.JNZ(operand.LabelRef("tile"))
	v.VZEROUPPER()
	v.RET()
}

// nextRows puts the pointers of the next tile where those of this one came from, times the rows of a tile further on.
func nextRows(v *simd, times func(by reg.Register)) {
	for _, p := range []struct{ pointer, row string }{{"a", "aRow"}, {"c", "cRow"}, {"res", "resRow"}} {
		by := v.elements(p.row)
		times(by)
		if p.pointer == "res" { // none stays none
			res := v.param("res")
			v.TESTQ(res, res)
			v.CMOVQEQ(res, by)
		}
		v.ADDQ(by, v.slot(p.pointer))
	}
}

// gemmS8AVX2 writes the integer product for AVX2. Its 8-bit multiplication saturates, so bytes are widened to 16 bits: a
// register holds 4 columns of B with the 4 bytes of a word each, and the sums come in halves that are joined at the
// end.
func gemmS8AVX2(v *simd) {
	v.tileTable("S8AVX2", tileShape{2, 2}, 8, func(rows, vecs int) {
		v.Label("tile")
		const perVec = 2 // registers for the columns of a vector
		acc := make([][]reg.VecVirtual, rows)
		for r := range acc {
			acc[r] = v.vecs(perVec * vecs)
			for _, x := range acc[r] {
				v.zero(x)
			}
		}
		k, a, aCol := v.param("k"), v.rowPointers("a", "aRow", rows), v.elements("aCol")
		b, bRow := v.param("b"), v.elements("bRow")
		v.TESTQ(k, k)
		v.JZ(operand.LabelRef("done"))
		v.Label("loop")
		ahead, _ := prefetchAhead(rows, false)
		v.PREFETCHT0(operand.Mem{Base: b, Disp: ahead})
		words := v.vecs(rows)
		for r, word := range words {
			v.VPBROADCASTD(a.row(r), word.AsX())
			v.VPMOVZXBW(word.AsX(), word)
		}
		for i := range perVec * vecs {
			column := v.vec()
			v.VPMOVSXBW(operand.Mem{Base: b, Disp: 16 * i}, column)
			for r := range rows {
				product := v.vec()
				v.VPMADDWD(column, words[r], product)
				v.VPADDD(product, acc[r][i], acc[r][i])
			}
		}
		a.advance(aCol)
		v.ADDQ(bRow, b)
		v.DECQ(k)
		v.JNZ(operand.LabelRef("loop"))
		v.Label("done")
		c, last := v.rowPointers("c", "cRow", rows), v.tail(v.param("cols"))
		maskOf := func(i int) *mask {
			if i == vecs-1 {
				return &last
			}
			return nil
		}
		eachOf(rows, vecs, func(r, i int) {
			sum := acc[r][perVec*i]
			v.VPHADDD(acc[r][perVec*i+1], sum, sum)
			v.VPERMQ(operand.U8(0b11_01_10_00), sum, sum)
		})
		addSums(v, func() {
			eachOf(rows, vecs, func(r, i int) { v.addInts(c.vector(r, 4*v.lanes*i), acc[r][perVec*i], maskOf(i)) })
		})
		eachOf(rows, vecs, func(r, i int) { v.store(acc[r][perVec*i], c.vector(r, 4*v.lanes*i), maskOf(i)) })
		nextTile(v, rows, false)
	})
}
