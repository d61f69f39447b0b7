package kernel

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
)

// eachX3 runs a test with the levels that multiply floats by parts.
func eachX3(t *testing.T, test func(t *testing.T, s *Set)) {
	eachLevel(t, func(t *testing.T, s *Set) {
		if s.HasBF16x3() {
			test(t, s)
		}
	})
}

// runX3 multiplies by parts, whatever the size, with the parts of a product in reverse order.
func (g *gemmCase) runX3(t *testing.T, s *Set, workers int) {
	t.Helper()
	plan := s.newGemmBF16x3(g.m, g.n, g.k, workers)
	scratch := newGuarded(plan.ScratchBytes()/4, 0)
	for p := plan.Parts() - 1; p >= 0; p-- {
		plan.Run(p, &g.args, bytesOfFloats(scratch.inner))
	}
	scratch.check(t, g.String())
}

func TestGemmBF16x3(t *testing.T) {
	eachX3(t, func(t *testing.T, s *Set) {
		r := newRand()
		test := func(m, n, k int) {
			g := newGemmCase(r, m, n, k)
			g.args.B = g.pack(s).inner
			g.runX3(t, s, 3)
			g.check(t)
		}
		for _, m := range edges(x3Side, x3Rows, 2*x3Rows) {
			for _, n := range edges(x3Side, x3Tile.cols(), s.gemm.cols(), 2*s.gemm.cols()) {
				for _, k := range edges(x3Side, x3Step, 2*x3Step) {
					test(m, n, k)
				}
			}
		}
		for _, shape := range [][3]int{{x3BlockRows + 44, 100, 20}, {3, 400, 2*x3Depth - 24}, {2*x3BlockRows + 1, 17, x3Depth + 1}} {
			test(shape[0], shape[1], shape[2])
		}
	})
}

// TestGemmBF16x3OverItsResidual holds that a product over its residual has the bits of one beside it, also where K is cut and where floats
// multiply some rows.
func TestGemmBF16x3OverItsResidual(t *testing.T) {
	eachX3(t, func(t *testing.T, s *Set) {
		r := newRand()
		for _, shape := range [][3]int{{1, 1, 1}, {40, 17, 5}, {150, 100, x3Depth + 5}} {
			g := newGemmCase(r, shape[0], shape[1], shape[2])
			g.args.Act, g.args.Alpha = NoUnary, 1
			g.args.A[0] = 0x1p120 // of the first row
			for n := range g.n {
				g.b.inner[n*g.bCol] *= 0x1p-120
			}
			g.args.B = g.pack(s).inner
			g.res = random(r, g.m*g.args.CRow)
			for row := range g.m {
				copy(g.args.C[row*g.args.CRow:][:g.n], g.res.inner[row*g.args.CRow:])
			}
			g.args.Residual, g.args.ResRow = g.args.C, g.args.CRow
			g.runX3(t, s, 1)
			over := slices.Clone(g.args.C)
			g.args.Residual = g.res.inner
			g.check(t)
			g.runX3(t, s, 1)
			require.Equal(t, bytesOfFloats(over), bytesOfFloats(g.args.C))
		}
	})
}

