package main

import (
	"fmt"
	"math"
	"slices"

	"github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// The polynomials below were fitted for least maximal error in 40-digit arithmetic, then rounded to float32. The
// stated errors are those of the fit; with the rounding of every step the functions stay within 2 ulp, which the
// tests of package kernel hold.

var (
	// (e^r − 1 − r)/r² on |r| ≤ ln2/2, relative error of e^r 3e-9.
	expPoly = []float64{0.49999994, 0.166665196, 0.0416683927, 0.00836877804, 0.00138145161}

	// (2^r − 1)/r on 0 ≤ r ≤ 1 and on |r| ≤ 1/2, relative error of 2^r 8e-8 and 9e-8.
	exp2Poly        = []float64{0.6931513118, 0.2401644501, 0.05579991315, 0.009017030284, 0.001867130082}
	exp2PolyCentred = []float64{0.6931469776, 0.2402224209, 0.05550733743, 0.00967151264, 0.001326472714}

	// ln(erfc(x/√2))/x on 0 ≤ x ≤ 5, error of the logarithm 6e-8. Beyond 5 the polynomial falls faster than the
	// function, so that its exponential goes to zero as it should.
	logErfcPoly = []float64{-0.797886491, -0.318291068, -0.0363983773, 0.00488324696, -5.14432395e-05,
		-0.000171312175, 4.71648855e-05, -6.73251634e-06, 5.27282282e-07, -1.78767436e-08}
	// The argument up to which logErfcPoly is evaluated: its exponential is exactly 0 there, so that gelu(−∞) is. The polynomial is
	// −175.7 = −253.5·ln2, in the middle of the arguments for which a factor of expBounded is 0.
	logErfcMax = 12.455

	// erf(x)/x − 1 in powers of x² on |x| ≤ 0.8, relative error of erf 3e-9.
	erfPoly  = []float64{0.128379166, -0.376126021, 0.112831123, -0.026820777, 0.00508508645, -0.000653499796}
	erfSmall = 0.8

	// (tanh(x)/x − 1)/x² in powers of x² on |x| ≤ 0.625, relative error of tanh 4e-9.
	tanhPoly  = []float64{-0.333332837, 0.133314922, -0.0537435301, 0.0206506792, -0.00571713829}
	tanhSmall = 0.625
)

const (
	signBit  = 0x80000000
	absMask  = 0x7fffffff
	roundInt = 3 << 22 // adding 1.5·2²³ rounds a small float to an integer, found in the low bits
)

// poly evaluates a polynomial by Horner's rule: the result is a fresh register.
func (v *simd) poly(coefficients []float64, x reg.Register) reg.VecVirtual {
	acc := v.vec()
	last := len(coefficients) - 1
	v.VMOVUPS(v.f32(coefficients[last]), acc)
	for i := last - 1; i >= 0; i-- {
		v.VFMADD213PS(v.f32(coefficients[i]), x, acc)
	}
	return acc
}

// abs returns |x| in a fresh register.
func (v *simd) abs(x reg.Register) reg.VecVirtual {
	r := v.vec()
	v.VANDPS(v.bits(absMask), x, r)
	return r
}

// copySign puts the sign of from onto the non-negative x.
func (v *simd) copySign(from, x reg.Register) {
	sign := v.vec()
	v.VANDPS(v.bits(signBit), from, sign)
	v.VORPS(sign, x, x)
}

// atLeast and atMost clamp x in place; NaN stays NaN, because the second source is the result where one is NaN.
func (v *simd) atLeast(limit float64, x reg.Register) { v.VMAXPS(x, v.constant(limit), x) }
func (v *simd) atMost(limit float64, x reg.Register)  { v.VMINPS(x, v.constant(limit), x) }

// exp replaces x by e^x. Results below the least normal number are right too.
func (v *simd) exp(x reg.Register) {
	v.atMost(89, x)
	v.expFalling(x)
}

// expFalling is exp for x ≤ 89.
func (v *simd) expFalling(x reg.Register) {
	v.atLeast(-104, x)
	v.expBounded(x)
}

// expBounded is exp for −176 ≤ x ≤ 89: x = n·ln2 + r, e^x = 2ⁿ·e^r.
func (v *simd) expBounded(x reg.Register) {
	shifted, n := v.constant(math.Log2E), v.vec()
	v.VFMADD213PS(v.f32(roundInt), x, shifted)
	v.VSUBPS(v.f32(roundInt), shifted, n)
	const hi = 0.693359375 // ln2 to 9 bits, so that n·hi is exact
	v.VFNMADD231PS(v.f32(hi), n, x)
	v.VFNMADD231PS(v.f32(math.Ln2-hi), n, x)
	p := v.poly(expPoly, x)
	square := v.vec()
	v.VMULPS(x, x, square)
	v.VFMADD213PS(x, square, p) // p·r² + r
	v.VADDPS(v.f32(1), p, p)
	if v.wide {
		v.VSCALEFPS(n, p, x)
		return
	}
	// 2ⁿ in two factors, since n leaves the range of exponents at both ends. A factor is 0 in place of 2⁻¹²⁷.
	half := v.vec()
	v.VPSLLD(operand.U8(10), shifted, shifted) // sign-extend n from its 22 bits
	v.VPSRAD(operand.U8(10), shifted, shifted)
	v.VPSRAD(operand.U8(1), shifted, half)
	v.VPSUBD(half, shifted, shifted)
	for _, part := range []reg.Register{half, shifted} {
		v.VPSLLD(operand.U8(23), part, part)
		v.VPADDD(v.f32(1), part, part)
		v.VMULPS(part, p, p)
	}
	v.VMOVAPS(p, x)
}

// exp2Falling replaces x ≤ 0 by 2^x. Results below the least normal number may be 0. After a multiplication by log₂e it is
// an e^x that takes fewer instructions than exp and errs by less than 2^-22 of 1, the largest weight of a softmax.
func (v *simd) exp2Falling(x reg.Register) {
	if v.wide {
		const down = 1
		r := v.vec()
		v.VREDUCEPS(operand.U8(down), x, r) // x − ⌊x⌋; 0 for −∞
		p := v.poly(append([]float64{1}, exp2Poly...), r)
		v.VSCALEFPS(x, p, x) // p·2^⌊x⌋
		return
	}
	// The sum with shift has ⌊x + 1/2⌋ + 127 in its low bits: the exponent of the power, which is 0 if they are.
	const lowest, shift = -127, roundInt + 127
	n, power := v.vec(), v.vec()
	v.atLeast(lowest, x)
	v.VADDPS(v.f32(shift), x, power)
	v.VSUBPS(v.f32(shift), power, n)
	v.VSUBPS(n, x, x)
	p := v.poly(append([]float64{1}, exp2PolyCentred...), x)
	v.VPSLLD(operand.U8(23), power, power)
	v.VMULPS(power, p, x)
}

// gelu replaces x by x/2·(1+erf(x/√2)) = max(x, 0) − |x|/2·erfc(|x|/√2), which loses no digits on either side.
func (v *simd) gelu(x reg.Register) {
	size := v.abs(x)
	if v.wide {
		upper := v.normalTail(size)
		v.relu(x)
		v.VFNMADD231PS(upper, size, x)
		return
	}
	v.atMost(logErfcMax, size)
	e := v.erfcScaled(size)
	v.VMULPS(v.f32(0.5), size, size)
	v.relu(x)
	v.VFNMADD231PS(e, size, x)
}

// The normal distribution above t ≥ 0, which is erfc(t/√2)/2, by one polynomial for each lane of a register: in r, the distance of t from
// the middle of the lane's interval, with an error of 4e-10 of 1 at most, beside roundings. In the last interval it is 0, for an error of
// 1.1e-8 at its beginning, at normalTailEnd.
const (
	normalTailEnd    = 5.6
	normalTailWidth  = normalTailEnd / 14.5
	normalTailDegree = 6
)

// normalTail returns the normal distribution above t in a fresh register, and makes t no larger than the last interval's middle.
func (v *simd) normalTail(t reg.Register) reg.VecVirtual {
	v.atMost(15*normalTailWidth, t)
	interval, r, p := v.constant(1/normalTailWidth), v.vec(), v.vec()
	v.VFMADD213PS(v.f32(roundInt), t, interval) // its number in the low bits, at which VPERMPS looks
	middle, poly := normalTailPoly()
	v.VPERMPS(v.held("normalTailMiddle", middle), interval, r)
	v.VSUBPS(r, t, r)
	for i, lanes := range slices.Backward(poly) {
		coefficient := v.held(fmt.Sprintf("normalTail%d", i), lanes)
		if i == normalTailDegree {
			v.VPERMPS(coefficient, interval, p)
			continue
		}
		c := v.vec()
		v.VPERMPS(coefficient, interval, c)
		v.VFMADD213PS(c, r, p)
	}
	return p
}

// normalTailPoly returns the middle and the coefficients of each power of r, by lane. The polynomials meet the function at Chebyshev's
// nodes. A middle is where the function is next to a float32, so that the polynomial does not start with half an error.
func normalTailPoly() (middle []uint32, poly [][]uint32) {
	const n = normalTailDegree + 1
	poly = make([][]uint32, n)
	tail := func(t float64) float64 { return math.Erfc(t/math.Sqrt2) / 2 }
	for lane := range 15 {
		at, least := float32(0), math.Inf(1)
		for m, tries := float32(float64(lane)*normalTailWidth), 0; tries < 1000; m, tries = math.Nextafter32(m, 9), tries+1 {
			f := tail(float64(m))
			if e := math.Abs(float64(float32(f))/f - 1); e < least {
				at, least = m, e
			}
		}
		var sum, basis [n]float64 // of Newton's form: basis is the product of r − node
		var nodes, differences [n]float64
		basis[0] = 1
		for i := range n {
			nodes[i] = normalTailWidth / 2 * math.Cos((float64(i)+0.5)*math.Pi/n)
			differences[i] = tail(float64(at) + nodes[i])
			for j := range i {
				differences[i] = (differences[i] - differences[j]) / (nodes[i] - nodes[j])
			}
			for j := n - 1; j >= 0; j-- {
				sum[j] += differences[i] * basis[j]
				if basis[j] *= -nodes[i]; j > 0 {
					basis[j] += basis[j-1]
				}
			}
		}
		middle = append(middle, math.Float32bits(at))
		for i, c := range sum {
			poly[i] = append(poly[i], math.Float32bits(float32(c)))
		}
	}
	middle = append(middle, 0)
	for i := range poly {
		poly[i] = append(poly[i], 0)
	}
	return middle, poly
}

// erfcScaled returns erfc(x/√2) for 0 ≤ x ≤ logErfcMax in a fresh register.
func (v *simd) erfcScaled(x reg.Register) reg.VecVirtual {
	e := v.poly(logErfcPoly, x)
	v.VMULPS(x, e, e)
	v.expBounded(e)
	return e
}

// erf replaces x by erf(x): by a polynomial near zero, as 1 − erfc elsewhere.
func (v *simd) erf(x reg.Register) {
	size, square, scaled := v.abs(x), v.vec(), v.vec()
	v.VMULPS(v.f32(math.Sqrt2), size, scaled)
	v.atMost(logErfcMax, scaled)
	e := v.erfcScaled(scaled)
	large := v.constant(1)
	v.VSUBPS(e, large, large)
	v.VMULPS(size, size, square)
	small := v.poly(erfPoly, square)
	v.VFMADD213PS(size, size, small) // poly·x + x
	v.selectBelow(erfSmall, size, small, large)
	v.copySign(x, large)
	v.VMOVAPS(large, x)
}

// tanh replaces x by tanh(x): by a polynomial near zero, as 1 − 2/(e^2|x| + 1) elsewhere.
func (v *simd) tanh(x reg.Register) {
	size, square := v.abs(x), v.vec()
	e := v.vec()
	v.VADDPS(size, size, e)
	v.exp(e)
	v.VADDPS(v.f32(1), e, e)
	two, large := v.constant(2), v.constant(1)
	v.VDIVPS(e, two, e)
	v.VSUBPS(e, large, large)
	v.VMULPS(size, size, square)
	small := v.poly(tanhPoly, square)
	v.VMULPS(size, square, square)
	v.VFMADD213PS(size, square, small) // poly·x³ + x
	v.selectBelow(tanhSmall, size, small, large)
	v.copySign(x, large)
	v.VMOVAPS(large, x)
}

// selectBelow puts the lanes of small into large where size < limit.
func (v *simd) selectBelow(limit float64, size, small, large reg.Register) {
	const lessThan = 1
	if v.wide {
		below := v.K()
		v.VCMPPS(operand.U8(lessThan), v.f32(limit), size, below)
		v.VMOVAPS(small, below, large)
		return
	}
	below := v.vec()
	v.VCMPPS(operand.U8(lessThan), v.f32(limit), size, below)
	v.VBLENDVPS(below, small, large, large)
}

// sigmoid replaces x by 1/(1 + e^−x).
func (v *simd) sigmoid(x reg.Register) {
	one := v.constant(1)
	v.divideBySigmoidDenominator(x, one)
	v.VMOVAPS(one, x)
}

// silu replaces x by x·sigmoid(a·x).
func (v *simd) silu(x, a, _ reg.Register) {
	e := v.vec()
	v.VMULPS(a, x, e)
	v.divideBySigmoidDenominator(e, x)
}

// geluTanhLeast is an argument at which geluTanh is 0, as it is at −∞.
const geluTanhLeast = -20

// geluTanh replaces x by x/2·(1 + tanh(u)) = x·sigmoid(2u), u = √(2/π)·(x + 0.044715·x³).
func (v *simd) geluTanh(x reg.Register) {
	const c = 2 * 0.797884560802865
	v.VMAXPS(x, v.constant(geluTanhLeast), x) // NaN stays
	u := v.vec()
	v.VMULPS(x, x, u)
	factor := v.constant(c * 0.044715)
	v.VFMADD213PS(v.f32(c), u, factor)
	v.VMULPS(x, factor, u)
	v.divideBySigmoidDenominator(u, x)
}

// divideBySigmoidDenominator divides by 1 + e^−x. x is clobbered.
func (v *simd) divideBySigmoidDenominator(x, dividend reg.Register) {
	v.VXORPS(v.bits(signBit), x, x)
	v.exp(x)
	v.VADDPS(v.f32(1), x, x)
	v.VDIVPS(x, dividend, dividend)
}

// relu replaces x by max(x, 0); NaN stays.
func (v *simd) relu(x reg.Register) {
	zero := v.vec()
	v.zero(zero)
	v.VMAXPS(x, zero, x)
}
