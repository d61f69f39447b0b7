package main

import (
	"math"

	"github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// A unaryKernel is a function of one float: emit replaces x by it. a and b hold its parameters, of which there are so many, in
// every lane.
type unaryKernel struct {
	op     string // its name in kernel/unary.go
	params int
	emit   func(x, a, b reg.Register)
}

func (v *simd) unaryKernels() []unaryKernel {
	return []unaryKernel{
		{"NoUnary", 0, func(x, _, _ reg.Register) {}},
		{"Relu", 0, plain(v.relu)},
		{"Exp", 0, plain(v.exp)},
		{"Erf", 0, plain(v.erf)},
		{"Gelu", 0, plain(v.gelu)},
		{"GeluTanh", 0, plain(v.geluTanh)},
		{"Tanh", 0, plain(v.tanh)},
		{"Sigmoid", 0, plain(v.sigmoid)},
		{"Silu", 1, v.silu},
		{"Softplus", 0, plain(v.softplus)},
		{"Softsign", 0, plain(v.softsign)},
		{"Mish", 0, plain(v.mish)},
		{"LeakyRelu", 1, v.leakyRelu},
		{"ThresholdedRelu", 1, v.thresholdedRelu},
		{"Shrink", 2, v.shrink},
		{"Elu", 1, v.elu},
		{"Selu", 2, v.selu},
		{"Celu", 1, v.celu},
		{"HardSigmoid", 2, v.hardSigmoid},
		{"HardSwish", 0, plain(v.hardSwish)},
		{"Neg", 0, plain(func(x reg.Register) { v.VXORPS(v.bits(signBit), x, x) })},
		{"Abs", 0, plain(func(x reg.Register) { v.VANDPS(v.bits(absMask), x, x) })},
		{"Sign", 0, plain(v.sign)},
		{"Floor", 0, plain(v.round(down))},
		{"Ceil", 0, plain(v.round(up))},
		{"Round", 0, plain(v.round(nearest))},
		{"Sqrt", 0, plain(func(x reg.Register) { v.VSQRTPS(x, x) })},
		{"Reciprocal", 0, plain(func(x reg.Register) {
			one := v.constant(1)
			v.VDIVPS(x, one, x)
		})},
	}
}

// plain is a function without parameters.
func plain(emit func(x reg.Register)) func(x, a, b reg.Register) {
	return func(x, _, _ reg.Register) { emit(x) }
}

// log1pPoly is (ln(1+t)/t − 1)/t on 0 ≤ t ≤ 1, relative error of the logarithm 1e-7.
var log1pPoly = []float64{-0.499997646, 0.333216876, -0.248307124, 0.188764215, -0.12593098, 0.0541479476, -0.000619763276,
	-0.0125396941, 0.00441347156}

// A comparison is a predicate of VCMPPS; a NaN satisfies none of these.
type comparison uint8

const (
	less      comparison = 1
	atMostCmp comparison = 2
	unequal   comparison = 12
	greater   comparison = 14
)

// choose puts the lanes of yes into no where left and right compare so.
func (v *simd) choose(c comparison, left, right, yes, no reg.Register) {
	if v.wide {
		k := v.K()
		v.VCMPPS(operand.U8(c), right, left, k)
		v.VMOVAPS(yes, k, no)
		return
	}
	m := v.vec()
	v.VCMPPS(operand.U8(c), right, left, m)
	v.VBLENDVPS(m, yes, no, no)
}

// zeros is 0 in a fresh register.
func (v *simd) zeros() reg.VecVirtual {
	r := v.vec()
	v.zero(r)
	return r
}

// negative is min(x, 0) in a fresh register; NaN stays.
func (v *simd) negative(x reg.Register) reg.VecVirtual {
	r := v.zeros()
	v.VMINPS(x, r, r)
	return r
}

// expm1Falling replaces x ≤ 0 by e^x − 1, without the loss of digits near 0: x = n·ln2 + r, and the result is
// 2ⁿ·(e^r − 1) + (2ⁿ − 1).
func (v *simd) expm1Falling(x reg.Register) {
	v.atLeast(-87, x)
	power, n := v.constant(math.Log2E), v.vec()
	v.VFMADD213PS(v.f32(roundInt), x, power)
	v.VSUBPS(v.f32(roundInt), power, n)
	const hi = 0.693359375 // ln2 to 9 bits, so that n·hi is exact
	v.VFNMADD231PS(v.f32(hi), n, x)
	v.VFNMADD231PS(v.f32(math.Ln2-hi), n, x)
	p, square := v.poly(expPoly, x), v.vec()
	v.VMULPS(x, x, square)
	v.VFMADD213PS(x, square, p) // p·r² + r
	v.VPSLLD(operand.U8(23), power, power)
	v.VPADDD(v.f32(1), power, power)
	v.VSUBPS(v.f32(1), power, x)
	v.VFMADD231PS(p, power, x)
}

// softplus replaces x by ln(1 + e^x) = max(x, 0) + ln(1 + e^−|x|).
func (v *simd) softplus(x reg.Register) {
	t := v.vec()
	v.VORPS(v.bits(signBit), x, t)
	v.expFalling(t)
	p := v.poly(append([]float64{1}, log1pPoly...), t)
	v.relu(x)
	v.VFMADD231PS(p, t, x)
}

// softsign replaces x by x/(1 + |x|).
func (v *simd) softsign(x reg.Register) {
	size := v.abs(x)
	v.VADDPS(v.f32(1), size, size)
	v.VDIVPS(size, x, x)
}

// mish replaces x by x·tanh(ln(1+e^x)) = x·n/(n + 2), n = e^x·(e^x + 2). Beyond 20 the quotient is 1.
func (v *simd) mish(x reg.Register) {
	e, n := v.constant(20), v.constant(2)
	v.VMINPS(x, e, e)
	v.exp(e)
	v.VADDPS(e, n, n)
	v.VMULPS(e, n, n)
	v.VADDPS(v.f32(2), n, e)
	v.VDIVPS(e, n, n)
	v.VMULPS(n, x, x)
}

// leakyRelu replaces x by a·x where it is below 0.
func (v *simd) leakyRelu(x, a, _ reg.Register) {
	y := v.vec()
	v.VMULPS(a, x, y)
	v.choose(less, x, v.zeros(), y, x)
}

// thresholdedRelu replaces x by 0 where it is not above a.
func (v *simd) thresholdedRelu(x, a, _ reg.Register) {
	y := v.zeros()
	v.choose(greater, x, a, x, y)
	v.VMOVAPS(y, x)
}

// shrink replaces x by x + b below −a, by x − b above a, and by 0 between them.
func (v *simd) shrink(x, a, b reg.Register) {
	y, t, low := v.zeros(), v.vec(), v.vec()
	v.VSUBPS(b, x, t)
	v.choose(greater, x, a, t, y)
	v.VADDPS(b, x, t)
	v.VXORPS(v.bits(signBit), a, low)
	v.choose(less, x, low, t, y)
	v.VMOVAPS(y, x)
}

// elu replaces x by a·(e^x − 1) where it is below 0.
func (v *simd) elu(x, a, _ reg.Register) {
	y := v.negative(x)
	v.expm1Falling(y)
	v.VMULPS(a, y, y)
	v.choose(less, x, v.zeros(), y, x)
}

// selu replaces x by b·x, and by b·a·(e^x − 1) where it is not above 0.
func (v *simd) selu(x, a, b reg.Register) {
	y := v.negative(x)
	v.expm1Falling(y)
	v.VMULPS(a, y, y)
	v.choose(atMostCmp, x, v.zeros(), y, x)
	v.VMULPS(b, x, x)
}

// celu replaces x by a·(e^(x/a) − 1) where it is below 0, for a above 0.
func (v *simd) celu(x, a, _ reg.Register) {
	y := v.negative(x)
	v.VDIVPS(a, y, y)
	v.expm1Falling(y)
	v.VMULPS(a, y, y)
	v.choose(less, x, v.zeros(), y, x)
}

// hardSigmoid replaces x by a·x + b between 0 and 1.
func (v *simd) hardSigmoid(x, a, b reg.Register) {
	v.VFMADD213PS(b, a, x)
	v.atMost(1, x)
	v.atLeast(0, x)
}

// hardSwish replaces x by x·(x + 3)/6, with x + 3 between 0 and 6.
func (v *simd) hardSwish(x reg.Register) {
	y := v.constant(3)
	v.VADDPS(x, y, y)
	v.atMost(6, y)
	v.atLeast(0, y)
	v.VMULPS(v.f32(1.0/6), y, y)
	v.VMULPS(y, x, x)
}

// sign replaces x by 1 of its sign; zeros and NaN stay.
func (v *simd) sign(x reg.Register) {
	y := v.constant(1)
	v.copySign(x, y)
	v.choose(unequal, x, v.zeros(), y, x)
}

// The directions of round.
const (
	nearest = 0 // halves to even
	down    = 1
	up      = 2
)

// round is a function that replaces x by a whole number.
func (v *simd) round(direction uint8) func(x reg.Register) {
	return func(x reg.Register) {
		if v.wide {
			v.VRNDSCALEPS(operand.U8(direction), x, x)
		} else {
			v.VROUNDPS(operand.U8(direction), x, x)
		}
	}
}
