package lower

import (
	"fmt"
	"math"
	"math/bits"
	"math/cmplx"
	"slices"

	"github.com/rlxc/rlxc/ir"
	"github.com/rlxc/rlxc/tensor"
)

// Fourier transforms. Complex tensors are real ones with a last axis of 2.
var fourierRows = []row{
	{"DFT", 17, lowerDFT},
	{"DFT", 20, lowerDFT},
	{"STFT", 17, lowerSTFT},
	{"MelWeightMatrix", 17, lowerMelWeightMatrix},
}

// maxTransform bounds the length of a transform, which takes some 200 bytes an element while it runs.
const maxTransform = 1 << 20

// checkTransform fails where a length is none, or too long.
func checkTransform(n int) error {
	if n < 1 || n > maxTransform {
		return fmt.Errorf("a transform of length %d: lengths are from 1 to %d", n, maxTransform)
	}
	return nil
}

// transform is the discrete Fourier transform of a vector, or its inverse without the factor 1/n: by halves while the length
// is even (Cooley and Tukey 1965), by a convolution where it is odd, by the definition where it is short.
func transform(x []complex128, inverse bool) []complex128 {
	roots := make([]complex128, len(x))
	for k := range roots {
		roots[k] = cmplx.Rect(1, turn(inverse)*float64(k)/float64(len(x)))
	}
	return halves(x, roots, inverse)
}

// turn is the angle of the root of unity of order 1.
func turn(inverse bool) float64 {
	if inverse {
		return 2 * math.Pi
	}
	return -2 * math.Pi
}

// halves is transform with the roots of a multiple of its length.
func halves(x, roots []complex128, inverse bool) []complex128 {
	n := len(x)
	if n%2 == 1 && n > 64 {
		return chirp(x, inverse)
	}
	y := make([]complex128, n)
	if n == 0 {
		return y
	}
	stride := len(roots) / n
	if n%2 == 1 {
		for k := range y {
			for i, v := range x {
				y[k] += v * roots[k*i%n*stride]
			}
		}
		return y
	}
	even, odd := make([]complex128, n/2), make([]complex128, n/2)
	for i := range even {
		even[i], odd[i] = x[2*i], x[2*i+1]
	}
	even, odd = halves(even, roots, inverse), halves(odd, roots, inverse)
	for k := range even {
		t := roots[k*stride] * odd[k]
		y[k], y[k+n/2] = even[k]+t, even[k]-t
	}
	return y
}

// chirp is the transform of any length by Bluestein's algorithm (1970): with c(k) = exp(i·half·k²/n), the sum over x(j)
// exp(i·2·half·j·k/n) is c(k) times the convolution of x·c with the conjugate of c, which transforms of a power of two compute.
func chirp(x []complex128, inverse bool) []complex128 {
	n, half := len(x), turn(inverse)/2
	c := make([]complex128, n)
	for k := range c {
		square := uint64(k) * uint64(k) % uint64(2*n)
		c[k] = cmplx.Rect(1, half*float64(square)/float64(n))
	}
	m := 1 << bits.Len(uint(2*n-1))
	a, b := make([]complex128, m), make([]complex128, m)
	for k, v := range x {
		a[k] = v * c[k]
		b[k] = cmplx.Conj(c[k])
		b[(m-k)%m] = b[k]
	}
	a, b = transform(a, false), transform(b, false)
	for k := range a {
		a[k] *= b[k]
	}
	a = transform(a, true)
	for k := range c {
		c[k] *= a[k] / complex(float64(m), 0)
	}
	return c
}

func lowerDFT(c *Context) []*ir.Value {
	x := c.In(0).Type
	rank := len(x.Shape)
	axis := 1
	if c.Version() < 20 {
		axis = c.AttrInt("axis", 1)
	} else if axis = -2; c.Opt(2) != nil {
		axis = int(c.number(2))
	}
	if axis = c.Axis(axis, rank); axis == rank-1 {
		c.Failf("axis %d holds the parts of complex numbers", axis)
	}
	parts, ok := x.Shape[rank-1].Const()
	if !ok {
		panic(needsRun{0})
	}
	inverse, onesided := c.AttrBool("inverse", false), c.AttrBool("onesided", false)
	if parts != 1 && parts != 2 || onesided && !inverse && parts != 1 || onesided && inverse && parts != 2 {
		c.Failf("%v has no real (1) or complex (2) numbers along its last axis, as it is onesided=%v inverse=%v", x, onesided, inverse)
	}
	n := x.Shape[axis]
	switch {
	case c.Opt(1) != nil:
		if n, ok = wholeNumber(c.In(1)); !ok {
			n = ir.N(int(c.number(1)))
		}
	case inverse && onesided:
		n = n.Sub(ir.N(1)).Mul(ir.N(2))
	}
	if length, known := n.Const(); known {
		if err := checkTransform(length); err != nil {
			c.Failf("%w", err)
		}
	}
	shape := slices.Clone(x.Shape)
	shape[axis], shape[rank-1] = n, ir.N(2)
	switch {
	case onesided && inverse:
		shape[rank-1] = ir.N(1)
	case onesided:
		shape[axis] = n.Div(ir.N(2)).Add(ir.N(1))
	}
	run := func(o ir.Custom, in []*tensor.Tensor) ([]*tensor.Tensor, error) {
		y := resultOf(o, 0)
		length := y.Shape()[axis]
		if onesided && !inverse {
			length = dftLength(in, axis)
		}
		if err := checkTransform(length); err != nil {
			return nil, err
		}
		dft(in[0], y, axis, length, inverse, onesided)
		return []*tensor.Tensor{y}, nil
	}
	return c.Kernel(run, ir.TensorOf(x.DType, shape...))
}

