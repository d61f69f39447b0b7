package lower

import (
	"math"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rlxc/rlxc/ir"
	"github.com/rlxc/rlxc/tensor"
)

// kinds lists what a graph is made of.
func kinds(g *ir.Graph) []string {
	var out []string
	for _, n := range g.Nodes {
		out = append(out, ir.OpName(n.Op))
	}
	return out
}

func TestProducts(t *testing.T) {
	a := func(s *sketch) string { return s.reals([]int{2, 2}, 1, 2, 3, 4) }
	b := func(s *sketch) string { return s.reals([]int{2, 2}, 5, 6, 7, 8) }
	whole := func(s *sketch) string { return s.constant(tensor.FromSlice([]int64{1, 2, 3, 4}, 2, 2)) }
	runValues(t, []valueCase{
		{"vector by matrix", 13, func(s *sketch) string { return s.node("MatMul", s.reals([]int{2}, 1, 2), b(s)) }, "f32[2]",
			[]float64{19, 22}, ""},
		{"matrix by vector", 13, func(s *sketch) string { return s.node("MatMul", a(s), s.reals([]int{2}, 1, 2)) }, "f32[2]",
			[]float64{5, 11}, ""},
		{"vector by vector", 13, func(s *sketch) string { return s.node("MatMul", s.reals([]int{2}, 1, 2), s.reals([]int{2}, 3, 4)) },
			"f32[]", []float64{11}, ""},
		{"scalar", 13, func(s *sketch) string { return s.node("MatMul", s.reals(nil, 1), b(s)) }, "", nil, "scalars have none"},
		{"gemm", 13, func(s *sketch) string { return s.node("Gemm", a(s), b(s), s.reals([]int{2}, 1, 2)) }, "f32[2,2]",
			[]float64{20, 24, 44, 52}, ""},
		{"transposed", 13, func(s *sketch) string { return s.node("Gemm", a(s), b(s), intAttr("transA", 1), intAttr("transB", 1)) },
			"f32[2,2]", []float64{23, 31, 34, 46}, ""},
		{"factors", 13, func(s *sketch) string {
			return s.node("Gemm", a(s), b(s), s.reals([]int{2, 1}, 1, 2), floatAttr("alpha", 2), floatAttr("beta", 10))
		}, "f32[2,2]", []float64{48, 54, 106, 120}, ""},
		{"no product", 13, func(s *sketch) string { return s.node("Gemm", a(s), b(s), s.reals(nil, 3), floatAttr("alpha", 0)) },
			"f32[2,2]", []float64{3, 3, 3, 3}, ""},
		{"no bias", 13, func(s *sketch) string {
			return s.node("Gemm", a(s), b(s), s.reals(nil, float32(nan)), floatAttr("beta", 0))
		}, "f32[2,2]", []float64{19, 22, 43, 50}, ""},
		{"integers", 13, func(s *sketch) string { return s.node("Gemm", whole(s), whole(s), whole(s), floatAttr("alpha", 2)) },
			"i64[2,2]", []float64{15, 22, 33, 48}, ""},
		{"half of an integer", 13, func(s *sketch) string { return s.node("Gemm", whole(s), whole(s), floatAttr("alpha", 0.5)) }, "", nil,
			"alpha = 0.5"},
		{"the bias was needed", 10, func(s *sketch) string { return s.node("Gemm", a(s), b(s)) }, "", nil,
			"the node has 2 operands, the operator 3"},
		{"a bias too large", 13, func(s *sketch) string { return s.node("Gemm", a(s), b(s), s.reals([]int{2, 1, 1}, 1, 2)) }, "", nil,
			"does not broadcast to [2,2]"},
		{"three axes", 13, func(s *sketch) string { return s.node("Gemm", s.reals([]int{1, 1, 1}, 1), b(s)) }, "", nil, "not matrices"},
	})

	s := &sketch{}
	g, err := s.lower(13, s.node("Gemm", s.input("x", tensor.F32, "batch", 2), b(s), s.reals([]int{2}, 1, 2), intAttr("transB", 1),
		floatAttr("alpha", 0.5)))
	require.NoError(t, err)
	require.Equal(t, []string{"matmul"}, kinds(g), "the common form is one op")
	require.Equal(t, ir.MatMul{TransB: true, Alpha: 0.5}, g.Nodes[0].Op)
	s = &sketch{}
	g, err = s.lower(13, s.node("Gemm", s.input("x", tensor.F32, "batch", 2), b(s), s.input("bias", tensor.F32, "n")))
	require.NoError(t, err)
	require.Equal(t, []string{"matmul", "add"}, kinds(g), "a bias that may have one element broadcasts")
}

