package lower

import (
	"math"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rlxc/rlxc/ir"
	"github.com/rlxc/rlxc/onnx/onnxpb"
	"github.com/rlxc/rlxc/tensor"
)

func graphAttr(name string, g *onnxpb.GraphProto) *onnxpb.AttributeProto {
	return &onnxpb.AttributeProto{Name: name, Type: onnxpb.AttributeProto_GRAPH, G: g}
}

// subgraph is a body of named inputs, nodes and outputs; its nodes may name values around it.
func subgraph(in, out []string, nodes ...*onnxpb.NodeProto) *onnxpb.GraphProto {
	g := &onnxpb.GraphProto{Name: "body", Node: nodes}
	for _, name := range in {
		g.Input = append(g.Input, &onnxpb.ValueInfoProto{Name: name})
	}
	for _, name := range out {
		g.Output = append(g.Output, &onnxpb.ValueInfoProto{Name: name})
	}
	return g
}

func operation(op string, in []string, out string) *onnxpb.NodeProto {
	return &onnxpb.NodeProto{OpType: op, Input: in, Output: []string{out}}
}

// opNames lists the ops of a graph in order.
func opNames(g *ir.Graph) (names []string) {
	for _, n := range g.Nodes {
		names = append(names, ir.OpName(n.Op))
	}
	return names
}

func TestControlFlowDisappears(t *testing.T) {
	branches := func() []any {
		return []any{graphAttr("then_branch", subgraph(nil, []string{"t"}, operation("Relu", []string{"x"}, "t"))),
			graphAttr("else_branch", subgraph(nil, []string{"e"}, operation("Abs", []string{"x"}, "e")))}
	}
	twice := subgraph([]string{"i", "c", "v"}, []string{"c", "w"}, operation("Add", []string{"v", "x"}, "w"))
	for _, c := range []struct {
		name  string
		build func(s *sketch) string
		want  []string
	}{
		{"a constant condition", func(s *sketch) string {
			s.input("x", tensor.F32, "n")
			return s.node("If", append([]any{s.constant(tensor.Scalar(false))}, branches()...)...)
		}, []string{"abs"}},
		{"a condition on sizes", func(s *sketch) string {
			s.input("x", tensor.F32, "n", 4)
			is4 := s.node("Equal", s.node("Gather", s.node("Shape", "x"), s.constant(tensor.Scalar(int64(1)))), s.constant(tensor.Scalar(int64(4))))
			return s.node("If", append([]any{is4}, branches()...)...)
		}, []string{"relu"}},
		{"a condition of the data", func(s *sketch) string {
			s.input("x", tensor.F32, "n")
			return s.node("If", append([]any{s.input("c", tensor.Bool)}, branches()...)...)
		}, []string{"onnx.If"}},
		{"a few trips", func(s *sketch) string {
			s.input("x", tensor.F32, "n")
			return s.node("Loop", s.constant(tensor.Scalar(int64(3))), "", "x", graphAttr("body", twice))
		}, []string{"add", "add", "add"}},
		{"many trips", func(s *sketch) string {
			s.input("x", tensor.F32, "n")
			return s.node("Loop", s.constant(tensor.Scalar(int64(1000))), "", "x", graphAttr("body", twice))
		}, []string{"onnx.Loop"}},
	} {
		s := &sketch{}
		g, err := s.lower(21, c.build(s))
		require.NoError(t, err, c.name)
		require.NoError(t, ir.Verify(g), c.name)
		live := []string{}
		for _, n := range opNames(g) {
			if n != "dims" && n != "gather" && n != "equal" { // what asked for the size is dead
				live = append(live, n)
			}
		}
		require.Equal(t, c.want, live, c.name)
	}
}

// TestCarriedSizes: what is known of a carried value holds for every trip, and no more.
func TestCarriedSizes(t *testing.T) {
	for op, want := range map[string]string{"Add": "f32[n,4]", "Concat": ""} {
		n := operation(op, []string{"v", "x"}, "w")
		if op == "Concat" {
			n.Attribute = []*onnxpb.AttributeProto{intAttr("axis", 0)}
		}
		s := &sketch{}
		s.input("x", tensor.F32, "n", 4)
		g, err := s.lower(21, s.node("Loop", s.input("m", tensor.I64), "", "x", graphAttr("body", subgraph([]string{"i", "c", "v"}, []string{"c", "w"}, n))))
		require.NoError(t, err)
		require.NoError(t, ir.Verify(g))
		got := g.Outputs[0].Type
		if op == "Concat" {
			require.Len(t, got.Shape, 2)
			_, fresh := got.Shape[0].Symbol()
			require.True(t, fresh && got.Shape[0].String() != "n" && got.Shape[1].Is(4), got)
			continue
		}
		require.Equal(t, want, got.String())
	}
}

// TestKnownSequences: split, then pick, needs no sequence.
func TestKnownSequences(t *testing.T) {
	s := &sketch{}
	parts := s.node("SplitToSequence", s.input("x", tensor.F32, "n", 6), s.constant(tensor.Scalar(int64(2))), intAttr("axis", 1))
	g, err := s.lower(21, s.node("SequenceAt", parts, s.constant(tensor.Scalar(int64(-1)))))
	require.NoError(t, err)
	require.Equal(t, "f32[n,2]", g.Outputs[0].Type.String())
	require.Equal(t, "slice", ir.OpName(g.Outputs[0].Def.Op))
}

// TestRandomNumbers checks shapes and moments, and that a seed decides.
func TestRandomNumbers(t *testing.T) {
	const n = 20_000
	seed := &onnxpb.AttributeProto{Name: "seed", Type: onnxpb.AttributeProto_FLOAT, F: 3}
	draw := func(op string, args ...any) []float64 {
		s := &sketch{}
		g, err := s.lower(21, s.node(op, args...))
		require.NoError(t, err)
		out, err := ir.Interpret(g, nil)
		require.NoError(t, err)
		return out[0].Float64s()
	}
	for op, want := range map[string][2]float64{"RandomUniform": {0.5, math.Sqrt(1.0 / 12)}, "RandomNormal": {0, 1}} {
		x := draw(op, intsAttr("shape", n), seed)
		require.Len(t, x, n)
		mean, square := 0.0, 0.0
		for _, v := range x {
			mean += v / n
			square += v * v / n
		}
		require.InDelta(t, want[0], mean, 0.03, op)
		require.InDelta(t, want[1], math.Sqrt(square-mean*mean), 0.03, op)
		require.Equal(t, x, draw(op, intsAttr("shape", n), seed), op)
		require.NotEqual(t, x, draw(op, intsAttr("shape", n)), op)
	}
	s := &sketch{}
	p := tensor.New(tensor.F32, n)
	for i := range n {
		p.SetFloat64(i, 0.25)
	}
	x := s.constant(p)
	g, err := s.lower(21, s.node("Bernoulli", x))
	require.NoError(t, err)
	out, err := ir.Interpret(g, nil)
	require.NoError(t, err)
	ones := 0.0
	for _, v := range out[0].Float64s() {
		ones += v
	}
	require.InDelta(t, 0.25, ones/n, 0.02)
}
