package main

import (
	"math"
	"slices"

	"github.com/rlxc/rlxc/backend/cpu/_gen/a64"
)

// The functions below are those of vecmath.go, with the same polynomials. FMAX and FMIN return NaN if either
// operand is, so clamping keeps NaN.

// poly evaluates a polynomial by Horner's rule. Each coefficient is loaded where it is needed: a multiply-add overwrites it, and
// loads are free where arithmetic is the bound.
func (v *neon) poly(coefficients []float64, x vreg) vreg {
	backward := slices.Clone(coefficients)
	slices.Reverse(backward)
	acc := v.own(backward[0])
	for _, c := range backward[1:] {
		acc = v.fma(v.own(c), acc, x)
	}
	return acc
}

func (v *neon) atLeast(limit float64, x vreg) vreg { return v.max(x, v.num(limit)) }
func (v *neon) atMost(limit float64, x vreg) vreg  { return v.min(x, v.num(limit)) }

// copySign is the non-negative x with the sign of another number.
func (v *neon) copySign(from, x vreg) vreg {
	return v.of(a64.ORR, x, v.of(a64.AND, from, v.bits(signBit)))
}

// lnReduce splits x into n·ln2 + r, |r| ≤ ln2/2, for |x| ≤ 104; shifted holds n in its low bits.
func (v *neon) lnReduce(x vreg) (r, shifted, n vreg) {
	shifted = v.fma(v.own(roundInt), x, v.num(math.Log2E))
	n = v.sub(shifted, v.num(roundInt))
	const hi = 0.693359375 // ln2 to 9 bits, so that n·hi is exact
	r = v.fms(v.copy(x), n, v.num(hi))
	return v.fms(r, n, v.num(math.Ln2-hi)), shifted, n
}

// expm1Reduced is e^r − 1 for |r| ≤ ln2/2.
func (v *neon) expm1Reduced(r vreg) vreg {
	p := v.poly(expPoly, r)
	return v.fma(v.copy(r), p, v.mul(r, r))
}

// power is 2^n for the n in the low bits of shifted, inside the range of normal exponents.
func (v *neon) power(shifted vreg) vreg {
	return v.of(a64.ADD, v.of(a64.SHL(23), shifted), v.num(1))
}

// exp is e^x. Results below the least normal number are right too.
func (v *neon) exp(x vreg) vreg { return v.expFalling(v.atMost(89, x)) }

// expFalling is exp for x ≤ 89.
func (v *neon) expFalling(x vreg) vreg { return v.expBounded(v.atLeast(-104, x)) }

// expBounded is exp for −176 ≤ x ≤ 89: 2ⁿ in two factors, since n leaves the range of exponents at both ends. A factor is 0 in place
// of 2⁻¹²⁷.
func (v *neon) expBounded(x vreg) vreg {
	r, shifted, _ := v.lnReduce(x)
	e := v.add(v.expm1Reduced(r), v.num(1))
	n := v.of(a64.SUB, shifted, v.num(roundInt))
	half := v.of(a64.SSHR(1), n)
	rest := v.of(a64.SUB, n, half)
	return v.mul(v.mul(e, v.power(half)), v.power(rest))
}

// exp2Falling is 2^x for x ≤ 0. Results below the least normal number may be 0. As e^x it errs by less than 2^-22 of 1.
func (v *neon) exp2Falling(x vreg) vreg {
	// The sum with shift has ⌊x + 1/2⌋ + 127 in its low bits: the exponent of the power, which is 0 if they are.
	const lowest, shift = -127, roundInt + 127
	x = v.atLeast(lowest, x)
	shifted := v.add(x, v.num(shift))
	r := v.sub(x, v.sub(shifted, v.num(shift)))
	p := v.poly(append([]float64{1}, exp2PolyCentred...), r)
	return v.mul(p, v.of(a64.SHL(23), shifted))
}

// expm1Falling is e^x − 1 for x ≤ 0, without the loss of digits near 0: 2ⁿ·(e^r − 1) + (2ⁿ − 1).
func (v *neon) expm1Falling(x vreg) vreg {
	r, shifted, _ := v.lnReduce(v.atLeast(-87, x))
	power := v.power(shifted)
	return v.fma(v.sub(power, v.num(1)), v.expm1Reduced(r), power)
}

// erfcScaled is erfc(x/√2) for 0 ≤ x ≤ logErfcMax.
func (v *neon) erfcScaled(x vreg) vreg { return v.expBounded(v.mul(v.poly(logErfcPoly, x), x)) }

// gelu is x/2·(1+erf(x/√2)) = max(x, 0) − |x|/2·erfc(|x|/√2).
func (v *neon) gelu(x vreg) vreg {
	size := v.atMost(logErfcMax, v.of(a64.FABS, x))
	e := v.erfcScaled(size)
	return v.fms(v.relu(x), e, v.mul(size, v.num(0.5)))
}

// erf is by a polynomial near zero, 1 − erfc elsewhere.
func (v *neon) erf(x vreg) vreg {
	size := v.of(a64.FABS, x)
	large := v.sub(v.num(1), v.erfcScaled(v.atMost(logErfcMax, v.mul(size, v.num(math.Sqrt2)))))
	small := v.fma(v.copy(size), v.poly(erfPoly, v.mul(size, size)), size)
	return v.copySign(x, v.choose(v.of(a64.FCMGT, v.num(erfSmall), size), small, large))
}

// tanh is by a polynomial near zero, 1 − 2/(e^2|x| + 1) elsewhere.
func (v *neon) tanh(x vreg) vreg {
	size := v.of(a64.FABS, x)
	e := v.add(v.exp(v.add(size, size)), v.num(1))
	large := v.sub(v.num(1), v.div(v.num(2), e))
	square := v.mul(size, size)
	small := v.fma(v.copy(size), v.poly(tanhPoly, square), v.mul(square, size))
	return v.copySign(x, v.choose(v.of(a64.FCMGT, v.num(tanhSmall), size), small, large))
}

// sigmoidOf is dividend/(1 + e^−x).
func (v *neon) sigmoidOf(x, dividend vreg) vreg {
	return v.div(dividend, v.add(v.exp(v.of(a64.FNEG, x)), v.num(1)))
}

func (v *neon) sigmoid(x vreg) vreg    { return v.sigmoidOf(x, v.num(1)) }
func (v *neon) silu(x, a, _ vreg) vreg { return v.sigmoidOf(v.mul(x, a), x) }
func (v *neon) relu(x vreg) vreg       { return v.max(x, v.num(0)) }
func (v *neon) negative(x vreg) vreg   { return v.min(x, v.num(0)) }
func (v *neon) isNegative(x vreg) vreg { return v.of(a64.FCMGT, v.num(0), x) }

// geluTanh is x·sigmoid(2u), u = √(2/π)·(x + 0.044715·x³).
func (v *neon) geluTanh(x vreg) vreg {
	const c = 2 * 0.797884560802865
	factor := v.fma(v.own(c), v.mul(x, x), v.num(c*0.044715))
	return v.sigmoidOf(v.mul(factor, x), x)
}
