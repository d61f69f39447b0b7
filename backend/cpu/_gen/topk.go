package main

import (
	"github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// topKernel writes the selection of the first elements of columns, one column a lane. A row that is before none of the last ones is passed
// by; of others, each lane pushes down those that it is before.
func topKernel(v *simd) {
	name := "top" + v.name
	v.fn(name, "func(keys, rows *int32, k int, src *float32, n int, flip int)", "%s is a topFunc.", name)
	keys, positions, k, src, n := v.param("keys"), v.param("rows"), v.elements("k"), v.param("src"), v.param("n")
	bytes := operand.U8(4 * v.lanes)
	for lanes := v.lanes; lanes > 1; lanes /= 2 { // a vector for each of k
		v.SHLQ(operand.U8(1), k)
	}
	flip, row, one := v.vec(), v.vec(), v.vec()
	v.VPBROADCASTD(v.slot("flip"), flip)
	v.zero(row)
	v.VMOVUPS(v.bits(1), one)
	last := v.GP64()
	v.MOVQ(k, last)
	v.SUBQ(bytes, last)
	v.preload(func() { v.orderKey(v.vec(), v.vec(), flip) })

	v.Label("row")
	key, x := v.vec(), v.vec()
	v.VMOVUPS(operand.Mem{Base: src}, x)
	v.orderKey(x, key, flip)
	v.VMOVUPS(operand.Mem{Base: keys, Index: last, Scale: 1}, x)
	m := v.above(x, key)
	bits := v.GP32()
	if v.wide {
		v.KMOVW(m.Register, bits)
	} else {
		v.VMOVMSKPS(m.Register, bits)
	}
	v.TESTL(bits, bits)
	v.JZ(operand.LabelRef("next"))
	at, moved, position, there := v.GP64(), v.vec(), v.vec(), v.vec() // moved and position go to the next that is after key
	v.XORQ(at, at)
	v.VMOVUPS(key, moved)
	v.VMOVUPS(row, position)
	v.Label("push")
	v.VMOVUPS(operand.Mem{Base: keys, Index: at, Scale: 1}, x)
	v.VMOVUPS(operand.Mem{Base: positions, Index: at, Scale: 1}, there)
	m = v.above(x, key)
	for _, pair := range []struct {
		list           reg.Register
		element, moved reg.VecVirtual
	}{{keys, x, moved}, {positions, there, position}} {
		now := v.vec()
		v.pick(m, pair.moved, pair.element, now)
		v.pick(m, pair.element, pair.moved, pair.moved)
		v.VMOVUPS(now, operand.Mem{Base: pair.list, Index: at, Scale: 1})
	}
	v.ADDQ(bytes, at)
	v.CMPQ(at, k)
	v.JB(operand.LabelRef("push"))

	v.Label("next")
	v.VPADDD(one, row, row)
	v.ADDQ(bytes, src)
	v.DECQ(n)
	v.JNZ(operand.LabelRef("row"))
	v.VZEROUPPER()
	v.RET()
}

// orderKey writes integers in the order of floats: equal zeros, and a NaN before all. flip reverses it. x is clobbered.
func (v *simd) orderKey(x, key, flip reg.VecVirtual) {
	size := v.vec()
	if v.wide {
		v.VPANDD(v.bits(0x7fffffff), x, size)
	} else {
		v.VPAND(v.bits(0x7fffffff), x, size)
	}
	isNaN := v.above(size, v.word(0x7f800000))
	v.VPSRAD(operand.U8(31), x, x)
	v.exclusive(x, size, key)
	v.VPSUBD(x, key, key)
	v.pick(isNaN, v.word(0x80000001), key, key)
	v.exclusive(flip, key, key)
}

// word is a register that holds a word in every lane.
func (v *simd) word(bits uint32) reg.VecVirtual {
	r := v.vec()
	v.VMOVUPS(v.bits(bits), r)
	return r
}

// exclusive is a bitwise exclusive or.
func (v *simd) exclusive(a, b, to reg.VecVirtual) {
	if v.wide {
		v.VPXORD(a, b, to)
	} else {
		v.VPXOR(a, b, to)
	}
}

// above is the mask of the lanes in which an integer is above another.
func (v *simd) above(a, b reg.VecVirtual) mask {
	if v.wide {
		m := v.K()
		v.VPCMPGTD(b, a, m)
		return mask{m}
	}
	m := v.vec()
	v.VPCMPGTD(b, a, m)
	return mask{m}
}

// pick takes the lanes of a mask from yes, and the others from no.
func (v *simd) pick(m mask, yes, no, to reg.VecVirtual) {
	if v.wide {
		v.VPBLENDMD(yes, no, m.Register, to)
	} else {
		v.VBLENDVPS(m.Register, yes, no, to)
	}
}