// TestScalesOfRows: each row of a quantised product may have scales of its own.
func TestScalesOfRows(t *testing.T) {
	bytes := func(s *sketch, shape []int, x ...uint8) string { return s.constant(tensor.FromSlice(x, shape...)) }
	runValues(t, []valueCase{{"rows", 21, func(s *sketch) string {
		return s.node("QLinearMatMul", bytes(s, []int{1, 2, 2}, 10, 20, 30, 40), s.reals([]int{2}, 1, 0.5), bytes(s, []int{2}, 0, 10),
			bytes(s, []int{2, 1}, 1, 2), s.reals([]int{}, 1), bytes(s, []int{}, 0), s.reals([]int{2}, 10, 4), bytes(s, []int{2}, 1, 2))
	}, "u8[1,2,1]", []float64{6, 12}, ""}})
}

func TestNorms(t *testing.T) {
	x := func(s *sketch) string { return s.reals([]int{2, 2}, 1, 3, -4, 2) } // means 2 and −1, deviations 1 and 3
	channels := func(s *sketch) string { return s.reals([]int{1, 4, 1}, 1, 3, -4, 2) }
	noEps := floatAttr("epsilon", 0)
	runValues(t, []valueCase{
		{"layer", 17, func(s *sketch) string {
			return s.node("LayerNormalization", x(s), s.reals([]int{2}, 1, 10), s.reals([]int{1}, 0.5), noEps)
		}, "f32[2,2]", []float64{-0.5, 10.5, -0.5, 10.5}, ""},
		{"its mean", 17, func(s *sketch) string {
			s.node("LayerNormalization", x(s), s.reals([]int{2}, 1, 1), noEps)
			return s.output("mean")
		}, "f32[2,1]", []float64{2, -1}, ""},
		{"its inverse deviation", 17, func(s *sketch) string {
			s.node("LayerNormalization", x(s), s.reals([]int{2}, 1, 1), noEps)
			s.output("")
			return s.output("inverse")
		}, "f32[2,1]", []float64{1, 1.0 / 3}, ""},
		{"a scale for every row", 17, func(s *sketch) string {
			return s.node("LayerNormalization", x(s), s.reals([]int{2, 1}, 1, 10), noEps)
		}, "f32[2,2]", []float64{-1, 1, -10, 10}, ""},
		{"a scale too large", 17, func(s *sketch) string {
			return s.node("LayerNormalization", x(s), s.reals([]int{2, 1, 1}, 1, 10), noEps)
		}, "", nil, "does not broadcast to [2,2]"},
		{"rms", 23, func(s *sketch) string {
			return s.node("RMSNormalization", s.reals([]int{2}, 3, 3), s.reals([]int{2}, 1, 2), noEps)
		}, "f32[2]", []float64{1, 2}, ""},
		{"rms in the scale's type", 23, func(s *sketch) string {
			return s.node("RMSNormalization", s.node("Cast", s.reals([]int{2}, 3, 3), intAttr("to", int64(tensor.F16))),
				s.reals([]int{2}, 1, 2), noEps)
		}, "f32[2]", []float64{1, 2}, ""},
		{"instances", 22, func(s *sketch) string {
			return s.node("InstanceNormalization", s.reals([]int{1, 2, 2}, 1, 3, -4, 2), s.reals([]int{2}, 1, 10),
				s.reals([]int{2}, 0, 5), noEps)
		}, "f32[1,2,2]", []float64{-1, 1, -5, 15}, ""},
		{"groups, a number each", 18, func(s *sketch) string {
			return s.node("GroupNormalization", channels(s), s.reals([]int{2}, 1, 10), s.reals([]int{2}, 0, 5), intAttr("num_groups", 2),
				noEps)
		}, "f32[1,4,1]", []float64{-1, 1, -5, 15}, ""},
		{"groups, a number a channel", 21, func(s *sketch) string {
			return s.node("GroupNormalization", channels(s), s.reals([]int{4}, 1, 2, 3, 4), s.reals([]int{4}, 0, 0, 0, 1),
				intAttr("num_groups", 2), noEps)
		}, "f32[1,4,1]", []float64{-1, 2, -3, 5}, ""},
		{"groups that do not divide", 21, func(s *sketch) string {
			return s.node("GroupNormalization", channels(s), s.reals([]int{4}, 1, 2, 3, 4), s.reals([]int{4}, 0, 0, 0, 1),
				intAttr("num_groups", 3))
		}, "", nil, "3 groups"},
		{"batch", 15, func(s *sketch) string {
			v := func(v ...float32) string { return s.reals([]int{2}, v...) }
			return s.node("BatchNormalization", s.reals([]int{1, 2}, 5, 5), v(1, 10), v(0, 1), v(3, 4), v(4, 1), noEps)
		}, "f32[1,2]", []float64{1, 11}, ""},
		{"batch, running mean", 15, func(s *sketch) string {
			v := func(v ...float32) string { return s.reals([]int{1}, v...) }
			s.node("BatchNormalization", s.reals([]int{2, 1}, 1, 3), v(1), v(0), v(10), v(1), intAttr("training_mode", 1),
				floatAttr("momentum", 0.75))
			mean := s.output("mean")
			s.output("variance")
			return mean
		}, "f32[1]", []float64{8}, ""},
		{"statistics of training", 15, func(s *sketch) string {
			v := func(v ...float32) string { return s.reals([]int{1}, v...) }
			s.node("BatchNormalization", s.reals([]int{2, 1}, 1, 3), v(1), v(0), v(10), v(1))
			return s.output("mean")
		}, "", nil, "results of training"},
	})
	s := &sketch{}
	g, err := s.lower(17, s.node("LayerNormalization", s.input("x", tensor.F32, "batch", "seq", 2), s.reals([]int{2}, 1, 1),
		s.reals([]int{2}, 1, 1)))
	require.NoError(t, err)
	require.Equal(t, []string{"layernorm"}, kinds(g), "the common form is one op")
}

