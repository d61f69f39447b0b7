package main

import (
	"fmt"
	"math"

	"github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"

	"github.com/rlxc/rlxc/backend/cpu/_gen/a64"
)

// A unaryKernel is the vector code of a function of one float, for both architectures. a and b hold the function's parameters, if
// it has any, in every lane.
type unaryKernel struct {
	op     string // the name of its constant in package ir
	params int
	// the rest of its unaryRow in kernel/unary.go: what error its code may have, and the parameters that it is tested with
	facts string
	amd64 func(v *simd, x, a, b reg.Register) // replaces x by the result
	arm64 func(v *neon, x, a, b vreg) vreg    // returns the result
}

// checkUnary reports a row that lacks its code for an architecture.
func checkUnary(rows []unaryKernel) error {
	for _, k := range rows {
		switch {
		case k.amd64 == nil:
			return fmt.Errorf("activations.go: %s has no code for amd64", k.op)
		case k.arm64 == nil:
			return fmt.Errorf("activations.go: %s has no code for arm64", k.op)
		}
	}
	return nil
}

// unaryTable has the functions. Those before Relu and it are no separate pass of a product; a Silu whose Alpha is not 1 rounds Alpha·x.
var unaryTable = []unaryKernel{
	{"NoUnary", 0, "", func(*simd, reg.Register, reg.Register, reg.Register) {}, func(_ *neon, x, _, _ vreg) vreg { return x }},
	{"Relu", 0, "", amd64Of((*simd).relu), arm64Of((*neon).relu)},
	{"Exp", 0, "ulp: 2", amd64Of((*simd).exp), arm64Of((*neon).exp)},
	{"Erf", 0, "ulp: 2", amd64Of((*simd).erf), arm64Of((*neon).erf)},
	{"Gelu", 0, "ulp: 2, abs: 1e-7", amd64Of((*simd).gelu), arm64Of((*neon).gelu)},
	{"GeluTanh", 0, "ulp: 4, abs: 2e-7", amd64Of((*simd).geluTanh), arm64Of((*neon).geluTanh)},
	{"Tanh", 0, "ulp: 2", amd64Of((*simd).tanh), arm64Of((*neon).tanh)},
	{"Sigmoid", 0, "ulp: 3, abs: 1e-37", amd64Of((*simd).sigmoid), arm64Of((*neon).sigmoid)},
	{"Silu", 1, "ulp: 3, cases: []unaryCase{{alpha: 1, abs: 1e-36}, {alpha: 1.702, abs: 2e-7}}", (*simd).silu, (*neon).silu},
	{"Softplus", 0, "ulp: 6, abs: 1e-37", amd64Of((*simd).softplus), arm64Of((*neon).softplus)},
	{"Softsign", 0, "ulp: 2", amd64Of((*simd).softsign), arm64Of((*neon).softsign)},
	{"Mish", 0, "ulp: 4, abs: 1e-36", amd64Of((*simd).mish), arm64Of((*neon).mish)},
	{"LeakyRelu", 1, "ulp: 0.5, cases: []unaryCase{{alpha: 0.01}, {alpha: -2}}", (*simd).leakyRelu, (*neon).leakyRelu},
	{"ThresholdedRelu", 1, "cases: []unaryCase{{alpha: 1}, {alpha: -0.5}}", (*simd).thresholdedRelu, (*neon).thresholdedRelu},
	{"Shrink", 2, "ulp: 0.5, cases: []unaryCase{{alpha: 0.5}, {alpha: 1.5, beta: 1.25}, {alpha: -1, beta: 0.5}}", (*simd).shrink,
		(*neon).shrink},
	{"Elu", 1, "ulp: 3, cases: []unaryCase{{alpha: 1}, {alpha: 0.3}}", (*simd).elu, (*neon).elu},
	{"Selu", 2, "ulp: 4, cases: []unaryCase{{alpha: 1.6732632, beta: 1.050701}}", (*simd).selu, (*neon).selu},
	{"Celu", 1, "ulp: 4, cases: []unaryCase{{alpha: 1}, {alpha: 2.5}}", (*simd).celu, (*neon).celu},
	{"HardSigmoid", 2, "ulp: 0.5, cases: []unaryCase{{alpha: 0.2, beta: 0.5}, {alpha: -1, beta: 0.25}}", (*simd).hardSigmoid,
		(*neon).hardSigmoid},
	{"HardSwish", 0, "ulp: 3", amd64Of((*simd).hardSwish), arm64Of((*neon).hardSwish)},
	{"Clamp", 2, "cases: []unaryCase{{alpha: 0, beta: 6}, {alpha: -1.5, beta: 0.25}}", (*simd).clamp, (*neon).clamp},
	{"Neg", 0, "", amd64Of(func(v *simd, x reg.Register) { v.VXORPS(v.bits(signBit), x, x) }), arm64Op(a64.FNEG)},
	{"Abs", 0, "", amd64Of(func(v *simd, x reg.Register) { v.VANDPS(v.bits(absMask), x, x) }), arm64Op(a64.FABS)},
	{"Sign", 0, "", amd64Of((*simd).sign), arm64Of((*neon).sign)},
	{"Floor", 0, "", rounded(down), arm64Op(a64.FRINTM)},
	{"Ceil", 0, "", rounded(up), arm64Op(a64.FRINTP)},
	{"Round", 0, "", rounded(nearest), arm64Op(a64.FRINTN)},
	{"Sqrt", 0, "ulp: 0.5", amd64Of(func(v *simd, x reg.Register) { v.VSQRTPS(x, x) }), arm64Op(a64.FSQRT)},
	{"Reciprocal", 0, "ulp: 0.5", amd64Of((*simd).reciprocal), arm64Of((*neon).reciprocal)},
}

