package lower

import (
	"fmt"
	"math"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rlxc/rlxc/internal/ops"
	"github.com/rlxc/rlxc/ir"
	"github.com/rlxc/rlxc/onnx/onnxpb"
	"github.com/rlxc/rlxc/tensor"
)

func graphAttr(name string, g *onnxpb.GraphProto) *onnxpb.AttributeProto {
	return &onnxpb.AttributeProto{Name: name, Type: onnxpb.AttributeProto_GRAPH, G: g}
}

// bodyProto is a body of named inputs, nodes and outputs; its nodes may name values around it.
func bodyProto(in, out []string, nodes ...*onnxpb.NodeProto) *onnxpb.GraphProto {
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
		return []any{graphAttr("then_branch", bodyProto(nil, []string{"t"}, operation("Relu", []string{"x"}, "t"))),
			graphAttr("else_branch", bodyProto(nil, []string{"e"}, operation("Abs", []string{"x"}, "e")))}
	}
	twice := bodyProto([]string{"i", "c", "v"}, []string{"c", "w"}, operation("Add", []string{"v", "x"}, "w"))
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
			is4 := s.node("Equal", s.node("Gather", s.node("Shape", "x"), s.constant(tensor.Scalar(int64(1)))),
				s.constant(tensor.Scalar(int64(4))))
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

// TestUnchanged: a body reads what no iteration changes around the loop, a weight as a constant, and the loop returns it as it was.
func TestUnchanged(t *testing.T) {
	s := &sketch{}
	x, y, w := s.input("x", tensor.F32, "n", 4), s.input("y", tensor.F32, "n", 4), s.constant(tensor.New(tensor.F32, 4, 4))
	body := bodyProto([]string{"i", "c", "vy", "vx", "vw"}, []string{"c", "ry", "rx", "rw", "each"},
		operation("Identity", []string{"vy"}, "ry"), operation("MatMul", []string{"vx", "vw"}, "p"),
		operation("Add", []string{"p", "vy"}, "rx"), operation("Identity", []string{"vw"}, "rw"), operation("Abs", []string{"vy"}, "each"))
	names := []string{s.node("Loop", s.input("m", tensor.I64), "", y, x, w, graphAttr("body", body)), s.output("rx"), s.output("rw"),
		s.output("all")}
	for i, name := range names {
		g, err := s.lower(21, name)
		require.NoError(t, err)
		require.NoError(t, ir.Verify(g))
		loop := g.Nodes[len(g.Nodes)-1]
		require.Equal(t, 1, loop.Op.(ops.Loop).Carried)
		require.Equal(t, []string{"m", "x", "y"}, []string{loop.Inputs[0].Name, loop.Inputs[2].Name, loop.Inputs[3].Name})
		require.Len(t, loop.Subgraphs[0].Inputs, 4, "the number, the condition, what changes, and y")
		switch got := g.Outputs[0]; i {
		case 0:
			require.Equal(t, g.Inputs[1], got)
		case 2:
			require.NotNil(t, got.Const)
		default:
			require.Equal(t, loop.Outputs[i/2], got)
		}
	}
	body = bodyProto([]string{"i", "c", "v"}, []string{"c", "w"}, operation("Identity", []string{"v"}, "w"))
	s = &sketch{}
	s.input("x", tensor.F32, "n")
	g, err := s.lower(21, s.node("Loop", s.input("m", tensor.I64), "", "x", graphAttr("body", body)))
	require.NoError(t, err)
	require.Empty(t, g.Nodes)
	require.Equal(t, g.Inputs[0], g.Outputs[0])
}

