package cpu

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rlxc/rlxc/ir"
	"github.com/rlxc/rlxc/tensor"
)

// TestMatMulInPlace: a product may begin with its residual only where it adds nothing but that.
func TestMatMulInPlace(t *testing.T) {
	g := ir.NewGraph("")
	x := g.AddInput("x", ir.TensorOf(tensor.F32, ir.Dims(2, 2)...))
	node := func(op ir.MatMul) *ir.Node {
		n, err := g.NewNode(op, []*ir.Value{x, x, nil, x})
		require.NoError(t, err)
		return n
	}
	require.True(t, matMulInPlace(node(ir.MatMul{}), ir.MatMulResidual))
	require.False(t, matMulInPlace(node(ir.MatMul{}), ir.MatMulA))
	require.False(t, matMulInPlace(node(ir.MatMul{Act: ir.Relu}), ir.MatMulResidual))
	require.False(t, matMulInPlace(node(ir.MatMul{Alpha: 0.5}), ir.MatMulResidual))
}