// amd64Of is the code of a function without parameters.
func amd64Of(f func(v *simd, x reg.Register)) func(v *simd, x, a, b reg.Register) {
	return func(v *simd, x, _, _ reg.Register) { f(v, x) }
}

// arm64Of is the code of a function without parameters.
func arm64Of(f func(v *neon, x vreg) vreg) func(v *neon, x, a, b vreg) vreg {
	return func(v *neon, x, _, _ vreg) vreg { return f(v, x) }
}

// arm64Op is the code of a function that is one instruction.
func arm64Op(op a64.Op) func(v *neon, x, a, b vreg) vreg {
	return func(v *neon, x, _, _ vreg) vreg { return v.of(op, x) }
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

func (v *neon) softplus(x vreg) vreg {
	t := v.expFalling(v.of(a64.FNEG, v.of(a64.FABS, x)))
	return v.fma(v.relu(x), v.poly(append([]float64{1}, log1pPoly...), t), t)
}

// softsign replaces x by x/(1 + |x|).
func (v *simd) softsign(x reg.Register) {
	size := v.abs(x)
	v.VADDPS(v.f32(1), size, size)
	v.VDIVPS(size, x, x)
}

func (v *neon) softsign(x vreg) vreg { return v.div(x, v.add(v.of(a64.FABS, x), v.num(1))) }

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

func (v *neon) mish(x vreg) vreg {
	e := v.exp(v.atMost(20, x))
	n := v.mul(e, v.add(e, v.num(2)))
	return v.mul(x, v.div(n, v.add(n, v.num(2))))
}

// leakyRelu replaces x by a·x where it is below 0.
func (v *simd) leakyRelu(x, a, _ reg.Register) {
	y := v.vec()
	v.VMULPS(a, x, y)
	v.choose(less, x, v.zeros(), y, x)
}

func (v *neon) leakyRelu(x, a, _ vreg) vreg { return v.choose(v.isNegative(x), v.mul(x, a), x) }

// thresholdedRelu replaces x by 0 where it is not above a.
func (v *simd) thresholdedRelu(x, a, _ reg.Register) {
	y := v.zeros()
	v.choose(greater, x, a, x, y)
	v.VMOVAPS(y, x)
}

func (v *neon) thresholdedRelu(x, a, _ vreg) vreg {
	return v.of(a64.AND, x, v.of(a64.FCMGT, x, a))
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

func (v *neon) shrink(x, a, b vreg) vreg {
	above := v.of(a64.AND, v.sub(x, b), v.of(a64.FCMGT, x, a))
	return v.choose(v.of(a64.FCMGT, v.of(a64.FNEG, a), x), v.add(x, b), above)
}

// elu replaces x by a·(e^x − 1) where it is below 0.
func (v *simd) elu(x, a, _ reg.Register) {
	y := v.negative(x)
	v.expm1Falling(y)
	v.VMULPS(a, y, y)
	v.choose(less, x, v.zeros(), y, x)
}

func (v *neon) elu(x, a, _ vreg) vreg {
	return v.choose(v.isNegative(x), v.mul(v.expm1Falling(v.negative(x)), a), x)
}

// selu replaces x by b·x, and by b·a·(e^x − 1) where it is not above 0.
func (v *simd) selu(x, a, b reg.Register) {
	y := v.negative(x)
	v.expm1Falling(y)
	v.VMULPS(a, y, y)
	v.choose(atMostCmp, x, v.zeros(), y, x)
	v.VMULPS(b, x, x)
}

func (v *neon) selu(x, a, b vreg) vreg {
	y := v.mul(v.expm1Falling(v.negative(x)), a)
	return v.mul(v.choose(v.of(a64.FCMGE, v.num(0), x), y, x), b)
}

// celu replaces x by a·(e^(x/a) − 1) where it is below 0, for a above 0.
func (v *simd) celu(x, a, _ reg.Register) {
	y := v.negative(x)
	v.VDIVPS(a, y, y)
	v.expm1Falling(y)
	v.VMULPS(a, y, y)
	v.choose(less, x, v.zeros(), y, x)
}

func (v *neon) celu(x, a, _ vreg) vreg {
	y := v.mul(v.expm1Falling(v.div(v.negative(x), a)), a)
	return v.choose(v.isNegative(x), y, x)
}

// hardSigmoid replaces x by a·x + b between 0 and 1.
func (v *simd) hardSigmoid(x, a, b reg.Register) {
	v.VFMADD213PS(b, a, x)
	v.atMost(1, x)
	v.atLeast(0, x)
}

func (v *neon) hardSigmoid(x, a, b vreg) vreg {
	return v.atLeast(0, v.atMost(1, v.fma(v.copy(b), x, a)))
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

func (v *neon) hardSwish(x vreg) vreg {
	y := v.atLeast(0, v.atMost(6, v.add(x, v.num(3))))
	return v.mul(x, v.mul(y, v.num(1.0/6)))
}

// clamp replaces x by what is between a and b.
func (v *simd) clamp(x, a, b reg.Register) {
	v.VMAXPS(x, a, x)
	v.VMINPS(x, b, x)
}

func (v *neon) clamp(x, a, b vreg) vreg { return v.min(v.max(x, a), b) }

// sign replaces x by 1 of its sign; zeros and NaN stay.
func (v *simd) sign(x reg.Register) {
	y := v.constant(1)
	v.copySign(x, y)
	v.choose(unequal, x, v.zeros(), y, x)
}

func (v *neon) sign(x vreg) vreg {
	one := v.copySign(x, v.num(1))
	return v.choose(v.of(a64.FCMGT, v.of(a64.FABS, x), v.num(0)), one, x)
}

// The directions of rounded.
const (
	nearest = 0 // halves to even
	down    = 1
	up      = 2
)

// rounded is the code that replaces x by a whole number.
func rounded(direction uint8) func(v *simd, x, a, b reg.Register) {
	return amd64Of(func(v *simd, x reg.Register) {
		if v.wide {
			v.VRNDSCALEPS(operand.U8(direction), x, x)
		} else {
			v.VROUNDPS(operand.U8(direction), x, x)
		}
	})
}

// reciprocal replaces x by 1/x.
func (v *simd) reciprocal(x reg.Register) {
	one := v.constant(1)
	v.VDIVPS(x, one, x)
}

func (v *neon) reciprocal(x vreg) vreg { return v.div(v.num(1), x) }
