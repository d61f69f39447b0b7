package lower

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rlxc/rlxc/ir"
)

// TestSpanOfUnknownSigns: slices whose bounds may count from either end name the elements that ONNX says.
func TestSpanOfUnknownSigns(t *testing.T) {
	place := func(i, d, least, most int) int {
		if i < 0 {
			i += d
		}
		return min(max(i, least), most)
	}
	for _, step := range []int{1, 2, -1, -3} {
		first, n := (&context{}).span(ir.Sym("d"), ir.Sym("i").Sub(ir.N(6)), ir.Sym("j").Sub(ir.N(6)), step)
		for d := range 5 {
			for i := range 12 {
				for j := range 12 {
					from, to := place(i-6, d, 0, d), place(j-6, d, 0, d)
					if step < 0 {
						from, to = place(i-6, d, 0, d-1), place(j-6, d, -1, d-1)
					}
					want := 0
					for k := from; step > 0 && k < to || step < 0 && k > to; k += step {
						want++
					}
					b := ir.Binding{"d": d, "i": i, "j": j}
					got, err := n.Eval(b)
					require.NoError(t, err)
					if d > 0 || step > 0 {
						require.Equal(t, want, got, "%d elements from %d to %d by %d", d, i-6, j-6, step)
					}
					if want > 0 {
						start, err := first.Eval(b)
						require.NoError(t, err)
						require.Equal(t, from, start, "%d elements from %d to %d by %d", d, i-6, j-6, step)
					}
				}
			}
		}
	}
}
