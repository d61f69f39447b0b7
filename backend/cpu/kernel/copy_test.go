package kernel

import (
	"fmt"
	"math/rand/v2"
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

func TestCopy(t *testing.T) {
	eachLevel(t, func(t *testing.T, s *Set) {
		r := newRand()
		for _, shape := range [][]int{{}, {1}, {5}, {3, 4}, {0, 4}, {70, 130}, {2, 17, 3, 20}, {2, 1, 40, 8}, {3, 5, 7, 2, 4}} {
			for _, size := range []int{1, 2, 4, 8} {
				for range 6 {
					testCopy(t, s, r, size, shape)
				}
			}
		}
	})
}

// testCopy copies between random orders of the axes, with gaps and broadcasts.
func testCopy(t *testing.T, s *Set, r *rand.Rand, size int, shape []int) {
	strides := func(broadcast bool) (strides []int, length int) {
		strides = make([]int, len(shape))
		length = 1
		for _, axis := range r.Perm(len(shape)) {
			if broadcast && r.IntN(4) == 0 {
				continue
			}
			strides[axis] = length
			length = length*max(1, shape[axis]) + r.IntN(2)*r.IntN(3)
		}
		return strides, length
	}
	dstStrides, dstLen := strides(false)
	srcStrides, srcLen := strides(true)
	src, dst := make([]byte, srcLen*size), make([]byte, dstLen*size)
	for i := range src {
		src[i] = byte(r.Uint32())
	}
	want := slices.Clone(dst)
	elements := 1
	for _, n := range shape {
		elements *= n
	}
	for e := range elements {
		d, f := 0, 0
		for i, rest := len(shape)-1, e; i >= 0; i-- {
			d, f = d+rest%shape[i]*dstStrides[i], f+rest%shape[i]*srcStrides[i]
			rest /= shape[i]
		}
		copy(want[d*size:][:size], src[f*size:][:size])
	}
	plan := NewCopy(size, shape, dstStrides, srcStrides)
	for part := range plan.Parts() {
		plan.Run(s, part, dst, src)
	}
	require.Equal(t, want, dst, "size %d shape %v from strides %v to %v", size, shape, srcStrides, dstStrides)
}
