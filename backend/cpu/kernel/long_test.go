package kernel

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestLongOperands runs what is cut into several calls of assembly, and compares it with the same done row by row.
func TestLongOperands(t *testing.T) {
	const rows, cols = 70, 1000
	require.Greater(t, rows*cols, callElements)
	eachLevel(t, func(t *testing.T, s *Set) {
		x := ramp(rows * cols)
		whole, single := make([]float32, rows*cols), make([]float32, rows*cols)
		row := func(r int) ([]float32, []float32) { return single[r*cols:][:cols], x[r*cols:][:cols] }
		for name, run := range map[string][2]func(){
			"unary": {
				func() { s.Unary(Unary{Op: Relu}, whole, x) },
				func() {
					for r := range rows {
						to, from := row(r)
						s.Unary(Unary{Op: Relu}, to, from)
					}
				}},
			"unary over rows": {
				func() { s.UnaryRows(Unary{Op: Abs}, whole, cols, x, cols, rows, cols) },
				func() { s.Unary(Unary{Op: Abs}, single, x) }},
			"binary": {
				func() { s.Binary(Mul, whole, x, x) },
				func() { s.BinaryRows(Mul, single, cols, Rows{x, cols, 1}, Rows{x, cols, 1}, rows, cols) }},
			"softmax": {
				func() { s.Softmax(whole, cols, x, cols, rows, cols) },
				func() {
					for r := range rows {
						to, from := row(r)
						s.Softmax(to, cols, from, cols, 1, cols)
					}
				}},
			"layer normalisation": {
				func() {
					s.LayerNorm(&NormArgs{Dst: whole, DstRow: cols, X: x, XRow: cols, Scale: x}, 0, rows, cols)
				},
				func() {
					for r := range rows {
						s.LayerNorm(&NormArgs{Dst: single, DstRow: cols, X: x, XRow: cols, Scale: x}, r, r+1, cols)
					}
				}},
			"sums": {
				func() { s.ReduceRows(ReduceSum, whole, x, cols, rows, cols) },
				func() {
					for r := range rows {
						_, from := row(r)
						s.ReduceRows(ReduceSum, single[r:], from, cols, 1, cols)
					}
				}},
			"transpose": {
				func() { s.copy2D(whole, rows, 1, x, 1, cols, cols, rows) },
				func() { transposeGeneric(&single[0], rows, &x[0], cols, cols, rows) }},
			"quantisation": {
				func() { s.QuantizeU8(bytesOfFloats(whole)[:len(x)], x, 0.1, 50) },
				func() {
					for r := range rows {
						_, from := row(r)
						s.QuantizeU8(bytesOfFloats(single)[r*cols:][:cols], from, 0.1, 50)
					}
				}},
		} {
			clear(whole)
			clear(single)
			run[0]()
			run[1]()
			require.True(t, slices.Equal(whole, single), name)
		}
		lo, hi := s.MinMax(append(x, 9, -9))
		require.Equal(t, []float32{-9, 9}, []float32{lo, hi})
	})
}