// TestGemmBF16x3IsFloat32 requires what products of float32 give: no larger error, also of numbers whose sums nearly vanish, or whose
// products are at the ends of the range, and the same infinities and NaNs.
func TestGemmBF16x3IsFloat32(t *testing.T) {
	inf, nan := float32(math.Inf(1)), float32(math.NaN())
	type fill = func(r *rand.Rand, line, k int) float32 // of a row of A, or a column of B
	constant := func(x float32) fill { return func(*rand.Rand, int, int) float32 { return x } }
	plain := func(r *rand.Rand, _, _ int) float32 { return r.Float32()*2 - 1 }
	oneSign := func(r *rand.Rand, _, _ int) float32 { return 1 + r.Float32() }
	wide := func(r *rand.Rand, _, _ int) float32 {
		return (r.Float32()*2 - 1) * float32(math.Ldexp(1, r.IntN(61)-30))
	}
	scaled := func(f fill, factor float64) fill {
		return func(r *rand.Rand, i, j int) float32 { return float32(float64(f(r, i, j)) * factor) }
	}
	special := func(x float32, row, k int) fill {
		return func(r *rand.Rand, i, j int) float32 {
			if i == row && j == k {
				return x
			}
			return plain(r, i, j)
		}
	}
	cases := []struct {
		name string
		a, b fill
	}{
		{"equally spread", plain, plain},
		{"integers", func(r *rand.Rand, _, _ int) float32 { return float32(r.IntN(1 << 24)) }, plain},
		{"one sign", oneSign, oneSign},
		{"wide", wide, wide},
		{"nearly vanishing", func(r *rand.Rand, _, k int) float32 { return 1 + float32(k/2)/64 + float32(k%2)/(1<<20) },
			func(r *rand.Rand, n, k int) float32 { return float32(1-2*(k%2)) * (1 + float32(n)/32) }},
		{"small rows", func(r *rand.Rand, row, _ int) float32 { return float32(math.Ldexp(float64(r.Float32()), -row)) }, plain},
		{"small columns", plain, func(r *rand.Rand, col, _ int) float32 { return float32(math.Ldexp(float64(r.Float32()), -2*col)) }},
		{"small rows and large columns", scaled(plain, 0x1p-120), scaled(plain, 0x1p90)},
		{"products below the range", scaled(plain, 0x1p-75), scaled(plain, 0x1p-74)},
		{"subnormal", scaled(plain, 0x1p-130), plain},
		{"large", scaled(plain, 0x1p70), scaled(plain, 0x1p50)},
		{"above the range", scaled(oneSign, 0x1p70), scaled(oneSign, 0x1p60)},
		{"+Inf in A", special(inf, 5, 40), plain},
		{"-Inf in B", plain, special(-inf, 20, 3)},
		{"NaN in A", special(nan, 33, 7), plain},
		{"the largest number in A", special(math.MaxFloat32, 0, 0), scaled(plain, 0x1p-20)},
		{"NaN without the bits of a part", special(math.Float32frombits(0x7f800001), 3, 3), plain},
		{"NaN of all bits", plain, special(math.Float32frombits(0xffffffff), 3, 3)},
		{"Inf times 0", special(inf, 5, 40), constant(0)},
	}
	const m, n = 70, 50
	eachX3(t, func(t *testing.T, s *Set) {
		r := newRand()
		for _, c := range cases {
			for _, k := range []int{45, 384, 4096} {
				g := &gemmCase{m: m, n: n, k: k, b: newGuarded(k*n, 0), bRow: 1, bCol: k}
				g.args = GemmArgs{ARow: k, ACol: 1, CRow: n, Alpha: 1}
				g.args.A = make([]float32, m*k)
				for i := range g.args.A {
					g.args.A[i] = c.a(r, i/k, i%k)
				}
				for i := range g.b.inner {
					g.b.inner[i] = c.b(r, i/k, i%k)
				}
				g.args.B = g.pack(s).inner
				floats, parts := make([]float32, m*n), make([]float32, m*n)
				g.args.C = floats
				plan := s.NewGemm(m, n, k, 2)
				for p := range plan.Parts() {
					plan.Run(p, &g.args)
				}
				g.args.C = parts
				g.runX3(t, s, 1)
				var errors, errorsByParts float64 // squared
				for i := range floats {
					if x, y := floats[i], parts[i]; x-x != 0 || y-y != 0 {
						require.True(t, x == y || x != x && y != y, "%s, K=%d: C[%d,%d] is %v, by parts %v", c.name, k, i/n, i%n, x, y)
						continue
					}
					var want, size float64
					for j := range k {
						p := float64(g.args.A[i/n*k+j]) * float64(g.b.inner[i%n*k+j])
						want, size = want+p, size+math.Abs(p)
					}
					unit := size*0x1p-24 + 0x1p-149
					errors += math.Pow((float64(floats[i])-want)/unit, 2)
					errorsByParts += math.Pow((float64(parts[i])-want)/unit, 2)
				}
				require.LessOrEqual(t, errorsByParts, 1.1*errors, "%s, K=%d", c.name, k)
			}
		}
	})
}

// TestGemmBF16x3RowsAreIndependent requires a row's results to the bit, whatever the number of rows and of workers, and what other rows
// hold.
func TestGemmBF16x3RowsAreIndependent(t *testing.T) {
	eachX3(t, func(t *testing.T, s *Set) {
		r := newRand()
		const most, n, k = 2*x3BlockRows + 50, 100, x3Depth + 30
		g := newGemmCase(r, most, n, k)
		g.args.B = g.pack(s).inner
		run := func(m, workers int) []float32 {
			c := *g
			c.m, c.args.C = m, make([]float32, m*g.args.CRow)
			c.runX3(t, s, workers)
			return c.args.C
		}
		want := run(most, 1)
		for _, m := range []int{1, 16, 33, 64, x3BlockRows, x3BlockRows + 1, most} {
			for _, workers := range []int{1, 2, 5} {
				require.Equal(t, want[:m*g.args.CRow], run(m, workers), "%d rows, %d workers", m, workers)
			}
		}
		g.args.A[most/2*g.args.ARow] = float32(math.NaN())
		for i, x := range run(most, 2) {
			if row := i / g.args.CRow; row != most/2 || !g.transA && i%g.args.CRow >= n {
				require.Equal(t, want[i], x, "row %d beside a NaN", row)
			}
		}
	})
}
