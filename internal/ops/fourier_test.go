package ops

import (
	"math"
	"math/cmplx"
	"math/rand"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestTransform compares the fast transforms with the definition, and a transform with its inverse at lengths where the
// definition takes too long: large primes above all.
func TestTransform(t *testing.T) {
	r := rand.New(rand.NewSource(1))
	vector := func(n int) []complex128 {
		x := make([]complex128, n)
		for i := range x {
			x[i] = complex(r.NormFloat64(), r.NormFloat64())
		}
		return x
	}
	for _, n := range []int{1, 2, 3, 8, 63, 65, 66, 67, 96, 101, 134, 257} {
		for _, inverse := range []bool{false, true} {
			x := vector(n)
			got := transform(x, inverse)
			for k := range got {
				want := complex128(0)
				for i, v := range x {
					angle := -2 * math.Pi * float64(i*k%n) / float64(n)
					if inverse {
						angle = -angle
					}
					want += v * cmplx.Rect(1, angle)
				}
				require.InDelta(t, 0, cmplx.Abs(got[k]-want), 1e-10*float64(n), "%d of %d", k, n)
			}
		}
	}
	for _, n := range []int{10007, 99998} {
		x := vector(n)
		back := transform(transform(x, false), true)
		for i, v := range back {
			require.InDelta(t, 0, cmplx.Abs(v/complex(float64(n), 0)-x[i]), 1e-9)
		}
	}
}
