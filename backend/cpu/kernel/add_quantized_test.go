package kernel

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// guardedBytes are n random bytes between canaries, shift bytes after a 64-byte boundary.
func guardedBytes(fill func() byte, n, shift int) (inner []byte, check func(t *testing.T)) {
	g := newGuarded((n+shift+3)/4+1, 0)
	all := bytesOfFloats(g.inner)
	for i := range all {
		all[i] = 0xa5
	}
	inner = all[shift:][:n:n]
	for i := range inner {
		inner[i] = fill()
	}
	return inner, func(t *testing.T) {
		t.Helper()
		g.check(t, "bytes")
		for i, b := range all {
			if b != 0xa5 && (i < shift || i >= shift+n) {
				t.Fatalf("wrote byte %d of %d", i-shift, n)
			}
		}
	}
}

// randomBytes are an operand of bytes.
func randomBytes(fill func() byte, n int) []byte {
	x := operand[byte](n)
	for i := range x {
		x[i] = fill()
	}
	return x
}

// TestAddCodes adds quantised values as floats would be added, at every length around what kernels take at a time.
func TestAddQuantized(t *testing.T) {
	eachLevel(t, func(t *testing.T, s *Set) {
		r := newRand()
		for _, n := range append(edges(8, 16, 64), callElements+17) {
			for _, isSigned := range []bool{false, true} {
				if !s.AddsQuantized() {
					return
				}
				random := func() byte { return byte(r.Uint32()) }
				a := randomBytes(random, n)
				b := randomBytes(random, n)
				dst, check := guardedBytes(random, n, r.IntN(16))
				p, q := Addend{a, 0.01 + r.Float32(), r.Int32N(100), isSigned}, Addend{b, 0.01 + r.Float32(), r.Int32N(100), isSigned}
				to := Quantized{Dst: dst, Scale: 0.01 + r.Float32(), Zero: r.Int32N(100), Signed: r.IntN(2) == 0}
				if r.IntN(4) == 0 {
					to.Scale = 0x1p-126 // has no inverse that is exact enough
				}
				s.AddQuantized(to, p, q)
				check(t)
				number := func(c Addend, i int) float32 {
					x := int32(c.Data[i])
					if c.Signed {
						x = int32(int8(c.Data[i]))
					}
					return float32(x-c.Zero) * c.Scale
				}
				lo, hi := 0.0, 255.0
				if to.Signed {
					lo, hi = -128, 127
				}
				want := make([]byte, n)
				for i := range dst {
					x := number(p, i)
					y := number(q, i)
					want[i] = byte(quantizeFloat64(x+y, to.Scale, lo, hi, float64(to.Zero)))
				}
				require.Equal(t, want, dst, "%d bytes, signed %v", n, isSigned)
				if n < 64 {
					s.AddQuantized(Quantized{Dst: a, Scale: to.Scale, Zero: to.Zero, Signed: to.Signed}, p, q) // in place
					require.Equal(t, dst, a)
				}
			}
		}
	})
}

// TestMaxBytes takes the larger of unsigned and of signed bytes.
func TestMaxBytes(t *testing.T) {
	eachLevel(t, func(t *testing.T, s *Set) {
		r := newRand()
		for _, n := range append(edges(8, 16, maxBytesChunk, 64), callElements+33) {
			random := func() byte { return byte(r.Uint32()) }
			a := randomBytes(random, n)
			b := randomBytes(random, n)
			dst, check := guardedBytes(random, n, r.IntN(16))
			for _, isSigned := range []bool{false, true} {
				s.MaxBytes(dst, a, b, isSigned)
				check(t)
				want := make([]byte, n)
				for i := range dst {
					want[i] = max(a[i], b[i])
					if isSigned {
						want[i] = byte(max(int8(a[i]), int8(b[i])))
					}
				}
				require.Equal(t, want, dst, "%d bytes, signed %v", n, isSigned)
			}
		}
	})
}

// TestSlide makes words of neighbouring pixels.
func TestSlide(t *testing.T) {
	eachLevel(t, func(t *testing.T, s *Set) {
		if s.depthwiseWords.sum == nil {
			return
		}
		r := newRand()
		for step := 1; step <= 2; step++ {
			for _, cols := range edges(16, 48) {
				for _, count := range []int{1, 2, 9} {
					row := cols + r.IntN(3)
					src := randomBytes(func() byte { return byte(r.Uint32()) }, ((count-1)*step+3)*row+cols)
					dst := newGuarded(count*(cols+2), r.IntN(16))
					words := elementsOf[uint32](bytesOfFloats(dst.inner))
					s.depthwiseWords.slide[step-1](pointer(words), cols+2, pointer(src), row, 0x80808080, count, cols)
					dst.checkGaps(t, "words", cols+2, cols)
					for i := range count {
						for c := range cols {
							want := uint32(0x80808080)
							for k := range 4 {
								want ^= uint32(src[(i*step+k)*row+c]) << (8 * k)
							}
							require.Equal(t, want, words[i*(cols+2)+c], "step %d, word %d, channel %d of %d", step, i, c, cols)
						}
					}
				}
			}
		}
	})
}

// TestDepthwisePasses: distances of weights from their zero points fall into as few signed bytes as hold them.
func TestDepthwisePasses(t *testing.T) {
	for _, c := range []struct{ x, bytes, want int32 }{{127, 1, 127}, {128, 1, 127}, {-129, 1, -128}, {254, 2, 254}, {255, 2, 254},
		{-256, 2, -256}, {255, 3, 255}} {
		require.Equal(t, c.want, clampS8(c.x, int(c.bytes)), "%v", c)
	}
}
