package kernel

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestGemmS8Quantized quantises products on the way: the quantised values are those of the same product in floats.
func TestGemmS8Quantized(t *testing.T) {
	eachLevel(t, func(t *testing.T, s *Set) {
		r := newRand()
		for _, m := range []int{1, s.gemmS8.rows + 1, 2*blockRows + 3} {
			for _, n := range edges(s.gemmS8.vec, s.gemmS8.cols(), 2*s.gemmS8.cols()) {
				for _, k := range []int{0, 3, 31, 32, 64, 100} {
					g := newGemmS8Case(r, m, n, k)
					args := &g.args
					pack := s.NewPackS8(k, n)
					args.B = bytesOfFloats(newGuarded(pack.Bytes()/4, 0).inner)
					for p := range pack.Parts() {
						pack.Run(p, args.B, g.b, g.bRow, g.bCol, g.unsigned)
					}
					plan := s.NewGemmS8(m, n, k, 1)
					scratch := newGuarded(plan.ScratchBytes()/4, 0)
					run := func() {
						for p := range plan.Parts() {
							plan.Run(p, args, bytesOfFloats(scratch.inner))
						}
						scratch.check(t, "scratch")
					}
					run()
					floats := args.C
					const gap = 3
					args.C, args.CRow = nil, n+gap
					args.Quantized = Quantized{Dst: make([]uint8, m*args.CRow), Row: args.CRow, Scale: 0.01, Zero: 40,
						Signed: r.IntN(2) == 0}
					scale, zero := slices.Repeat([]float32{0.01}, n), slices.Repeat([]int32{40}, n)
					if r.IntN(2) == 0 {
						for i := n / 3; i < n; i++ {
							scale[i], zero[i] = 0.03, 40+int32(3*i/n)
						}
						args.Quantized.Scales, args.Quantized.Zeros = scale, zero
					}
					for i := range args.Quantized.Dst {
						args.Quantized.Dst[i] = 0xa5
					}
					run()
					lo, hi := 0.0, 255.0
					if args.Quantized.Signed {
						lo, hi = -128, 127
					}
					fRow := len(floats) / m
					for i, q := range args.Quantized.Dst {
						want := byte(0xa5)
						if c := i % args.CRow; c < n {
							want = byte(quantizeFloat64(floats[i/args.CRow*fRow+c], scale[c], lo, hi, float64(zero[c])))
						}
						require.Equal(t, want, q, "%d×%d×%d at %d", m, n, k, i)
					}
				}
			}
		}
	})
}

// TestReluOfNegativeScale: quotients by a scale below 0 have the other order, so that ReLU is no bound of theirs.
func TestReluOfNegativeScale(t *testing.T) {
	eachLevel(t, func(t *testing.T, s *Set) {
		const n, k = 17, 4
		pack, plan := s.NewPackS8(k, n), s.NewGemmS8(1, n, k, 1)
		b := make([]byte, k*n)
		for i := range b {
			b[i] = byte(i - 30)
		}
		args := GemmS8Args{A: []uint8{1, 2, 3, 4}, ARow: k, Scale: []float32{1}, Zero: []int32{0}, BScale: slices.Repeat([]float32{1}, n),
			B: bytesOfFloats(newGuarded(pack.Bytes()/4, 0).inner), CRow: n, Act: Relu}
		for p := range pack.Parts() {
			pack.Run(p, args.B, b, n, 1, false)
		}
		args.Quantized = Quantized{Dst: make([]uint8, n), Row: n, Scale: -2, Zero: 100}
		for p := range plan.Parts() {
			plan.Run(p, &args, bytesOfFloats(newGuarded(plan.ScratchBytes()/4, 0).inner))
		}
		for c, q := range args.Quantized.Dst {
			sum := float32(0)
			for i, a := range args.A {
				sum += float32(int32(a) * int32(int8(b[i*n+c])))
			}
			require.Equal(t, byte(quantizeFloat64(max(sum, 0), -2, 0, 255, 100)), q, "column %d", c)
		}
	})
}
