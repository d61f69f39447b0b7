package kernel

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestGemmOfBlocks(t *testing.T) {
	eachLevel(t, func(t *testing.T, s *Set) {
		r := newRand()
		for _, m := range edges(s.gemm.rows) {
			for _, n := range edges(s.gemm.vec, s.gemm.cols()) {
				for _, k := range []int{1, 16, 31, 32, 33, 100} {
					testGemmBlocks(t, s, r, m, n, k, 16<<r.IntN(3), 4<<r.IntN(2))
					testGemmHalf(t, s, r, m, n, k)
				}
			}
		}
		for _, m := range []int{1, 5, 40} {
			testGemmBlocks(t, s, r, m, 100, 2001, 128, 4)
			testGemmBlocks(t, s, r, m, 70, 2001, 64, 8)
			testGemmBlocks(t, s, r, m, 70, 2001, 2008, 8) // columns whole
			testGemmBlocks(t, s, r, m, 70, 1501, 1504, 4)
			testGemmHalf(t, s, r, m, 70, 2001)
		}
	})
}

// testGemmBlocks decodes B by the definition and leaves the rest to the test of float32 products.
func testGemmBlocks(t *testing.T, s *Set, r *rand.Rand, m, n, k, block, bits int) {
	t.Helper()
	g := newGemmCase(r, m, n, k)
	blocks := ceilDiv(k, block)
	src, scales := operand[byte](n*blocks*block*bits/8), random(r, n*blocks).inner
	for i := range src {
		src[i] = byte(r.Uint32())
	}
	var zeros []float32
	if r.IntN(2) == 0 {
		zeros = operand[float32](n * blocks)
		for i := range zeros {
			zeros[i] = float32(r.IntN(1 << bits))
		}
	}
	per := 8 / bits
	number := func(b []byte, i int) float32 { return float32(int(b[i/per]) >> (bits * (i % per)) & (1<<bits - 1)) }
	for j := range n {
		for i := range k {
			zero := float32(int(1) << (bits - 1))
			if zeros != nil {
				zero = zeros[j*blocks+i/block]
			}
			g.b.inner[i*g.bRow+j*g.bCol] = (number(src, j*blocks*block+i) - zero) * scales[j*blocks+i/block]
		}
	}
	what := fmt.Sprintf("%d bits, block %d zeros %v %v", bits, block, zeros != nil, g)
	pack := s.NewPackBlocks(k, n, block, bits)
	packed := newGuarded(pack.Bytes()/4, 0)
	for p := range pack.Parts() {
		pack.Run(p, bytesOfFloats(packed.inner), src, scales, zeros)
	}
	packed.check(t, "packing "+what)
	plan, b := s.NewGemmStored(m, n, k, 1+r.IntN(40)), pack.StoredBlocks(bytesOfFloats(packed.inner))
	scratch := newGuarded(plan.ScratchBytes()/4, 0)
	for p := range plan.Parts() {
		plan.Run(p, &g.args, &b, bytesOfFloats(scratch.inner))
	}
	scratch.check(t, what)
	g.check(t)
	testGemmDigits(t, s, g, packed, block, bits, FloatRows, what)
	if block&(block-1) == 0 {
		testGemmBlocksS8(t, s, r, g, packed, block, bits, zeros != nil, what)
		testGemmDigits(t, s, g, packed, block, bits, RoundedRows, what) // of an A that has been rounded
	}
}

// testGemmDigits multiplies digits of A by the packed B.
func testGemmDigits(t *testing.T, s *Set, g *gemmCase, packed *guarded, block, bits, digits int, what string) {
	t.Helper()
	plan := s.NewGemmDigits(g.m, g.n, g.k, block, bits, digits)
	if plan == nil {
		return
	}
	bytes, scales := plan.Split()
	g.args.Alpha = 1
	quantized, floats, work := operand[uint8](bytes), newGuarded(scales, 0), newGuarded(g.k, 0)
	row := operand[float32](g.k)
	for r := range g.m {
		for i := range row {
			row[i] = g.args.A[r*g.args.ARow+i*g.args.ACol]
		}
		plan.Quantize(quantized, floats.inner, work.inner, row, r)
	}
	for r := range g.m {
		for j := range g.n {
			g.args.C[r*g.args.CRow+j] = float32(math.NaN())
		}
	}
	for p := range plan.Parts() {
		plan.Run(p, quantized, floats.inner, &g.args, bytesOfFloats(packed.inner))
	}
	for _, x := range []*guarded{floats, work} {
		x.check(t, what)
	}
	g.check(t)
}

