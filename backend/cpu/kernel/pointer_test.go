package kernel

import (
	"testing"
	"unsafe"

	"github.com/stretchr/testify/require"
)

// TestStackMayMove packs a matrix on new stacks of every fill, so that somewhere inside the packing, which hides the address of
// a local variable, the stack is moved. With the race detector, noescape would once have read the address of the old one.
func TestStackMayMove(t *testing.T) {
	eachLevel(t, func(t *testing.T, s *Set) {
		const k, n = 8, 5
		p := s.NewPackS8(k, n)
		src := make([]byte, k*n)
		for i := range src {
			src[i] = byte(3*i - 40)
		}
		want := make([]int32, n)
		for i, b := range src {
			want[i%n] += int32(int8(b))
		}
		words := make([]uint64, (p.Bytes()+7)/8)
		dst := unsafe.Slice((*byte)(unsafe.Pointer(&words[0])), p.Bytes())
		for depth := range 2000 {
			clear(words)
			done := make(chan struct{})
			go func() {
				defer close(done)
				fillStack(depth, func() { p.Run(0, dst, src, n, 1, false) })
			}()
			<-done
			require.Equal(t, want, p.sums(dst), "depth %d", depth)
		}
	})
}

//go:noinline
func fillStack(depth int, then func()) {
	if depth == 0 {
		then()
		return
	}
	fillStack(depth-1, then)
}
