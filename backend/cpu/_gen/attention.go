package main

import (
	"fmt"
	"math"

	"github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// attentionKernels writes what attention runs between its transposes: the products and the softmax.
func attentionKernels(v *simd) {
	attentionTiles(v)
	softmaxStepKernel(v)
}

// attentionTiles writes the register tiles of both products, and the table that holds them. Narrow tiles are taller, so
// that all have about as many sums.
func attentionTiles(v *simd) {
	widest, sums := 2, 12
	if v.wide {
		widest, sums = 3, 24
	}
	const tallest = 16 // more rows take more pointers than there are registers
	fmt.Fprintf(&v.extra, "\nvar attentionTile%s = attentionTile{vec: %d, kernels: [][]attentionTileFunc{\n", v.name, v.lanes)
	for vecs := 1; vecs <= widest; vecs++ {
		fmt.Fprintf(&v.extra, "%d: {", vecs)
		for rows := 1; rows <= min(tallest, sums/vecs); rows++ {
			name := fmt.Sprintf("attention%s_%dx%d", v.name, rows, vecs*v.lanes)
			v.fn(name, "func(tiles, k int, a *float32, aRow, aCol int, b *float32, bRow int, c *float32, cRow, cols int, scale, factor "+
				"*float32)",
				"%s is the attentionTileFunc of %d rows and %d vectors.", name, rows, vecs)
			attentionTileKernel(v, rows, vecs)
			fmt.Fprintf(&v.extra, "%d: %s, ", rows, name)
		}
		fmt.Fprintf(&v.extra, "},\n")
	}
	fmt.Fprintf(&v.extra, "}}\n")
}

func attentionTileKernel(v *simd, rows, vecs int) {
	v.Label("tile")
	acc := make([][]reg.VecVirtual, rows)
	for r := range acc {
		acc[r] = v.vecs(vecs)
		for _, x := range acc[r] {
			v.zero(x)
		}
	}
	k, a, aCol := v.param("k"), v.rowPointers("a", "aRow", rows), v.elements("aCol")
	b, bRow := v.param("b"), v.elements("bRow")
	ahead, streams := v.GP64(), rows <= 4 // few rows use each of B once, others find it in the cache
	if streams {
		v.LEAQ(operand.Mem{Base: b, Index: bRow, Scale: 8}, ahead)
	}
	v.TESTQ(k, k)
	v.JZ(operand.LabelRef("done"))
	v.Label("loop")
	for line := 0; streams && line < vecs*v.lanes*4; line += 64 {
		v.PREFETCHT0(operand.Mem{Base: ahead, Disp: line})
	}
	row := v.vecs(vecs)
	for i, x := range row {
		v.VMOVUPS(operand.Mem{Base: b, Disp: 4 * v.lanes * i}, x)
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
	if streams {
		v.ADDQ(bRow, ahead)
	}
	v.DECQ(k)
	v.JNZ(operand.LabelRef("loop"))

	v.Label("done")
	cols := v.param("cols")
	v.CMPQ(cols, operand.U8(v.lanes))
	v.JB(operand.LabelRef("partial"))
	attentionEpilogue(v, acc, nil)
	v.JMP(operand.LabelRef("next"))
	v.Label("partial")
	last := v.tail(cols)
	attentionEpilogue(v, acc, &last)

	v.Label("next")
	for _, p := range []struct{ pointer, row string }{{"a", "aRow"}, {"c", "cRow"}} {
		by := v.elements(p.row)
		v.IMUL3Q(operand.U8(rows), by, by)
		v.ADDQ(by, v.slot(p.pointer))
	}
	for _, factors := range []string{"scale", "factor"} {
		at, next := v.param(factors), v.GP64()
		v.LEAQ(operand.Mem{Base: at, Disp: 4 * rows}, next)
		v.TESTQ(at, at)
		v.CMOVQNE(next, at) // none stays none
		v.MOVQ(at, v.slot(factors))
	}
	v.DECQ(v.slot("tiles"))
	v.JNZ(operand.LabelRef("tile"))
	v.VZEROUPPER()
	v.RET()
}

// attentionEpilogue adds what C held, multiplied by its row's scale, to the sums, multiplies them by their row's factor and
// stores them. The last vector of a row may be masked.
func attentionEpilogue(v *simd, acc [][]reg.VecVirtual, last *mask) {
	label := func(name string) string {
		if last != nil {
			name += "Partial"
		}
		return name
	}
	rows, vecs := len(acc), len(acc[0])
	maskOf := func(i int) *mask {
		if i == vecs-1 {
			return last
		}
		return nil
	}
	c := v.rowPointers("c", "cRow", rows)
	scale := v.param("scale")
	v.TESTQ(scale, scale)
	v.JZ(operand.LabelRef(label("factor")))
	for r := range rows {
		x := v.vec()
		v.VBROADCASTSS(operand.Mem{Base: scale, Disp: 4 * r}, x)
		for i := range vecs {
			old := v.vec()
			v.load(c.vector(r, 4*v.lanes*i), old, maskOf(i))
			v.VFMADD231PS(old, x, acc[r][i])
		}
	}
	v.Label(label("factor"))
	factor := v.param("factor")
	v.TESTQ(factor, factor)
	v.JZ(operand.LabelRef(label("store")))
	for r := range rows {
		x := v.vec()
		v.VBROADCASTSS(operand.Mem{Base: factor, Disp: 4 * r}, x)
		for i := range vecs {
			v.VMULPS(x, acc[r][i], acc[r][i])
		}
	}
	v.Label(label("store"))
	eachOf(rows, vecs, func(r, i int) { v.store(acc[r][i], c.vector(r, 4*v.lanes*i), maskOf(i)) })
}

// softmaxStepKernel works on one vector of columns at a time, down all rows.
func softmaxStepKernel(v *simd) {
	v.fn("softmaxStep"+v.name, "func(x *float32, rows, cols int, by float32, highest, sum, scale, inverse *float32)",
		"softmaxStep%s is a softmaxStepFunc.", v.name)
	x, cols, rowBytes := v.param("x"), v.param("cols"), v.elements("cols")
	highest, sum, scale, inverse := v.param("highest"), v.param("sum"), v.param("scale"), v.param("inverse")
	by := v.vec()
	v.VBROADCASTSS(v.slot("by"), by)
	v.VMULPS(v.f32(math.Log2E), by, by)
	weight := func(x reg.Register) {
		v.VMULPS(by, x, x)
		v.exp2Falling(x)
	}
	v.preload(func() { v.exp2Falling(v.vec()) })

	// eachRow walks down the rows, in groups of chains while there are as many.
	eachRow := func(name string, body func(chain int, at operand.Mem)) {
		row, rows := v.GP64(), v.param("rows")
		v.MOVQ(x, row)
		step := func(n int) {
			for chain := range n {
				body(chain, operand.Mem{Base: row})
				v.ADDQ(rowBytes, row)
			}
		}
		v.SUBQ(operand.U8(chains), rows)
		v.JB(operand.LabelRef(name + "Rest"))
		v.Label(name + "Group")
		step(chains)
		v.SUBQ(operand.U8(chains), rows)
		v.JAE(operand.LabelRef(name + "Group"))
		v.Label(name + "Rest")
		v.ADDQ(operand.U8(chains), rows)
		v.JZ(operand.LabelRef(name + "End"))
		v.Label(name + "Single")
		step(1)
		v.DECQ(rows)
		v.JNZ(operand.LabelRef(name + "Single"))
		v.Label(name + "End")
	}
	v.Label("columns")
	old, total := v.vec(), v.vec()
	v.VMOVUPS(operand.Mem{Base: highest}, old)
	most := v.chains(old)
	eachRow("max", func(chain int, at operand.Mem) {
		// A NaN that the maximum loses comes back in the exponential.
		s := v.vec()
		v.VMOVUPS(at, s)
		v.VMAXPS(s, most[chain], most[chain])
	})
	for _, other := range most[1:] {
		v.VMAXPS(other, most[0], most[0])
	}
	v.VMOVUPS(most[0], operand.Mem{Base: highest})
	v.VSUBPS(most[0], old, old)
	weight(old)
	v.VMOVUPS(old, operand.Mem{Base: scale})
	v.VMULPS(operand.Mem{Base: sum}, old, total)
	eachRow("exp", func(_ int, at operand.Mem) {
		s := v.vec()
		v.VMOVUPS(at, s)
		v.VSUBPS(most[0], s, s)
		weight(s)
		v.VADDPS(s, total, total)
		v.VMOVUPS(s, at)
	})
	v.VMOVUPS(total, operand.Mem{Base: sum})
	one := v.constant(1)
	v.VDIVPS(total, one, one)
	v.VMOVUPS(one, operand.Mem{Base: inverse})
	for _, p := range []reg.Register{x, highest, sum, scale, inverse} {
		v.ADDQ(operand.U8(4*v.lanes), p)
	}
	v.SUBQ(operand.U8(v.lanes), cols)
	v.JNZ(operand.LabelRef("columns"))
	v.VZEROUPPER()
	v.RET()
}
