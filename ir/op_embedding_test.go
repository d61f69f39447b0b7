package ir_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rlxc/rlxc/ir"
	"github.com/rlxc/rlxc/tensor"
)

func TestEmbedding(t *testing.T) {
	g, err := ir.Parse(`graph "" (%0: i64[b,s], %1: i32[b,s]) {
  const %2: f32[3,2] = [1, 0, 0, 2, 5, 5]
  const %3: f32[2,2] = [0, 0, 1, -1]
  const %4: f32[1,2] = [1, 1]
  const %5: f32[2] = [2, 1]
  const %6: f32[2] = [0, 10]
  %7 = embedding(%5, %6, %2, %0, %2, %1, %3, _, %4, _)
  %8 = embedding(_, _, %2, %0) {rms=true}
  return %7, %8
}`)
	require.NoError(t, err)
	ids, types := tensor.FromSlice([]int64{0, -2}, 1, 2), tensor.FromSlice([]int32{1, 1}, 1, 2)
	out, err := ir.Interpret(g, []*tensor.Tensor{ids, types})
	require.NoError(t, err)
	// The sums are [2,3] and [2,4]; the larger element becomes 1, the other −1; then scale and bias.
	require.Equal(t, []float32{-2, 11, -2, 11}, tensor.Of[float32](out[0]))
	// Rows [1,0] and [0,2] over the root of their mean squares.
	require.InDeltaSlice(t, []float32{1.4142135, 0, 0, 1.4142135}, tensor.Of[float32](out[1]), 1e-6)

	_, err = ir.Interpret(g, []*tensor.Tensor{tensor.FromSlice([]int64{0, 3}, 1, 2), types})
	require.ErrorContains(t, err, "index 3 is outside an axis of size 3")
	_, err = g.Bind(ir.Binding{"b": 1, "s": 3}, true)
	require.ErrorContains(t, err, "3 positions, and the position table has 2 rows")
}

func TestEmbeddingOperands(t *testing.T) {
	for _, c := range []struct{ text, want string }{
		{`embedding(_, _)`, "scale, bias and pairs"},
		{`embedding(_, _, %1, %0, %1)`, "scale, bias and pairs"},
		{`embedding(_, _, %1, _)`, "scale, bias and pairs"},
		{`embedding(%1, _, %1, %0)`, "a norm's operand"},
		{`embedding(_, _, %1, %0, %2, %0)`, "is not a table"},
		{`embedding(_, _, %1, %0, %1, %3)`, "differ"},
		{`embedding(_, _, %1, %2)`, "indices are f32"},
		{`embedding(_, _, %0, %0)`, "embedding of table"},
	} {
		_, err := ir.Parse(`graph "" (%0: i64[b,2], %2: f32[4,5], %3: i64[b]) { const %1: f32[3,4] = data %4 = ` + c.text + ` return %4 }`)
		require.ErrorContains(t, err, c.want, c.text)
	}
}
