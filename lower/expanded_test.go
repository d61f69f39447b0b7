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
					// the order that kernels want
					for v.Def != nil && (v.Def.Op.Kind() == ir.KindTranspose || v.Def.Op.Kind() == ir.KindReshape) {
						v = v.Def.Inputs[0]
					}
					require.Equal(t, c.weights, v.IsConst(), "%s by %s:\n%v", c.name, maker, g)
				}
			}
			require.Equal(t, 1, found, c.name)
		}
	}
}

// TestMadeWeights holds that weights that nodes compute of constants are constants, and that those that nodes widen are not: rewrites want
// to see them narrow.
func TestMadeWeights(t *testing.T) {
	const rows, columns = 300, 100 // more elements than folding takes
	for _, c := range []struct {
		name  string
		make  func(s *sketch, v string) string
		known bool
	}{
		{"divided by a norm", func(s *sketch, v string) string {
			return s.node("Div", v, s.node("ReduceL2", v, intsAttr("axes", 1)))
		}, true},
		{"an outer product", func(s *sketch, v string) string {
			return s.node("Mul", s.node("Cos", s.constant(tensor.New(tensor.F32, rows, 1))), s.constant(tensor.New(tensor.F32, 1, columns)))
		}, true},
		{"widened and scaled", func(s *sketch, v string) string {
			half := s.constant(tensor.New(tensor.F16, rows, columns))
			return s.node("Mul", s.node("Cast", half, intAttr("to", int64(tensor.F32))), s.reals(nil, 3))
		}, false},
		{"of an input", func(s *sketch, v string) string {
			return s.node("Mul", v, s.input("z", tensor.F32, 1, 1))
		}, false},
	} {
		s := &sketch{}
		w := c.make(s, s.constant(tensor.New(tensor.F32, rows, columns)))
		g, err := s.lower(17, s.node("MatMul", s.input("x", tensor.F32, "n", rows), w))
		require.NoError(t, err, c.name)
		found := 0
		for _, n := range g.Nodes {
			if n.Op.Kind() == ir.KindMatMul {
				found++
				require.Equal(t, c.known, n.Inputs[1].IsConst(), "%s:\n%v", c.name, g)
			}
		}
		require.Equal(t, 1, found, c.name)
	}
}

// TestLimitsOfMadeWeights: all weights of a model together, and what the nodes of one take on the way, are bounded.
func TestLimitsOfMadeWeights(t *testing.T) {
	for _, c := range []struct {
		before, elements, onTheWay int
		made                       bool
	}{
		{maxWeights - 4, 4, 4, true}, {maxWeights - 4, 5, 5, false},
		{0, 4, maxMakers * 2, true}, {0, 4, maxMakers*4 + 1, false},
	} {
		b := &builder{g: ir.NewGraph(""), weights: c.before}
		ctx := &context{b: b}
		one := b.g.NewConst("", tensor.FromSlice([]float32{0.25}))
		v := ctx.Emit(ir.Expand{Shape: ir.Dims(c.onTheWay)}, one)
		if c.onTheWay > c.elements {
			v = ctx.slice(v, 0, ir.N(0), ir.N(c.elements))
		}
		made := ctx.weight(v)
		require.Equal(t, c.made, made.IsConst(), c)
		if c.made {
			require.Equal(t, c.before+c.elements, b.weights)
			require.Same(t, made, ctx.weight(v), "once")
			require.Equal(t, c.before+c.elements, b.weights)
		}
	}
}