// testGemmHalf multiplies by 16-bit numbers, which float32 has exactly.
func testGemmHalf(t *testing.T, s *Set, r *rand.Rand, m, n, k int) {
	t.Helper()
	g, bf16 := newGemmCase(r, m, n, k), r.IntN(2) == 0
	narrow, widen := s.ToF16, s.FromF16
	if bf16 {
		narrow, widen = s.ToBF16, s.FromBF16
	}
	bits := operand[uint16](len(g.b.inner))
	narrow(bits, g.b.inner)
	widen(g.b.inner, bits)
	pack := s.NewPackB(k, n)
	wide := operand[float32](pack.Len())
	for p := range pack.Parts() {
		pack.Run(p, wide, g.b.inner, g.bRow, g.bCol)
	}
	packed := operand[uint16](len(wide))
	narrow(packed, wide)
	plan, b := s.NewGemmStored(m, n, k, 1+r.IntN(40)), pack.StoredHalf(packed, bf16)
	scratch := newGuarded(plan.ScratchBytes()/4, 0)
	for p := range plan.Parts() {
		plan.Run(p, &g.args, &b, bytesOfFloats(scratch.inner))
	}
	scratch.check(t, g.String())
	g.check(t)
	testRunHalf(t, plan, g, &b)
}

// testRunHalf multiplies with a result of 16-bit floats: they are C, which holds the product, rounded.
func testRunHalf(t *testing.T, plan *GemmStored, g *gemmCase, b *Stored) {
	t.Helper()
	args, scratch := g.args, newGuarded(plan.HalfBytes()/4, 0)
	want, wide := make([]float32, len(args.C)), newGuarded(plan.ScratchBytes()/4, 0)
	for _, bf16 := range []bool{false, true} {
		to := HalfMatrix{Dst: operand[uint16](len(want)), Row: args.CRow, BF16: bf16}
		narrow, widen := plan.set.ToF16, plan.set.FromF16
		if bf16 {
			narrow, widen = plan.set.ToBF16, plan.set.FromBF16
		}
		whole := args
		whole.C = want
		if args.Residual != nil { // which the result is written over
			narrow(to.Dst, random(rand.New(rand.NewPCG(uint64(g.m), uint64(g.n))), len(want)).inner)
			to.Residual, to.ResRow = to.Dst, to.Row
			whole.Residual, whole.ResRow = make([]float32, len(want)), to.Row
			widen(whole.Residual, to.Dst)
		}
		for p := range plan.Parts() {
			plan.Run(p, &whole, b, bytesOfFloats(wide.inner))
			plan.RunHalf(p, &args, &to, b, bytesOfFloats(scratch.inner))
		}
		scratch.check(t, g.String())
		rounded := make([]uint16, len(want))
		narrow(rounded, want)
		for r := range g.m {
			require.Equal(t, rounded[r*args.CRow:][:g.n], to.Dst[r*args.CRow:][:g.n], "%s: row %d", g, r)
		}
	}
}

// testGemmBlocksS8 multiplies the same B by quantised values of A: the result is that of the values that they stand for.
func testGemmBlocksS8(t *testing.T, s *Set, r *rand.Rand, g *gemmCase, packed *guarded, block, bits int, zeros bool, what string) {
	t.Helper()
	plan := s.NewGemmBlocksS8(g.m, g.n, g.k, block, bits, zeros, 1+r.IntN(40))
	g.args.ARow, g.args.ACol, g.args.Alpha = g.k+r.IntN(3), 1, 1
	g.a = random(r, g.m*g.args.ARow)
	clear(g.a.inner[:min(block, g.k)]) // a block of zeros
	g.args.A = g.a.inner
	quantized, scales := newGuarded(g.m*plan.RowBytes()/4, 0), newGuarded(g.m*plan.RowScales(), 0)
	args := GemmBlocksS8Args{Quantized: bytesOfFloats(quantized.inner), Scales: scales.inner, GemmArgs: g.args}
	plan.QuantizeBlocks(args.Quantized, args.Scales, g.args.A, g.args.ARow, 0, g.m)
	quantized.check(t, "quantised "+what)
	scales.check(t, "scales "+what)
	for i := range g.m {
		for k := range plan.RowBytes() {
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
			q := math.RoundToEven(float64(x * (127 / largest)))
			require.EqualValues(t, 128+q, args.Quantized[i*plan.RowBytes()+k], "%s: quantised value %d of row %d", what, k, i)
		}
	}
	for i := range g.m { // after the check, which reads whole blocks
		for k := range g.k {
			g.args.A[i*g.args.ARow+k] = float32(int(args.Quantized[i*plan.RowBytes()+k])-128) * args.Scales[i*plan.RowScales()+2*(k/block)]
		}
	}
	scratch := newGuarded(plan.ScratchBytes()/4, 0)
	for p := range plan.Parts() {
		plan.Run(p, &args, bytesOfFloats(packed.inner), bytesOfFloats(scratch.inner))
	}
	scratch.check(t, what)
	g.check(t)
}

// TestDecodedBlocks: what is decoded for few rows at a time is about half of the L1 cache, and all of a small B.
func TestDecodedBlocks(t *testing.T) {
	for _, s := range sets() {
		row := 4 * s.gemm.cols()
		for _, m := range []int{1, 2 * s.gemm.rows} {
			block := s.NewGemmStored(m, 100, 1<<20, 1).ScratchBytes() - 2*storedRows*row
			require.InDelta(t, s.caches.l1/2, block, float64(storedRows*row+s.caches.l1/64), "%v, %d rows", s.Level, m)
			require.Equal(t, row*(40+2*storedRows), s.NewGemmStored(m, 100, 33, 1).ScratchBytes())
		}
	}
}
