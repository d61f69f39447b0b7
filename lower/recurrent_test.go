package lower

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rlxc/rlxc/internal/ops"
	"github.com/rlxc/rlxc/ir"
	"github.com/rlxc/rlxc/tensor"
)

// TestReorderedGates: weights whose gates nodes bring into ONNX's order, as PyTorch's exporter writes it, are constants, however large;
// those that depend on an input stay nodes.
func TestReorderedGates(t *testing.T) {
	const hidden = 300
	gates := tensor.New(tensor.F32, 4*hidden, hidden) // more elements than what is computed in advance elsewhere
	for i := range gates.Len() {
		gates.SetFloat64(i, float64(i/hidden/hidden))
	}
	require.Greater(t, gates.Len(), maxFold)
	s := &sketch{}
	reorder := func(w string) string {
		part := func(from, to int64) string {
			return s.node("Slice", w, s.constant(tensor.FromSlice([]int64{from * hidden})),
				s.constant(tensor.FromSlice([]int64{to * hidden})), s.constant(tensor.FromSlice([]int64{0})))
		}
		all := s.node("Concat", part(0, 1), part(3, 4), part(1, 3), intAttr("axis", 0))
		return s.node("Unsqueeze", all, s.constant(tensor.FromSlice([]int64{0})))
	}
	w := reorder(s.constant(gates))
	g, err := s.lower(17, s.node("LSTM", s.input("x", tensor.F32, "steps", "batch", hidden), w, reorder(s.constant(gates)),
		intAttr("hidden_size", hidden)))
	require.NoError(t, err)
	cell := g.Nodes[len(g.Nodes)-1]
	require.Equal(t, "onnx.LSTM", ir.OpName(cell.Op))
	for _, i := range []int{ops.RecurrentW, ops.RecurrentR} {
		v := cell.Inputs[i]
		require.NotNil(t, v.Const, "operand %d", i)
		for k, gate := range []float64{0, 3, 1, 2} {
			require.Equal(t, gate, v.Const.Float64(k*hidden*hidden))
		}
	}

	s = &sketch{}
	shape := s.constant(tensor.FromSlice([]int64{1, 4 * hidden, hidden}))
	g, err = s.lower(17, s.node("LSTM", s.input("x", tensor.F32, "steps", "batch", hidden), s.node("Expand", s.constant(gates), shape),
		s.node("Expand", s.input("r", tensor.F32, 1, 1, 1), shape),
		intAttr("hidden_size", hidden)))
	require.NoError(t, err)
	cell = g.Nodes[len(g.Nodes)-1]
	require.Nil(t, cell.Inputs[ops.RecurrentR].Const, "it depends on an input")
}
