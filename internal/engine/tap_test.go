package engine

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestEdits(t *testing.T) {
	for _, c := range []struct {
		a, b string
		want int
	}{{"", "", 0}, {"", "abc", 3}, {"kitten", "sitting", 3}, {"same", "same", 0}, {"ab", "ba", 2}} {
		require.Equal(t, c.want, edits(c.a, c.b))
		require.Equal(t, c.want, edits(c.b, c.a))
	}
}
