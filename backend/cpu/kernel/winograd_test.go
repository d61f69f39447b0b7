package kernel

import (
	"bytes"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"
)

// newWinogradCase is a convolution that tiles can do.
func newWinogradCase(r *rand.Rand, channels, outputs, high, wide int) *convCase {
	n := func(lo, hi int) int { return lo + r.IntN(hi-lo+1) }
	g := &convCase{tiled: true, ConvShape: ConvShape{Images: n(1, 2), Channels: channels, Outputs: outputs, KernelHeight: 3,
		KernelWidth: 3, StrideHigh: 1, StrideWide: 1,
		DilationHigh: 1, DilationWide: 1, Top: n(0, 2), Left: n(0, 2), PositionsHigh: high, PositionsWide: wide}}
	g.Height, g.Width = max(0, high+2-g.Top-n(0, 2)), max(0, wide+2-g.Left-n(0, 2))
	a := &g.args
	a.XColumn, a.XChannel = channels+n(0, 1)*3, 1
	a.XRow = g.Width*a.XColumn + n(0, 2)
	a.XImage = g.Height*a.XRow + n(0, 2)
	g.x = random(r, g.Images*a.XImage+channels)
	a.X = g.x.inner
	rows := g.Images * high * wide
	a.CRow, a.Alpha = outputs+n(0, 2), 1
	a.Act, a.ActAlpha, a.ActBeta = epilogue(r)
	g.c = newGuarded(rows*a.CRow, r.IntN(16))
	a.C = g.c.inner
	for row := range rows { // a canary that nothing overwrites is not tame: the direct way would compute what tiles leave out
		for m := range outputs {
			a.C[row*a.CRow+m] = 1000
		}
	}
	g.w = random(r, 9*channels*outputs)
	if r.IntN(2) == 0 {
		g.bias = random(r, outputs)
		a.Bias = g.bias.inner
	}
	if r.IntN(2) == 0 {
		a.ResRow = outputs + n(0, 2)
		g.res = random(r, rows*a.ResRow)
		a.Residual = g.res.inner
	}
	return g
}

// runWinograd computes the case by tiles.
func (g *convCase) runWinograd(t *testing.T, s *Set) { g.runWinogradBy(t, s, 1+g.Images) }

func (g *convCase) runWinogradBy(t *testing.T, s *Set, workers int) {
	pack := s.NewPackB(g.Channels, g.Outputs)
	packed := newGuarded(WinogradPoints*pack.Len(), 0)
	for panel := range s.Panels(g.Outputs) {
		pack.RunWinograd(panel, packed.inner, g.w.inner)
	}
	packed.check(t, "packing "+g.String())
	g.args.B = packed.inner
	plan := s.NewWinograd(g.ConvShape, workers, false)
	scratch := newGuarded(plan.ScratchBytes()/4, 0)
	for part := range plan.Parts() {
		plan.Run(part, &g.args, bytesOfFloats(scratch.inner))
	}
	scratch.check(t, "scratch of "+g.String())
}

func TestWinograd(t *testing.T) {
	eachLevel(t, func(t *testing.T, s *Set) {
		r := newRand()
		for _, outputs := range edges(s.gemm.vec, s.gemm.cols()) {
			for _, channels := range []int{1, s.gemm.vec - 1, s.gemm.vec + 1, 40} {
				g := newWinogradCase(r, channels, outputs, 1+r.IntN(13), 1+r.IntN(29))
				g.runWinograd(t, s)
				g.check(t)
			}
		}
		g := newWinogradCase(r, 256, 70, 14, 57) // several parts, and a pitch that is wider than the channels
		g.runWinograd(t, s)
		g.check(t)
	})
}

// TestWinogradOfWorkers: the number of workers cuts the parts, and changes no bit, also where pixels are huge.
func TestWinogradOfWorkers(t *testing.T) {
	eachLevel(t, func(t *testing.T, s *Set) {
		g := newWinogradCase(newRand(), 40, 16, 28, 28)
		g.args.X[g.args.XImage/3] = 1 << 21
		var first []byte
		heights := map[int]bool{}
		for _, workers := range []int{1, 2, 3, 8, 16} {
			g.runWinogradBy(t, s, workers)
			heights[s.NewWinograd(g.ConvShape, workers, false).high] = true
			if first == nil {
				first = bytes.Clone(bytesOfFloats(g.args.C))
			}
			require.True(t, bytes.Equal(first, bytesOfFloats(g.args.C)), "%d workers", workers)
		}
		require.Greater(t, len(heights), 1, "all are cut alike")
	})
}

// TestWinogradError: sums over many channels are within 1e-5 of the largest.
func TestWinogradError(t *testing.T) {
	eachLevel(t, func(t *testing.T, s *Set) {
		g := newWinogradCase(newRand(), 512, 8, 8, 8)
		g.args.Act, g.args.Residual, g.args.Bias, g.bias, g.res = NoUnary, nil, nil, nil, nil
		g.runWinograd(t, s)
		got := append([]float32(nil), g.args.C...)
		largest, departure := 0.0, 0.0
		for row := range g.Images * 64 {
			for m := range g.Outputs {
				want := g.sum(row, m)
				largest = max(largest, math.Abs(want))
				departure = max(departure, math.Abs(want-float64(got[row*g.args.CRow+m])))
			}
		}
		if departure > 1e-5*largest {
			t.Errorf("%v of %v", departure, largest)
		}
	})
}

// TestWinogradInfinite: what is not finite reaches the windows it is in, and no neighbours; numbers may be so large that values at the
// points overflow.
func TestWinogradInfinite(t *testing.T) {
	eachLevel(t, func(t *testing.T, s *Set) {
		// Of weights of one sign, all results that a large pixel is in have one sign.
		for _, x := range []float32{float32(math.Inf(1)), float32(math.Inf(-1)), float32(math.NaN()), math.MaxFloat32, -math.MaxFloat32,
			1 << 26, -1 << 26} {
			r := newRand()
			for range 20 {
				g := newWinogradCase(r, 17, 20, 1+r.IntN(9), 1+r.IntN(9))
				g.args.Act = NoUnary
				if g.Height*g.Width == 0 {
					continue
				}
				for i, w := range g.w.inner {
					if math.Abs(float64(x)) == 1<<26 {
						g.w.inner[i] = float32(math.Abs(float64(w))) + 0.1
					}
				}
				if r.IntN(2) == 0 {
					for i := 0; i < len(g.w.inner); i += g.Outputs {
						g.w.inner[i] = 0 // the first channel does not show it
					}
				}
				a := &g.args
				a.X[r.IntN(g.Images)*a.XImage+r.IntN(g.Height)*a.XRow+r.IntN(g.Width)*a.XColumn+r.IntN(g.Channels)] = x
				g.runWinograd(t, s)
				for row := range g.Images * g.PositionsHigh * g.PositionsWide {
					for m := range g.Outputs {
						want, size := g.sums(row, m)
						if a.Bias != nil {
							want += float64(a.Bias[m])
						}
						if a.Residual != nil {
							want += float64(a.Residual[row*a.ResRow+m])
						}
						got, bound := float64(a.C[row*a.CRow+m]), 1e-3
						if size > 1e6 {
							bound = 1e-6 * math.Abs(float64(x)) // a tap in the middle is a difference of those at two points
						}
						if finite := want-want == 0; finite != (got-got == 0) || finite && math.Abs(got-want) > bound {
							t.Fatalf("%v: row %d, channel %d: %v, want %v", g, row, m, got, want)
						}
					}
				}
			}
		}
	})
}