// A query of zeros weighs all keys that it sees the same: the results are the means of their values.
func TestAttention(t *testing.T) {
	zeros := func(s *sketch, shape ...int) string { return s.constant(tensor.New(tensor.F32, shape...)) }
	values := func(s *sketch, v ...float32) string { return s.reals([]int{1, 1, len(v), 1}, v...) }
	attend := func(s *sketch, queries int, v []float32, more ...any) string {
		args := []any{zeros(s, 1, 1, queries, 1), zeros(s, 1, 1, len(v), 1), values(s, v...)}
		return s.node("Attention", append(args, more...)...)
	}
	cached := func(s *sketch, queries int, more ...any) string { // one key in the cache, two new ones
		args := []any{"", zeros(s, 1, 1, 1, 1), values(s, 12)}
		return attend(s, queries, []float32{6, 3}, append(args, more...)...)
	}
	bools := func(s *sketch, v ...bool) string { return s.constant(tensor.FromSlice(v)) }
	v4 := []float32{1, 2, 4, 8}
	causal := intAttr("is_causal", 1)
	runValues(t, []valueCase{
		{"plain", 23, func(s *sketch) string { return attend(s, 1, v4) }, "f32[1,1,1,1]", []float64{3.75}, ""},
		{"causal", 23, func(s *sketch) string { return attend(s, 4, v4, causal) }, "f32[1,1,4,1]", []float64{1, 1.5, 7. / 3, 3.75}, ""},
		{"queries at the end of the cache", 23, func(s *sketch) string { return cached(s, 2, causal) }, "f32[1,1,2,1]", []float64{9, 7},
			""},
		{"queries right after the cache", 23, func(s *sketch) string { return cached(s, 1, causal) }, "f32[1,1,1,1]", []float64{9}, ""},
		{"the cache grows", 23, func(s *sketch) string {
			cached(s, 1)
			s.output("")
			return s.output("present_value")
		}, "f32[1,1,3,1]", []float64{12, 6, 3}, ""},
		{"half a cache", 23, func(s *sketch) string { return attend(s, 1, v4, "", zeros(s, 1, 1, 1, 1)) }, "", nil,
			"must be given together"},
		{"padded keys", 24, func(s *sketch) string { return attend(s, 1, v4, "", "", "", s.ints(2)) }, "f32[1,1,1,1]", []float64{1.5}, ""},
		{"padded keys, causal", 24, func(s *sketch) string { return attend(s, 2, v4, "", "", "", s.ints(3), causal) }, "f32[1,1,2,1]",
			[]float64{1.5, 7. / 3}, ""},
		{"padded keys before opset 24", 23, func(s *sketch) string { return attend(s, 1, v4, "", "", "", s.ints(2)) }, "", nil,
			"the node has 7 operands, the operator at most 6"},
		{"a short mask", 24, func(s *sketch) string { return attend(s, 1, v4, bools(s, false, true, true)) }, "f32[1,1,1,1]",
			[]float64{3}, ""},
		{"a short mask of reals", 24, func(s *sketch) string { return attend(s, 1, v4, s.reals([]int{2}, 0, 0)) }, "f32[1,1,1,1]",
			[]float64{1.5}, ""},
		{"one number for a mask", 24, func(s *sketch) string { return attend(s, 1, v4, s.reals(nil, 2)) }, "f32[1,1,1,1]",
			[]float64{3.75}, ""},
		{"one truth for a mask", 24, func(s *sketch) string { return attend(s, 1, v4, s.constant(tensor.Scalar(false))) }, "f32[1,1,1,1]",
			[]float64{0}, ""},
		{"everything masked", 23, func(s *sketch) string { return attend(s, 1, v4, bools(s, false, false, false, false)) },
			"f32[1,1,1,1]", []float64{0}, ""},
		{"a window", 25, func(s *sketch) string {
			return attend(s, 4, v4, intAttr("left_window_size", 1), intAttr("right_window_size", 1))
		}, "f32[1,1,4,1]", []float64{1.5, 7. / 3, 14. / 3, 6}, ""},
		{"a window to the left", 25, func(s *sketch) string { return attend(s, 4, v4, intAttr("left_window_size", 1), causal) },
			"f32[1,1,4,1]", []float64{1, 1.5, 3, 6}, ""},
		{"an uneven window", 25, func(s *sketch) string {
			return attend(s, 4, v4, bools(s, true, true, true, false), intAttr("left_window_size", 0), intAttr("right_window_size", 2))
		}, "f32[1,1,4,1]", []float64{7. / 3, 3, 4, 0}, ""},
		{"three axes and shared heads", 23, func(s *sketch) string {
			q, k := zeros(s, 1, 1, 4), zeros(s, 1, 2, 2)
			return s.node("Attention", q, k, s.reals([]int{1, 2, 2}, 1, 10, 3, 30), intAttr("q_num_heads", 4), intAttr("kv_num_heads", 2))
		}, "f32[1,1,4]", []float64{2, 2, 20, 20}, ""},
		{"heads that do not divide", 23, func(s *sketch) string {
			q := zeros(s, 1, 1, 4)
			return s.node("Attention", q, q, q, intAttr("q_num_heads", 3), intAttr("kv_num_heads", 3))
		}, "", nil, "q_num_heads is 3"},
	})

	scores := func(mode int64) func(s *sketch) string {
		return func(s *sketch) string { // q·k is 2 and 4, half of it 1 and 2; the second query sees nothing
			q, k := s.reals([]int{1, 1, 2, 1}, 2, 0), s.reals([]int{1, 1, 2, 1}, 1, 2)
			mask := s.reals([]int{2, 2}, 1, 0, float32(-inf), float32(-inf))
			s.node("Attention", q, k, k, mask, floatAttr("scale", 0.5), floatAttr("softcap", 4), intAttr("qk_matmul_output_mode", mode))
			s.output("")
			s.output("")
			return s.output("scores")
		}
	}
	c1, c2 := 4*math.Tanh(0.25), 4*math.Tanh(0.5)
	p := 1 / (1 + math.Exp(c2-c1-1))
	runValues(t, []valueCase{
		{"scores", 23, scores(0), "f32[1,1,2,2]", []float64{1, 2, 0, 0}, ""},
		{"capped", 23, scores(1), "f32[1,1,2,2]", []float64{c1, c2, 0, 0}, ""},
		{"masked", 23, scores(2), "f32[1,1,2,2]", []float64{c1 + 1, c2, -inf, -inf}, ""},
		{"weights", 23, scores(3), "f32[1,1,2,2]", []float64{p, 1 - p, 0, 0}, ""},
		{"unknown", 23, scores(4), "", nil, "qk_matmul_output_mode 4"},
	})
}

