package kernel

import (
	"fmt"
	"math"
	"testing"

	"github.com/stretchr/testify/require"
)

// rowSizes are row lengths around one, four and eight vectors.
var rowSizes = []int{1, 2, 7, 8, 9, 15, 16, 17, 31, 33, 63, 64, 65, 128, 131, 384}

func requireClose(t *testing.T, want float64, got float32, tolerance float64, format string, args ...any) {
	t.Helper()
	if math.IsNaN(want) && math.IsNaN(float64(got)) || float32(want) == got {
		return
	}
	if !(math.Abs(want-float64(got)) <= tolerance) {
		t.Fatalf("%s: got %v, want %v", fmt.Sprintf(format, args...), got, want)
	}
}

func TestNorm(t *testing.T) {
	eachLevel(t, func(t *testing.T, s *Set) {
		r := newRand()
		for _, cols := range rowSizes {
			for form := range 16 {
				centred, withRes, withSum, withBias := form&1 != 0, form&2 != 0, form&4 != 0, form&8 != 0
				const rows = 3
				what := fmt.Sprintf("%d columns, centred %v, residual %v, sum %v, bias %v", cols, centred, withRes, withSum, withBias)
				x, dst := random(r, rows*(cols+1)), newGuarded(rows*(cols+2), r.IntN(16))
				res, sum := random(r, rows*(cols+3)), newGuarded(rows*(cols+4), r.IntN(16))
				scale, bias := random(r, cols), random(r, cols)
				args := &NormArgs{Dst: dst.inner, DstRow: cols + 2, X: x.inner, XRow: cols + 1, Scale: scale.inner, Epsilon: 1e-5}
				if withRes {
					args.Residual, args.ResRow = res.inner, cols+3
				}
				if withSum {
					args.Sum, args.SumRow = sum.inner, cols+4
				}
				if withBias {
					args.Bias = bias.inner
				}
				norm := s.RMSNorm
				if centred {
					norm = s.LayerNorm
				}
				norm(args, 0, 1, cols)
				norm(args, 1, 1, cols)
				norm(args, 1, rows, cols)
				dst.checkGaps(t, what, cols+2, cols)
				if withSum {
					sum.checkGaps(t, what, cols+4, cols)
				}
				for i := range rows {
					v := make([]float64, cols)
					var mean, variance float64
					for c := range v {
						in := x.inner[i*(cols+1)+c]
						if withRes {
							in += res.inner[i*(cols+3)+c]
						}
						if withSum {
							require.Equal(t, in, sum.inner[i*(cols+4)+c], what)
						}
						v[c] = float64(in)
						mean += v[c] / float64(cols)
					}
					if !centred {
						mean = 0
					}
					for _, x := range v {
						variance += (x - mean) * (x - mean) / float64(cols)
					}
					for c, x := range v {
						want := (x - mean) / math.Sqrt(variance+1e-5) * float64(scale.inner[c])
						if withBias {
							want += float64(bias.inner[c])
						}
						requireClose(t, want, dst.inner[i*(cols+2)+c], 2e-6, "%s at %d, %d", what, i, c)
					}
				}
			}
		}
	})
}

// TestNormInPlace has the sum go to the output, over the input.
func TestNormInPlace(t *testing.T) {
	eachLevel(t, func(t *testing.T, s *Set) {
		r := newRand()
		x, res, scale := random(r, 2*50), random(r, 2*50), random(r, 50)
		out := make([]float32, 2*50)
		args := &NormArgs{Dst: out, DstRow: 50, X: x.inner, XRow: 50, Residual: res.inner, ResRow: 50, Scale: scale.inner}
		s.LayerNorm(args, 0, 2, 50)
		args.Dst = args.X
		s.LayerNorm(args, 0, 2, 50)
		require.Equal(t, out, x.inner)
	})
}

var reduceTests = [NumReduce]func(x []float32) float64{
	ReduceSum: func(x []float32) (sum float64) {
		for _, v := range x {
			sum += float64(v)
		}
		return sum
	},
	ReduceSumSquares: func(x []float32) (sum float64) {
		for _, v := range x {
			sum += float64(v) * float64(v)
		}
		return sum
	},
	ReduceMax: func(x []float32) float64 {
		highest := math.Inf(-1)
		for _, v := range x {
			highest = max(highest, float64(v))
		}
		return highest
	},
	ReduceMin: func(x []float32) float64 {
		lowest := math.Inf(1)
		for _, v := range x {
			lowest = min(lowest, float64(v))
		}
		return lowest
	},
}

