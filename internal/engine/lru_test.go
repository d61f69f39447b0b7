package engine

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestLRU(t *testing.T) {
	l := newLRU[int](2)
	made := 0
	get := func(key string) {
		_, err := l.get(key).make(func() (int, error) { made++; return made, nil })
		require.NoError(t, err)
	}
	get("a")
	get("b")
	get("a")
	require.Equal(t, 2, made)
	get("c") // forgets b
	get("a")
	require.Equal(t, 3, made)
	get("b")
	require.Equal(t, 4, made)
}