// TestCarriedSizes: what is known of a carried value holds for every iteration, and no more.
func TestCarriedSizes(t *testing.T) {
	for op, want := range map[string]string{"Add": "f32[n,4]", "Concat": ""} {
		n := operation(op, []string{"v", "x"}, "w")
		if op == "Concat" {
			n.Attribute = []*onnxpb.AttributeProto{intAttr("axis", 0)}
		}
		s := &sketch{}
		s.input("x", tensor.F32, "n", 4)
		g, err := s.lower(21, s.node("Loop", s.input("m", tensor.I64), "", "x",
			graphAttr("body", bodyProto([]string{"i", "c", "v"}, []string{"c", "w"}, n))))
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

// TestSizesThatMoveOn: sizes that pass from one carried value to the next in many iterations are forgotten, their type is not.
func TestSizesThatMoveOn(t *testing.T) {
	const values = 6
	s, nodes := &sketch{}, []*onnxpb.NodeProto{}
	s.input("x", tensor.F32, "n", 4)
	operands, reads, results := []any{s.input("m", tensor.I64), ""}, []string{"i", "c"}, []string{"c"}
	for i := range values {
		operands, reads, results = append(operands, "x"), append(reads, fmt.Sprint("v", i)), append(results, fmt.Sprint("w", i))
		n := operation("Identity", []string{fmt.Sprint("v", i+1)}, fmt.Sprint("w", i))
		if i == values-1 {
			n = operation("Concat", []string{fmt.Sprint("v", i), "x"}, fmt.Sprint("w", i))
			n.Attribute = []*onnxpb.AttributeProto{intAttr("axis", 0)}
		}
		nodes = append(nodes, n)
	}
	names := []string{s.node("Loop", append(operands, graphAttr("body", bodyProto(reads, results, nodes...)))...)}
	for i := 1; i < values; i++ {
		names = append(names, s.output(fmt.Sprint("y", i)))
	}
	for _, name := range names {
		g, err := s.lower(21, name)
		require.NoError(t, err)
		require.NoError(t, ir.Verify(g))
		require.Equal(t, ir.Type{DType: tensor.F32, Unranked: true}, g.Outputs[0].Type, name)
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

// TestBranchesOfTwoRanks: a value whose rank depends on data goes into an operator that takes one rank alone, which is lowered as it
// would be with any operand; a branch inside a branch reads what the branch around it makes.
func TestBranchesOfTwoRanks(t *testing.T) {
	s := &sketch{}
	s.input("x", tensor.F32, "n", 4)
	s.input("outer", tensor.Bool)
	s.input("inner", tensor.Bool)
	s.constant(tensor.FromSlice([]int64{0})) // c1
	cell := operation("LSTM", []string{"x3", s.constant(tensor.New(tensor.F32, 1, 12, 4)), s.constant(tensor.New(tensor.F32, 1, 12, 3))},
		"all")
	cell.Output = append(cell.Output, "last")
	deep := operation("If", []string{"inner"}, "h")
	deep.Attribute = []*onnxpb.AttributeProto{graphAttr("then_branch",
		bodyProto(nil, []string{"t"}, operation("Squeeze", []string{"last", "c1"}, "t"))),
		graphAttr("else_branch", bodyProto(nil, []string{"e"}, operation("Identity", []string{"last"}, "e")))}
	wide := operation("If", []string{"inner"}, "x3")
	wide.Attribute = []*onnxpb.AttributeProto{graphAttr("then_branch",
		bodyProto(nil, []string{"u"}, operation("Unsqueeze", []string{"x", "c1"}, "u"))),
		graphAttr("else_branch", bodyProto(nil, []string{"i"}, operation("Identity", []string{"x"}, "i")))}
	g, err := s.lower(21, s.node("If", "outer", graphAttr("then_branch", bodyProto(nil, []string{"h"}, wide, cell, deep)),
		graphAttr("else_branch", bodyProto(nil, []string{"o"}, operation("Identity", []string{"x"}, "o")))))
	require.NoError(t, err)
	require.NoError(t, ir.Verify(g))
	require.True(t, g.Outputs[0].Type.Unranked)
	var branch *ir.Graph
	for _, n := range g.Nodes {
		if len(n.Subgraphs) > 0 {
			branch = n.Subgraphs[0]
		}
	}
	require.Equal(t, []string{"onnx.If", "onnx.Identity", "onnx.LSTM", "onnx.If"}, opNames(branch))
}

// TestWarnings: shapes that a model states of a value and its node contradicts change nothing but the warnings; types are errors.
func TestWarnings(t *testing.T) {
	for _, c := range []struct {
		name  string
		dtype tensor.DType
		sizes []int64
		want  int
		err   string
	}{
		{"as the node returns it", tensor.F32, []int64{2, 3}, 0, ""},
		{"another type", tensor.I64, []int64{2, 3}, 0, "declared int64, but it is float"},
		{"another rank", tensor.F32, []int64{2}, 1, ""},
		{"another size", tensor.F32, []int64{2, 4}, 1, ""},
	} {
		s := &sketch{}
		s.input("x", tensor.F32, 2, 3)
		y := s.node("Relu", "x")
		shape := &onnxpb.TensorShapeProto{}
		for _, n := range c.sizes {
			size := &onnxpb.TensorShapeProto_Dimension_DimValue{DimValue: n}
			shape.Dim = append(shape.Dim, &onnxpb.TensorShapeProto_Dimension{Value: size})
		}
		s.g.ValueInfo = append(s.g.ValueInfo, &onnxpb.ValueInfoProto{Name: y, Type: &onnxpb.TypeProto{Value: &onnxpb.TypeProto_TensorType{
			TensorType: &onnxpb.TypeProto_Tensor{ElemType: int32(c.dtype), Shape: shape}}}})
		g, err := s.lower(21, s.node("Neg", y))
		if c.err != "" {
			require.ErrorContains(t, err, c.err)
			continue
		}
		require.NoError(t, err, c.name)
		require.Len(t, g.Warnings, c.want, c.name)
		require.Equal(t, "f32[2,3]", g.Outputs[0].Type.String(), c.name)
	}
}

// TestZipMap: the scores stay a tensor, and a warning says which label each column has.
func TestZipMap(t *testing.T) {
	texts := func(v ...string) *onnxpb.AttributeProto {
		a := &onnxpb.AttributeProto{Name: "classlabels_strings", Type: onnxpb.AttributeProto_STRINGS}
		for _, x := range v {
			a.Strings = append(a.Strings, []byte(x))
		}
		return a
	}
	numbers := func(v ...int64) *onnxpb.AttributeProto { return intsAttr("classlabels_int64s", v...) }
	for _, c := range []struct {
		name  string
		sizes []any
		attrs []*onnxpb.AttributeProto
		typ   string
		says  string // by the warning or the error
	}{
		{"texts", []any{"N", 2}, []*onnxpb.AttributeProto{texts("cat", "dog")}, "f32[N,2]",
			`result "maps" is a tensor f32[N,2], where ONNX has maps; its columns are the labels ["cat" "dog"]`},
		{"numbers", []any{"N", 3}, []*onnxpb.AttributeProto{numbers(7, 8, 9)}, "f32[N,3]", "its columns are the labels [7 8 9]"},
		{"many", []any{"N", 20}, []*onnxpb.AttributeProto{numbers(make([]int64, 20)...)}, "f32[N,20]",
			"[0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 …]"},
		{"one row", []any{2}, []*onnxpb.AttributeProto{numbers(0, 1)}, "f32[1,2]", "its columns are the labels [0 1]"},
		{"other columns", []any{"N", 3}, []*onnxpb.AttributeProto{numbers(0, 1)}, "", "2 labels for f32[N,3]"},
		{"no columns", []any{}, []*onnxpb.AttributeProto{numbers(0)}, "", "has no columns for labels"},
		{"no labels", []any{"N", 2}, nil, "", "either classlabels_strings or classlabels_int64s is needed"},
		{"labels twice", []any{"N", 2}, []*onnxpb.AttributeProto{numbers(0, 1), texts("a", "b")}, "",
			"either classlabels_strings or classlabels_int64s is needed"},
	} {
		maps := &onnxpb.TypeProto{Value: &onnxpb.TypeProto_SequenceType{
			SequenceType: &onnxpb.TypeProto_Sequence{ElemType: &onnxpb.TypeProto{
				Value: &onnxpb.TypeProto_MapType{MapType: &onnxpb.TypeProto_Map{}}}}}}
		s := &sketch{}
		x := s.input("x", tensor.F32, c.sizes...)
		s.g.Node = []*onnxpb.NodeProto{{OpType: "ZipMap", Domain: "ai.onnx.ml", Input: []string{x}, Output: []string{"maps"},
			Attribute: c.attrs}}
		s.g.Output = []*onnxpb.ValueInfoProto{{Name: "maps", Type: maps}}
		g, err := Model(&onnxpb.ModelProto{Graph: &s.g,
			OpsetImport: []*onnxpb.OperatorSetIdProto{{Version: 17}, {Domain: "ai.onnx.ml", Version: 1}}})
		if c.typ == "" {
			require.ErrorContains(t, err, c.says, c.name)
			continue
		}
		require.NoError(t, err, c.name)
		require.Equal(t, c.typ, g.Outputs[0].Type.String(), c.name)
		require.Len(t, g.Warnings, 1, c.name)
		require.Contains(t, g.Warnings[0], c.says, c.name)
	}
}

// TestFeatureVectorizer: only a run reports the numbers of features; what inputdimensions has more is zeros, what it has less is cut off.
func TestFeatureVectorizer(t *testing.T) {
	s := &sketch{}
	in := []string{s.input("x", tensor.F32, "N", "C"), s.input("z", tensor.F32, "N", "D")}
	s.g.Node = []*onnxpb.NodeProto{{OpType: "FeatureVectorizer", Domain: "ai.onnx.ml", Input: in, Output: []string{"y"},
		Attribute: []*onnxpb.AttributeProto{intsAttr("inputdimensions", 3, 1)}}}
	s.g.Output = []*onnxpb.ValueInfoProto{{Name: "y"}}
	g, err := Model(&onnxpb.ModelProto{Graph: &s.g,
		OpsetImport: []*onnxpb.OperatorSetIdProto{{Version: 17}, {Domain: "ai.onnx.ml", Version: 1}}})
	require.NoError(t, err)
	y, err := ir.Interpret(g, []*tensor.Tensor{tensor.FromSlice([]float32{1, 2}, 1, 2), tensor.FromSlice([]float32{3, 4}, 1, 2)})
	require.NoError(t, err)
	require.Equal(t, []float64{1, 2, 0, 3}, y[0].Float64s())
}
