package main

import (
	"fmt"

	"github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// depthwisePositions are the positions that share a load of the weights, the most first: as many sums as hide the latency of one.
var depthwisePositions = []int{8, 4, 1}

const depthwiseSignature = "func(dst *float32, dstRow int, src *float32, srcRow int, offsets *int, taps int, w *float32, wRow int, bias " +
	"*float32, places int, cols int, least, most float32)"

// depthwise writes the kernel of depthwise convolutions.
func depthwise(v *simd) {
	depthwiseKernel(v, v.name, "a depthwiseFunc", true, func(from operand.Op, weights, acc reg.VecVirtual) {
		v.VFMADD231PS(from, weights, acc)
	})
}

// depthwiseVNNI writes the same of words, four taps in a row of the window, and what makes words of neighbouring pixels.
func depthwiseVNNI(v *simd) {
	depthwiseKernel(v, "VNNI", "a depthwiseFunc of words, which have no bounds", false, func(from operand.Op, weights, acc reg.VecVirtual) {
		x := from
		if mem, ok := from.(operand.Mem); ok { // the operand that may be memory is the signed one
			r := v.vec()
			v.VMOVUPS(mem, r)
			x = r
		}
		v.VPDPBUSD(weights, x, acc)
	})
	slideKernel(v, 1)
	slideKernel(v, 2)
}

func depthwiseKernel(v *simd, name, is string, bounded bool, add func(from operand.Op, weights, acc reg.VecVirtual)) {
	v.fn("depthwise"+name, depthwiseSignature, "depthwise%s is %s.", name, is)
	srcRow, three := v.elements("srcRow"), v.GP64()
	v.LEAQ(operand.Mem{Base: srcRow, Index: srcRow, Scale: 2}, three)
	column, left := v.GP64(), v.param("cols")
	v.XORQ(column, column)
	bounds := v.vecs(2)
	if bounded {
		v.VBROADCASTSS(v.slot("least"), bounds[0])
		v.VBROADCASTSS(v.slot("most"), bounds[1])
	}
	label := 0
	numbered := func(text string) string { return fmt.Sprintf("%s%d", text, label) }
	// tile sums a number of positions of a vector of channels.
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
		tap := numbered("tap")
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
				add(from, wv, a)
				continue
			}
			v.load(from, xv, m)
			add(xv, wv, a)
		}
		v.ADDQ(operand.U8(8), offsets)
		row := v.elements("wRow")
		v.ADDQ(row, weights)
		v.DECQ(taps)
		v.JNZ(operand.LabelRef(tap))
		row = v.elements("dstRow")
		for _, a := range acc {
			if bounded {
				v.clamp(a, bounds[0], bounds[1])
			}
			v.store(a, operand.Mem{Base: y}, m)
			v.ADDQ(row, y)
		}
		for range count {
			v.ADDQ(srcRow, x)
		}
	}
	rows := func(_ string, m *mask) {
		x, y, places := v.param("src"), v.param("dst"), v.param("places")
		v.ADDQ(column, x)
		v.ADDQ(column, y)
		for _, count := range depthwisePositions {
			label++
			loop, end := numbered("places"), numbered("fewer")
			v.Label(loop)
			v.CMPQ(places, operand.U8(count))
			v.JL(operand.LabelRef(end))
			tile(count, x, y, m)
			v.SUBQ(operand.U8(count), places)
			v.JMP(operand.LabelRef(loop))
			v.Label(end)
		}
	}
	v.columns(left, column, 4*v.lanes, rows)
}

// slideKernel writes words of the bytes of four neighbouring pixels, of every step-th pixel one: a word is the one before without its first
// bytes, and with the next ones.
func slideKernel(v *simd, step int) {
	name := fmt.Sprintf("slide%d", step)
	v.fn(name, "func(dst *uint32, dstRow int, src *uint8, srcRow int, flip uint32, count int, cols int)",
		"%s is a slideFunc of every %d. pixel.", name, step)
	srcRow, left, column := v.param("srcRow"), v.param("cols"), v.GP64()
	flip := v.spreadInt("flip")
	v.XORQ(column, column)
	words := func(label string, m *mask) {
		from, to, count := v.param("src"), v.GP64(), v.param("count")
		v.ADDQ(column, from)
		v.MOVQ(column, to)
		v.SHLQ(operand.U8(2), to)
		v.ADDQ(v.param("dst"), to)
		word, x := v.vec(), v.vec()
		v.zero(word)
		next := func(place int) {
			if m == nil {
				v.VPMOVZXBD(operand.Mem{Base: from}, x)
			} else {
				v.VPMOVZXBD_Z(operand.Mem{Base: from}, m.Register, x)
			}
			v.ADDQ(srcRow, from)
			v.VPSLLD(operand.U8(8*place), x, x)
			v.VPORD(x, word, word)
		}
		for i := step; i < 4; i++ {
			next(i)
		}
		v.Label(label)
		v.VPSRLD(operand.U8(8*step), word, word)
		for i := 4 - step; i < 4; i++ {
			next(i)
		}
		v.VPXORD(flip, word, x)
		v.store(x, operand.Mem{Base: to}, m)
		v.ADDQ(v.elements("dstRow"), to)
		v.DECQ(count)
		v.JNZ(operand.LabelRef(label))
	}
	v.columns(left, column, v.lanes, words)
}

// stepped is where element i is, of up to eight that are step bytes apart from base on: far is four steps further, and three is three
// steps.
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
