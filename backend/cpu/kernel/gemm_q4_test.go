package kernel

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"
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
	testGemmQ4S8(t, s, r, g, packed, block, what)
}

// testGemmQ4S8 multiplies the same B by codes of A: the result is that of the values which the codes stand for.
func testGemmQ4S8(t *testing.T, s *Set, r *rand.Rand, g *gemmCase, packed *guarded, block int, what string) {
	t.Helper()
	plan := s.NewGemmQ4S8(g.m, g.n, g.k, block)
	g.args.ARow, g.args.ACol, g.args.Alpha = g.k+r.IntN(3), 1, 1
	g.a = random(r, g.m*g.args.ARow)
	clear(g.a.inner[:min(block, g.k)]) // a block of zeros
	g.args.A = g.a.inner
	codes, scales := newGuarded(g.m*plan.RowCodes()/4, 0), newGuarded(g.m*plan.RowScales(), 0)
	args := GemmQ4S8Args{Codes: bytesOfFloats(codes.inner), Scales: scales.inner, GemmArgs: g.args}
	plan.QuantizeBlocks(args.Codes, args.Scales, g.args.A, g.args.ARow, 0, g.m)
	codes.check(t, "codes "+what)
	scales.check(t, "scales "+what)
	for i := range g.m {
		for k := range plan.RowCodes() {
			x, at := float32(0), i*g.args.ARow+k
			if k < g.k {
				x = g.args.A[at]
			}
			var largest float32
			for j := k / block * block; j < min((k/block+1)*block, g.k); j++ {
				largest = max(largest, float32(math.Abs(float64(g.a.inner[i*g.args.ARow+j]))))
			}
			if largest == 0 {
				largest, x = 1, 0
			}
			code := math.RoundToEven(float64(x * (127 / largest)))
			require.EqualValues(t, 128+code, args.Codes[i*plan.RowCodes()+k], "%s: code %d of row %d", what, k, i)
		}
	}
	for i := range g.m { // behind the check, which reads whole blocks
		for k := range g.k {
			g.args.A[i*g.args.ARow+k] = float32(int(args.Codes[i*plan.RowCodes()+k])-128) * args.Scales[i*plan.RowScales()+k/block]
		}
	}
	scratch := newGuarded(plan.ScratchBytes()/4, 0)
	for p := range plan.Parts() {
		plan.Run(p, &args, bytesOfFloats(packed.inner), bytesOfFloats(scratch.inner))
	}
	scratch.check(t, what)
	g.check(t)
}
