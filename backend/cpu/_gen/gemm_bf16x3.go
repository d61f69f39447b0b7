package main

import (
	"fmt"

	"github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// A block of an operand of gemmBF16x3 is one tile for each of its parts.
const (
	bf16Parts  = 3
	blockBytes = bf16Parts * tileBytes
)

// bf16Products are the parts of A and of B that are multiplied, the largest part being the first. Each product shares an operand with the
// one before it, and the largest comes last. The others are below the last bit of a float32.
var bf16Products = [][2]int{{2, 0}, {1, 0}, {1, 1}, {0, 1}, {0, 2}, {0, 0}}

// gemmBF16x3 writes products of float32 on the tiles of AMX: each float is the sum of three parts of bfloat16.
func gemmBF16x3(v *simd) {
	splitBF16x3(v)
	for cols := 1; cols <= x3ColTiles; cols++ {
		v.tilesBF16x3(cols)
	}
}

// As in kernel/gemm_bf16x3.go.
const (
	x3RowTiles = 2
	x3ColTiles = 2
	x3Scale    = 1 << 24
	x3Word     = 64 // bytes of a row of a tile
)

// splitter splits floats. A part is what the bits of the rest round to, so that the last one is exact. Floats are scaled up first, so that
// no part is subnormal, which tiles would take for 0.
type splitter struct {
	v                  *simd
	scale, half, upper reg.VecVirtual
	odd                reg.OpmaskVirtual
}

func (v *simd) splitter() splitter {
	s := splitter{v, v.constant(x3Scale), v.vec(), v.vec(), v.K()}
	v.VMOVUPS(v.bits(0x8000), s.half)
	v.VMOVUPS(v.bits(0xffff0000), s.upper)
	lanes := v.GP32()
	v.MOVL(operand.U32(0xaaaaaaaa), lanes)
	v.KMOVD(lanes, s.odd)
	return s
}

// words splits two vectors into a row of the tile of each part, in words with a part of both.
func (s splitter) words(from [2]operand.Mem, to reg.Register) {
	v := s.v
	x, words := v.vecs(2), v.vec()
	for i := range x {
		v.VMULPS(from[i], s.scale, x[i])
	}
	for part := range bf16Parts {
		last, rounded := part == bf16Parts-1, x
		if !last {
			rounded = v.vecs(2)
			for i := range x {
				v.VPADDD(s.half, x[i], rounded[i])
			}
		}
		v.VPSRLD(operand.U8(16), rounded[0], words)
		v.VPBLENDMW(rounded[1], words, s.odd, words)
		v.VMOVUPS(words, operand.Mem{Base: to, Disp: part * tileBytes})
		if !last {
			for i := range x {
				v.VPANDD(s.upper, rounded[i], rounded[i])
				v.VSUBPS(rounded[i], x[i], x[i])
			}
		}
	}
}

// splitBF16x3 writes the splitting of an operand.
func splitBF16x3(v *simd) {
	v.fn("splitBF16x3AMX", "func(dst, src *float32, row, second, step, rows, steps int)", "splitBF16x3AMX is a splitFunc.")
	dst, src := v.param("dst"), v.param("src")
	row, second, step := v.elements("row"), v.elements("second"), v.elements("step")
	s := v.splitter()
	steps, rows := v.param("steps"), v.param("rows")
	v.Label("step")
	from, to, left := v.GP64(), v.GP64(), v.GP64()
	v.MOVQ(src, from)
	v.MOVQ(dst, to)
	v.MOVQ(rows, left)
	v.Label("row")
	s.words([2]operand.Mem{{Base: from}, {Base: from, Index: second, Scale: 1}}, to)
	v.ADDQ(row, from)
	v.ADDQ(operand.U8(x3Word), to)
	v.DECQ(left)
	v.JNZ(operand.LabelRef("row"))
	v.ADDQ(step, src)
	v.ADDQ(operand.U32(blockBytes), dst)
	v.DECQ(steps)
	v.JNZ(operand.LabelRef("step"))
	v.VZEROUPPER()
	v.RET()
}

// nextColumns splits the columns of B that are multiplied next, while tiles multiply.
type nextColumns struct {
	splitter
	src, row, dst, left, ahead, second reg.GPVirtual
}

func (v *simd) nextColumns() *nextColumns {
	n := &nextColumns{v.splitter(), v.GP64(), v.GP64(), v.GP64(), v.GP64(), v.GP64(), v.GP64()}
	n.begin()
	return n
}

// begin takes the next tile of columns, or none.
func (n *nextColumns) begin() {
	v := n.v
	next := v.param("next")
	for i, r := range []reg.Register{n.src, n.row, n.dst, n.left, n.ahead} {
		v.MOVQ(operand.Mem{Base: next, Disp: 8 * i}, r)
	}
	v.ADDQ(operand.U8(8*5), v.slot("next"))
	v.MOVQ(n.row, n.second)
	v.SHLQ(operand.U8(4), n.second)
}

// words splits some words, if there are any left.
func (n *nextColumns) words(label string) {
	v := n.v
	count := v.param("each")
	v.Label(label)
	v.TESTQ(n.left, n.left)
	v.JZ(operand.LabelRef(label + "None"))
	second := v.GP64()
	v.LEAQ(operand.Mem{Base: n.src, Index: n.second, Scale: 1}, second)
	n.splitter.words([2]operand.Mem{{Base: n.src}, {Base: second}}, n.dst)
	for _, p := range []reg.Register{n.src, second} {
		v.PREFETCHT1(operand.Mem{Base: p, Index: n.ahead, Scale: 1})
	}
	v.ADDQ(n.row, n.src)
	v.ADDQ(operand.U8(x3Word), n.dst)
	v.DECQ(n.left)
	v.TESTQ(operand.U32(15), n.left)
	v.JNZ(operand.LabelRef(label + "Within"))
	v.ADDQ(n.second, n.src)
	v.ADDQ(operand.U32(blockBytes-tileBytes), n.dst)
	v.TESTQ(n.left, n.left)
	v.JNZ(operand.LabelRef(label + "Within"))
	n.begin()
	v.Label(label + "Within")
	v.DECQ(count)
	v.JNZ(operand.LabelRef(label))
	v.Label(label + "None")
}

// tilesBF16x3 writes the kernel of some tiles of columns.
func (v *simd) tilesBF16x3(cols int) {
	name := fmt.Sprintf("gemmBF16x3AMX_%d", cols)
	v.fn(name, "func(tiles, rows int, a, b *float32, steps int, sums, c *float32, cRow, cols, flags int, bad *uint32, next *[15]int, "+
		"each int)", "%s is the bf16x3Func of %d tiles of columns.", name, cols)
	config := v.table("tiles", func() { // all of 16 rows of 16 words
		v.AppendDatum(operand.U64(1))
		v.AppendDatum(operand.U64(0))
		for range amxTiles / 4 {
			v.AppendDatum(operand.U64(0x0040004000400040))
		}
		v.AppendDatum(operand.U64(0))
		v.AppendDatum(operand.U64(0))
		v.AppendDatum(operand.U64(0x1010101010101010))
		v.AppendDatum(operand.U64(0))
	})
	shape := v.GP64()
	v.LEAQ(config, shape)
	v.unknown("LDTILECFG", operand.Mem{Base: shape})
	a := []reg.GPVirtual{v.param("a"), v.GP64()}
	length, row := v.GP64(), v.GP64()
	v.MOVQ(operand.U32(x3Word), row)
	last := v.tail(v.param("cols"))
	v.SHLQ(operand.U8(2), v.slot("cRow")) // bytes from now on
	next := v.nextColumns()
	scale := v.constant(1. / (x3Scale * x3Scale))

	v.Label("tile")
	eachOf(x3RowTiles, cols, func(r, i int) { v.unknown("TILEZERO", tile(r*cols+i)) })
	v.IMUL3Q(operand.U32(blockBytes), v.param("steps"), length)
	v.LEAQ(operand.Mem{Base: a[0], Index: length, Scale: 1}, a[1])
	b := []reg.GPVirtual{v.param("b"), v.GP64()}
	v.LEAQ(operand.Mem{Base: b[0], Index: length, Scale: 1}, b[1])
	ahead, aheadRow, rows := v.param("c"), v.param("cRow"), v.GP64()
	v.MOVQ(operand.U32(32), rows)
	v.Label("ahead")
	for i := range cols {
		v.PREFETCHT0(operand.Mem{Base: ahead, Disp: 64 * i})
	}
	v.ADDQ(aheadRow, ahead)
	v.DECQ(rows)
	v.JNZ(operand.LabelRef("ahead"))
	steps := v.param("steps")
	v.Label("step")
	const tileA, tileB = x3RowTiles * x3ColTiles, x3RowTiles*x3ColTiles + x3RowTiles
	before := [2]int{-1, -1}
	for i, parts := range bf16Products {
		load := func(side int, from reg.GPVirtual, to tile) {
			if parts[side] != before[side] {
				v.unknown("TILELOADD", operand.Mem{Base: from, Index: row, Scale: 1, Disp: parts[side] * tileBytes}, to)
			}
		}
		for r := range x3RowTiles {
			load(0, a[r], tile(tileA+r))
			for i := range cols {
				if r == 0 {
					load(1, b[i], tile(tileB+i))
				}
				v.unknown("TDPBF16PS", tile(tileB+i), tile(tileA+r), tile(r*cols+i))
			}
		}
		before = parts
		next.words(fmt.Sprintf("words%d", i))
	}
	for _, p := range append(a, b...) {
		v.ADDQ(operand.U32(blockBytes), p)
	}
	v.DECQ(steps)
	v.JNZ(operand.LabelRef("step"))
	v.MOVQ(a[1], a[0]) // now below both
	c, cRow, sums := v.param("c"), v.param("cRow"), v.param("sums")
	eachOf(x3RowTiles, cols, func(r, i int) {
		v.unknown("TILESTORED", tile(r*cols+i), operand.Mem{Base: sums, Index: row, Scale: 1, Disp: (i*x3RowTiles + r) * tileBytes})
	})

	// Rows of C follow, but for those with a sum that is not finite.
	from, bad, bit := v.GP64(), v.GP32(), v.GP32()
	v.MOVQ(sums, from)
	v.XORL(bad, bad)
	v.MOVL(operand.U32(1), bit)
	v.Label("row")
	x := v.vecs(cols)
	any := v.K()
	for i := range x {
		v.VMULPS(operand.Mem{Base: from, Disp: i * x3RowTiles * tileBytes}, scale, x[i])
		k := v.K()
		v.VFPCLASSPSZ(operand.U8(0x99), x[i], k)
		if i == 0 {
			any = k
		} else {
			v.KORW(k, any, any)
		}
	}
	v.KTESTW(any, any)
	v.JNZ(operand.LabelRef("bad"))
	masked := func(i int) *mask {
		if i < cols-1 {
			return nil
		}
		return &last
	}
	v.TESTQ(operand.U32(gemmAccumulate), v.slot("flags"))
	v.JZ(operand.LabelRef("store"))
	for i := range x {
		y := v.vec()
		v.load(operand.Mem{Base: c, Disp: 64 * i}, y, masked(i))
		v.VADDPS(y, x[i], x[i])
	}
	v.Label("store")
	for i := range x {
		v.store(x[i], operand.Mem{Base: c, Disp: 64 * i}, masked(i))
	}
	v.Label("below")
	v.ADDQ(cRow, c)
	v.ADDQ(operand.U8(x3Word), from)
	v.DECQ(v.slot("rows"))
	v.JZ(operand.LabelRef("finished"))
	v.ADDL(bit, bit)
	v.JNZ(operand.LabelRef("row"))
	v.Label("finished")
	v.MOVQ(c, v.slot("c"))
	to := v.param("bad")
	v.MOVL(bad, operand.Mem{Base: to})
	v.ADDQ(operand.U8(4), v.slot("bad"))
	v.DECQ(v.slot("tiles"))
	v.JNZ(operand.LabelRef("tile"))
	v.unknown("TILERELEASE")
	v.VZEROUPPER()
	v.RET()
	v.Label("bad")
	v.ORL(bit, bad)
	v.JMP(operand.LabelRef("below"))
}
