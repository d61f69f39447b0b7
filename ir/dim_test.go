package ir

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// A table cut to seq rows broadcasts against seq without a trace, and what BroadcastDim says is what NumPy's rule gives
// wherever that gives anything.
func TestBroadcastOfCutSizes(t *testing.T) {
	seq, cut := Sym("seq"), Min(Sym("seq"), N(3))
	for _, pair := range [][2]Dim{{seq, cut}, {cut, seq}} {
		d, err := BroadcastDim(pair[0], pair[1])
		require.NoError(t, err)
		require.Equal(t, "seq", d.String())
	}
	for n := range 6 {
		c, err := cut.Eval(Binding{"seq": n})
		require.NoError(t, err)
		if want, err := BroadcastDim(N(n), N(c)); err == nil {
			require.Equal(t, n, want.Int())
		}
	}
	for _, d := range []Dim{Min(seq, N(0)), Min(seq, Sym("n")), Max(seq, N(3))} {
		b, err := BroadcastDim(seq, d)
		require.NoError(t, err)
		require.NotEqual(t, "seq", b.String())
	}
}
