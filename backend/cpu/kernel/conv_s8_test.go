package kernel

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
)

// convS8Case is a convolution of bytes with all its operands, and the exact sums by the formula.
type convS8Case struct {
	*convCase
	args      ConvS8Args
	w         []byte // [taps·channels, outputs], of a depthwise one [taps, channels]
	zeros     []int32
	sums      []int32
	positions int
}

func newConvS8Case(r *rand.Rand, channels, outputs int, depthwise bool) *convS8Case {
	g := &convS8Case{convCase: newConvCase(r, channels, outputs, depthwise)}
	from := &g.convCase.args
	a := &g.args
	a.GemmS8Args = GemmS8Args{C: from.C, CRow: from.CRow, Act: from.Act, ActAlpha: from.ActAlpha, ActBeta: from.ActBeta, Bias: from.Bias,
		Residual: from.Residual, ResRow: from.ResRow}
	a.XImage, a.XRow, a.XColumn, a.XChannel, a.Signed = from.XImage, from.XRow, from.XColumn, from.XChannel, r.IntN(2) == 0
	a.X = operand[uint8](len(from.X))
	extreme := r.IntN(3) == 0 // all bytes as large as can be: 16-bit sums would saturate
	for i := range a.X {
		if a.X[i] = byte(r.Uint32()); extreme {
			a.X[i] = 255
		}
	}
	g.w = operand[byte](len(g.convCase.w.inner))
	for i := range g.w {
		if g.w[i] = byte(r.Uint32()); extreme {
			g.w[i] = 0x80 // −128
		}
	}
	a.Scale, a.Zero = []float32{r.Float32()}, []int32{r.Int32N(256)}
	g.zeros = operand[int32](outputs)
	for range outputs {
		a.BScale = append(a.BScale, r.Float32()/1000)
	}
	switch r.IntN(3) {
	case 0:
		for i := range outputs {
			g.zeros[i] = r.Int32N(256) - 128
		}
		a.BZero = g.zeros
	case 1:
		a.BZero = []int32{r.Int32N(256) - 128}
		for i := range g.zeros {
			g.zeros[i] = a.BZero[0]
		}
	}
	g.positions = g.Images * g.PositionsHigh * g.PositionsWide
	for row := range g.positions {
		for m := range outputs {
			g.sums = append(g.sums, g.exact(row, m))
		}
	}
	return g
}

func (g *convS8Case) exact(row, m int) (sum int32) {
	a := &g.args
	image, high, wide := row/(g.PositionsHigh*g.PositionsWide), row/g.PositionsWide%g.PositionsHigh, row%g.PositionsWide
	for tap := range g.KernelHeight * g.KernelWidth {
		y := high*g.StrideHigh - g.Top + tap/g.KernelWidth*g.DilationHigh
		x := wide*g.StrideWide - g.Left + tap%g.KernelWidth*g.DilationWide
		if y < 0 || y >= g.Height || x < 0 || x >= g.Width {
			continue
		}
		for ch := range g.Channels {
			at := (tap*g.Channels+ch)*g.Outputs + m
			if g.depthwise {
				if at = tap*g.Channels + ch; ch != m {
					continue
				}
			}
			v := a.X[image*a.XImage+y*a.XRow+x*a.XColumn+ch*a.XChannel]
			if a.Signed {
				v ^= 0x80
			}
			sum += (int32(v) - a.Zero[0]) * (int32(int8(g.w[at])) - g.zeros[m])
		}
	}
	return sum
}

