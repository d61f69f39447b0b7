package lower

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rlxc/rlxc/ir"
	"github.com/rlxc/rlxc/tensor"
)

// TestRanksOfUnknownRanks holds that operands whose number of axes only a run knows leave that of the result to it as well.
func TestRanksOfUnknownRanks(t *testing.T) {
	vector, any := &ir.Value{Type: ir.TensorOf(tensor.I64, ir.Sym("n"))}, &ir.Value{Type: ir.Type{DType: tensor.I64, Unranked: true}}
	two := &ir.Value{Type: ir.TensorOf(tensor.I64, ir.N(2))}
	for _, c := range []struct {
		op   string
		in   []*ir.Value
		want int
	}{
		{"Gather", []*ir.Value{vector, vector}, 1},
		{"Gather", []*ir.Value{vector, any}, -1},
		{"Gather", []*ir.Value{any, vector}, -1},
		{"Unsqueeze", []*ir.Value{vector, two}, 3},
		{"Unsqueeze", []*ir.Value{vector, vector}, -1},
		{"Squeeze", []*ir.Value{vector, vector}, -1},
	} {
		require.Equal(t, c.want, deferredRank[c.op](c.in), c.op)
	}
}