func TestAttentionIsOneOp(t *testing.T) {
	for _, c := range []struct {
		name  string
		build func(s *sketch) string
		op    ir.Attention
		typ   string
	}{
		{"prompt", func(s *sketch) string {
			x := s.input("x", tensor.F32, "batch", "seq", 8)
			return s.node("Attention", x, x, x, intAttr("q_num_heads", 2), intAttr("kv_num_heads", 2), intAttr("is_causal", 1))
		}, ir.Attention{Scale: 0.5, Causal: true, NaNGuard: true}, "f32[batch,seq,8]"},
		{"next token", func(s *sketch) string {
			x, old := s.input("x", tensor.F32, "batch", 2, "seq", 4), s.input("old", tensor.F32, "batch", 2, "past", 4)
			return s.node("Attention", x, x, x, "", old, old, intAttr("is_causal", 1))
		}, ir.Attention{Scale: 0.5, Causal: true, Offset: true, NaNGuard: true}, "f32[batch,2,seq,4]"},
		{"local", func(s *sketch) string {
			x := s.input("x", tensor.F32, "batch", 2, "seq", 4)
			return s.node("Attention", x, x, x, intAttr("left_window_size", 64), intAttr("right_window_size", 64))
		}, ir.Attention{Scale: 0.5, Window: 65, NaNGuard: true}, "f32[batch,2,seq,4]"},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := &sketch{}
			g, err := s.lower(25, c.build(s))
			require.NoError(t, err)
			require.Equal(t, c.typ, g.Outputs[0].Type.String())
			at := slices.IndexFunc(g.Nodes, func(n *ir.Node) bool { return n.Op.Kind() == ir.KindAttention })
			require.GreaterOrEqual(t, at, 0)
			require.Equal(t, c.op, g.Nodes[at].Op)
			require.Len(t, g.Nodes[at].Inputs, 3, "no mask is needed")
		})
	}
}

