package tensor

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// Sequences that share a beginning do not see what others append to it.
func TestAppend(t *testing.T) {
	numbers := func(s *Tensor) (out []int64) {
		for _, e := range s.Elems() {
			out = append(out, e.Int64(0))
		}
		return out
	}
	s := NewSequence()
	for i := range int64(5) {
		s = s.Append(Scalar(i))
	}
	a, b := s.Append(Scalar(int64(10))), s.Append(Scalar(int64(20)))
	c := b.Append(Scalar(float32(30)))
	require.Equal(t, []int64{0, 1, 2, 3, 4}, numbers(s))
	require.Equal(t, []int64{0, 1, 2, 3, 4, 10}, numbers(a))
	require.Equal(t, []int64{0, 1, 2, 3, 4, 20}, numbers(b))
	require.Equal(t, []int{5, 6, 7}, []int{s.Len(), a.Len(), c.Len()})
	_ = append(s.Elems(), Scalar(int64(99)))
	require.EqualValues(t, 20, numbers(b)[5])

	require.EqualValues(t, 5*(elementSize+8), s.Size())
	require.EqualValues(t, s.Size()+2*elementSize+8+4, c.Size())
	require.True(t, b.Uniform())
	require.False(t, c.Uniform())
	require.False(t, NewSequence(NewSequence()).Uniform())
	require.EqualValues(t, 2*StringSize+3, FromStrings([]string{"ab", "c"}).Size())
}