// test runs a plan for exact sums, for floats and for bytes.
func (g *convS8Case) test(t *testing.T, r *rand.Rand, run func()) {
	t.Helper()
	a := &g.args
	floats := a.C
	a.C, a.Sums = nil, make([]int32, g.positions*a.CRow)
	run()
	for row := range g.positions {
		require.Equal(t, g.sums[row*g.Outputs:][:g.Outputs], a.Sums[row*a.CRow:][:g.Outputs], "%v: place %d", g, row)
	}
	a.C, a.Sums = floats, nil
	run()
	g.c.checkGaps(t, g.String(), a.CRow, g.Outputs)
	for row := range g.positions {
		for m := range g.Outputs {
			want := float64(g.sums[row*g.Outputs+m]) * float64(a.Scale[0]) * float64(a.BScale[m])
			size := math.Abs(want)
			if a.Bias != nil {
				want += float64(a.Bias[m])
			}
			want = Unary{a.Act, a.ActAlpha, a.ActBeta}.at(want)
			if a.Residual != nil {
				want += float64(a.Residual[row*a.ResRow+m])
			}
			if got := float64(floats[row*a.CRow+m]); !(math.Abs(got-want) <= 1e-6*(2+size)) {
				t.Fatalf("%v: place %d, channel %d: %v, want %v", g, row, m, got, want)
			}
		}
	}
	const gap = 3
	a.C, a.Quantized = nil, Quantized{Dst: make([]uint8, g.positions*(g.Outputs+gap)), Row: g.Outputs + gap, Scale: 0.01, Zero: 40,
		Signed: r.IntN(2) == 0}
	scale := func(m int) float32 { return 0.01 }
	if r.IntN(3) == 0 {
		scale = func(m int) float32 { return 0.01 * float32(1+m%3) }
		for m := range g.Outputs {
			a.Quantized.Scales, a.Quantized.Zeros = append(a.Quantized.Scales, scale(m)), append(a.Quantized.Zeros, 40)
		}
	}
	for i := range a.Quantized.Dst {
		a.Quantized.Dst[i] = 0xa5
	}
	run()
	lo, hi := 0.0, 255.0
	if a.Quantized.Signed {
		lo, hi = -128, 127
	}
	for i, q := range a.Quantized.Dst {
		want := byte(0xa5)
		if m := i % a.Quantized.Row; m < g.Outputs {
			want = byte(quantizeFloat64(floats[i/a.Quantized.Row*a.CRow+m], scale(m), lo, hi, 40))
		}
		require.Equal(t, want, q, "%v at %d", g, i)
	}
}

func TestConvS8(t *testing.T) {
	eachLevel(t, func(t *testing.T, s *Set) {
		r := newRand()
		for _, outputs := range edges(s.gemmS8.vec, s.gemmS8.cols()) {
			for _, channels := range []int{1, 2, 3, 4, 7, 17, 33, 64} {
				g := newConvS8Case(r, channels, outputs, false)
				taps, pixel := g.KernelHeight*g.KernelWidth, s.ConvPixel(channels)
				wide := make([]byte, taps*pixel*outputs)
				for tap := range taps {
					copy(wide[tap*pixel*outputs:], g.w[tap*channels*outputs:][:channels*outputs])
				}
				pack := s.NewPackS8(taps*pixel, outputs)
				packed := newGuarded(pack.Bytes()/4, 0)
				g.args.B = bytesOfFloats(packed.inner)
				for p := range pack.Parts() {
					pack.Run(p, g.args.B, wide, outputs, 1, false)
				}
				plan := s.NewConvS8(g.ConvShape, 1+r.IntN(9))
				scratch := newGuarded(plan.ScratchBytes()/4, 0)
				g.test(t, r, func() {
					for part := range plan.Parts() {
						plan.Run(part, &g.args, bytesOfFloats(scratch.inner))
					}
					scratch.check(t, "scratch of "+g.String())
				})
			}
		}
	})
}

func TestDepthwiseS8(t *testing.T) {
	eachLevel(t, func(t *testing.T, s *Set) {
		r := newRand()
		for _, channels := range edges(s.gemm.vec, 3*s.gemm.vec) {
			for range 6 {
				g := newConvS8Case(r, channels, channels, true)
				w, unsigned := slices.Clone(g.w), r.IntN(2) == 0
				if unsigned {
					flipSigns(w, 0x80)
				}
				plan := s.NewDepthwiseS8(g.ConvShape)
				g.args.B = plan.Pack(w, g.args.BZero, unsigned)
				scratch := newGuarded((plan.ScratchBytes()+3)/4, 0)
				g.test(t, r, func() {
					for part := range plan.Parts() {
						plan.Run(part, &g.args, bytesOfFloats(scratch.inner))
					}
					scratch.check(t, "scratch of "+g.String())
				})
			}
		}
	})
}

// oneS8Case is a convolution of bytes of a given shape over images whose pixels have the given distances, with bytes that all differ.
func oneS8Case(s ConvShape, column, channel int, depthwise bool) *convS8Case {
	outputs := s.Outputs
	g := &convS8Case{convCase: &convCase{ConvShape: s, depthwise: depthwise}, zeros: operand[int32](outputs),
		positions: s.Images * s.PositionsHigh * s.PositionsWide}
	a := &g.args
	a.XColumn, a.XChannel = column, channel
	a.XRow = s.Width * column
	a.XImage = s.Height * a.XRow
	a.X = operand[uint8](s.Images*a.XImage + s.Channels*channel)
	for i := range a.X {
		a.X[i] = byte(37 * i)
	}
	g.w = operand[byte](s.KernelHeight * s.KernelWidth * s.Channels * outputs)
	if depthwise {
		g.w = g.w[:s.KernelHeight*s.KernelWidth*s.Channels]
	}
	for i := range g.w {
		g.w[i] = byte(53 * i)
	}
	a.Scale, a.Zero, a.CRow, a.Sums = []float32{1}, []int32{77}, outputs, make([]int32, g.positions*outputs)
	for row := range g.positions {
		for m := range outputs {
			g.sums = append(g.sums, g.exact(row, m))
		}
	}
	return g
}

