package kernel

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
)

// gemmS8Case is one product of bytes with all its operands, and the exact sums by the formula.
type gemmS8Case struct {
	m, n, k    int
	b          []byte
	bRow, bCol int
	unsigned   bool
	args       GemmS8Args
	c          *guarded
	sums       []int32
}

func newGemmS8Case(r *rand.Rand, m, n, k int) *gemmS8Case {
	g := &gemmS8Case{m: m, n: n, k: k, unsigned: r.IntN(2) == 0}
	extreme := r.IntN(3) == 0 // all bytes as large as can be: 16-bit sums would saturate
	randomByte := func() byte {
		if extreme {
			return byte(255)
		}
		return byte(r.Uint32())
	}
	args := &g.args
	args.ARow = roundUp(k, 4) + 4*r.IntN(2)
	args.A = operand[uint8](max(4, m*args.ARow))
	for i := range args.A {
		args.A[i] = randomByte()
	}
	g.bRow, g.bCol = n+r.IntN(2), 1
	if r.IntN(2) == 0 {
		g.bRow, g.bCol = 1, k+r.IntN(2)
	}
	g.b = operand[byte](max(1, k*g.bRow, n*g.bCol, n*k+n+k))
	for i := range g.b {
		g.b[i] = randomByte()
		if extreme && !g.unsigned {
			g.b[i] = 0x80 // −128
		}
	}
	rows := 1
	if r.IntN(2) == 0 {
		rows = m
	}
	for range rows {
		args.Scale, args.Zero = append(args.Scale, r.Float32()), append(args.Zero, r.Int32N(256))
	}
	for range n {
		args.BScale = append(args.BScale, r.Float32()/1000)
	}
	if r.IntN(2) == 0 {
		for range n {
			args.BZero = append(args.BZero, r.Int32N(256)-128)
		}
	}
	if r.IntN(2) == 0 {
		args.Bias = random(r, n).inner
	}
	if r.IntN(2) == 0 {
		for range n {
			args.Addend = append(args.Addend, r.Int32N(1<<26)-1<<25)
		}
	}
	args.Act, args.ActAlpha, args.ActBeta = epilogue(r)
	args.CRow = n + r.IntN(3)
	g.c = newGuarded(m*args.CRow, r.IntN(16))
	args.C = g.c.inner
	if r.IntN(2) == 0 {
		args.ResRow = n + r.IntN(3)
		args.Residual = random(r, m*args.ResRow).inner
	}
	g.sum()
	return g
}

// sum computes the exact sums.
func (g *gemmS8Case) sum() {
	args, m, n, k := &g.args, g.m, g.n, g.k
	g.sums = nil
	for i := range m {
		for j := range n {
			var sum int32
			for l := range k {
				b := int32(int8(g.b[l*g.bRow+j*g.bCol]))
				if g.unsigned {
					b = int32(g.b[l*g.bRow+j*g.bCol]) - 128
				}
				if args.BZero != nil {
					b -= args.BZero[j]
				}
				sum += (int32(args.A[i*args.ARow+l]) - args.Zero[i*(len(args.Zero)-1)/max(1, m-1)]) * b
			}
			if args.Addend != nil {
				sum += args.Addend[j]
			}
			g.sums = append(g.sums, sum)
		}
	}
}

