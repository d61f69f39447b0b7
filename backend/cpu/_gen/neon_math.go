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
	acc := v.num(backward[0])
	for _, c := range backward[1:] {
		acc = v.fma(v.own(c), acc, x)
	}
	return acc
}

// polyInTwo evaluates the even and odd powers apart: one multiplication more, but half as many steps that wait for each other.
func (v *neon) polyInTwo(coefficients []float64, x vreg) vreg {
	square := v.mul(x, x)
	var parts [2][]float64
	for i, c := range coefficients {
		parts[i%2] = append(parts[i%2], c)
	}
	var sums [2]vreg
	v.Interleave(2, func(i int, _ func(emit func())) { sums[i] = v.poly(parts[i], square) })
	return v.fma(sums[0], sums[1], x)
}

// scaledPoly is the polynomial by·p(scale·x)·scale, so that times x it is by·p(y)·y with y = scale·x.
func scaledPoly(coefficients []float64, scale, by float64) []float64 {
	scaled := slices.Clone(coefficients)
	for i := range scaled {
		by *= scale
		scaled[i] *= by
	}
	return scaled
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
func (v *neon) exp2Falling(x vreg) vreg { return v.exp2Bounded(v.atLeast(exp2Lowest, x)) }

// exp2Bounded is 0 and infinite at its bounds.
const exp2Lowest, exp2Highest = -127, 128

// exp2Bounded is 2^x for exp2Lowest ≤ x ≤ exp2Highest, and a little beyond both, as near as exp2Falling.
func (v *neon) exp2Bounded(x vreg) vreg {
	// The sum with shift has ⌊x + 1/2⌋ + 127 in its low bits: the exponent of the power, which is 0 if they are.
	const shift = roundInt - exp2Lowest
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

// erfcZero is where the polynomial of the binary logarithm of erfc(x/√2) is exp2Lowest.
const erfcZero = 11.208975

// erfcScaled is erfc(scale·x/√2) for 0 ≤ scale·x ≤ erfcZero; there it is exactly 0.
func (v *neon) erfcScaled(x vreg, scale float64) vreg {
	return v.exp2Bounded(v.mul(v.polyInTwo(scaledPoly(logErfcPoly, scale, math.Log2E), x), x))
}

// gelu is x/2·(1+erf(x/√2)) = max(x, 0) − |x|/2·erfc(|x|/√2).
func (v *neon) gelu(x vreg) vreg {
	size := v.atMost(erfcZero, v.of(a64.FABS, x))
	e := v.erfcScaled(size, 1)
	return v.fms(v.relu(x), e, v.mul(size, v.num(0.5)))
}

// erf is by a polynomial near zero, 1 − erfc elsewhere.
func (v *neon) erf(x vreg) vreg {
	e := v.erfcScaled(v.atMost(erfcZero/math.Sqrt2, v.of(a64.FABS, x)), math.Sqrt2)
	large := v.copySign(x, v.sub(v.num(1), e))
	small := v.fma(v.copy(x), v.poly(erfPoly, v.mul(x, x)), x)
	return v.choose(v.of(a64.FACGT, v.num(erfSmall), x), small, large)
}

// tanh is by a polynomial near zero, 1 − 2/(e^2|x| + 1) elsewhere.
func (v *neon) tanh(x vreg) vreg {
	e := v.exp2Bounded(v.atMost(exp2Highest, v.mul(v.of(a64.FABS, x), v.num(2*math.Log2E))))
	large := v.copySign(x, v.sub(v.num(1), v.div(v.num(2), v.add(e, v.num(1)))))
	square := v.mul(x, x)
	small := v.fma(v.copy(x), v.poly(tanhPoly, square), v.mul(square, x))
	return v.choose(v.of(a64.FACGT, v.num(tanhSmall), x), small, large)
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
	const c = -2 * 0.797884560802865 * math.Log2E
	x = v.atLeast(geluTanhLeast, x)
	factor := v.fma(v.own(c), v.mul(x, x), v.num(c*0.044715))
	e := v.exp2Bounded(v.atMost(exp2Highest, v.atLeast(exp2Lowest, v.mul(factor, x))))
	return v.div(x, v.add(e, v.num(1)))
}