// run computes the sums by a level's kernels, and returns them.
func (g *convS8Case) run(s *Set) []int32 {
	each := func(parts, scratch int, run func(part int, args *ConvS8Args, scratch []byte)) []int32 {
		for part := range parts {
			run(part, &g.args, bytesOfFloats(newGuarded((scratch+3)/4, 0).inner))
		}
		return g.args.Sums
	}
	if g.depthwise {
		plan := s.NewDepthwiseS8(g.ConvShape)
		g.args.B = plan.Pack(g.w, nil, false)
		return each(plan.Parts(), plan.ScratchBytes(), plan.Run)
	}
	taps, pixel := g.KernelHeight*g.KernelWidth, s.ConvPixel(g.Channels)
	wide := make([]byte, taps*pixel*g.Outputs)
	for tap := range taps {
		copy(wide[tap*pixel*g.Outputs:], g.w[tap*g.Channels*g.Outputs:][:g.Channels*g.Outputs])
	}
	pack := s.NewPackS8(taps*pixel, g.Outputs)
	g.args.B = bytesOfFloats(newGuarded(pack.Bytes()/4, 0).inner)
	for p := range pack.Parts() {
		pack.Run(p, g.args.B, wide, g.Outputs, 1, false)
	}
	plan := s.NewConvS8(g.ConvShape, 1)
	return each(plan.Parts(), plan.ScratchBytes(), plan.Run)
}

// TestConvS8Edges: what random shapes seldom have.
func TestConvS8Edges(t *testing.T) {
	window := ConvShape{Images: 1, Height: 5, Width: 9, Channels: 3, Outputs: 5, KernelHeight: 3, KernelWidth: 3, StrideHigh: 1,
		StrideWide: 1, DilationHigh: 1, DilationWide: 1, Top: 1, Left: 1, PositionsHigh: 5, PositionsWide: 9}
	with := func(change func(s *ConvShape)) ConvShape {
		s := window
		change(&s)
		return s
	}
	// Every other pixel of a row, whose three channels are apart.
	everyOther := with(func(s *ConvShape) {
		s.KernelWidth, s.StrideWide, s.Left, s.PositionsWide = 1, 2, 0, 5
	})
	// Rows whose first positions, more than a part has, meet no pixel.
	outside := with(func(s *ConvShape) {
		s.Width, s.Left, s.PositionsWide = 1, 2*blockRows+5, 3*blockRows
	})
	rows := with(func(s *ConvShape) { // windows of one row, at every other row
		s.KernelHeight, s.StrideHigh, s.Top, s.PositionsHigh = 1, 2, 0, 3
	})
	eachLevel(t, func(t *testing.T, s *Set) {
		for name, c := range map[string]struct {
			shape           ConvShape
			column, channel int
		}{
			"channels first": {window, 1, 45}, "channels first, wider": {window, 2, 90}, "every other, channels first": {everyOther, 1, 45},
			"every other": {everyOther, 3, 1}, "outside": {outside, 3, 1}, "rows": {rows, 3, 1},
		} {
			g := oneS8Case(c.shape, c.column, c.channel, false)
			require.Equal(t, g.sums, g.run(s), name)
			if c.channel == 1 {
				c.shape.Outputs = c.shape.Channels
				g := oneS8Case(c.shape, c.column, c.channel, true)
				require.Equal(t, g.sums, g.run(s), "%s, depthwise", name)
			}
		}
		// Weights of no elements may have a window of any size, which takes no memory and no time.
		none := with(func(s *ConvShape) {
			s.Channels, s.KernelHeight, s.KernelWidth, s.PositionsHigh, s.PositionsWide = 0, 1<<30, 1<<30, 2, 2
		})
		plan := s.NewConvS8(none, 2)
		pack := s.NewPackS8(0, none.Outputs)
		args := ConvS8Args{GemmS8Args: GemmS8Args{B: bytesOfFloats(newGuarded(pack.Bytes()/4, 0).inner), Scale: []float32{1},
			Zero: []int32{3}, CRow: 5, Sums: slices.Repeat([]int32{9}, 20)}}
		for p := range pack.Parts() {
			pack.Run(p, args.B, nil, 5, 1, false)
		}
		require.Less(t, plan.ScratchBytes(), 1<<20)
		for part := range plan.Parts() {
			plan.Run(part, &args, bytesOfFloats(newGuarded(plan.ScratchBytes()/4, 0).inner))
		}
		require.Equal(t, make([]int32, 20), args.Sums)
	})
}
