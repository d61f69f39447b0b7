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
	one, two := &ir.Value{Type: ir.TensorOf(tensor.I64, ir.N(1))}, &ir.Value{Type: ir.TensorOf(tensor.I64, ir.N(2))}
	matrix := &ir.Value{Type: ir.TensorOf(tensor.I64, ir.Sym("n"), ir.Sym("k"))}
	seen := map[string]bool{}
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
		{"Squeeze", []*ir.Value{matrix, one}, 1},
		{"Squeeze", []*ir.Value{any, one}, -1},
		{"Reshape", []*ir.Value{any, two}, 2},
		{"Reshape", []*ir.Value{vector, vector}, -1},
		{"Expand", []*ir.Value{vector, two}, 2},
		{"Expand", []*ir.Value{matrix, one}, 2},
		{"Expand", []*ir.Value{any, two}, -1},
		{"ConstantOfShape", []*ir.Value{two}, 2},
		{"ConstantOfShape", []*ir.Value{vector}, -1},
		{"Range", []*ir.Value{any, any, any}, 1},
		{"OneHot", []*ir.Value{matrix, any, any}, 3},
		{"OneHot", []*ir.Value{any, any, any}, -1},
		{"Shape", []*ir.Value{any}, 1},
		{"Size", []*ir.Value{any}, 0},
		{"GatherND", []*ir.Value{matrix, matrix}, -1},
		{"GatherPacked", []*ir.Value{any, matrix}, 3},
		{"GatherPacked", []*ir.Value{matrix, any}, -1},
		{"MoEGroupRouter", []*ir.Value{any, vector}, 2},
		{"STFT", []*ir.Value{any, any}, 4},
		{"MelWeightMatrix", []*ir.Value{any}, 2},
		{"MatMul", []*ir.Value{any, matrix}, -1},
	} {
		require.Equal(t, c.want, deferredRank[c.op](c.in), c.op)
		seen[c.op] = true
	}
	require.Len(t, seen, len(deferredRank))
}
