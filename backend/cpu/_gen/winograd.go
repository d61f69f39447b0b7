package main

import (
	"github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// winograd writes the transforms of a convolution by tiles, along one axis: see kernel.Winograd.
func winograd(v *simd) {
	v.winogradAxis("winogradInput", 6, func(d []reg.VecVirtual, out func(int, reg.VecVirtual)) {
		sum := func(op func(...operand.Op), x, y reg.VecVirtual) reg.VecVirtual {
			r := v.vec()
			op(y, x, r)
			return r
		}
		plus, minus := func(ops ...operand.Op) { v.VADDPS(ops[0], ops[1], ops[2]) },
			func(ops ...operand.Op) { v.VSUBPS(ops[0], ops[1], ops[2]) }
		a, b := sum(minus, d[4], d[2]), sum(minus, d[3], d[1])
		r := sum(plus, d[0], d[4])
		v.VFNMADD231PS(v.f32(2), d[2], r)
		v.VFMADD231PS(v.f32(1.5), b, r)
		out(0, r)
		r = sum(minus, d[4], d[1])
		v.VFMADD231PS(v.f32(0.5), d[2], r)
		v.VFMADD231PS(v.f32(2.5), d[3], r)
		out(1, r)
		r = sum(plus, d[4], d[1])
		v.VFMADD231PS(v.f32(0.5), d[3], r)
		v.VFNMADD231PS(v.f32(2.5), d[2], r)
		out(2, r)
		r = sum(plus, d[1], d[5])
		v.VFNMADD231PS(v.f32(2), d[3], r)
		v.VFMADD231PS(v.f32(1.5), a, r)
		out(5, r)
		v.VMOVAPS(a, d[0])
		v.VFMADD231PS(v.f32(2), b, d[0])
		out(3, d[0])
		v.VFNMADD231PS(v.f32(0.5), b, a)
		out(4, a)
	})
	v.winogradAxis("winogradOutput", 6, func(m []reg.VecVirtual, out func(int, reg.VecVirtual)) {
		s, e := v.vec(), v.vec()
		v.VADDPS(m[2], m[1], s)
		v.VSUBPS(m[2], m[1], e)
		v.VADDPS(m[3], m[0], m[0])
		v.VADDPS(m[4], m[0], m[0])
		v.VADDPS(s, m[0], m[0])
		out(0, m[0])
		v.VADDPS(e, m[5], m[5])
		v.VFMADD231PS(v.f32(0.5), m[3], e)
		v.VFNMADD231PS(v.f32(2), m[4], e)
		out(1, e)
		v.VFMADD231PS(v.f32(0.25), m[3], s)
		v.VFMADD231PS(v.f32(4), m[4], s)
		out(2, s)
		v.VFMADD231PS(v.f32(0.125), m[3], m[5])
		v.VFNMADD231PS(v.f32(8), m[4], m[5])
		out(3, m[5])
	})
	v.winogradAxis("winogradWeights", 3, func(g []reg.VecVirtual, out func(int, reg.VecVirtual)) {
		e, r := v.vec(), v.vec()
		out(0, g[0])
		out(5, g[2])
		v.VADDPS(g[2], g[0], e)
		v.VADDPS(g[1], e, r)
		v.VMULPS(v.f32(1./3), r, r)
		out(1, r)
		v.VSUBPS(e, g[1], e)
		v.VMULPS(v.f32(1./3), e, e)
		out(2, e)
		v.VMULPS(v.f32(1./15), g[0], r)
		v.VFNMADD231PS(v.f32(2./15), g[1], r)
		v.VFMADD231PS(v.f32(4./15), g[2], r)
		out(4, r)
		v.VMULPS(v.f32(-16./15), g[0], e)
		v.VFNMADD231PS(v.f32(8./15), g[1], e)
		v.VFNMADD231PS(v.f32(4./15), g[2], e)
		out(3, e)
	})
}

// winogradAxis writes a winogradFunc of that many elements.
func (v *simd) winogradAxis(name string, elements int, transform func(in []reg.VecVirtual, out func(int, reg.VecVirtual))) {
	v.fn(name+v.name, "func(dst *float32, dstStep int, dstRow int, src *float32, srcStep int, srcRow int, rows int, cols int)",
		"%s%s is a winogradFunc.", name, v.name)
	threes := func(step reg.GPVirtual) reg.GPVirtual {
		three := v.GP64()
		v.LEAQ(operand.Mem{Base: step, Index: step, Scale: 2}, three)
		return three
	}
	srcStep, dstStep := v.elements("srcStep"), v.elements("dstStep")
	srcThree, dstThree := threes(srcStep), threes(dstStep)
	column, left := v.GP64(), v.param("cols")
	v.XORQ(column, column)
	rows := func(label string, m *mask) {
		x, y, n := v.param("src"), v.param("dst"), v.param("rows")
		v.ADDQ(column, x)
		v.ADDQ(column, y)
		row := v.GP64()
		v.Label(label)
		in, far := v.vecs(elements), v.GP64()
		v.LEAQ(operand.Mem{Base: x, Index: srcStep, Scale: 4}, far)
		for i, r := range in {
			v.load(stepped(x, far, srcStep, srcThree, i), r, m)
		}
		v.LEAQ(operand.Mem{Base: y, Index: dstStep, Scale: 4}, far)
		transform(in, func(i int, r reg.VecVirtual) { v.store(r, stepped(y, far, dstStep, dstThree, i), m) })
		v.MOVQ(v.slot("srcRow"), row)
		v.LEAQ(operand.Mem{Base: x, Index: row, Scale: 4}, x)
		v.MOVQ(v.slot("dstRow"), row)
		v.LEAQ(operand.Mem{Base: y, Index: row, Scale: 4}, y)
		v.DECQ(n)
		v.JNZ(operand.LabelRef(label))
	}
	v.columns(left, column, 4*v.lanes, rows)
}
