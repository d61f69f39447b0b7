package kernel

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// TestShortOperands: an operand that lacks one element is a panic of Go's, before a kernel reads or writes beyond it.
func TestShortOperands(t *testing.T) {
	const rows, cols, row, most = 2, 4, 7, 7 + 4
	norm := func(all func(n int) []float32, residual, sum bool) *NormArgs {
		a := &NormArgs{Dst: all(most), DstRow: row, X: all(most), XRow: row, Scale: all(cols), Bias: all(cols), ResRow: row, SumRow: row}
		if residual {
			a.Residual = all(most)
		}
		if sum {
			a.Sum = all(most)
		}
		return a
	}
	for name, c := range map[string]struct {
		operands int
		call     func(s *Set, all func(n int) []float32)
	}{
		"norm":          {4, func(s *Set, all func(n int) []float32) { s.LayerNorm(norm(all, false, false), 0, rows, cols) }},
		"rms of a sum":  {5, func(s *Set, all func(n int) []float32) { s.RMSNorm(norm(all, true, false), 0, rows, cols) }},
		"norm and sum":  {6, func(s *Set, all func(n int) []float32) { s.LayerNorm(norm(all, true, true), 0, rows, cols) }},
		"norm and copy": {5, func(s *Set, all func(n int) []float32) { s.LayerNorm(norm(all, false, true), 0, rows, cols) }},
		"binary rows": {3, func(s *Set, all func(n int) []float32) {
			s.BinaryRows(Add, all(most), row, Rows{all(most), row, 1}, Rows{all(cols), 0, 1}, rows, cols)
		}},
		"unary rows": {2, func(s *Set, all func(n int) []float32) {
			s.UnaryRows(Unary{Op: Exp}, all(most), row, all(most), row, rows, cols)
		}},
		"transpose": {2, func(s *Set, all func(n int) []float32) { s.Transpose(all(most), row, all(3*row+rows), row, rows, cols) }},
		"reduce rows": {2, func(s *Set, all func(n int) []float32) {
			s.ReduceRows(ReduceSum, all(rows), all(most), row, rows, cols)
		}},
		"inner products": {3, func(s *Set, all func(n int) []float32) { s.dots(all(rows), 1, all(most), row, all(cols), rows, cols) }},
		"reduce columns": {2, func(s *Set, all func(n int) []float32) {
			s.ReduceColumns(ReduceMax, all(cols), all(most), row, rows, cols)
		}},
		"max of bytes": {2, func(s *Set, all func(n int) []float32) {
			s.MaxBytes(make([]uint8, 64), bytesOfFloats(all(16)), bytesOfFloats(all(16)), true)
		}},
		"quantize": {1, func(s *Set, all func(n int) []float32) {
			s.QuantizeU8(bytesOfFloats(all(16)), make([]float32, 64), 1, 0)
		}},
		"quantize rows": {3, func(s *Set, all func(n int) []float32) {
			s.QuantizeRows(bytesOfFloats(all(row+1)), 4*row, all(most), row, all(rows), make([]int32, rows), 0, rows, cols)
		}},
		"dequantize": {1, func(s *Set, all func(n int) []float32) { s.DequantizeU8(all(64), make([]uint8, 64), 1, 0) }},
	} {
		eachLevel(t, func(t *testing.T, s *Set) {
			for short := range c.operands + 1 {
				n := 0
				run := func() {
					c.call(s, func(length int) []float32 {
						n++
						x := make([]float32, length+row)
						if n == short+1 {
							length--
						}
						return x[:length:length]
					})
				}
				if short < c.operands {
					require.Panics(t, run, "%s, operand %d", name, short)
				} else {
					require.NotPanics(t, run, name)
				}
				require.Equal(t, c.operands, n, name)
			}
		})
	}
}
