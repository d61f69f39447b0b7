package kernel

import (
	"math"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestConvertWidening widens every 16-bit pattern.
func TestConvertWidening(t *testing.T) {
	src := make([]uint16, 1<<16)
	for i := range src {
		src[i] = uint16(i)
	}
	eachLevel(t, func(t *testing.T, s *Set) {
		for _, f := range shortFloats {
			got := make([]float32, len(src))
			f.widen(s, got, src)
			for i, x := range src {
				if want := f.value(x); got[i] != want && (got[i] == got[i] || want == want) {
					t.Fatalf("%s %#04x: got %v, want %v", f.name, x, got[i], want)
				}
			}
		}
	})
}

// shortFloats are the 16-bit floats, by their definition.
var shortFloats = []struct {
	name         string
	exponentBits int
	narrow       func(s *Set, dst []uint16, src []float32)
	widen        func(s *Set, dst []float32, src []uint16)
	value        func(x uint16) float32
}{
	{"half", 5, (*Set).ToF16, (*Set).FromF16, halfValue},
	{"bfloat16", 8, (*Set).ToBF16, (*Set).FromBF16, func(x uint16) float32 { return math.Float32frombits(uint32(x) << 16) }},
}

func halfValue(x uint16) float32 {
	exponent, fraction := int(x>>10&31), float64(x&1023)
	var v float64
	switch {
	case exponent == 31 && fraction != 0:
		return float32(math.NaN())
	case exponent == 31:
		v = math.Inf(1)
	case exponent == 0:
		v = math.Ldexp(fraction, -24)
	default:
		v = math.Ldexp(1024+fraction, exponent-25)
	}
	if x>>15 != 0 {
		v = -v
	}
	return float32(v)
}

// TestConvertNarrowing rounds all 16-bit values, the middles between them, and what is next to those.
func TestConvertNarrowing(t *testing.T) {
	inf := float32(math.Inf(1))
	eachLevel(t, func(t *testing.T, s *Set) {
		for _, f := range shortFloats {
			// The value that infinity stands for in rounding is the power of two after the largest number.
			beyond := math.Ldexp(1, 1<<(f.exponentBits-1))
			size := func(bits uint16) float64 {
				v := float64(f.value(bits))
				if math.IsInf(v, 1) {
					return beyond
				}
				return v
			}
			var src []float32
			var want []uint16
			for bits := uint16(0); f.value(bits) < inf; bits++ {
				next := bits + 1
				middle := float32((size(bits) + size(next)) / 2)
				even := bits + bits&1
				src = append(src, f.value(bits), math.Nextafter32(middle, 0), middle, math.Nextafter32(middle, inf))
				want = append(want, bits, bits, even, next)
			}
			got := make([]uint16, len(src))
			for _, sign := range []uint16{0, 0x8000} {
				f.narrow(s, got, src)
				for i, x := range src {
					if got[i] != want[i]|sign {
						t.Fatalf("%s of %v: got %#04x, want %#04x", f.name, x, got[i], want[i]|sign)
					}
					src[i] = -x
				}
			}
			special := []float32{inf, -inf, float32(math.NaN()), math.Float32frombits(0x7f800001), math.Float32frombits(0xffffffff)}
			for range 4 { // for whole vectors
				special = append(special, special...)
			}
			f.narrow(s, got, special)
			for i, x := range special {
				if back := f.value(got[i]); back != x && (back == back || x == x) {
					t.Fatalf("%s of %v is %v", f.name, x, back)
				}
			}
		}
	})
}

func TestConvertTails(t *testing.T) {
	eachLevel(t, func(t *testing.T, s *Set) {
		r := newRand()
		for n := range 40 {
			src := random(r, n)
			bits, back := operand[uint16](n+1), newGuarded(n, 1)
			bits[n] = 0xabcd
			s.ToBF16(bits[:n], src.inner)
			s.FromBF16(back.inner, bits[:n])
			back.check(t, "bfloat16")
			s.ToF16(bits[:n], src.inner)
			s.FromF16(back.inner, bits[:n])
			back.check(t, "half")
			require.EqualValues(t, 0xabcd, bits[n])
			for i := range n {
				require.InDelta(t, src.inner[i], back.inner[i], 1e-3)
			}
		}
	})
}

// TestRoundBF16 compares with ToBF16, but for subnormal numbers.
func TestRoundBF16(t *testing.T) {
	eachLevel(t, func(t *testing.T, s *Set) {
		r := newRand()
		for _, n := range []int{0, 1, 15, 31, 32, 33, 64, 95, 200} {
			src, dst, want := newGuarded(n, r.IntN(16)), newGuarded(ceilDiv(n, 2), 0), make([]uint16, n)
			for i := range src.inner {
				src.inner[i] = math.Float32frombits(r.Uint32() | 1<<24) // of which the exponent is not 0
			}
			s.ToBF16(want, src.inner)
			got := elementsOf[uint16](bytesOfFloats(dst.inner))[:n]
			s.RoundBF16(got, src.inner)
			dst.check(t, "rounding")
			for i := range got {
				if x := src.inner[i]; x == x {
					require.Equalf(t, want[i], got[i], "%v, element %d of %d", x, i, n)
				}
			}
		}
	})
}
