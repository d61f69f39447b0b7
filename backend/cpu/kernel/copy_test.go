package kernel

import (
	"fmt"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestTranspose(t *testing.T) {
	eachLevel(t, func(t *testing.T, s *Set) {
		r := newRand()
		for _, rows := range append(edges(8, 16), 40) {
			for _, cols := range append(edges(8, 16), 40) {
				dstRow, srcRow := cols+r.IntN(4), rows+r.IntN(4)
				src, dst := random(r, (cols-1)*srcRow+rows), newGuarded((rows-1)*dstRow+cols, r.IntN(16))
				what := fmt.Sprintf("%d×%d", rows, cols)
				s.transpose(&dst.inner[0], dstRow, &src.inner[0], srcRow, rows, cols)
				dst.checkGaps(t, what, dstRow, cols)
				for i := range rows {
					for j := range cols {
						require.Equal(t, src.inner[j*srcRow+i], dst.inner[i*dstRow+j], "%s at %d, %d", what, i, j)
					}
				}
			}
		}
	})
}

// TestCopy2D copies between all orders of the axes, with gaps.
func TestCopy2D(t *testing.T) {
	eachLevel(t, func(t *testing.T, s *Set) {
		r := newRand()
		for _, size := range [][2]int{{0, 4}, {1, 1}, {3, 4}, {17, 20}, {70, 130}} {
			rows, cols := size[0], size[1]
			orders := [][2]int{{cols + r.IntN(3), 1}, {1, rows + r.IntN(3)}, {2*cols + 1, 2}}
			for _, to := range orders {
				for _, from := range orders {
					src, dst := random(r, rows*from[0]+cols*from[1]+1), make([]float32, rows*to[0]+cols*to[1]+1)
					want := slices.Clone(dst)
					for i := range rows {
						for j := range cols {
							want[i*to[0]+j*to[1]] = src.inner[i*from[0]+j*from[1]]
						}
					}
					s.copy2D(dst, to[0], to[1], src.inner, from[0], from[1], rows, cols)
					require.Equal(t, want, dst, "%d×%d from strides %v to %v", rows, cols, from, to)
				}
			}
		}
	})
}