func (g *gemmS8Case) test(t *testing.T, s *Set) {
	t.Helper()
	args := &g.args
	what := fmt.Sprintf("%d×%d×%d unsigned=%v bZero=%v rows=%d act=%d residual=%v", g.m, g.n, g.k, g.unsigned, args.BZero != nil,
		len(args.Scale), args.Act, args.Residual != nil)
	pack := s.NewPackS8(g.k, g.n)
	packed := newGuarded(pack.Bytes()/4, 0)
	for p := range pack.Parts() {
		pack.Run(p, bytesOfFloats(packed.inner), g.b, g.bRow, g.bCol, g.unsigned)
	}
	packed.check(t, "packing "+what)
	args.B = bytesOfFloats(packed.inner)
	plan := s.NewGemmS8(g.m, g.n, g.k, 1+g.m%3)
	scratch := newGuarded(plan.ScratchBytes()/4, 0)
	run := func() {
		for p := range plan.Parts() {
			plan.Run(p, args, bytesOfFloats(scratch.inner))
		}
		scratch.check(t, what)
	}
	run()
	g.c.checkGaps(t, what, args.CRow, g.n)
	for i := range g.m {
		for j := range g.n {
			want := float64(g.sums[i*g.n+j]) * float64(args.Scale[i%len(args.Scale)]) * float64(args.BScale[j])
			size := math.Abs(want)
			if args.Bias != nil {
				want += float64(args.Bias[j])
			}
			want = Unary{args.Act, args.ActAlpha, args.ActBeta}.at(want)
			if args.Residual != nil {
				want += float64(args.Residual[i*args.ResRow+j])
			}
			requireClose(t, want, args.C[i*args.CRow+j], 1e-6*(2+size), "%s at %d, %d", what, i, j)
		}
	}
	args.Sums = make([]int32, g.m*args.CRow)
	run()
	for i := range g.m {
		require.Equal(t, g.sums[i*g.n:][:g.n], args.Sums[i*args.CRow:][:g.n], what)
	}
}

func TestGemmS8(t *testing.T) {
	eachLevel(t, func(t *testing.T, s *Set) {
		r := newRand()
		for _, m := range edges(s.gemmS8.rows, 2*s.gemmS8.rows) {
			for _, n := range edges(s.gemmS8.vec, s.gemmS8.cols(), 2*s.gemmS8.cols()) {
				for _, k := range []int{0, 1, 3, 4, 5, 16, 65, 128, 150} {
					newGemmS8Case(r, m, n, k).test(t, s)
				}
			}
		}
		newGemmS8Case(r, 300, 70, 10).test(t, s)
		newGemmS8Case(r, 2*blockRows, 20, 10).test(t, s) // not a multiple of every tile
		newGemmS8Case(r, 3, 20, 3072).test(t, s)
		for i, act := range slices.Repeat(epilogues, 2) { // panels side by side, tiles below each other
			for _, m := range []int{1, 9, s.gemmS8.rows, 2*s.gemmS8.rows + 6, blockRows + 5} {
				g := newGemmS8Case(r, m, 5*s.gemmS8.cols()+s.gemmS8.vec, 128)
				if args := &g.args; i > 0 { // all rows share what makes floats of sums
					args.Scale, args.Zero, args.BZero, args.Addend = args.Scale[:1], args.Zero[:1], nil, nil
					args.Act, args.ActAlpha, args.ActBeta = act.Op, act.Alpha, act.Beta
					g.sum()
				}
				g.test(t, s)
			}
		}
	})
}

// quantizeFloat64 is ONNX's QuantizeLinear: the quotient is rounded to float32 first, as the operator's type says.
func quantizeFloat64(x, scale float32, lo, hi, zero float64) int {
	return int(min(max(math.RoundToEven(float64(x/scale))+zero, lo), hi))
}