func dftLength(in []*tensor.Tensor, axis int) int {
	if t := ir.Operand(in, 1); t != nil {
		return int(t.Int64(0))
	}
	return in[0].Shape()[axis]
}

// dft transforms every vector of x along an axis into y.
func dft(x, y *tensor.Tensor, axis, n int, inverse, onesided bool) {
	sx, sy := x.Shape(), y.Shape()
	last := len(sx) - 1
	inner := sx[axis+1 : last].Elements()
	px, py := sx[last], sy[last]
	for outer := range sx[:axis].Elements() {
		for i := range inner {
			v := make([]complex128, n)
			for k := range min(n, sx[axis]) {
				at := ((outer*sx[axis]+k)*inner + i) * px
				v[k] = complex(x.Float64(at), 0)
				if px == 2 {
					v[k] = complex(x.Float64(at), x.Float64(at+1))
				}
			}
			if inverse && onesided { // the other half is the mirror image
				for k := n/2 + 1; k < n; k++ {
					v[k] = cmplx.Conj(v[n-k])
				}
			}
			v = transform(v, inverse)
			for k := range sy[axis] {
				if inverse {
					v[k] /= complex(float64(n), 0)
				}
				at := ((outer*sy[axis]+k)*inner + i) * py
				y.SetFloat64(at, real(v[k]))
				if py == 2 {
					y.SetFloat64(at+1, imag(v[k]))
				}
			}
		}
	}
}

// lowerSTFT transforms frames of a signal [batch, length, 1 or 2], a step apart and weighted by a window.
func lowerSTFT(c *Context) []*ir.Value {
	x := c.In(0).Type
	step := int(c.number(1))
	window := c.Opt(2)
	onesided := c.AttrBool("onesided", true)
	if len(x.Shape) != 3 || step < 1 || step > maxWindow {
		c.Failf("signal %v, a step of %d", x, step)
	}
	length := x.Shape[1]
	switch {
	case c.Opt(3) != nil:
		length = ir.N(int(c.number(3)))
	case window != nil:
		length = window.Type.Shape[0]
	}
	if window != nil && (Rank(window) != 1 || ir.Same(window.Type.Shape[0], length) == ir.No) {
		c.Failf("window %v for frames of %v", window.Type, length)
	}
	n, ok := length.Const()
	if !ok {
		panic(needsRun{0})
	}
	if err := checkTransform(n); err != nil || ir.LessEqual(length, x.Shape[1]) == ir.No {
		c.Failf("frames of %d elements of %v", n, x)
	}
	frames, bins := x.Shape[1].Sub(length).Div(ir.N(step)).Add(ir.N(1)), n
	if onesided {
		bins = n/2 + 1
	}
	run := func(o ir.Custom, in []*tensor.Tensor) ([]*tensor.Tensor, error) {
		x, y, window := in[0], resultOf(o, 0), ir.Operand(in, 2)
		s, frames := x.Shape(), y.Shape()[1]
		for b := range s[0] {
			for f := range frames {
				v := make([]complex128, n)
				for i := range v {
					at, weight := (b*s[1]+f*step+i)*s[2], 1.0
					if window != nil {
						weight = window.Float64(i)
					}
					v[i] = complex(x.Float64(at)*weight, 0)
					if s[2] == 2 {
						v[i] += complex(0, x.Float64(at+1)*weight)
					}
				}
				for k, z := range transform(v, false)[:bins] {
					at := ((b*frames+f)*bins + k) * 2
					y.SetFloat64(at, real(z))
					y.SetFloat64(at+1, imag(z))
				}
			}
		}
		return []*tensor.Tensor{y}, nil
	}
	return c.Kernel(run, ir.TensorOf(x.DType, x.Shape[0], frames, ir.N(bins), ir.N(2)))
}

// lowerMelWeightMatrix gives the matrix from the bins of a spectrum to bands evenly spaced in mel.
func lowerMelWeightMatrix(c *Context) []*ir.Value {
	bands, length, rate := int(c.number(0)), int(c.number(1)), c.number(2)
	low, high := c.number(3), c.number(4)
	to := tensor.DType(c.AttrInt("output_datatype", int(tensor.F32)))
	if bands < 1 || length < 1 || bits.Len(uint(bands))+bits.Len(uint(length)) > 30 || !(rate > 0) || !(low >= 0) || !(high >= low) || !to.Valid() || to == tensor.String {
		c.Failf("%d bands of %d bins at %v Hz from %v to %v", bands, length, rate, low, high)
	}
	bins := length/2 + 1
	mel := func(f float64) float64 { return 2595 * math.Log10(1+f/700) }
	step := (mel(high) - mel(low)) / float64(bands+2)
	edges := make([]int, bands+2)
	for i := range edges {
		f := 700 * (math.Pow(10, (mel(low)+float64(i)*step)/2595) - 1)
		if edges[i] = int(math.Floor(float64(length+1) * f / rate)); edges[i] < 0 || edges[i] >= bins {
			c.Failf("band %d begins at bin %d of %d", i, edges[i], bins)
		}
	}
	y := tensor.New(to, bins, bands)
	for i := range bands {
		left, centre, right := edges[i], edges[i+1], edges[i+2]
		if left == centre {
			y.SetFloat64(centre*bands+i, 1)
		}
		for k := left; k <= centre && left < centre; k++ {
			y.SetFloat64(k*bands+i, float64(k-left)/float64(centre-left))
		}
		for k := centre; k < right; k++ {
			y.SetFloat64(k*bands+i, float64(right-k)/float64(right-centre))
		}
	}
	return []*ir.Value{c.Constant(y)}
}
