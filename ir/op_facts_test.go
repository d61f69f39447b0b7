package ir

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rlxc/rlxc/tensor"
)

func TestIsTable(t *testing.T) {
	g := NewGraph("tables")
	index := g.AddInput("index", TensorOf(tensor.I64, Sym("batch"), Sym("seq")))
	add := func(op Op, in ...*Value) {
		_, err := g.Append(op, in)
		require.NoError(t, err)
	}
	table := func() *Value { return g.NewConst("", tensor.New(tensor.F32, 8, 4)) }
	words, positions, types, columns, both := table(), table(), table(), table(), table()
	add(Embedding{}, nil, nil, words, index, positions, nil, types, index)
	add(Gather{Axis: 0}, types, index)
	add(Gather{Axis: 1}, columns, index)
	add(Gather{Axis: 0}, both, index)
	add(Unary{Fn: Neg}, both)
	for v, want := range map[*Value]bool{words: true, types: true, positions: false, columns: false, both: false, table(): false,
		index: false} {
		require.Equal(t, want, v.IsTable(), v.ID)
	}
	require.Equal(t, index, words.Uses[0].Rows())
	quantized, floats := g.NewConst("", tensor.New(tensor.U8, 8, 4)), table()
	add(QEmbedding{}, nil, nil, quantized, index, g.NewConst("", tensor.New(tensor.F32)), nil, floats, index)
	require.True(t, quantized.IsTable())
	require.True(t, floats.IsTable())
}
