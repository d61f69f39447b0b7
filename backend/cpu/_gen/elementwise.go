package main

import (
	"fmt"

	"github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// matrix is an operand of a kernel that walks rows × cols elements: the pointer to the current row, and the parameter
// that holds the distance of its rows. It is read again for every row, because registers are few.
type matrix struct {
	pointer reg.GPVirtual
	row     string
}

// matrix takes an operand from the parameters NAME and NAMERow.
func (g *gen) matrix(name string) matrix { return matrix{g.param(name), name + "Row"} }

// vector takes an operand that all rows share.
func (g *gen) vector(name string) matrix { return matrix{pointer: g.param(name)} }

// nextRow moves the operand on.
func (g *gen) nextRow(m matrix) {
	if m.row != "" {
		g.ADDQ(g.elements(m.row), m.pointer)
	}
}

// eachVector walks the parameters rows × cols vector by vector, with a masked vector at the end of a row if need be.
// rowStart is called at the start of every row, body with the addresses of the operands.
func (v *simd) eachVector(operands []matrix, rowStart func(), body func(at []operand.Mem, m *mask)) {
	rows, cols := v.param("rows"), v.param("cols")
	tailCols, whole, i := v.GP64(), v.GP64(), v.GP64()
	v.MOVQ(cols, tailCols)
	v.ANDQ(operand.U32(v.lanes-1), tailCols)
	v.MOVQ(cols, whole)
	v.SUBQ(tailCols, whole)
	v.SHLQ(operand.U8(2), whole) // bytes in whole vectors
	hasTail := v.GP64()
	v.MOVQ(tailCols, hasTail)
	m := v.tail(tailCols)
	at := make([]operand.Mem, len(operands))
	for o, op := range operands {
		at[o] = operand.Mem{Base: op.pointer, Index: i, Scale: 1}
	}

	v.Label("row")
	if rowStart != nil {
		rowStart()
	}
	v.XORQ(i, i)
	v.CMPQ(i, whole)
	v.JE(operand.LabelRef("tail"))
	v.Label("vector")
	body(at, nil)
	v.ADDQ(operand.U32(4*v.lanes), i)
	v.CMPQ(i, whole)
	v.JB(operand.LabelRef("vector"))
	v.Label("tail")
	v.TESTQ(hasTail, hasTail)
	v.JZ(operand.LabelRef("next"))
	body(at, &m)
	v.Label("next")
	for _, op := range operands {
		v.nextRow(op)
	}
	v.DECQ(rows)
	v.JNZ(operand.LabelRef("row"))
}

func elementwise(v *simd) {
	unaryKernels(v)
	binaryKernels(v)
}

// unaryKernels writes the functions of one float and their table.
func unaryKernels(v *simd) {
	const signature = "func(dst *float32, dstRow int, src *float32, srcRow int, rows, cols int"
	write := func(name, signature, doc string, params int, emit func(v *simd, x, a, b reg.Register)) {
		v.fn(name, signature, doc, name)
		v.preload(func() { emit(v, v.vec(), v.vec(), v.vec()) })
		var with [2]reg.Register
		for i, param := range []string{"alpha", "beta"}[:params] {
			with[i] = v.vec()
			v.VBROADCASTSS(v.slot(param), with[i])
		}
		v.eachVector([]matrix{v.matrix("dst"), v.matrix("src")}, nil, func(at []operand.Mem, m *mask) {
			x := v.vec()
			v.load(at[1], x, m)
			emit(v, x, with[0], with[1])
			v.store(x, at[0], m)
		})
		v.VZEROUPPER()
		v.RET()
	}
	write("copyRows"+v.name, signature+")", "%s is the rowsFunc of copying.", 0, unaryTable[0].amd64)
	fmt.Fprintf(&v.extra, "\nvar unary%s = [NumUnary]unaryFunc{\n", v.name)
	for _, k := range unaryTable {
		name := "unary" + v.name + "_" + k.op
		write(name, signature+", alpha, beta float32)", "%s is the unaryFunc of "+k.op+".", k.params, k.amd64)
		fmt.Fprintf(&v.extra, "%s: %s,\n", k.op, name)
	}
	fmt.Fprintf(&v.extra, "}\n")
}

// binaryKernels writes the functions of two floats, in the three forms of kernel/binary.go, and their table.
func binaryKernels(v *simd) {
	ops := []struct {
		op   string
		emit func(x, y, to reg.Register) // to = x op y; to may be x or y
	}{
		{"Add", v.add},
		{"Sub", func(x, y, to reg.Register) { v.VSUBPS(y, x, to) }},
		{"Mul", func(x, y, to reg.Register) { v.VMULPS(y, x, to) }},
		{"Div", func(x, y, to reg.Register) { v.VDIVPS(y, x, to) }},
		{"Min", v.least},
		{"Max", v.most},
		{"PRelu", v.prelu},
	}
	fmt.Fprintf(&v.extra, "\nvar binary%s = [NumBinary][numBinaryForms]binaryFunc{\n", v.name)
	for _, k := range ops {
		fmt.Fprintf(&v.extra, "%s: {", k.op)
		for _, form := range []string{"elementwise", "perRow", "perRowLeft"} {
			name := "binary" + v.name + "_" + k.op + "_" + form
			v.fn(name, "func(dst *float32, dstRow int, a *float32, aRow int, b *float32, bRow int, rows, cols int)",
				"%s is the binaryFunc of %s, %s.", name, k.op, form)
			dst, a, b := v.matrix("dst"), v.matrix("a"), v.matrix("b")
			if form == "elementwise" {
				v.eachVector([]matrix{dst, a, b}, nil, func(at []operand.Mem, m *mask) {
					x, y := v.vec(), v.vec()
					v.load(at[1], x, m)
					v.load(at[2], y, m)
					k.emit(x, y, x)
					v.store(x, at[0], m)
				})
			} else {
				y := v.vec()
				v.eachVector([]matrix{dst, a}, func() {
					v.VBROADCASTSS(operand.Mem{Base: b.pointer}, y)
					v.nextRow(b)
				}, func(at []operand.Mem, m *mask) {
					x := v.vec()
					v.load(at[1], x, m)
					if form == "perRow" {
						k.emit(x, y, x)
					} else {
						k.emit(y, x, x)
					}
					v.store(x, at[0], m)
				})
			}
			v.VZEROUPPER()
			v.RET()
			fmt.Fprintf(&v.extra, "%s: %s, ", form, name)
		}
		fmt.Fprintf(&v.extra, "},\n")
	}
	fmt.Fprintf(&v.extra, "}\n")
}

// prelu is x·y where x is below 0, and x otherwise.
func (v *simd) prelu(x, y, to reg.Register) {
	result, below := v.vec(), v.vec()
	v.VMOVAPS(x, result)
	v.VMULPS(y, x, below)
	v.choose(less, x, v.zeros(), below, result)
	v.VMOVAPS(result, to)
}

// extreme writes a minimum or maximum that is NaN if either operand is: the instruction returns its second source
// where one is NaN, so a NaN in the first is put back.
func (v *simd) extreme(op func(ops ...operand.Op), x, y, to reg.Register) {
	const unordered = 3
	result := v.vec()
	if v.wide {
		op(y, x, result)
		isNaN := v.K()
		v.VCMPPS(operand.U8(unordered), x, x, isNaN)
		v.VMOVAPS(x, isNaN, result)
	} else {
		op(y, x, result)
		isNaN := v.vec()
		v.VCMPPS(operand.U8(unordered), x, x, isNaN)
		v.VBLENDVPS(isNaN, x, result, result)
	}
	v.VMOVAPS(result, to)
}
