package kernel

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestTop: what sorting selects, of numbers that are often equal, zeros of both signs, infinities and NaN, at the ends of pages.
func TestTop(t *testing.T) {
	odd := []float32{float32(math.NaN()), float32(math.Inf(1)), float32(math.Inf(-1)), 0, float32(math.Copysign(0, -1)), 1e-42}
	r := rand.New(rand.NewPCG(1, 40))
	for _, s := range sets() {
		columns := s.TopColumns()
		if columns == 0 {
			continue
		}
		for _, n := range []int{1, 2, 7, 16, 150} {
			for k := 1; k <= min(n, 17); k += 4 {
				for _, smallest := range []bool{false, true} {
					src := operand[float32](n * columns)
					for i := range src {
						if src[i] = float32(r.IntN(40) - 20); r.IntN(4) == 0 {
							src[i] = odd[r.IntN(len(odd))]
						}
					}
					rows, keys := operand[int32](k*columns), operand[int32](k*columns)
					s.Top(rows, keys, k, src, n, smallest)
					for c := range columns {
						want := make([]int, n)
						for i := range want {
							want[i] = i
						}
						slices.SortStableFunc(want, func(i, j int) int {
							x, y := src[i*columns+c], src[j*columns+c]
							if !smallest {
								x, y = y, x
							}
							switch {
							case x < y || x != x && y == y:
								return -1
							case y < x || y != y && x == x:
								return 1
							}
							return 0
						})
						for j, row := range want[:k] {
							require.EqualValues(t, row, rows[j*columns+c],
								"%v, n=%d, k=%d, smallest %v, column %d", s.Level, n, k, smallest, c)
						}
					}
				}
			}
		}
	}
}
