package main

import (
	"fmt"
	"math"

	"github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// gemmAMX writes the kernels of AMX: a tile register holds 16 rows of 16 words. A kernel covers up to 2 × 3 of them with
// sums; all that it does to tiles happens between its own LDTILECFG and TILERELEASE, where no goroutine is switched.
// Tiles of B pass the L1 cache by (TILELOADDT1): a tile of A stays there while panel after panel comes from the L2 cache. A prefetch of B
// was measured to cost more than it gains, to either cache; one of C, to gain nothing.
func gemmAMX(v *simd) {
	for _, kind := range amxKinds {
		fmt.Fprintf(&v.extra, "\n// gemmAMX%s holds the kernels by tiles of rows and of columns.\n", kind.name)
		fmt.Fprintf(&v.extra, "var gemmAMX%s = [amxRowTiles + 1][amxColTiles + 1]amxFunc{\n", kind.name)
		for rows := 1; rows <= amxRowTiles; rows++ {
			fmt.Fprintf(&v.extra, "%d: {", rows)
			for cols := 1; cols <= amxColTiles; cols++ {
				name := fmt.Sprintf("gemmAMX%s_%dx%d", kind.name, rows, cols)
				v.fn(name, amxSignature, "%s is the amxFunc of %d × %d tiles.", name, rows, cols)
				amxKernel(v, kind, rows, cols)
				fmt.Fprintf(&v.extra, "%d: %s, ", cols, name)
			}
			fmt.Fprintf(&v.extra, "},\n")
		}
		fmt.Fprintf(&v.extra, "}\n")
	}
}

// amxKind is what distinguishes one kind of product from another.
type amxKind struct {
	name, multiply string
	sums           bool // the result is the sums, without an epilogue
	integers       bool // the sums become floats by an offset and a factor for each column
	activation     func(v *simd, x reg.Register)
}

var amxKinds = []amxKind{
	{name: "BF16", multiply: "TDPBF16PS"},
	{name: "S8", multiply: "TDPBUSD", sums: true},
	{name: "S8Scaled", multiply: "TDPBUSD", integers: true},
	{name: "S8Gelu", multiply: "TDPBUSD", integers: true, activation: (*simd).gelu},
}

const amxSignature = "func(config *[64]byte, tiles, rows, steps int, a *float32, aRow int, b *float32, bRow int, c *float32, cRow, cols " +
	"int, alpha float32, bias, res *float32, resRow int, flags int, next *[12]int, beside int, zero int32, colSums *int32, " +
	"colScale *float32)"

// Where next has what, in bytes; as in kernel/amx_amd64.go.
const (
	amxNextDown   = 5 * 8
	amxNextPanels = 10 * 8
	amxNextRows   = 11 * 8
)

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
//
// The sums of a tile are stored one register after the other in the first step of the next tile, each where its register is wanted.
// Vectors finish them while the next tile multiplies: a few rows after each step.
func amxKernel(v *simd, kind amxKind, rowTiles, colTiles int) {
	eachSum := func(rows amxRows, do func(t tile, at operand.Mem)) {
		eachOf(rowTiles, colTiles, func(r, i int) { do(tile(r*colTiles+i), rows.at(r, 64*i)) })
	}
	store := func(t tile, at operand.Mem) { v.unknown("TILESTORED", t, at) }
	zero := func(t tile, _ operand.Mem) { v.unknown("TILEZERO", t) }
	v.unknown("LDTILECFG", operand.Mem{Base: v.param("config")})
	for _, row := range []string{"aRow", "bRow", "cRow", "resRow"} {
		v.SHLQ(operand.U8(2), v.slot(row)) // bytes from now on
	}
	var done *amxEpilogue
	if !kind.sums {
		done = newAMXEpilogue(v, kind, rowTiles, colTiles)
	}
	a, b, bRow, steps := v.newAMXRows(rowTiles), v.GP64(), v.GP64(), v.GP64()
	operands := func() {
		a.point(v, "a", "aRow")
		v.Load(v.Param("b"), b)
		v.Load(v.Param("bRow"), bRow)
		v.Load(v.Param("steps"), steps)
	}
	finish := func(label string, all func(n reg.GPVirtual)) { // rows of the tile before
		if done == nil {
			return
		}
		n := v.GP64()
		if kind.activation == nil {
			v.MOVQ(operand.Mem{Base: v.param("next"), Disp: amxNextRows}, n)
		} else { // long chains of operations, which wait where the next step would
			v.MOVQ(operand.U32(1), n)
		}
		all(n)
		done.rows(label, func() {
			v.DECQ(n)
			v.JNZ(operand.LabelRef(label))
		})
	}
	step := func(multiply func(t tile), between func()) {
		amxStep(rowTiles, colTiles, between,
			func(r int, t tile) { v.unknown("TILELOADD", a.at(r, 0), t) },
			func(i int, t tile) {
				v.unknown("TILELOADDT1", operand.Mem{Base: b, Index: bRow, Scale: 1, Disp: 64 * i}, t)
			},
			func(x, y tile, r, i int) {
				sum := tile(r*colTiles + i)
				multiply(sum)
				v.unknown(kind.multiply, y, x, sum)
			})
	}
	operands()
	v.JMP(operand.LabelRef("first"))

	v.Label("tile") // the sums of one are there
	c := v.newAMXRows(rowTiles)
	if done != nil {
		v.CMPQ(v.slot("tiles"), operand.U8(0))
		v.JE(operand.LabelRef("end"))
		done.begin(c)
	} else {
		c.point(v, "c", "cRow")
	}
	amxAdvance(v)
	v.DECQ(v.slot("tiles"))
	v.JZ(operand.LabelRef("last"))
	operands()
	v.TESTQ(steps, steps)
	v.JZ(operand.LabelRef("apart"))
	v.TESTQ(operand.U32(gemmAccumulate), v.slot("flags"))
	v.JNZ(operand.LabelRef("apart"))
	step(func(t tile) {
		at := c.at(int(t)/colTiles, 64*(int(t)%colTiles))
		store(t, at)
		zero(t, at)
	}, func() {})
	v.JMP(operand.LabelRef("stepped"))
	v.Label("apart")
	eachSum(c, store)

	v.Label("first")
	v.TESTQ(operand.U32(gemmAccumulate), v.slot("flags"))
	v.JZ(operand.LabelRef("zero"))
	from := v.newAMXRows(rowTiles)
	from.point(v, "c", "cRow")
	eachSum(from, func(t tile, at operand.Mem) { v.unknown("TILELOADD", at, t) })
	v.JMP(operand.LabelRef("start"))
	v.Label("zero")
	eachSum(from, zero)
	v.Label("start")
	v.TESTQ(steps, steps)
	v.JZ(operand.LabelRef("empty"))
	v.Label("loop")
	step(func(tile) {}, func() { finish("column", func(reg.GPVirtual) {}) })
	v.Label("stepped")
	for _, base := range a.bases {
		v.ADDQ(operand.U8(64), base)
	}
	bStep := v.GP64()
	v.MOVQ(bRow, bStep)
	v.SHLQ(operand.U8(4), bStep)
	v.ADDQ(bStep, b)
	finish("step", func(n reg.GPVirtual) { // after the last step, what is left
		v.CMPQ(steps, operand.U8(1))
		v.CMOVQEQ(v.slot("rows"), n)
	})
	v.DECQ(steps)
	v.JNZ(operand.LabelRef("loop"))
	v.JMP(operand.LabelRef("tile"))

	v.Label("last")
	eachSum(c, store)
	if done == nil {
		v.JMP(operand.LabelRef("end"))
	}
	v.Label("empty") // nothing is multiplied, but rows are finished
	v.MOVQ(operand.U32(1), steps)
	v.JMP(operand.LabelRef("stepped"))
	v.Label("end")
	v.unknown("TILERELEASE")
	v.VZEROUPPER()
	v.RET()
}

// amxAdvance brings what is different for each tile to the next one.
func amxAdvance(v *simd) {
	next := v.param("next")
	v.DECQ(v.slot("beside"))
	v.JNZ(operand.LabelRef("next"))
	panels := v.GP64()
	v.MOVQ(operand.Mem{Base: next, Disp: amxNextPanels}, panels)
	v.MOVQ(panels, v.slot("beside"))
	v.ADDQ(operand.U8(amxNextDown), next)
	v.Label("next")
	for i, p := range []string{"a", "b", "c", "res", "bias", "colSums", "colScale"} {
		by := v.GP64()
		v.MOVQ(operand.Mem{Base: next, Disp: 8 * min(i, 4)}, by)
		if p == "res" || p == "bias" { // none stays none
			none := v.param(p)
			v.TESTQ(none, none)
			v.CMOVQEQ(none, by)
		}
		v.ADDQ(by, v.slot(p))
	}
}

// amxStep multiplies tiles of A and B, with other work before the last column. Where the sums leave too few registers each tile
// that comes replaces the one before it: registers are renamed.
func amxStep(rows, cols int, between func(), loadA, loadB func(i int, t tile), multiply func(x, y tile, r, i int)) {
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
			if i == cols-2 {
				between()
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
		if i == cols-2 {
			between()
		}
	}
}

// amxRows reaches the tiles of rows that are below each other.
type amxRows struct {
	bases  []reg.GPVirtual
	stride reg.GPVirtual
}

func (v *simd) newAMXRows(rowTiles int) amxRows {
	p := amxRows{stride: v.GP64()}
	for range rowTiles {
		p.bases = append(p.bases, v.GP64())
	}
	return p
}

// point reads where the rows are from parameters.
func (p amxRows) point(v *simd, first, stride string) {
	v.Load(v.Param(first), p.bases[0])
	v.Load(v.Param(stride), p.stride)
	p.below(v)
}

// below finds the second tile.
func (p amxRows) below(v *simd) {
	if len(p.bases) == 2 {
		second := p.bases[1]
		v.Load(v.Param("rows"), second)
		v.SHRQ(operand.U8(1), second)
		v.IMULQ(p.stride, second)
		v.ADDQ(p.bases[0], second)
	}
}

func (p amxRows) at(tile, bytes int) operand.Mem {
	return operand.Mem{Base: p.bases[tile], Index: p.stride, Scale: 1, Disp: bytes}
}

// amxEpilogue brings sums to C row by row: scale, add the bias, clamp or apply an activation, add the residual. They wait in the
// L1 cache: to C, which is in no cache, the rows of a tile would go one line after the other.
type amxEpilogue struct {
	amxKind
	v                      *simd
	rowTiles               int
	waiting                operand.Mem
	left, sums, c, res     reg.GPVirtual
	alpha, least, most     reg.VecVirtual
	biases, offset, factor []reg.VecVirtual // by vector
	last                   mask
}

func newAMXEpilogue(v *simd, kind amxKind, rowTiles, vecs int) *amxEpilogue {
	v.Attributes(0)             // the stack has to have room
	if kind.activation != nil { // of 3 × 3 vectors for the columns, 3 sums and what an activation needs, this leaves registers
		v.preloadAtMost(9, func() { kind.activation(v, v.vec()) })
	}
	e := &amxEpilogue{amxKind: kind, v: v, rowTiles: rowTiles, waiting: v.AllocLocal(rowTiles*vecs*tileBytes + cacheLine),
		left: v.GP64(), sums: v.GP64(), c: v.GP64(), res: v.GP64(), biases: v.vecs(vecs)}
	flags := v.param("flags")
	if e.integers {
		e.offset, e.factor = v.vecs(vecs), v.vecs(vecs)
	} else {
		e.alpha = v.constant(1)
		v.TESTQ(operand.U32(gemmScale), flags)
		v.JZ(operand.LabelRef("unscaled"))
		v.VBROADCASTSS(v.slot("alpha"), e.alpha)
		v.Label("unscaled")
	}
	if e.activation == nil {
		e.least = v.constant(math.Inf(-1))
		v.TESTQ(operand.U32(gemmRelu), flags)
		v.JZ(operand.LabelRef("unclamped"))
		v.zero(e.least)
		v.Label("unclamped")
	}
	if !e.integers {
		e.most = v.constant(math.Inf(1))
		v.TESTQ(operand.U32(gemmAtMost), flags)
		v.JZ(operand.LabelRef("unlimited"))
		v.VBROADCASTSS(v.slot("alpha"), e.most)
		v.Label("unlimited")
	}
	for _, x := range e.biases {
		v.zero(x)
	}
	e.last = v.tail(v.param("cols"))
	v.XORQ(e.left, e.left)
	return e
}

func (e *amxEpilogue) each(do func(i int, m *mask)) {
	for i := range e.biases {
		m := &e.last
		if i < len(e.biases)-1 {
			m = nil
		}
		do(i, m)
	}
}

// begin starts with sums that are to be stored where it points.
func (e *amxEpilogue) begin(to amxRows) {
	v := e.v
	v.LEAQ(e.waiting.Offset(cacheLine-1), e.sums)
	v.ANDQ(operand.I8(-cacheLine), e.sums)
	v.MOVQ(v.slot("c"), e.c)
	v.MOVQ(v.slot("res"), e.res)
	v.MOVQ(v.slot("rows"), e.left)
	vector := func(name string, to []reg.VecVirtual) {
		p := v.param(name)
		v.TESTQ(p, p)
		v.JZ(operand.LabelRef("no" + name))
		e.each(func(i int, m *mask) { v.load(operand.Mem{Base: p, Disp: 64 * i}, to[i], m) })
		v.Label("no" + name)
	}
	vector("bias", e.biases)
	if e.integers {
		vector("colSums", e.offset)
		vector("colScale", e.factor)
		zero, alpha := v.spreadInt("zero"), v.spreadFloat("alpha")
		for i := range e.offset {
			v.VPMULLD(zero, e.offset[i], e.offset[i])
			v.VMULPS(alpha, e.factor[i], e.factor[i])
		}
	}
	v.MOVQ(e.sums, to.bases[0])
	v.MOVQ(operand.U32(e.bytes()), to.stride)
	to.below(v)
}

// bytes is the length of a row of sums.
func (e *amxEpilogue) bytes() int { return 64 * len(e.biases) }

// rows finishes a row at a label, and others while again jumps there.
func (e *amxEpilogue) rows(label string, again func()) {
	v := e.v
	v.Label(label)
	v.TESTQ(e.left, e.left)
	v.JZ(operand.LabelRef(label + "None"))
	xs := v.vecs(len(e.biases))
	for i, x := range xs {
		from := operand.Mem{Base: e.sums, Disp: 64 * i}
		if e.integers {
			v.VMOVUPS(from, x)
			v.VPSUBD(e.offset[i], x, x)
			v.VCVTDQ2PS(x, x)
			v.VMULPS(e.factor[i], x, x)
		} else {
			v.VMULPS(from, e.alpha, x)
		}
		v.VADDPS(e.biases[i], x, x)
		if e.activation != nil {
			e.activation(v, x)
			continue
		}
		// The second source (first operand in Go's order) is the result where one is NaN: a NaN stays.
		v.VMAXPS(x, e.least, x)
		if !e.integers {
			v.VMINPS(x, e.most, x)
		}
	}
	v.TESTQ(e.res, e.res)
	v.JZ(operand.LabelRef(label + "Unadded"))
	e.each(func(i int, m *mask) {
		y := v.vec()
		v.load(operand.Mem{Base: e.res, Disp: 64 * i}, y, m)
		v.VADDPS(y, xs[i], xs[i])
	})
	v.ADDQ(v.slot("resRow"), e.res)
	v.Label(label + "Unadded")
	e.each(func(i int, m *mask) { v.store(xs[i], operand.Mem{Base: e.c, Disp: 64 * i}, m) })
	v.ADDQ(operand.U32(e.bytes()), e.sums)
	v.ADDQ(v.slot("cRow"), e.c)
	v.DECQ(e.left)
	again()
	v.Label(label + "None")
}
