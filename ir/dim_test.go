package ir

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"
)

// A table cut to seq rows broadcasts against seq without a trace, and BroadcastDim agrees with NumPy's rule
// wherever that has a result.
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

// Division by numbers is normalised: what a chain of strided windows leaves is one quotient, and not below 0.
func TestDivisionByNumbers(t *testing.T) {
	n := Sym("n")
	halves := func(d Dim) Dim { return Max(d.Sub(N(1)).Div(N(2)).Add(N(1)), N(0)) }
	require.Equal(t, "div(n+1,2)", halves(n).String())
	require.Equal(t, "div(n+7,8)", halves(halves(halves(n))).String())
	require.Equal(t, "4*n", halves(n.Mul(N(8))).String())
	m := Sym("m")
	both := n.Mul(m).Mul(N(2))
	require.Equal(t, n.Mul(N(2)).Add(N(3)), n.Mul(both).Mul(N(2)).Add(both.Mul(N(3))).Div(both), "each term is divided")
	require.Equal(t, "2*n-1", n.Mul(N(6)).Sub(N(1)).Div(N(3)).String())
	require.Equal(t, Yes, LessEqual(N(-1), n.Sub(N(3)).Div(N(4))))
	require.Equal(t, Unknown, LessEqual(N(0), n.Sub(N(3)).Div(N(4))))

	for d, want := range map[int]int{-9: math.MaxInt64 - 8, 0: math.MaxInt64, 9: math.MaxInt64} { // the smallest number has no opposite
		require.Equal(t, N(want), N(d).Sub(N(math.MinInt64)), d)
	}
	r := rand.New(rand.NewPCG(1, 2))
	for range 3000 {
		at := r.IntN(40)
		b := Binding{"n": at}
		d, want := n, at // the normalised size, and what it is
		for range 1 + r.IntN(5) {
			k := r.IntN(9) - 4
			switch r.IntN(4) {
			case 0:
				d, want = d.Add(N(k)), want+k
			case 1:
				d, want = d.Mul(N(k)), want*k
			case 2:
				d, want = d.Mul(n).Add(N(k)), want*at+k
			default:
				c := 1 + r.IntN(6)
				d, want = d.Div(N(c)), int(math.Floor(float64(want)/float64(c)))
			}
		}
		got, err := d.Eval(b)
		require.NoError(t, err)
		require.Equal(t, want, got, "%v at n = %d", d, at)
		lo, hi := d.bounds()
		require.True(t, int64(want) >= lo && int64(want) <= hi, "%v = %d at n = %d is not in [%d, %d]", d, want, at, lo, hi)
	}
}
