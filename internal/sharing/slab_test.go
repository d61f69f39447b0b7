package sharing

import (
	"testing"
	"unsafe"

	"github.com/stretchr/testify/require"

	"github.com/rlxc/rlxc/tensor"
)

// TestSlab takes buffers around the sizes of pages and chunks, and finds them zeroed, aligned and apart.
func TestSlab(t *testing.T) {
	var s Slab
	var taken [][]byte
	for _, n := range []int{0, 1, 63, 64, 65, hugePage - 1, hugePage, 3, slabChunk, slabChunk + 1, 100, 5 * hugePage} {
		b := s.Take(n)
		require.Len(t, b, n)
		require.Equal(t, n, cap(b))
		if n == 0 {
			continue
		}
		require.Zero(t, uintptr(unsafe.Pointer(&b[0]))%64)
		require.Zero(t, b[0])
		require.Zero(t, b[n-1])
		b[0], b[n-1] = byte(len(taken)+1), byte(len(taken)+1)
		taken = append(taken, b)
	}
	for i, b := range taken {
		require.EqualValues(t, i+1, b[0])
		require.EqualValues(t, i+1, b[len(b)-1])
	}
	x := s.Tensor(tensor.F32, 3, 5)
	require.Equal(t, "f32[3,5]", x.String())
	require.Len(t, tensor.Of[float32](x), 15)
	y := s.Take(1000)
	y[5] = 1
	s.GiveBack(y)
	again := s.Take(1000)
	require.Same(t, &y[0], &again[0], "what came back is taken again")
	require.Zero(t, again[5])
	require.NoError(t, s.Close())
	require.NoError(t, s.Close(), "there is nothing left to give back")
	require.Len(t, s.Take(slabChunk), slabChunk, "and it starts anew")
	require.NoError(t, s.Close())
}
