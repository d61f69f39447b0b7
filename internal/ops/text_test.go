package ops

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestSplitString(t *testing.T) {
	for _, c := range []struct {
		s, delimiter string
		most         int
		want         []string
	}{
		{"a,b,,c", ",", -1, []string{"a", "b", "", "c"}},
		{"a,b,c", ",", 1, []string{"a", "b,c"}},
		{"a,b", ",", 0, []string{"a,b"}},
		{"", ",", -1, []string{""}},
		{"  one\ttwo  three ", "", -1, []string{"one", "two", "three"}},
		{" one two  three", "", 1, []string{"one", "two  three"}},
		{"   ", "", -1, nil},
	} {
		require.Equal(t, c.want, splitString(c.s, c.delimiter, c.most), "%q by %q", c.s, c.delimiter)
	}
}

func TestDeterminant(t *testing.T) {
	require.Equal(t, 1.0, determinant(nil, nil, 0))
	require.Equal(t, -2.0, determinant(nil, []float64{1, 2, 3, 4}, 2))
	require.Equal(t, -1.0, determinant(nil, []float64{0, 1, 1, 0}, 2), "a row swap")
	require.Equal(t, 0.0, determinant(nil, []float64{1, 2, 2, 4}, 2))
}
