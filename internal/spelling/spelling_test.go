package spelling

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestDistance(t *testing.T) {
	for _, c := range []struct {
		a, b string
		want int
	}{{"", "", 0}, {"", "abc", 3}, {"sting", "string", 1},
		{"kitten", "sitting", 3}, {"flaw", "lawn", 2}, {"same", "same", 0}, {"ab", "ba", 2}} {
		t.Run(c.a+" to "+c.b, func(t *testing.T) {
			require.Equal(t, c.want, Distance(c.a, c.b))
			require.Equal(t, c.want, Distance(c.b, c.a))
		})
	}
}
