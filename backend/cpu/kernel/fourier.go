package kernel

import (
	"math"
	"math/bits"
	"math/cmplx"
)

// A Fourier is the discrete transform of vectors of one length, or its inverse without the factor 1/n. Any number of goroutines may use it.
type Fourier struct {
	n, odd int          // the length, and its largest odd factor
	roots  []complex128 // the n-th roots of unity
	// If odd is above byDefinition, the odd part is transformed by Bluestein's algorithm, as a convolution with chirps, which is a product
	// of transforms. Otherwise these are nil.
	chirps, spectrum []complex128
	by, back         *Fourier // the transform of a power of two by which the convolution is computed, and its inverse
}

// MaxFourier bounds the length of a Fourier, which holds several complex numbers for each element.
const MaxFourier = 1 << 14

// byDefinition is the largest odd length that is computed element by element.
const byDefinition = 64

// NewFourier prepares transforms of length n.
func NewFourier(n int, inverse bool) *Fourier {
	f := &Fourier{n: n, odd: n >> bits.TrailingZeros(uint(n)), roots: make([]complex128, n)}
	angle := -2 * math.Pi
	if inverse {
		angle = -angle
	}
	for k := range f.roots {
		f.roots[k] = cmplx.Rect(1, angle*float64(k)/float64(n))
	}
	m := convolved(n)
	if m == 0 {
		return f
	}
	f.by, f.back = NewFourier(m, false), NewFourier(m, true)
	f.chirps, f.spectrum = make([]complex128, f.odd), make([]complex128, m)
	b := make([]complex128, m)
	for k := range f.chirps {
		f.chirps[k] = cmplx.Rect(1, angle/2*float64(k*k%(2*f.odd))/float64(f.odd))
		b[k] = cmplx.Conj(f.chirps[k])
		b[(m-k)%m] = b[k]
	}
	f.by.Transform(f.spectrum, b, nil)
	for k := range f.spectrum {
		f.spectrum[k] /= complex(float64(m), 0)
	}
	return f
}

// FourierScratch returns the number of complex numbers of scratch memory that a transform of length n needs.
func FourierScratch(n int) int { return 2 * convolved(n) }

// convolved returns the length of the convolutions of Bluestein's algorithm for the odd part of n, and 0 if n is transformed without them.
func convolved(n int) int {
	odd := n >> bits.TrailingZeros(uint(n))
	if odd <= byDefinition {
		return 0
	}
	return 1 << bits.Len(uint(2*odd-1))
}

// Transform writes the transform of x to y; they do not overlap.
func (f *Fourier) Transform(y, x, scratch []complex128) { f.halves(y[:f.n], x, 1, scratch) }

// halves is the transform of the elements of x that are stride apart: that of the even ones and that of the odd ones (Cooley and Tukey
// 1965).
func (f *Fourier) halves(y, x []complex128, stride int, scratch []complex128) {
	n := len(y)
	switch {
	case n == 1:
		y[0] = x[0]
		return
	case n == f.odd && f.by != nil:
		f.convolve(y, x, stride, scratch)
		return
	case n == f.odd:
		for k := range y {
			sum, root := x[0], 0
			for i := 1; i < n; i++ {
				if root += k * stride; root >= f.n {
					root %= f.n
				}
				sum += x[i*stride] * f.roots[root]
			}
			y[k] = sum
		}
		return
	}
	low, high := y[:n/2], y[n/2:]
	f.halves(low, x, 2*stride, scratch)
	f.halves(high, x[stride:], 2*stride, scratch)
	for k, a := range low {
		b := high[k] * f.roots[k*stride]
		low[k], high[k] = a+b, a-b
	}
}

// convolve is the transform of an odd number of elements: x times chirps, convolved with the opposite chirps, times chirps.
func (f *Fourier) convolve(y, x []complex128, stride int, scratch []complex128) {
	m := len(f.spectrum)
	a, b := scratch[:m], scratch[m:2*m]
	for k, c := range f.chirps {
		a[k] = x[k*stride] * c
	}
	clear(a[len(f.chirps):])
	f.by.Transform(b, a, nil)
	for k, t := range f.spectrum {
		b[k] *= t
	}
	f.back.Transform(a, b, nil)
	for k, c := range f.chirps {
		y[k] = a[k] * c
	}
}
