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

// TestBytesOfNodes: operands count once, tables with as many rows as there are indices, and sizes that a run decides with nothing.
func TestBytesOfNodes(t *testing.T) {
	g := NewGraph("bytes")
	table := g.NewConst("", tensor.New(tensor.F32, 8, 4))
	node := func(op Op, in ...*Value) *Node {
		out, err := g.Append(op, in)
		require.NoError(t, err)
		return out[0].Def
	}
	few := g.AddInput("few", TensorOf(tensor.I64, N(2), N(3)))
	many := g.AddInput("many", TensorOf(tensor.I64, N(20)))
	open := g.AddInput("open", TensorOf(tensor.I64, Sym("n")))
	require.Equal(t, 6*16+6*8+6*16, Bytes(node(Gather{Axis: 0}, table, few)))
	require.Equal(t, 8*16+20*8+20*16, Bytes(node(Gather{Axis: 0}, table, many)), "a table is read once at most")
	require.Equal(t, 8*16, Bytes(node(Gather{Axis: 0}, table, open)))
	require.Equal(t, 8*16+8*16, Bytes(node(Binary{Fn: Add}, table, table)))
}
