package kernel

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
)

// edges are sizes around the edges of tiles with the given unit.
func edges(units ...int) []int {
	sizes := []int{1, 2, 3}
	for _, u := range units {
		sizes = append(sizes, u-1, u, u+1)
	}
	return sizes
}

// gemmCase is one product of a test with all its operands.
type gemmCase struct {
	m, n, k        int
	a, b, bias     *guarded
	c, res         *guarded
	transA, transB bool
	args           GemmArgs
	bRow, bCol     int
}

func newGemmCase(r *rand.Rand, m, n, k int) *gemmCase {
	g := &gemmCase{m: m, n: n, k: k, transA: r.IntN(4) == 0, transB: r.IntN(2) == 0}
	pad := func() int { return r.IntN(3) }
	args := &g.args
	args.ARow, args.ACol = k+pad(), 1
	g.a = random(r, m*args.ARow)
	if g.transA {
		args.ARow, args.ACol = 1, m+pad()
		g.a = random(r, k*args.ACol)
	}
	args.A = g.a.inner
	g.bRow, g.bCol = n+pad(), 1
	g.b = random(r, k*g.bRow)
	if g.transB {
		g.bRow, g.bCol = 1, k+pad()
		g.b = random(r, n*g.bCol)
	}
	args.CRow = n + pad()
	g.c = newGuarded(m*args.CRow, r.IntN(16))
	args.C = g.c.inner
	args.Alpha = 1
	if r.IntN(2) == 0 {
		args.Alpha = 0.75
	}
	if r.IntN(2) == 0 {
		g.bias = random(r, n)
		args.Bias = g.bias.inner
	}
	args.Act, args.ActAlpha, args.ActBeta = epilogue(r)
	if r.IntN(2) == 0 {
		args.ResRow = n + pad()
		g.res = random(r, m*args.ResRow)
		args.Residual = g.res.inner
	}
	return g
}

func (g *gemmCase) String() string {
	return fmt.Sprintf("%d×%d×%d transA=%v transB=%v alpha=%v bias=%v act=%v residual=%v",
		g.m, g.n, g.k, g.transA, g.transB, g.args.Alpha, g.bias != nil,
		Unary{g.args.Act, g.args.ActAlpha, g.args.ActBeta}, g.res != nil)
}

// check compares C with the product in float64.
func (g *gemmCase) check(t *testing.T) {
	t.Helper()
	args := &g.args
	g.c.checkGaps(t, g.String(), args.CRow, g.n)
	for m := range g.m {
		for n := range g.n {
			var want, size float64
			for k := range g.k {
				p := float64(args.A[m*args.ARow+k*args.ACol]) * float64(g.b.inner[k*g.bRow+n*g.bCol])
				want, size = want+p, size+math.Abs(p)
			}
			want *= float64(args.Alpha)
			if args.Bias != nil {
				want += float64(args.Bias[n])
			}
			want = Unary{args.Act, args.ActAlpha, args.ActBeta}.at(want)
			if args.Residual != nil {
				want += float64(args.Residual[m*args.ResRow+n])
			}
			got := float64(args.C[m*args.CRow+n])
			if !(math.Abs(got-want) <= 1e-6*(2+size)) {
				t.Fatalf("%v: C[%d,%d] = %v, want %v", g, m, n, got, want)
			}
		}
	}
}

// epilogues are the functions that products are tested with: the fused ones, and some of those that are applied to finished tiles.
var epilogues = []Unary{{Op: NoUnary}, {Op: Relu}, {Op: Gelu}, {Op: GeluTanh}, {Op: Tanh}, {Op: Softplus}, {Op: Clamp, Beta: 0.75},
	{Op: Clamp, Alpha: -0.5, Beta: 0.75}, {Op: Clamp, Beta: -0.25}}

// epilogue chooses a function, with its parameters.
func epilogue(r *rand.Rand) (op UnaryOp, alpha, beta float32) {
	u := epilogues[r.IntN(len(epilogues))]
	return u.Op, u.Alpha, u.Beta
}

func (g *gemmCase) pack(s *Set) *guarded {
	pack := s.NewPackB(g.k, g.n)
	packed := newGuarded(pack.Len(), 0)
	for p := range pack.Parts() {
		pack.Run(p, packed.inner, g.b.inner, g.bRow, g.bCol)
	}
	return packed
}

func TestGemm(t *testing.T) {
	eachLevel(t, func(t *testing.T, s *Set) {
		r := newRand()
		for _, m := range edges(s.gemm.rows, 2*s.gemm.rows) {
			for _, n := range edges(s.gemm.vec, s.gemm.cols(), 2*s.gemm.cols()) {
				for _, k := range []int{0, 1, 2, 5, 16, 33} {
					g := newGemmCase(r, m, n, k)
					packed := g.pack(s)
					packed.check(t, "packing "+g.String())
					g.args.B = packed.inner
					plan := s.NewGemm(m, n, k, 2)
					for p := range plan.Parts() {
						plan.Run(p, &g.args)
					}
					g.check(t)
				}
			}
		}
	})
}

// TestGemmBlocks takes shapes that are cut along every axis, and runs the parts in reverse order.
func TestGemmBlocks(t *testing.T) {
	eachLevel(t, func(t *testing.T, s *Set) {
		r := newRand()
		for _, shape := range [][3]int{{150, 100, 20}, {3, 400, 300}, {130, 17, 800}, {7, 9, 1700}} {
			g := newGemmCase(r, shape[0], shape[1], shape[2])
			g.args.B = g.pack(s).inner
			plan := s.NewGemm(g.m, g.n, g.k, 16)
			require.True(t, plan.Parts() > 1 || plan.blocking.kBlock < g.k, "%v is not cut", g)
			for p := plan.Parts() - 1; p >= 0; p-- {
				plan.Run(p, &g.args)
			}
			g.check(t)
		}
	})
}

