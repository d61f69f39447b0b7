package kernel

import (
	"fmt"
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