func TestReduce(t *testing.T) {
	eachLevel(t, func(t *testing.T, s *Set) {
		r := newRand()
		for op, want := range reduceTests {
			require.NotNil(t, want, "function %d has no row in reduceTests", op)
			for _, cols := range append([]int{0}, rowSizes...) {
				for _, nan := range []bool{false, true} {
					const rows = 3
					x := random(r, rows*(cols+1))
					if nan && cols > 0 {
						x.inner[r.IntN(cols)] = float32(math.NaN())
					}
					dst := newGuarded(rows, 3)
					what := fmt.Sprintf("function %d over %d columns", op, cols)
					s.ReduceRows(ReduceOp(op), dst.inner, x.inner, cols+1, rows, cols)
					dst.check(t, what)
					for i := range rows {
						requireClose(t, want(x.inner[i*(cols+1):][:cols]), dst.inner[i], 1e-6*float64(cols+1), "%s, row %d", what, i)
					}
					columns := newGuarded(cols, 1)
					s.ReduceColumns(ReduceOp(op), columns.inner, x.inner, cols+1, rows, cols)
					columns.check(t, what)
					for c := range cols {
						column := []float32{x.inner[c], x.inner[cols+1+c], x.inner[2*(cols+1)+c]}
						requireClose(t, want(column), columns.inner[c], 1e-6, "%s, column %d", what, c)
					}
				}
			}
		}
	})
}

// TestDots writes to every other element.
func TestDots(t *testing.T) {
	eachLevel(t, func(t *testing.T, s *Set) {
		r := newRand()
		for _, cols := range rowSizes {
			for _, rows := range []int{1, 3, 2 + callElements/cols} {
				x, by, dst := random(r, rows*(cols+1)-1), random(r, cols), newGuarded(2*rows-1, 3)
				what := fmt.Sprintf("%d rows of %d columns", rows, cols)
				s.dots(dst.inner, 2, x.inner, cols+1, by.inner, rows, cols)
				dst.checkGaps(t, what, 2, 1)
				for i := range rows {
					var want float64
					for c, y := range by.inner {
						want += float64(x.inner[i*(cols+1)+c]) * float64(y)
					}
					requireClose(t, want, dst.inner[2*i], 1e-6*float64(cols+1), "%s, row %d", what, i)
				}
			}
		}
	})
}

// TestReduceManyRows: sums of sums, more columns and rows than are taken at a time.
func TestReduceManyRows(t *testing.T) {
	eachLevel(t, func(t *testing.T, s *Set) {
		r := newRand()
		for op, want := range reduceTests {
			for _, rows := range []int{0, columnBlock - 1, columnBlock, 3*columnBlock + 1} {
				const cols, srcRow = columnBlock + 17, columnBlock + 20
				x, dst := random(r, rows*srcRow), newGuarded(cols, 1)
				s.ReduceColumns(ReduceOp(op), dst.inner, x.inner, srcRow, rows, cols)
				dst.check(t, "sums of columns")
				for c := range cols {
					column, size := make([]float32, rows), 1.0
					for i := range column {
						column[i] = x.inner[i*srcRow+c]
						size += math.Abs(float64(column[i])) * max(1, math.Abs(float64(column[i])))
					}
					requireClose(t, want(column), dst.inner[c], 1e-6*size, "function %d of %d rows, column %d", op, rows, c)
				}
			}
		}
	})
}

// softmaxRows are scores that ask for care: masked, whole rows masked, far apart, not finite.
func softmaxRow(kind int, x []float32) {
	inf := float32(math.Inf(1))
	for i := range x {
		switch kind {
		case 0:
			x[i] *= 10
		case 1: // the tail is masked by the lowest number
			if i > len(x)/2 {
				x[i] = -math.MaxFloat32
			}
		case 2: // all is: a uniform average
			x[i] = -math.MaxFloat32
		case 3: // some is masked by -∞
			if i%3 == 1 {
				x[i] = -inf
			}
		case 4:
			x[i] = -inf
		case 5:
			x[i] *= 1e30
		case 6:
			if i == len(x)/2 {
				x[i] = float32(math.NaN())
			}
		}
	}
}

const softmaxKinds = 7

func softmaxFloat64(x []float32) []float64 {
	highest, sum := math.Inf(-1), 0.0
	for _, v := range x {
		highest = max(highest, float64(v))
	}
	out := make([]float64, len(x))
	for i, v := range x {
		out[i] = math.Exp(float64(v) - highest)
		sum += out[i]
	}
	for i := range out {
		out[i] /= sum
	}
	return out
}

func TestSoftmax(t *testing.T) {
	eachLevel(t, func(t *testing.T, s *Set) {
		r := newRand()
		for _, cols := range rowSizes {
			const rows = softmaxKinds
			src, dst := random(r, rows*(cols+1)), newGuarded(rows*(cols+2), r.IntN(16))
			for kind := range rows {
				softmaxRow(kind, src.inner[kind*(cols+1):][:cols])
			}
			s.Softmax(dst.inner, cols+2, src.inner, cols+1, rows, cols)
			dst.checkGaps(t, "softmax", cols+2, cols)
			for kind := range rows {
				for c, want := range softmaxFloat64(src.inner[kind*(cols+1):][:cols]) {
					requireClose(t, want, dst.inner[kind*(cols+2)+c], 3e-7, "kind %d, %d of %d columns", kind, c, cols)
				}
			}
		}
	})
}