func TestQuantize(t *testing.T) {
	eachLevel(t, func(t *testing.T, s *Set) {
		r := newRand()
		for n := range 70 {
			for _, scale := range []float32{0.01, 1, 0.5, 1.0 / 255, 3e-5, 1e-20, 7e10, 1e-40, 1.3e36, 1e38} {
				src := random(r, n)
				for i := range src.inner {
					switch r.IntN(4) {
					case 0: // ties
						src.inner[i] = (float32(r.IntN(300)-150) + 0.5) * scale
					case 1:
						src.inner[i] *= 1e3 * scale
					case 2:
						src.inner[i] *= 1e30
					default:
						src.inner[i] *= 100 * scale
					}
				}
				zero := uint8(r.Uint32())
				u, i8 := make([]uint8, n+1), make([]int8, n+1)
				u[n], i8[n] = 77, 77
				s.QuantizeU8(u[:n], src.inner, scale, zero)
				s.QuantizeS8(i8[:n], src.inner, scale, int8(zero))
				require.EqualValues(t, 77, u[n])
				require.EqualValues(t, 77, i8[n])
				back := newGuarded(n, 0)
				for i, x := range src.inner {
					require.EqualValues(t, quantizeFloat64(x, scale, 0, 255, float64(zero)), u[i], "%v by %v + %d", x, scale, zero)
					require.EqualValues(t, quantizeFloat64(x, scale, -128, 127, float64(int8(zero))), i8[i], "%v by %v + %d", x, scale,
						int8(zero))
				}
				s.DequantizeU8(back.inner, u[:n], scale, zero)
				for i, q := range u[:n] {
					require.Equal(t, float32(int32(q)-int32(zero))*scale, back.inner[i])
				}
				s.DequantizeS8(back.inner, i8[:n], scale, int8(zero))
				for i, q := range i8[:n] {
					require.Equal(t, float32(int32(q)-int32(int8(zero)))*scale, back.inner[i])
				}
				back.check(t, "dequantise")
				lo, hi := s.MinMax(src.inner)
				if n > 0 {
					require.Equal(t, slices.Min(src.inner), lo)
					require.Equal(t, slices.Max(src.inner), hi)
				}
			}
		}
	})
}

// TestQuantizeIsExact looks at quotients next to a tie, where a product with the inverse would go astray.
func TestQuantizeIsExact(t *testing.T) {
	eachLevel(t, func(t *testing.T, s *Set) {
		r := newRand()
		for range 100 {
			scale := r.Float32() * float32(math.Pow(2, float64(r.IntN(40)-20)))
			src := make([]float32, 3*256)
			for i := range 256 {
				tie := (float32(i) - 127.5) * scale
				src[3*i], src[3*i+1], src[3*i+2] = tie, math.Nextafter32(tie, -1e30), math.Nextafter32(tie, 1e30)
			}
			got := make([]uint8, len(src))
			s.QuantizeU8(got, src, scale, 128)
			for i, x := range src {
				require.EqualValues(t, quantizeFloat64(x, scale, 0, 255, 128), got[i], "%v by %v", x, scale)
			}
		}
	})
}

func TestDynamicScale(t *testing.T) {
	for _, c := range []struct {
		lo, hi, scale float32
		zero          uint8
	}{
		{0, 0, 1, 0},
		{1, 255, 1, 0},          // 0 is in the range
		{-255, -3, 1, 255},      // likewise
		{-127.5, 127.5, 1, 128}, // a tie goes to even
		{-1, 2, 3.0 / 255, 85},
		{float32(math.Inf(-1)), 2, float32(math.Inf(1)), 255}, // as in onnxruntime
		{-1, float32(math.Inf(1)), float32(math.Inf(1)), 0},
	} {
		scale, zero := DynamicScale(c.lo, c.hi)
		require.Equal(t, c.scale, scale)
		require.Equal(t, c.zero, zero)
	}
}

func TestQuantizeRows(t *testing.T) {
	eachLevel(t, func(t *testing.T, s *Set) {
		r := newRand()
		const rows, cols = 5, 37
		src := random(r, rows*(cols+1)).inner
		dst, scale, zero := make([]uint8, rows*(cols+3)), make([]float32, rows), make([]int32, rows)
		s.QuantizeRows(dst, cols+3, src, cols+1, scale, zero, 0, 2, cols)
		s.QuantizeRows(dst, cols+3, src, cols+1, scale, zero, 2, rows, cols)
		for i := range rows {
			row := src[i*(cols+1):][:cols]
			wantScale, wantZero := DynamicScale(slices.Min(row), slices.Max(row))
			require.Equal(t, wantScale, scale[i])
			require.EqualValues(t, wantZero, zero[i])
			for j, x := range row {
				require.EqualValues(t, quantizeFloat64(x, scale[i], 0, 255, float64(zero[i])), dst[i*(cols+3)+j])
			}
		}
	})
}
