package main

import (
	"fmt"

	"github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// depthwisePlaces are the places that share a load of the weights, the most first: as many sums as hide the latency of one.
var depthwisePlaces = []int{8, 4, 1}

const depthwiseSignature = "func(dst *float32, dstRow int, src *float32, srcRow int, offsets *int, taps int, w *float32, wRow int, bias *float32, places int, cols int)"

// depthwise writes the kernel of convolutions each channel of which is one of its own.
func depthwise(v *simd) {
	v.fn("depthwise"+v.name, depthwiseSignature,
		"depthwise%s is a depthwiseFunc.", v.name)
	srcRow, three := v.elements("srcRow"), v.GP64()
	v.LEAQ(operand.Mem{Base: srcRow, Index: srcRow, Scale: 2}, three)
	column, left := v.GP64(), v.param("cols")
	v.XORQ(column, column)
	label := 0
	name := func(text string) string { return fmt.Sprintf("%s%d", text, label) }
	// tile sums up so many places of a vector of channels.
	tile := func(count int, x, y reg.GPVirtual, m *mask) {
		acc := v.vecs(count)
		at := func(name string) reg.GPVirtual {
			p := v.param(name)
			v.ADDQ(column, p)
			return p
		}
		v.load(operand.Mem{Base: at("bias")}, acc[0], m)
		for _, a := range acc[1:] {
			v.VMOVAPS(acc[0], a)
		}
		weights, offsets, taps := at("w"), v.param("offsets"), v.param("taps")
		wv, xv, near, far := v.vec(), v.vec(), v.GP64(), v.GP64()
		tap := name("tap")
		v.Label(tap)
		v.MOVQ(operand.Mem{Base: offsets}, near)
		v.ADDQ(x, near)
		v.load(operand.Mem{Base: weights}, wv, m)
		if count > 4 {
			v.LEAQ(operand.Mem{Base: near, Index: srcRow, Scale: 4}, far)
		}
		for i, a := range acc {
			from := stepped(near, far, srcRow, three, i)
			if m == nil {
				v.VFMADD231PS(from, wv, a)
				continue
			}
			v.load(from, xv, m)
			v.VFMADD231PS(xv, wv, a)
		}
		v.ADDQ(operand.U8(8), offsets)
		row := v.elements("wRow")
		v.ADDQ(row, weights)
		v.DECQ(taps)
		v.JNZ(operand.LabelRef(tap))
		row = v.elements("dstRow")
		for _, a := range acc {
			v.store(a, operand.Mem{Base: y}, m)
			v.ADDQ(row, y)
		}
		for range count {
			v.ADDQ(srcRow, x)
		}
	}
	rows := func(m *mask) {
		x, y, places := v.param("src"), v.param("dst"), v.param("places")
		v.ADDQ(column, x)
		v.ADDQ(column, y)
		for _, count := range depthwisePlaces {
			label++
			loop, end := name("places"), name("fewer")
			v.Label(loop)
			v.CMPQ(places, operand.U8(count))
			v.JL(operand.LabelRef(end))
			tile(count, x, y, m)
			v.SUBQ(operand.U8(count), places)
			v.JMP(operand.LabelRef(loop))
			v.Label(end)
		}
	}
	v.Label("columns")
	v.CMPQ(left, operand.U8(v.lanes))
	v.JL(operand.LabelRef("tail"))
	rows(nil)
	v.ADDQ(operand.U8(4*v.lanes), column)
	v.SUBQ(operand.U8(v.lanes), left)
	v.JMP(operand.LabelRef("columns"))
	v.Label("tail")
	v.TESTQ(left, left)
	v.JZ(operand.LabelRef("end"))
	m := v.tail(left)
	rows(&m)
	v.Label("end")
	v.VZEROUPPER()
	v.RET()
}

// stepped is where element i lies, of up to eight that are step bytes apart from base on: far is four steps further, and three is three steps.
func stepped(base, far, step, three reg.GPVirtual, i int) operand.Mem {
	m := operand.Mem{Base: base}
	if i >= 4 {
		m.Base = far
	}
	switch i % 4 {
	case 1, 2:
		m.Index, m.Scale = step, uint8(i%4)
	case 3:
		m.Index, m.Scale = three, 1
	}
	return m
}