// TestGemmOverItsResidual holds that a product over its residual has the bits of one beside it, also where K is cut.
func TestGemmOverItsResidual(t *testing.T) {
	eachLevel(t, func(t *testing.T, s *Set) {
		r := newRand()
		for _, shape := range [][3]int{{1, 1, 0}, {3, 17, 5}, {150, 100, 20}, {130, 17, 800}, {7, 9, 1700}} {
			g := newGemmCase(r, shape[0], shape[1], shape[2])
			g.args.B, g.args.Act, g.args.Alpha = g.pack(s).inner, NoUnary, 1
			g.res = random(r, g.m*g.args.CRow)
			for row := range g.m {
				copy(g.args.C[row*g.args.CRow:][:g.n], g.res.inner[row*g.args.CRow:])
			}
			g.args.Residual, g.args.ResRow = g.args.C, g.args.CRow
			plan := s.NewGemm(g.m, g.n, g.k, 16)
			run := func() {
				for p := range plan.Parts() {
					plan.Run(p, &g.args)
				}
			}
			run()
			over := slices.Clone(g.args.C)
			g.args.Residual = g.res.inner
			g.check(t)
			run()
			require.Equal(t, bytesOfFloats(over), bytesOfFloats(g.args.C))
		}
	})
}

// TestGemmRowsForWorkers: rows are cut where panels are too few, or do not spread evenly, and not where nothing is gained.
func TestGemmRowsForWorkers(t *testing.T) {
	s := new(Set)
	s.gemm = gemmTile{rows: 8, vecs: 3, vec: 16, kernels: [][]gemmFunc{}}
	s.caches = defaultCaches
	for _, c := range []struct{ m, n, k, workers, blocks int }{
		{32, 384, 1536, 1, 1}, {32, 384, 1536, 8, 1}, {32, 384, 1536, 16, 2}, {32, 1152, 384, 16, 2}, {32, 1536, 384, 16, 1},
		{31, 384, 1536, 16, 1}, // a block has two tiles of rows
		{8, 384, 1536, 16, 1}, {0, 384, 1536, 16, 1},
	} {
		require.Equal(t, c.blocks, s.NewGemm(c.m, c.n, c.k, c.workers).blocking.rowBlocks, "%+v", c)
	}
}

func TestGemmEmpty(t *testing.T) {
	eachLevel(t, func(t *testing.T, s *Set) {
		require.Zero(t, s.NewGemm(0, 5, 3, 1).Parts())
		require.Zero(t, s.NewGemm(5, 0, 3, 1).Parts())
	})
}

func TestBatchGemm(t *testing.T) {
	eachLevel(t, func(t *testing.T, s *Set) {
		r := newRand()
		for _, m := range append(edges(s.gemm.rows), 5*s.gemm.rows+1) {
			for _, n := range edges(s.gemm.vec, s.gemm.cols(), 2*s.gemm.cols()) {
				for _, k := range []int{0, 1, 7, 64} {
					testBatchGemm(t, s, r, m, n, k)
				}
			}
		}
		testBatchGemm(t, s, r, 600, 20, 10)
	})
}

// testBatchGemm runs two products that share B, and have the rows of A and C interleaved.
func testBatchGemm(t *testing.T, s *Set, r *rand.Rand, m, n, k int) {
	t.Helper()
	first, second := newGemmCase(r, m, n, k), newGemmCase(r, m, n, k)
	args := &BatchGemmArgs{GemmArgs: first.args, BRow: first.bRow, BCol: first.bCol, BOffset: []int{0, 0}}
	args.B = first.b.inner
	a := newGuarded(2*len(first.args.A), 3)
	args.A, args.AOffset = a.inner, []int{0, len(first.args.A)}
	second.args.A = second.args.A[:0:0]
	for range first.args.A {
		second.args.A = append(second.args.A, r.Float32())
	}
	copy(a.inner, first.args.A)
	copy(a.inner[len(first.args.A):], second.args.A)
	c := newGuarded(m*2*first.args.CRow, 5)
	args.C, args.COffset, args.CRow = c.inner, []int{0, first.args.CRow}, 2*first.args.CRow
	if args.Residual != nil {
		args.ResidOffset = []int{0, 0}
	}
	plan := s.NewBatchGemm(2, m, n, k, 1+r.IntN(40))
	scratch := newGuarded(plan.ScratchBytes()/4, 0)
	for p := range plan.Parts() {
		plan.Run(p, args, bytesOfFloats(scratch.inner))
	}
	what := "batch " + first.String()
	scratch.check(t, what)
	c.checkGaps(t, what, first.args.CRow, n)
	for i, g := range []*gemmCase{first, second} {
		alone := first.args
		alone.A = g.args.A
		g.args, g.b, g.bRow, g.bCol, g.res = alone, first.b, first.bRow, first.bCol, first.res
		g.c = newGuarded(m*alone.CRow, 0)
		g.args.C = g.c.inner
		for row := range m {
			copy(g.args.C[row*alone.CRow:][:n], c.inner[row*args.CRow+args.COffset[i]:])
		}
		g.check(t)
	}
}
