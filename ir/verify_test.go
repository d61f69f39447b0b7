package ir_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rlxc/rlxc/ir"
	"github.com/rlxc/rlxc/tensor"
)

const small = `graph "" (%0 "x": f32[n,4], %1 "c": bool[]) {
  const %2: f32[4] = [1, 2, 3, 4]
  %3: f32[n,4] = add(%0, %2) from "/a"
  %4: f32[n,4] = relu(%3) from "/b"
  %5: f32[n,4] = onnx.If(%1) from "/if" do {
    graph "then" () {
      %6: f32[n,4] = neg(%3)
      return %6
    }
  }
  return %4, %5
}
`

// TestVerify breaks a good graph in each way that the verifier names.
func TestVerify(t *testing.T) {
	for _, c := range []struct {
		want  string
		spoil func(g *ir.Graph)
	}{
		{"", func(*ir.Graph) {}},
		{"%3 is not defined before it is used", func(g *ir.Graph) { g.Nodes[0], g.Nodes[1] = g.Nodes[1], g.Nodes[0] }},
		{`node "/b" (relu), operand 0: %3 is not defined`, func(g *ir.Graph) { g.Nodes = g.Nodes[1:] }},
		{"lists a use by node \"/a\" (add), operand 0, that is not in the graph", func(g *ir.Graph) { g.Nodes = g.Nodes[1:] }},
		{"%0: its use by node \"/a\", operand 0, is not listed", func(g *ir.Graph) { g.Inputs[0].Uses = nil }},
		{"result %4 is f32[4,4] where the shape rule returns f32[n,4]",
			func(g *ir.Graph) { g.Nodes[1].Outputs[0].Type = ir.TensorOf(tensor.F32, ir.N(4), ir.N(4)) }},
		{`node "/b" (add): add has 1 operands`, func(g *ir.Graph) { g.Nodes[1].Op = ir.Binary{Fn: ir.Add} }},
		{"%3 is defined twice", func(g *ir.Graph) { g.Nodes[1].Outputs = g.Nodes[0].Outputs }},
		{"two values are %3", func(g *ir.Graph) { g.Nodes[1].Outputs[0].ID = 3 }},
		{"the graph's numbers end before", func(g *ir.Graph) { g.Nodes[1].Outputs[0].ID = 99 }},
		{"%3: its node is not the one that defines it", func(g *ir.Graph) { g.Nodes[0].Outputs[0].Def = g.Nodes[1] }},
		{"output 0: %6 is not defined", func(g *ir.Graph) { g.Outputs[0] = g.Nodes[2].Subgraphs[0].Outputs[0] }},
		{"constant %2 is f32[4]: its type is f32[2,2]", func(g *ir.Graph) {
			g.Nodes[0].Inputs[1].Type = ir.TensorOf(tensor.F32, ir.N(2), ir.N(2))
		}},
		{"has a content of 3 sizes", func(g *ir.Graph) { g.Nodes[0].Inputs[1].Dims = make([]ir.Dim, 3) }},
		{"result %5 is f32[n,4] where the shape rule returns i64[*]", func(g *ir.Graph) {
			op := g.Nodes[2].Op.(ir.Custom)
			op.Types = []ir.Type{{DType: tensor.I64, Unranked: true}}
			g.Nodes[2].Op = op
		}},
		{"result %5 is f32[n,4] where the shape rule returns", func(g *ir.Graph) {
			op, list := g.Nodes[2].Op.(ir.Custom), g.Nodes[2].Outputs[0].Type
			elem := list
			list.Kind, list.Elem = ir.SequenceType, &elem
			op.Types = []ir.Type{list}
			g.Nodes[2].Op = op
		}},
		{"1 names for 2 outputs", func(g *ir.Graph) { g.OutputNames = []string{"a"} }},
		{"output 1 is absent", func(g *ir.Graph) { g.Outputs[1] = nil }},
		{"is a constant", func(g *ir.Graph) { g.Inputs[0].Const = tensor.New(tensor.F32, 4) }},
	} {
		g, err := ir.Parse(small)
		require.NoError(t, err)
		c.spoil(g)
		if c.want == "" {
			require.NoError(t, ir.Verify(g))
			continue
		}
		require.ErrorContains(t, ir.Verify(g), c.want)
	}
}

func TestRenumber(t *testing.T) {
	g, err := ir.Parse(`graph "" (%9: f32[n,4], %3: bool[]) {
  const %7: f32[4] = [1, 2, 3, 4]
  %20 = add(%9, %7)
  %5: f32[n,4] = onnx.If(%3) do {
    graph "then" () {
      %6 = neg(%20)
      return %6
    }
  }
  return %5
}`)
	require.NoError(t, err)
	g.Renumber()
	require.NoError(t, ir.Verify(g))
	require.Equal(t, 6, g.NumValues())
	require.Equal(t, `graph "" (%0: f32[n,4], %1: bool[]) {
  const %2: f32[4] = [1, 2, 3, 4]
  %3: f32[n,4] = add(%0, %2)
  %4: f32[n,4] = onnx.If(%1) do {
    graph "then" () {
      %5: f32[n,4] = neg(%3)
      return %5
    }
  }
  return %4
}
`, g.String())
}

// TestSubstRefuses: sizes that a node does not take are an error that names it, in a subgraph, too.
func TestSubstRefuses(t *testing.T) {
	const sum = `%5 = add(%0, %1) from "/sum"`
	for _, text := range []string{
		`graph "" (%0: f32[n], %1: f32[m]) { ` + sum + ` return %5 }`,
		`graph "" (%0: f32[n], %1: f32[m], %2: bool[]) { %3: f32[n] = onnx.If(%2) do {
			graph "then" () { ` + sum + ` return %5 } } return %3 }`,
	} {
		g, err := ir.Parse(text)
		require.NoError(t, err)
		require.ErrorContains(t, g.Subst(map[string]ir.Dim{"n": ir.N(2), "m": ir.N(3)}), `node "/sum" (add)`)
		g, err = ir.Parse(text)
		require.NoError(t, err)
		require.NoError(t, g.Subst(map[string]ir.Dim{"n": ir.N(2), "m": ir.N(1)}))
		require.NoError(t, ir.Verify(g))
	}
}
