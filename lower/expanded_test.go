package lower

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rlxc/rlxc/ir"
	"github.com/rlxc/rlxc/tensor"
)

// TestExpandedWeights holds that weights made by ConstantOfShape and Expand are constants, which kernels pack, and that the model's limit
// on what is computed holds for them.
func TestExpandedWeights(t *testing.T) {
	for _, c := range []struct {
		name, op string
		shape    []int64
		x        []any
		weights  bool
	}{
		{"convolution", "Conv", []int64{64, 32, 3, 3}, []any{1, 32, 14, 14}, true},
		{"product", "MatMul", []int64{300, 400}, []any{"n", 300}, true},
		{"Gemm", "Gemm", []int64{300, 400}, []any{"n", 300}, true},
		{"beyond the limit", "MatMul", []int64{300, maxWeights/300 + 1}, []any{"n", 300}, false},
	} {
		for _, maker := range []string{"ConstantOfShape", "Expand"} {
			s := &sketch{}
			shape := s.constant(tensor.FromSlice(c.shape))
			w := ""
			if maker == "Expand" {
				w = s.node(maker, s.constant(tensor.FromSlice([]float32{0.25})), shape)
			} else {
				w = s.node(maker, shape)
			}
			g, err := s.lower(17, s.node(c.op, s.input("x", tensor.F32, c.x...), w))
			require.NoError(t, err)
			found := 0
			for _, n := range g.Nodes {
				if k := n.Op.Kind(); k == ir.KindConv || k == ir.KindMatMul {
					found++
					v := n.Inputs[1]
					for v.Def != nil && (v.Def.Op.Kind() == ir.KindTranspose || v.Def.Op.Kind() == ir.KindReshape) { // the order that kernels want
						v = v.Def.Inputs[0]
					}
					require.Equal(t, c.weights, v.IsConst(), "%s by %s:\n%v", c.name, maker, g)
				}
			}
			require.Equal(t, 1, found, c.name)
		}
	}
}
