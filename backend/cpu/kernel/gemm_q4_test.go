package kernel

import (
	"fmt"
	"math/rand/v2"
	"testing"
)

func TestGemmQ4(t *testing.T) {
	eachLevel(t, func(t *testing.T, s *Set) {
		r := newRand()
		for _, m := range edges(s.gemm.rows) {
			for _, n := range edges(s.gemm.vec, s.gemm.cols()) {
				for _, k := range []int{1, 16, 31, 32, 33, 100} {
					testGemmQ4(t, s, r, m, n, k, 16<<r.IntN(3))
				}
			}
		}
		testGemmQ4(t, s, r, 5, 100, 2001, 128)
	})
}

// testGemmQ4 decodes B by the definition and leaves the rest to the test of float32 products.
func testGemmQ4(t *testing.T, s *Set, r *rand.Rand, m, n, k, block int) {
	t.Helper()
	g := newGemmCase(r, m, n, k)
	blocks := ceilDiv(k, block)
	src, scales := make([]byte, n*blocks*block/2), random(r, n*blocks).inner
	for i := range src {
		src[i] = byte(r.Uint32())
	}
	var zeros []byte
	if r.IntN(2) == 0 {
		zeros = make([]byte, n*ceilDiv(blocks, 2))
		for i := range zeros {
			zeros[i] = byte(r.Uint32())
		}
	}
	nibble := func(b []byte, i int) float32 { return float32(b[i/2] >> (4 * (i % 2)) & 15) }
	for j := range n {
		for i := range k {
			zero := float32(8)
			if zeros != nil {
				zero = nibble(zeros[j*ceilDiv(blocks, 2):], i/block)
			}
			g.b.inner[i*g.bRow+j*g.bCol] = (nibble(src, j*blocks*block+i) - zero) * scales[j*blocks+i/block]
		}
	}
	what := fmt.Sprintf("block %d zeros %v %v", block, zeros != nil, g)
	pack := s.NewPackQ4(k, n, block)
	packed := newGuarded(pack.Bytes()/4, 0)
	for p := range pack.Parts() {
		pack.Run(p, bytesOfFloats(packed.inner), src, scales, zeros)
	}
	packed.check(t, "packing "+what)
	plan := s.NewGemmQ4(m, n, k, block)
	scratch := newGuarded(plan.ScratchBytes()/4, 0)
	for p := range plan.Parts() {
		plan.Run(p, &g.args, bytesOfFloats(packed.inner), bytesOfFloats(scratch.inner))
	}
	scratch.check(t, what)
	g.check(t)
}
