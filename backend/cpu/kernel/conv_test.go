package kernel

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
)

// convCase is one convolution of a test with all its operands. The weights are [taps·channels, outputs], of a depthwise one
// [taps, channels].
type convCase struct {
	ConvShape
	depthwise bool
	tiled     bool // the errors of a tile are those of its largest numbers
	x, w, c   *guarded
	bias, res *guarded
	args      ConvArgs
}

func newConvCase(r *rand.Rand, channels, outputs int, depthwise bool) *convCase {
	n := func(lo, hi int) int { return lo + r.IntN(hi-lo+1) }
	s := ConvShape{Images: n(1, 2), Channels: channels, Outputs: outputs, KernelHeight: n(1, 4), KernelWidth: n(1, 5),
		StrideHigh: n(1, 3), StrideWide: n(1, 3),
		DilationHigh: n(1, 2), DilationWide: n(1, 2), Top: n(0, 2), Left: n(0, 3), Height: n(1, 9), Width: n(1, 24)}
	switch r.IntN(12) {
	case 0: // images of padding alone
		s.Height = 0
	case 1:
		s.Width = 0
	case 2: // rows of more positions than a part has
		s.Height, s.Width, s.StrideWide = n(1, 2), n(2*blockRows, 3*blockRows), 1
	}
	positions := func(size, front, kernel, stride, dilation int) int {
		return max(0, size+front+n(0, 2)-(kernel-1)*dilation-1)/stride + 1 // at least one, whatever it meets
	}
	s.PositionsHigh = positions(s.Height, s.Top, s.KernelHeight, s.StrideHigh, s.DilationHigh)
	s.PositionsWide = positions(s.Width, s.Left, s.KernelWidth, s.StrideWide, s.DilationWide)
	g := &convCase{ConvShape: s, depthwise: depthwise}
	a := &g.args
	a.XColumn, a.XChannel = channels+n(0, 1)*3, 1
	a.XRow = s.Width*a.XColumn + n(0, 2)
	a.XImage = s.Height*a.XRow + n(0, 2)
	if !depthwise && n(0, 2) == 0 { // the channels first
		a.XColumn, a.XRow = 1, s.Width+n(0, 2)
		a.XChannel = s.Height*a.XRow + n(0, 2)
		a.XImage = channels * a.XChannel
	}
	elements := 0
	if s.Height*s.Width > 0 {
		elements = (s.Images-1)*a.XImage + (s.Height-1)*a.XRow + (s.Width-1)*a.XColumn + (channels-1)*a.XChannel + 1
	}
	g.x = random(r, elements)
	a.X = g.x.inner
	rows := s.Images * s.PositionsHigh * s.PositionsWide
	a.CRow, a.Alpha = outputs+n(0, 2), 1
	a.Act, a.ActAlpha, a.ActBeta = epilogue(r)
	g.c = newGuarded(rows*a.CRow, r.IntN(16))
	a.C = g.c.inner
	taps := s.KernelHeight * s.KernelWidth
	if depthwise {
		g.w = random(r, taps*channels)
	} else {
		g.w = random(r, taps*channels*outputs)
	}
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

func (g *convCase) String() string {
	return fmt.Sprintf("%+v depthwise=%v bias=%v act=%d residual=%v", g.ConvShape, g.depthwise, g.bias != nil, g.args.Act, g.res != nil)
}

// sum is the result at a position of a channel before the epilogue, in float64.
func (g *convCase) sum(row, m int) float64 {
	sum, _ := g.sums(row, m)
	return sum
}

// sums is sum, and what its terms are in magnitude.
func (g *convCase) sums(row, m int) (sum, size float64) {
	a := &g.args
	image, high, wide := row/(g.PositionsHigh*g.PositionsWide), row/g.PositionsWide%g.PositionsHigh, row%g.PositionsWide
	for tap := range g.KernelHeight * g.KernelWidth {
		y := high*g.StrideHigh - g.Top + tap/g.KernelWidth*g.DilationHigh
		x := wide*g.StrideWide - g.Left + tap%g.KernelWidth*g.DilationWide
		if y < 0 || y >= g.Height || x < 0 || x >= g.Width {
			continue
		}
		pixel := a.X[image*a.XImage+y*a.XRow+x*a.XColumn:]
		for ch := range g.Channels {
			w := 0.0
			switch {
			case !g.depthwise:
				w = float64(g.w.inner[(tap*g.Channels+ch)*g.Outputs+m])
			case ch == m:
				w = float64(g.w.inner[tap*g.Channels+ch])
			}
			p := w * float64(pixel[ch*a.XChannel])
			sum, size = sum+p, size+math.Abs(p)
		}
	}
	return sum, size
}

// check compares the result with the sums in float64.
func (g *convCase) check(t *testing.T) {
	t.Helper()
	a, bound := &g.args, 1e-6
	if g.tiled {
		bound = 1e-5
	}
	g.c.checkGaps(t, g.String(), a.CRow, g.Outputs)
	for row := range g.Images * g.PositionsHigh * g.PositionsWide {
		image, high, wide := row/(g.PositionsHigh*g.PositionsWide), row/g.PositionsWide%g.PositionsHigh, row%g.PositionsWide
		for m := range g.Outputs {
			want, size := g.sums(row, m)
			if a.Bias != nil {
				want += float64(a.Bias[m])
			}
			want = Unary{a.Act, a.ActAlpha, a.ActBeta}.at(want)
			if a.Residual != nil {
				want += float64(a.Residual[row*a.ResRow+m])
			}
			if got := float64(a.C[row*a.CRow+m]); !(math.Abs(got-want) <= bound*(2+size)) {
				t.Fatalf("%v: place %d,%d of image %d, channel %d: %v, want %v", g, high, wide, image, m, got, want)
			}
		}
	}
}

func TestConv(t *testing.T) {
	eachLevel(t, func(t *testing.T, s *Set) {
		r := newRand()
		for _, outputs := range edges(s.gemm.vec, s.gemm.cols()) {
			for _, channels := range []int{1, 2, 3, 4, 17, 64} {
				g := newConvCase(r, channels, outputs, false)
				pack := s.NewPackB(g.KernelHeight*g.KernelWidth*channels, outputs)
				packed := newGuarded(pack.Len(), 0)
				for p := range pack.Parts() {
					pack.Run(p, packed.inner, g.w.inner, outputs, 1)
				}
				g.args.B = packed.inner
				plan := s.NewConv(g.ConvShape, 1+r.IntN(4), false)
				scratch := newGuarded(plan.ScratchBytes()/4, 0)
				for part := range plan.Parts() {
					plan.Run(part, &g.args, bytesOfFloats(scratch.inner))
				}
				scratch.check(t, "scratch of "+g.String())
				g.check(t)
			}
		}
	})
}

// TestConvOverItsResidual holds that a convolution over its residual has the bits of one beside it.
func TestConvOverItsResidual(t *testing.T) {
	eachLevel(t, func(t *testing.T, s *Set) {
		g := newConvCase(newRand(), 40, 20, false)
		g.KernelHeight, g.KernelWidth, g.Height, g.Width = 3, 5, 9, 24 // several blocks of K
		g.Top, g.Left, g.DilationHigh, g.DilationWide, g.StrideHigh, g.StrideWide, g.PositionsHigh, g.PositionsWide, g.Images = 1, 2, 1, 1,
			1, 1, 9, 24, 1
		a := &g.args
		a.XColumn, a.XChannel, a.XRow, a.XImage, a.CRow, a.ResRow, a.Act = 40, 1, 40*24, 0, 20, 20, NoUnary
		r := newRand()
		g.x, g.w, g.c, g.res = random(r, 9*24*40), random(r, 15*40*20), newGuarded(9*24*20, 0), random(r, 9*24*20)
		copy(g.c.inner, g.res.inner)
		a.X, a.C, a.Residual = g.x.inner, g.c.inner, g.c.inner
		pack := s.NewPackB(15*40, 20)
		a.B = operand[float32](pack.Len())
		for p := range pack.Parts() {
			pack.Run(p, a.B, g.w.inner, 20, 1)
		}
		plan := s.NewConv(g.ConvShape, 1+r.IntN(4), false)
		scratch := make([]float32, plan.ScratchBytes()/4)
		run := func() {
			for part := range plan.Parts() {
				plan.Run(part, a, bytesOfFloats(scratch))
			}
		}
		run()
		over := slices.Clone(a.C)
		a.Residual = g.res.inner
		g.check(t)
		run()
		require.Equal(t, bytesOfFloats(over), bytesOfFloats(a.C))
	})
}

func TestDepthwise(t *testing.T) {
	eachLevel(t, func(t *testing.T, s *Set) {
		r := newRand()
		for _, channels := range edges(s.gemm.vec, 3*s.gemm.vec) {
			for range 12 {
				g := newConvCase(r, channels, channels, true)
				g.args.B = g.w.inner
				plan := s.NewDepthwise(g.ConvShape)
				scratch := newGuarded((plan.ScratchBytes()+3)/4, 0)
				for part := range plan.Parts() {
					plan.Run(part, &g.args, bytesOfFloats(scratch.inner))
				}
				scratch.check(t, "scratch of "+g.String())
				g.check(t)
			}
		}
	})
}

// TestShortPixels: pixels that lack one element are a panic before any part reads them, also those that never come to it.
func TestShortPixels(t *testing.T) {
	shape := ConvShape{Images: 2, Height: 5, Width: 9, Channels: 3, Outputs: 3, KernelHeight: 3, KernelWidth: 3, StrideHigh: 1,
		StrideWide: 1, DilationHigh: 1, DilationWide: 1, Top: 1, Left: 1, PositionsHigh: 5, PositionsWide: 9}
	const all, positions = 2 * 5 * 9 * 3, 2 * 5 * 9
	weights, scratch, pixels := operand[float32](1<<14), bytesOfFloats(operand[float32](1<<20)), make([]float32, all)
	args := ConvArgs{GemmArgs: GemmArgs{B: weights, C: operand[float32](positions * 3), CRow: 3, Alpha: 1, Act: NoUnary},
		XImage: 5 * 9 * 3, XRow: 9 * 3, XColumn: 3, XChannel: 1}
	bytes := ConvS8Args{GemmS8Args: GemmS8Args{Scale: []float32{1}, Zero: []int32{3}, CRow: 3, Sums: operand[int32](positions * 3)},
		XImage: 5 * 9 * 3, XRow: 9 * 3, XColumn: 3, XChannel: 1}
	eachLevel(t, func(t *testing.T, s *Set) {
		for name, run := range map[string]func(){
			"taps":      func() { s.NewConv(shape, 1, false).Run(0, &args, scratch) },
			"tiles":     func() { s.NewWinograd(shape, 1, false).Run(0, &args, scratch) },
			"depthwise": func() { s.NewDepthwise(shape).Run(0, &args, scratch) },
			"bytes":     func() { bytes.B = bytesOfFloats(weights); s.NewConvS8(shape, 1).Run(0, &bytes, scratch) },
			"depthwise bytes": func() {
				plan := s.NewDepthwiseS8(shape)
				bytes.B = plan.Pack(make([]byte, 9*3), nil, false)
				plan.Run(0, &bytes, scratch)
			},
		} {
			args.X, bytes.X = pixels, bytesOfFloats(pixels)[:all]
			require.NotPanics(t, run, name)
			args.X, bytes.X = args.X[:all-1], bytes.X[:all-1]
			require.PanicsWithValue(t, "kernel: an operand of 269 elements, 270 are needed", run, name)
		}
	})
}
