package ops

import (
	"fmt"
	"math"
	"math/bits"
	"math/cmplx"

	"github.com/rlxc/rlxc/ir"
	"github.com/rlxc/rlxc/tensor"
)

// MaxTransform bounds the length of a transform.
const MaxTransform = 1 << 20

// Estimates of the memory and the work for one element of a transform.
const (
	transformBytes = 256
	transformSteps = 32
)

// checkTransform fails where a length is none, or too long.
func checkTransform(n int) error {
	if n < 1 || n > MaxTransform {
		return fmt.Errorf("a transform of length %d: lengths are from 1 to %d", n, MaxTransform)
	}
	return nil
}

// transform is the discrete Fourier transform of a vector, or its inverse without the factor 1/n: by halves while the length
// is even (Cooley and Tukey 1965), by a convolution where it is odd, by the definition where it is short.
func transform(x []complex128, inverse bool) []complex128 {
	roots := make([]complex128, len(x))
	for k := range roots {
		roots[k] = cmplx.Rect(1, rootAngle(inverse)*float64(k)/float64(len(x)))
	}
	return halves(x, roots, inverse)
}

// rootAngle is the angle of the root of unity of order 1.
func rootAngle(inverse bool) float64 {
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
	n, half := len(x), rootAngle(inverse)/2
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

// DFT is the discrete Fourier transform along an axis. Complex tensors are real ones with a last axis of 2.
type DFT struct {
	ir.Opaque[DFT]
	Axis     int
	Length   ir.Dim // length of the transforms
	Inverse  bool
	OneSided bool // the result has only the first half of the spectrum, from which the other half follows for real numbers
}

func (o DFT) Infer(in []*ir.Value) ([]ir.Type, error) {
	x := in[0].Type
	last := len(x.Shape) - 1
	if o.Axis < 0 || o.Axis >= last {
		return nil, fmt.Errorf("axis %d of %v, whose last one holds the parts of complex numbers", o.Axis, x)
	}
	parts, ok := x.Shape[last].Const()
	if !ok || parts != 1 && parts != 2 || o.OneSided && !o.Inverse && parts != 1 || o.OneSided && o.Inverse && parts != 2 {
		return nil, fmt.Errorf("%v has no real (1) or complex (2) numbers along its last axis, as it is onesided=%v inverse=%v", x,
			o.OneSided, o.Inverse)
	}
	if n, known := o.Length.Const(); known {
		if err := checkTransform(n); err != nil {
			return nil, err
		}
	}
	shape := append(ir.Shape{}, x.Shape...)
	shape[o.Axis], shape[last] = o.Length, ir.N(2)
	switch {
	case o.OneSided && o.Inverse:
		shape[last] = ir.N(1)
	case o.OneSided:
		shape[o.Axis] = o.Length.Div(ir.N(2)).Add(ir.N(1))
	}
	return []ir.Type{ir.TensorOf(x.DType, shape...)}, nil
}

func (o DFT) Eval(env *ir.Env, in []*tensor.Tensor) ([]*tensor.Tensor, error) {
	y := env.Output(o, in)
	dft(env, in[0], y, o.Axis, o.Length.Int(), o.Inverse, o.OneSided)
	return []*tensor.Tensor{y}, nil
}

// dft transforms every vector of x along an axis into y.
func dft(env *ir.Env, x, y *tensor.Tensor, axis, n int, inverse, onesided bool) {
	sx, sy := x.Shape(), y.Shape()
	last := len(sx) - 1
	inner := sx[axis+1 : last].Elements()
	px, py := sx[last], sy[last]
	if y.Len() == 0 {
		return
	}
	env.Take(transformBytes * int64(n))
	for outer := range env.Range(sx[:axis].Elements()) {
		for i := range inner {
			env.Work(transformSteps * n)
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

// STFT transforms frames of a signal [batch, length, 1 or 2], a step apart and perhaps weighted by a window, operand 1.
type STFT struct {
	ir.Opaque[STFT]
	Step, Length int
	OneSided     bool
}

// bins is the number of frequencies of a frame.
func (o STFT) bins() int {
	if o.OneSided {
		return o.Length/2 + 1
	}
	return o.Length
}

func (o STFT) Infer(in []*ir.Value) ([]ir.Type, error) {
	x := in[0].Type
	if len(x.Shape) != 3 || ir.LessEqual(ir.N(1), x.Shape[2]) == ir.No || ir.LessEqual(x.Shape[2], ir.N(2)) == ir.No || o.Step < 1 ||
		o.Step > MaxSize {
		return nil, fmt.Errorf("signal %v, a step of %d", x, o.Step)
	}
	length := ir.N(o.Length)
	if w := ir.Operand(in, 1); w != nil && (rank(w) != 1 || ir.Same(w.Type.Shape[0], length) == ir.No) {
		return nil, fmt.Errorf("window %v for frames of %v", w.Type, length)
	}
	if err := checkTransform(o.Length); err != nil || ir.LessEqual(length, x.Shape[1]) == ir.No {
		return nil, fmt.Errorf("frames of %d elements of %v", o.Length, x)
	}
	frames := x.Shape[1].Sub(length).Div(ir.N(o.Step)).Add(ir.N(1))
	return []ir.Type{ir.TensorOf(x.DType, x.Shape[0], frames, ir.N(o.bins()), ir.N(2))}, nil
}

func (o STFT) Eval(env *ir.Env, in []*tensor.Tensor) ([]*tensor.Tensor, error) {
	y := env.Output(o, in)
	x, window, n, bins := in[0], ir.Operand(in, 1), o.Length, o.bins()
	s, frames := x.Shape(), y.Shape()[1]
	env.Take(transformBytes * int64(n))
	for b := range s[0] {
		for f := range frames {
			env.Work(transformSteps * n)
			v := make([]complex128, n)
			for i := range v {
				at, weight := (b*s[1]+f*o.Step+i)*s[2], 1.0
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
