package ops

import (
	"math"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rlxc/rlxc/ir"
	"github.com/rlxc/rlxc/tensor"
)

// TestPlacesOfTypes holds the loops over a type to the one over any, beyond the chunk that they count at a time.
func TestPlacesOfTypes(t *testing.T) {
	for d, find := range placesOf {
		x := tensor.New(d, 4099)
		for i := range x.Len() {
			if i%3 == 0 || i > 4095 {
				x.SetFloat64(i, float64(i%2))
			}
		}
		if d.IsFloat() {
			x.SetFloat64(7, math.Copysign(0, -1))
			x.SetFloat64(8, math.NaN())
		}
		env := &ir.Env{}
		want := placesOfAny(env, x)
		require.NotEmpty(t, want, d)
		require.Equal(t, want, find(env, x), d)
	}
}
