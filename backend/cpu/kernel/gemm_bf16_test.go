package kernel

import (
	"math/rand/v2"
	"testing"
	"unsafe"
)

func TestGemmBF16(t *testing.T) {
	eachLevel(t, func(t *testing.T, s *Set) {
		r := newRand()
		for _, m := range edges(s.gemmBF16.rows, 2*s.gemmBF16.rows) {
			for _, n := range edges(s.gemmBF16.vec, s.gemmBF16.cols(), 2*s.gemmBF16.cols()) {
				for _, k := range []int{0, 1, 2, 5, 16, 33, 64, 70} {
					testGemmBF16(t, s, r, m, n, k)
				}
			}
		}
		testGemmBF16(t, s, r, 150, 100, 10)
		testGemmBF16(t, s, r, 3, 20, 3400)
		for range epilogues { // panels side by side, tiles below each other
			for _, m := range []int{2, 9, s.gemmBF16.rows, 2*s.gemmBF16.rows + 6, blockRows + 5} {
				testGemmBF16(t, s, r, m, 5*s.gemmBF16.cols()+s.gemmBF16.vec, 64)
			}
		}
	})
}

// testGemmBF16 rounds the operands of a float32 product to bfloat16 first, so that the check of that product holds.
func testGemmBF16(t *testing.T, s *Set, r *rand.Rand, m, n, k int) {
	t.Helper()
	g := newGemmCase(r, m, n, k)
	for _, x := range [][]float32{g.a.inner, g.b.inner} {
		bits := operand[uint16](len(x))
		s.ToBF16(bits, x)
		s.FromBF16(x, bits)
	}
	args := &GemmBF16Args{ARow: roundUp(k, 2) + 2*r.IntN(2), GemmArgs: g.args}
	args.A = operand[uint16](m * args.ARow)
	for i := range m {
		for j := range k {
			args.A[i*args.ARow+j] = bf16Bits(g.args.A[i*g.args.ARow+j*g.args.ACol])
		}
	}
	pack := s.NewPackBF16(k, n)
	packed, scratch := newGuarded(pack.Len()/2, 0), newGuarded(pack.ScratchBytes()/4, 0)
	args.B = unsafe.Slice((*uint16)(unsafe.Pointer(unsafe.SliceData(packed.inner))), pack.Len())
	for p := range pack.Parts() {
		pack.Run(p, args.B, g.b.inner, g.bRow, g.bCol, bytesOfFloats(scratch.inner))
	}
	packed.check(t, "packing "+g.String())
	scratch.check(t, "packing "+g.String())
	plan := s.NewGemmBF16(m, n, k, 1+m%3)
	for p := range plan.Parts() {
		plan.Run(p, args)
	}
	g.check(t)
}
