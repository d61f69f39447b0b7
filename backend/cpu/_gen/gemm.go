package main

import (
	"fmt"

	"github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// tileShape is the largest register tile: its accumulators, one row of B and a few spare registers fill the file.
type tileShape struct{ rows, vecs int }

func (v *simd) tileShape() tileShape {
	if v.wide {
		return tileShape{8, 3}
	}
	return tileShape{6, 2}
}

// gemmTiles writes the kernels of all tiles up to the largest, and the table that holds them.
func gemmTiles(v *simd) {
	shape := v.tileShape()
	fmt.Fprintf(&v.extra, "\n// gemmTile%s is the tile of %d rows × %d columns.\n", v.name, shape.rows, shape.vecs*v.lanes)
	fmt.Fprintf(&v.extra, "var gemmTile%s = gemmTile{rows: %d, vecs: %d, vec: %d, kernels: [][]gemmFunc{\n", v.name, shape.rows, shape.vecs, v.lanes)
	for rows := 1; rows <= shape.rows; rows++ {
		fmt.Fprintf(&v.extra, "%d: {", rows)
		for vecs := 1; vecs <= shape.vecs; vecs++ {
			name := fmt.Sprintf("gemm%s_%dx%d", v.name, rows, vecs*v.lanes)
			gemmKernel(v, name, rows, vecs)
			fmt.Fprintf(&v.extra, "%d: %s, ", vecs, name)
		}
		fmt.Fprintf(&v.extra, "},\n")
	}
	fmt.Fprintf(&v.extra, "}}\n")
}

// Flags of a gemmFunc, as in kernel/gemm.go.
const (
	gemmAccumulate = 1 << iota
	gemmScale
	gemmRelu
)

// prefetchAhead is how far before its use a tile asks for the panel. A low tile streams weights from memory and asks
// far ahead; a high one finds its panel in the L2 cache, because the tiles before it have brought it there (next). A
// narrow one belongs to the last panel, behind which is none.
func prefetchAhead(rows int, widest bool) (bytes int, next bool) {
	if rows <= 4 {
		return 8 << 10, false
	}
	return 1 << 10, widest
}

// gemmKernel writes one register tile: for each k a row of B in vecs registers, and each element of A broadcast
// against it. Rows of A and C are reached as base + {0, 1, 2, 3}·stride from two bases four rows apart, so any
// strides cost the same.
func gemmKernel(v *simd, name string, rows, vecs int) {
	v.fn(name, "func(tiles, k int, a *float32, aRow, aCol int, b *float32, bRow int, next uintptr, nextStep int, c *float32, cRow int, cols int, alpha float32, bias, res *float32, resRow int, flags int)",
		"%s is the gemmFunc of %d rows and %d vectors.", name, rows, vecs)
	v.Label("tile")
	acc := make([][]reg.VecVirtual, rows)
	for r := range acc {
		acc[r] = v.vecs(vecs)
		for _, x := range acc[r] {
			v.zero(x)
		}
	}
	k := v.param("k")
	a := v.rowPointers("a", "aRow", rows)
	aCol := v.elements("aCol")
	b, bRow := v.param("b"), v.elements("bRow")
	ahead, hasNext := prefetchAhead(rows, vecs == v.tileShape().vecs)
	var next, nextStep reg.GPVirtual
	if hasNext {
		next, nextStep = v.param("next"), v.param("nextStep")
	}
	v.TESTQ(k, k)
	v.JZ(operand.LabelRef("done"))
	v.Label("loop")
	row := v.vecs(vecs)
	for i, x := range row {
		v.VMOVUPS(operand.Mem{Base: b, Disp: 4 * v.lanes * i}, x)
	}
	for line := 0; line < vecs*v.lanes*4; line += 64 {
		v.PREFETCHT0(operand.Mem{Base: b, Disp: ahead + line})
		if hasNext {
			v.PREFETCHT1(operand.Mem{Base: next, Disp: line})
		}
	}
	for r := range rows {
		x := v.vec()
		v.VBROADCASTSS(a.row(r), x)
		for i := range row {
			v.VFMADD231PS(row[i], x, acc[r][i])
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
	gemmEpilogue(v, acc, hasNext)
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

// advance moves all rows by a number of bytes.
func (p *rowPointers) advance(by reg.Register) {
	for _, base := range p.bases {
		p.g.ADDQ(by, base)
	}
}

// gemmEpilogue finishes the accumulators as the flags say and stores them (add C, scale, add the bias, clamp at zero, add
// the residual), then goes on with the next tile.
func gemmEpilogue(v *simd, acc [][]reg.VecVirtual, hasNext bool) {
	rows, vecs := len(acc), len(acc[0])
	last := v.tail(v.param("cols"))
	maskOf := func(i int) *mask {
		if i == vecs-1 {
			return &last
		}
		return nil
	}
	each := func(do func(r, i int)) {
		for r := range rows {
			for i := range vecs {
				do(r, i)
			}
		}
	}
	at := func(p *rowPointers, r, i int) operand.Mem { return p.row(r).Offset(4 * v.lanes * i) }
	addRows := func(p *rowPointers) {
		each(func(r, i int) {
			x := v.vec()
			v.load(at(p, r, i), x, maskOf(i))
			v.VADDPS(x, acc[r][i], acc[r][i])
		})
	}
	flags := v.param("flags")
	c := v.rowPointers("c", "cRow", rows)

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

	v.Label("residual")
	res := v.param("res")
	v.TESTQ(res, res)
	v.JZ(operand.LabelRef("store"))
	addRows(v.rowPointers("res", "resRow", rows))

	v.Label("store")
	each(func(r, i int) { v.store(acc[r][i], at(c, r, i), maskOf(i)) })

	// The pointers of the next tile go where those of this one came from.
	for _, p := range []struct{ pointer, row string }{{"a", "aRow"}, {"c", "cRow"}, {"res", "resRow"}} {
		by := v.elements(p.row)
		v.IMUL3Q(operand.U8(rows), by, by)
		if p.pointer == "res" {
			v.TESTQ(res, res) // no residual stays none
			v.CMOVQEQ(res, by)
		}
		v.ADDQ(by, v.slot(p.pointer))
	}
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
