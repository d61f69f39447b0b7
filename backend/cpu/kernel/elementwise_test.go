package kernel

import (
	"fmt"
	"math"
	"testing"

	"github.com/stretchr/testify/require"
)

// eachUnary runs a test for every function with each of its parameters.
func eachUnary(test func(f Unary, row unaryRow, what string)) {
	for op, row := range unaryRows {
		cases := row.cases
		if len(cases) == 0 {
			cases = []unaryCase{{abs: row.abs}}
		}
		for _, c := range cases {
			row.abs = c.abs
			test(Unary{UnaryOp(op), c.alpha, c.beta}, row, fmt.Sprintf("%s%v", UnaryOp(op), c))
		}
	}
}

// unaryInputs are special values and a sweep over all magnitudes.
func unaryInputs() []float32 {
	inf := float32(math.Inf(1))
	inputs := []float32{0, float32(math.Copysign(0, -1)), inf, -inf, float32(math.NaN()), 1, -1, 5e-324, 1e-45, -1e-45,
		math.MaxFloat32, -math.MaxFloat32, 88.7, 88.73, 89, -87.3, -87.4, -103, -104, -1e4, 1e4, 13, -13}
	for x := float32(-20); x < 20; x += 0.0037 {
		inputs = append(inputs, x)
	}
	for x := float32(1e-30); x < 1e30; x *= 1.13 {
		inputs = append(inputs, x, -x)
	}
	return inputs
}

func TestUnaryValues(t *testing.T) {
	inputs := unaryInputs()
	eachLevel(t, func(t *testing.T, s *Set) {
		eachUnary(func(f Unary, row unaryRow, what string) {
			got := make([]float32, len(inputs))
			s.Unary(f, got, inputs)
			worst, at := 0.0, float32(0)
			for i, x := range inputs {
				abs := row.abs
				if math.IsInf(float64(x), 0) { // the limit and nothing close to it
					abs = 0
				}
				if e := ulps(got[i], f.at(float64(x)), abs); e > worst || math.IsNaN(e) {
					worst, at = e, x
				}
			}
			require.LessOrEqual(t, worst, row.ulp+1e-6, "%s at %v", what, at)
		})
	})
}

// ulps is the error of a float32 in units of the last place, 0 if it is within abs.
func ulps(got float32, want, abs float64) float64 {
	rounded := float32(want)
	switch {
	case math.IsNaN(want) || math.IsNaN(float64(got)):
		if math.IsNaN(want) && math.IsNaN(float64(got)) {
			return 0
		}
		return math.Inf(1)
	case got == rounded:
		return 0 // infinities too
	case math.IsInf(float64(rounded), 0) || math.IsInf(float64(got), 0):
		return math.Inf(1)
	case math.Abs(float64(got)-want) <= abs:
		return 0
	}
	next := math.Nextafter32(float32(math.Abs(float64(rounded))), float32(math.Inf(1)))
	ulp := float64(next) - math.Abs(float64(rounded))
	return math.Abs(float64(got)-want) / ulp
}

func TestUnaryShapes(t *testing.T) {
	eachLevel(t, func(t *testing.T, s *Set) {
		r := newRand()
		eachUnary(func(f Unary, row unaryRow, name string) {
			for _, rows := range []int{1, 2, 3} {
				for cols := 1; cols <= 35; cols++ {
					src, dst := random(r, rows*(cols+2)), newGuarded(rows*(cols+1), r.IntN(16))
					what := fmt.Sprintf("%s on %d×%d", name, rows, cols)
					s.UnaryRows(f, dst.inner, cols+1, src.inner, cols+2, rows, cols)
					dst.checkGaps(t, what, cols+1, cols)
					for i := range rows {
						for j := range cols {
							got, want := dst.inner[i*(cols+1)+j], f.at(float64(src.inner[i*(cols+2)+j]))
							require.LessOrEqual(t, ulps(got, want, row.abs), row.ulp+1e-6, "%s at %d, %d", what, i, j)
						}
					}
				}
			}
		})
		s.Unary(Unary{Op: Exp}, nil, nil)
	})
}

var binaryTests = [NumBinary]func(x, y float32) float32{
	Add: func(x, y float32) float32 { return x + y },
	Sub: func(x, y float32) float32 { return x - y },
	Mul: func(x, y float32) float32 { return x * y },
	Div: func(x, y float32) float32 { return x / y },
	Min: func(x, y float32) float32 { return min(x, y) },
	Max: func(x, y float32) float32 { return max(x, y) },
	PRelu: func(x, y float32) float32 {
		if x < 0 {
			return x * y
		}
		return x
	},
}

func TestBinary(t *testing.T) {
	nan, inf := float32(math.NaN()), float32(math.Inf(1))
	special := []float32{0, 1, nan, inf, -inf, -3}
	eachLevel(t, func(t *testing.T, s *Set) {
		r := newRand()
		for op, want := range binaryTests {
			require.NotNil(t, want, "function %d has no row in binaryTests", op)
			for _, rows := range []int{1, 2, 3} {
				for cols := 1; cols <= 35; cols++ {
					for form := range 16 {
						aCol, bCol, aRow, bRow := form&1, form>>1&1, cols+3, cols+1
						if form>>2&1 == 0 {
							aRow = 0
						}
						if form>>3 == 0 {
							bRow = 0
						}
						a, b := random(r, rows*(cols+3)), random(r, rows*(cols+3))
						for i := range a.inner {
							if r.IntN(8) == 0 {
								a.inner[i], b.inner[i] = special[r.IntN(6)], special[r.IntN(6)]
							}
						}
						dst := newGuarded(rows*(cols+2), r.IntN(16))
						s.BinaryRows(BinaryOp(op), dst.inner, cols+2, Rows{a.inner, aRow, aCol}, Rows{b.inner, bRow, bCol}, rows, cols)
						what := fmt.Sprintf("function %d on %d×%d, form %d", op, rows, cols, form)
						dst.checkGaps(t, what, cols+2, cols)
						for i := range rows {
							for j := range cols {
								w := want(a.inner[i*aRow+j*aCol], b.inner[i*bRow+j*bCol])
								g := dst.inner[i*(cols+2)+j]
								if g != w && (g == g || w == w) {
									t.Fatalf("%s at %d, %d: %v, want %v", what, i, j, g, w)
								}
							}
						}
					}
				}
			}
		}
		s.Binary(Add, nil, nil, nil)
	})
}
