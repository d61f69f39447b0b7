package ir_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rlxc/rlxc/ir"
	"github.com/rlxc/rlxc/tensor"
)

func TestMap(t *testing.T) {
	g, err := ir.Parse(`graph "" (%0: i64[b,1], %1: f32[s]) {
  const %2: f32[] = [-9]
  %3 = map(%0, %1, %2) {expr=[cast(in0) {to=bool}, neg(in1), where(x0, x1, in2)]}
  return %3
}`)
	require.NoError(t, err)
	require.Equal(t, "f32[b,s]", g.Outputs[0].Type.String())
	out, err := ir.Interpret(g, []*tensor.Tensor{tensor.FromSlice([]int64{1, 0}, 2, 1), tensor.FromSlice([]float32{1, 2})})
	require.NoError(t, err)
	require.Equal(t, []float32{-1, -2, -9, -9}, tensor.Of[float32](out[0]))
}

func TestMapExpression(t *testing.T) {
	for _, c := range []struct{ expr, want string }{
		{`[]`, "without instructions"},
		{`[neg(x0)]`, "reads x0, which is not there"},
		{`[neg(in1)]`, "reads in1, which is not there"},
		{`[softmax(in0)]`, "softmax is not an instruction of a map"},
		{`[map(in0)]`, "map is not an instruction of a map"},
		{`[neg(y)]`, "an argument is in0"},
		{`[not(in0)]`, "not is not defined for f32"},
		{`[add(in0)]`, "add has 1 operands"},
	} {
		_, err := ir.Parse(`graph "" (%0: f32[n]) { %1 = map(%0) {expr=` + c.expr + `} return %1 }`)
		require.ErrorContains(t, err, c.want, c.expr)
	}
}
