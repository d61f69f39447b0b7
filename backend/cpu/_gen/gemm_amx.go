package main

import (
	"fmt"
	"math"

	"github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// gemmAMX writes the kernels of AMX: a tile register holds 16 rows of 16 words. A kernel covers up to 2 × 3 of them with
// sums; all that it does to tiles happens between its own LDTILECFG and TILERELEASE, where no goroutine is switched.
// It prefetches nothing: the processor sees what is read from panels as well by itself.
func gemmAMX(v *simd) {
	for _, kind := range []struct {
		name, multiply string
		integers       bool
	}{{"BF16", "TDPBF16PS", false}, {"S8", "TDPBUSD", true}} {
		fmt.Fprintf(&v.extra, "\n// gemmAMX%s holds the kernels by tiles of rows and of columns.\n", kind.name)
		fmt.Fprintf(&v.extra, "var gemmAMX%s = [amxRowTiles + 1][amxColTiles + 1]amxFunc{\n", kind.name)
		for rows := 1; rows <= amxRowTiles; rows++ {
			fmt.Fprintf(&v.extra, "%d: {", rows)
			for cols := 1; cols <= amxColTiles; cols++ {
				name := fmt.Sprintf("gemmAMX%s_%dx%d", kind.name, rows, cols)
				v.fn(name, amxSignature, "%s is the amxFunc of %d × %d tiles.", name, rows, cols)
				amxKernel(v, kind.multiply, rows, cols, kind.integers)
				fmt.Fprintf(&v.extra, "%d: %s, ", cols, name)
			}
			fmt.Fprintf(&v.extra, "},\n")
		}
		fmt.Fprintf(&v.extra, "}\n")
	}
}

const amxSignature = "func(config *[64]byte, tiles, rows, steps int, a *float32, aRow int, b *float32, bRow int, c *float32, cRow, cols " +
	"int, alpha float32, bias, res *float32, resRow int, flags int)"

// As in kernel/gemm_amx.go.
const (
	amxRowTiles = 2
	amxColTiles = 3
	amxTiles    = 8 // registers
)

const (
	tileBytes = 1 << 10
	cacheLine = 64
)

// amxKernel writes one kernel. The second tile of rows starts in the middle of the rows: where their number is odd both
// compute the row in the middle, so that they have equal heights.
func amxKernel(v *simd, multiply string, rowTiles, colTiles int, integers bool) {
	eachSum := func(rows amxRows, do func(t tile, at operand.Mem)) {
		eachOf(rowTiles, colTiles, func(r, i int) { do(tile(r*colTiles+i), rows.at(r, 64*i)) })
	}
	config := v.param("config")
	v.unknown("LDTILECFG", operand.Mem{Base: config})
	v.Label("tile")
	a, c := v.amxRows(v.param("a"), v.elements("aRow"), rowTiles), v.amxRows(v.param("c"), v.elements("cRow"), rowTiles)
	b, bRow := v.param("b"), v.elements("bRow")
	v.TESTQ(operand.U32(gemmAccumulate), v.slot("flags"))
	v.JZ(operand.LabelRef("zero"))
	eachSum(c, func(t tile, at operand.Mem) { v.unknown("TILELOADD", at, t) })
	v.JMP(operand.LabelRef("start"))
	v.Label("zero")
	eachSum(c, func(t tile, _ operand.Mem) { v.unknown("TILEZERO", t) })

	v.Label("start")
	bStep := v.GP64()
	v.MOVQ(bRow, bStep)
	v.SHLQ(operand.U8(4), bStep)
	steps := v.param("steps")
	v.TESTQ(steps, steps)
	v.JZ(operand.LabelRef("done"))
	v.Label("loop")
	amxStep(rowTiles, colTiles,
		func(r int, t tile) { v.unknown("TILELOADD", a.at(r, 0), t) },
		func(i int, t tile) {
			v.unknown("TILELOADD", operand.Mem{Base: b, Index: bRow, Scale: 1, Disp: 64 * i}, t)
		},
		func(x, y tile, r, i int) { v.unknown(multiply, y, x, tile(r*colTiles+i)) })
	for _, base := range a.bases {
		v.ADDQ(operand.U8(64), base)
	}
	v.ADDQ(bStep, b)
	v.DECQ(steps)
	v.JNZ(operand.LabelRef("loop"))
	v.Label("done")
	store := func(t tile, at operand.Mem) { v.unknown("TILESTORED", t, at) }
	if integers {
		eachSum(c, store)
	} else {
		// Not to C at once, which is in no cache: the rows of a tile would wait for one line after the other.
		v.Attributes(0) // the stack has to have room
		sums, row := v.GP64(), v.GP64()
		v.LEAQ(v.AllocLocal(rowTiles*colTiles*tileBytes+cacheLine).Offset(cacheLine-1), sums)
		v.ANDQ(operand.I8(-cacheLine), sums)
		v.MOVQ(operand.U32(64*colTiles), row)
		eachSum(v.amxRows(sums, row, rowTiles), store)
		amxEpilogue(v, sums, row, colTiles)
	}
	nextRows(v, func(by reg.Register) { v.IMULQ(v.slot("rows"), by) })
	v.DECQ(v.slot("tiles"))
	v.JNZ(operand.LabelRef("tile"))
	v.unknown("TILERELEASE")
	v.VZEROUPPER()
	v.RET()
}

// amxStep multiplies tiles of A and B. Where the sums leave too few registers each tile that comes replaces the one before
// it: registers are renamed.
func amxStep(rows, cols int, loadA, loadB func(i int, t tile), multiply func(x, y tile, r, i int)) {
	a, b := tile(rows*cols), tile(rows*cols+rows)
	if rows*cols+rows+cols <= amxTiles {
		for i := range cols {
			loadB(i, b+tile(i))
			for r := range rows {
				if i == 0 {
					loadA(r, a+tile(r))
				}
				multiply(a+tile(r), b+tile(i), r, i)
			}
		}
		return
	}
	b = a + 1
	for i := range cols {
		loadB(i, b)
		for j := range rows {
			r := (i + j) % rows // the last one is still there
			if i == 0 || j > 0 {
				loadA(r, a)
			}
			multiply(a, b, r, i)
		}
	}
}

// amxRows reaches the tiles of rows that lie below each other.
type amxRows struct {
	bases  []reg.GPVirtual
	stride reg.GPVirtual
}

func (v *simd) amxRows(first, stride reg.GPVirtual, rowTiles int) amxRows {
	p := amxRows{[]reg.GPVirtual{first}, stride}
	if rowTiles == 2 {
		second := v.param("rows")
		v.SHRQ(operand.U8(1), second)
		v.IMULQ(stride, second)
		v.ADDQ(first, second)
		p.bases = append(p.bases, second)
	}
	return p
}

func (p amxRows) at(tile, bytes int) operand.Mem {
	return operand.Mem{Base: p.bases[tile], Index: p.stride, Scale: 1, Disp: bytes}
}

// amxEpilogue brings sums to C row by row: scale, add the bias, clamp at zero, add the residual.
func amxEpilogue(v *simd, sums, sumsRow reg.GPVirtual, vecs int) {
	last := v.tail(v.param("cols"))
	eachVec := func(do func(i int, m *mask)) {
		for i := range vecs {
			m := &last
			if i < vecs-1 {
				m = nil
			}
			do(i, m)
		}
	}
	flags, bias, res := v.param("flags"), v.param("bias"), v.param("res")
	alpha, least, biases := v.constant(1), v.constant(math.Inf(-1)), v.vecs(vecs)
	v.TESTQ(operand.U32(gemmScale), flags)
	v.JZ(operand.LabelRef("unscaled"))
	v.VBROADCASTSS(v.slot("alpha"), alpha)
	v.Label("unscaled")
	for _, x := range biases {
		v.zero(x)
	}
	v.TESTQ(bias, bias)
	v.JZ(operand.LabelRef("unbiased"))
	eachVec(func(i int, m *mask) { v.load(operand.Mem{Base: bias, Disp: 64 * i}, biases[i], m) })
	v.Label("unbiased")
	v.TESTQ(operand.U32(gemmRelu), flags)
	v.JZ(operand.LabelRef("unclamped"))
	v.zero(least)
	v.Label("unclamped")
	rows, c, cRow, resRow := v.param("rows"), v.param("c"), v.elements("cRow"), v.elements("resRow")
	v.Label("row")
	xs := v.vecs(vecs)
	for i, x := range xs {
		v.VMULPS(operand.Mem{Base: sums, Disp: 64 * i}, alpha, x)
		v.VADDPS(biases[i], x, x)
		// The second source (first operand in Go's order) is the result where one is NaN: a NaN stays.
		v.VMAXPS(x, least, x)
	}
	v.TESTQ(res, res)
	v.JZ(operand.LabelRef("unadded"))
	eachVec(func(i int, m *mask) {
		y := v.vec()
		v.load(operand.Mem{Base: res, Disp: 64 * i}, y, m)
		v.VADDPS(y, xs[i], xs[i])
	})
	v.ADDQ(resRow, res)
	v.Label("unadded")
	eachVec(func(i int, m *mask) { v.store(xs[i], operand.Mem{Base: c, Disp: 64 * i}, m) })
	v.ADDQ(sumsRow, sums)
	v.ADDQ(cRow, c)
	v.DECQ(rows)
	v.JNZ(operand.LabelRef("row"))
}