func TestRotaryEmbedding(t *testing.T) {
	x := func(s *sketch) string { return s.reals([]int{1, 1, 4}, 1, 2, 3, 4) }
	cos := func(s *sketch) string { return s.reals([]int{2, 2}, 1, 1, 0, -1) } // position 1: 90° and 180°
	sin := func(s *sketch) string { return s.reals([]int{2, 2}, 0, 0, 1, 0) }
	position := func(s *sketch) string { return s.constant(tensor.FromSlice([]int64{1}, 1, 1)) }
	one := intAttr("num_heads", 1)
	runValues(t, []valueCase{
		{"by position", 23, func(s *sketch) string { return s.node("RotaryEmbedding", x(s), cos(s), sin(s), position(s), one) },
			"f32[1,1,4]", []float64{-3, -2, 1, -4}, ""},
		{"interleaved", 23, func(s *sketch) string {
			return s.node("RotaryEmbedding", x(s), cos(s), sin(s), position(s), one, intAttr("interleaved", 1))
		}, "f32[1,1,4]", []float64{-2, 1, -3, -4}, ""},
		{"two heads of which a part turns", 23, func(s *sketch) string {
			x := s.reals([]int{1, 2, 1, 3}, 1, 2, 3, 4, 5, 6)
			return s.node("RotaryEmbedding", x, s.reals([]int{1, 1, 1}, 0), s.reals([]int{1, 1, 1}, 1), intAttr("rotary_embedding_dim", 2))
		}, "f32[1,2,1,3]", []float64{-2, 1, 3, -5, 4, 6}, ""},
		{"cosines for another size", 23, func(s *sketch) string {
			return s.node("RotaryEmbedding", x(s), cos(s), sin(s), position(s), one, intAttr("rotary_embedding_dim", 2))
		}, "", nil, "2 elements of each head are rotated"},
	})
}
