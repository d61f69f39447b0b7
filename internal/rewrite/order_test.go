package rewrite

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rlxc/rlxc/ir"
)

// TestOrder: the nodes in order, by their first results, how many of them moved, and what keeps all where they are.
func TestOrder(t *testing.T) {
	for text, want := range map[string]string{
		`%1 = exp(%0) %2 = neg(%0) return %1, %2`:                                            "[1 2] 0",
		`%1 = exp(%0) %2 = neg(%0) return %2, %1`:                                            "[2 1] 2",
		`%1 = exp(%0) %2 = neg(%0) %3 = add(%2, %1) return %3, %0`:                           "[2 1 3] 2",
		`%1 = exp(%0) %2 = neg(%0) %3 = abs(%0) return %2, %3, %2, %1`:                       "[2 3 1] 3",
		`%1 = exp(%0) %2 = abs(%1) %3 = neg(%1) %4 = add(%3, %2) return %4, %1`:              "[1 3 2 4] 2",
		`%1 = exp(%0) %2, %3 = layernorm(%0, _, %8) {axes=1, sum=true} return %3, %1, %2`:    "[2 1] 2",
		`%1 = exp(%0) %2 = neg(%0) %3 = abs(%0) return %3, %2`:                               "[1 2 3] 0", // one is dead
		`%1 = exp(%0) %2: f32[n] = x.y(%0) return %2, %1`:                                    "[1 2] 0",   // sizes are named by a node
		`%1 = exp(%0) %2: f32[n] = my.If(%9) do { graph "" () { return %0 } } return %2, %1`: "[1 2] 0",
	} {
		g := parse(t, `graph "" (%0: f32[n], %8: f32[n], %9: bool[]) { `+text+` }`)
		moved := order(g)
		var got []int
		for _, n := range g.Nodes {
			got = append(got, n.Outputs[0].ID)
		}
		require.Equal(t, want, fmt.Sprint(got, moved), text)
		require.NoError(t, ir.Verify(g))
	}
}
