package onnx

import (
	"fmt"
	"math"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rlxc/rlxc/onnx/onnxpb"
	"github.com/rlxc/rlxc/tensor"
)

func names(nodes []*onnxpb.NodeProto) (out []string) {
	for _, n := range nodes {
		out = append(out, n.Name)
	}
	return out
}

func TestCheckSortsNodes(t *testing.T) {
	m := model(graph([]string{"x"}, []string{"d"},
		add("4", "c", "b", "d"),
		add("1", "x", "x", "a"),
		add("3", "b", "a", "c"),
		node("If", "2", []string{"x"}, []string{"b"}, // its body uses a value of the graph around it
			body("then_branch", bare([]string{"t"}, node("Neg", "", []string{"a"}, []string{"t"}))),
			body("else_branch", bare([]string{"t"}, node("Abs", "", []string{"a"}, []string{"t"})))),
	))
	require.NoError(t, Check(m))
	require.Equal(t, []string{"1", "2", "3", "4"}, names(m.Graph.Node))
	require.NoError(t, Check(m))
	require.Equal(t, []string{"1", "2", "3", "4"}, names(m.Graph.Node))
}

func TestCheckMakesSizesOfMinusOneUnknown(t *testing.T) {
	m := model(graph([]string{"x"}, []string{"y"}, add("sum", "x", "x", "y")))
	for _, v := range []*onnxpb.ValueInfoProto{m.Graph.Input[0], m.Graph.Output[0]} {
		v.Type.GetTensorType().Shape = &onnxpb.TensorShapeProto{Dim: []*onnxpb.TensorShapeProto_Dimension{
			{Value: &onnxpb.TensorShapeProto_Dimension_DimValue{DimValue: -1}},
			{Value: &onnxpb.TensorShapeProto_Dimension_DimValue{DimValue: 3}}}}
	}
	require.NoError(t, Check(m))
	for _, v := range []*onnxpb.ValueInfoProto{m.Graph.Input[0], m.Graph.Output[0]} {
		dims := v.Type.GetTensorType().Shape.Dim
		require.Nil(t, dims[0].Value)
		require.EqualValues(t, 3, dims[1].GetDimValue())
	}
}

func TestCheckFindsProblems(t *testing.T) {
	xy := func(nodes ...*onnxpb.NodeProto) *onnxpb.ModelProto {
		return model(graph([]string{"x"}, []string{"y"}, nodes...))
	}
	good := add("sum", "x", "x", "y")
	with := func(change func(m *onnxpb.ModelProto)) *onnxpb.ModelProto {
		m := xy(good)
		change(m)
		return m
	}
	attribute := func(a *onnxpb.AttributeProto) *onnxpb.ModelProto {
		return xy(node("Op", "n", []string{"x"}, []string{"y"}, a))
	}
	function := func(name string, nodes ...*onnxpb.NodeProto) *onnxpb.FunctionProto {
		return &onnxpb.FunctionProto{Name: name, Domain: "local", Input: []string{"a"}, Output: []string{"b"}, Node: nodes,
			OpsetImport: []*onnxpb.OperatorSetIdProto{{Version: 17}, {Domain: "local", Version: 1}}}
	}
	call := func(name string) *onnxpb.NodeProto {
		return &onnxpb.NodeProto{OpType: name, Domain: "local", Input: []string{"a"}, Output: []string{"b"}}
	}
	for _, c := range []struct {
		want string
		m    *onnxpb.ModelProto
	}{
		{"names no IR version", with(func(m *onnxpb.ModelProto) { m.IrVersion = 0 })},
		{"IR version 99, newer than 14", with(func(m *onnxpb.ModelProto) { m.IrVersion = 99 })},
		{`node "sum" (Add): the model imports no operator set of domain ""`, with(func(m *onnxpb.ModelProto) { m.OpsetImport = nil })},
		{"in versions 17 and 18", with(func(m *onnxpb.ModelProto) {
			m.OpsetImport = append(m.OpsetImport, &onnxpb.OperatorSetIdProto{Domain: "ai.onnx", Version: 18})
		})},
		{"imports version 0", with(func(m *onnxpb.ModelProto) { m.OpsetImport[0].Version = 0 })},
		{"the model has no graph", with(func(m *onnxpb.ModelProto) { m.Graph = nil })},
		{`node "a" (Add): input "nowhere" is not defined anywhere`, xy(add("a", "x", "nowhere", "y"))},
		{`node #0 (Add): input "nowhere" is not defined anywhere`, xy(add("", "x", "nowhere", "y"))},
		{`node #1 (Add): input "nowhere" is not defined anywhere`, xy(good, add("", "x", "nowhere", "z"))},
		{`node "b" (Add): output "y" is already that of node "a" (Add)`, xy(add("a", "x", "x", "y"), add("b", "x", "x", "y"))},
		{`output "x" is already an input or initializer`, xy(good, add("b", "x", "x", "x"))},
		{`output "y": no node defines it`, xy(add("a", "x", "x", "z"))},
		{`circle: node "b" (Add) → node "c" (Add) → node "a" (Add) → node "b" (Add)`,
			xy(add("a", "x", "q", "p"), add("b", "p", "x", "r"), add("c", "r", "x", "q"), good)},
		{"it names no operator", xy(node("", "n", []string{"x"}, []string{"y"}))},
		{`input "x": the name is defined twice`, with(func(m *onnxpb.ModelProto) { m.Graph.Input = infos([]string{"x", "x"}) })},
		{"an input has no name", with(func(m *onnxpb.ModelProto) { m.Graph.Input = infos([]string{"x", ""}) })},
		{`input "x": it has no type`, with(func(m *onnxpb.ModelProto) { m.Graph.Input[0].Type = nil })},
		{`input "x": there is no element type 0`, with(func(m *onnxpb.ModelProto) { m.Graph.Input[0].Type.GetTensorType().ElemType = 0 })},
		{`input "x": axis 0 has negative size -3`, with(func(m *onnxpb.ModelProto) {
			m.Graph.Input[0].Type.GetTensorType().Shape = &onnxpb.TensorShapeProto{Dim: []*onnxpb.TensorShapeProto_Dimension{
				{Value: &onnxpb.TensorShapeProto_Dimension_DimValue{DimValue: -3}}}}
		})},
		{`initializer "w": float[3] needs 12 bytes, raw_data has 8`, with(func(m *onnxpb.ModelProto) {
			w := FromTensor("w", tensor.New(tensor.F32, 2))
			w.Dims[0] = 3
			m.Graph.Initializer = append(m.Graph.Initializer, w)
		})},
		{`initializer "w": the name is empty or defined twice`, with(func(m *onnxpb.ModelProto) {
			w := FromTensor("w", tensor.New(tensor.F32, 2))
			m.Graph.Initializer = append(m.Graph.Initializer, w, w)
		})},
		{`initializer "w": shape [4611686018427387904,8] of u8 is larger than memory`, with(func(m *onnxpb.ModelProto) {
			m.Graph.Initializer = []*onnxpb.TensorProto{{Name: "w", DataType: 2, Dims: []int64{1 << 62, 8}, RawData: []byte{1}}}
		})},
		{`initializer "s": index 0 is outside`, with(func(m *onnxpb.ModelProto) {
			m.Graph.SparseInitializer = []*onnxpb.SparseTensorProto{sparse([]int64{2}, []float32{1}, tensor.FromSlice([]int64{2}))}
		})},
		{`node "n" (Op): attribute "a": it has no type`, attribute(&onnxpb.AttributeProto{Name: "a", I: 0})},
		{`its type is INT, its value is in the field of FLOAT`,
			attribute(&onnxpb.AttributeProto{Name: "a", Type: onnxpb.AttributeProto_INT, F: 1})},
		{`its type is TENSOR, it holds none`, attribute(&onnxpb.AttributeProto{Name: "a", Type: onnxpb.AttributeProto_TENSOR})},
		{`there is no attribute type 50`, attribute(&onnxpb.AttributeProto{Name: "a", Type: 50})},
		{`there is no attribute type 15`, attribute(&onnxpb.AttributeProto{Name: "a", Type: 15})},
		{`there is no attribute type -1`, attribute(&onnxpb.AttributeProto{Name: "a", Type: -1})},
		{`refers to attribute "r" of a function, outside of any`, attribute(&onnxpb.AttributeProto{Name: "a", RefAttrName: "r"})},
		{`attribute "a": the name is empty or given twice`, xy(node("Op", "n", []string{"x"}, []string{"y"},
			&onnxpb.AttributeProto{Name: "a", Type: onnxpb.AttributeProto_INT},
			&onnxpb.AttributeProto{Name: "a", Type: onnxpb.AttributeProto_INT}))},
		{`attribute "a": float[1] has no data`, attribute(&onnxpb.AttributeProto{Name: "a", Type: onnxpb.AttributeProto_TENSOR,
			T: &onnxpb.TensorProto{DataType: 1, Dims: []int64{1}}})},
		{`attribute "a": it lacks values`, attribute(&onnxpb.AttributeProto{Name: "a", Type: onnxpb.AttributeProto_SPARSE_TENSOR,
			SparseTensor: &onnxpb.SparseTensorProto{}})},
		{`attribute "then_branch": node #0 (Neg): input "nowhere" is not defined anywhere`,
			attribute(body("then_branch", bare([]string{"t"}, node("Neg", "", []string{"nowhere"}, []string{"t"}))))},
		{`node "in" (Neg): output "x" is already a value of the graph around it`,
			attribute(body("then_branch", bare([]string{"x"}, node("Neg", "in", []string{"x"}, []string{"x"}))))},
		{`output "x" is a value of the graph around it; put an Identity between`, attribute(body("then_branch", bare([]string{"x"})))},
		{`function "f" of domain "local" is defined twice`, with(func(m *onnxpb.ModelProto) {
			m.Functions = []*onnxpb.FunctionProto{function("f", add("", "a", "a", "b")), function("f", add("", "a", "a", "b"))}
		})},
		{`function "f": output "b": no node defines it`, with(func(m *onnxpb.ModelProto) {
			m.Functions = []*onnxpb.FunctionProto{function("f")}
		})},
		{`function "f" imports no operator set of domain "else"`, with(func(m *onnxpb.ModelProto) {
			n := add("", "a", "a", "b")
			n.Domain = "else"
			m.Functions = []*onnxpb.FunctionProto{function("f", n)}
		})},
		{`functions call each other in a circle: "f" → "g" → "h" → "f"`, with(func(m *onnxpb.ModelProto) {
			m.Functions = []*onnxpb.FunctionProto{function("f", call("g")), function("g", call("h")), function("h", call("f"))}
		})},
		{`functions call each other in a circle: "f" → "f"`, with(func(m *onnxpb.ModelProto) {
			m.Functions = []*onnxpb.FunctionProto{function("f", call("f"))}
		})},
	} {
		err := Check(c.m)
		require.ErrorIs(t, err, ErrInvalid, c.want)
		require.ErrorContains(t, err, c.want)
	}
	require.NoError(t, Check(with(func(m *onnxpb.ModelProto) {
		m.Functions = []*onnxpb.FunctionProto{function("f", call("g")), function("g", node("Neg", "", []string{"a"}, []string{"b"},
			&onnxpb.AttributeProto{Name: "alpha", RefAttrName: "alpha", Type: onnxpb.AttributeProto_FLOAT}))}
	})))
	require.NoError(t, Check(attribute(&onnxpb.AttributeProto{Name: "a", Type: onnxpb.AttributeProto_INTS})))
}

// TestCheckFields gives attributes of each type a value of each other type.
func TestCheckFields(t *testing.T) {
	tensor, body := &onnxpb.TensorProto{DataType: 1, FloatData: []float32{1}}, graph(nil, nil)
	fields := map[onnxpb.AttributeProto_AttributeType]func(a *onnxpb.AttributeProto){
		onnxpb.AttributeProto_FLOAT:          func(a *onnxpb.AttributeProto) { a.F = 1 },
		onnxpb.AttributeProto_INT:            func(a *onnxpb.AttributeProto) { a.I = 1 },
		onnxpb.AttributeProto_STRING:         func(a *onnxpb.AttributeProto) { a.S = []byte("s") },
		onnxpb.AttributeProto_TENSOR:         func(a *onnxpb.AttributeProto) { a.T = tensor },
		onnxpb.AttributeProto_GRAPH:          func(a *onnxpb.AttributeProto) { a.G = body },
		onnxpb.AttributeProto_SPARSE_TENSOR:  func(a *onnxpb.AttributeProto) { a.SparseTensor = &onnxpb.SparseTensorProto{} },
		onnxpb.AttributeProto_TYPE_PROTO:     func(a *onnxpb.AttributeProto) { a.Tp = &onnxpb.TypeProto{} },
		onnxpb.AttributeProto_FLOATS:         func(a *onnxpb.AttributeProto) { a.Floats = []float32{1} },
		onnxpb.AttributeProto_INTS:           func(a *onnxpb.AttributeProto) { a.Ints = []int64{1} },
		onnxpb.AttributeProto_STRINGS:        func(a *onnxpb.AttributeProto) { a.Strings = [][]byte{[]byte("s")} },
		onnxpb.AttributeProto_TENSORS:        func(a *onnxpb.AttributeProto) { a.Tensors = []*onnxpb.TensorProto{tensor} },
		onnxpb.AttributeProto_GRAPHS:         func(a *onnxpb.AttributeProto) { a.Graphs = []*onnxpb.GraphProto{body} },
		onnxpb.AttributeProto_SPARSE_TENSORS: func(a *onnxpb.AttributeProto) { a.SparseTensors = []*onnxpb.SparseTensorProto{{}} },
		onnxpb.AttributeProto_TYPE_PROTOS:    func(a *onnxpb.AttributeProto) { a.TypeProtos = []*onnxpb.TypeProto{{}} },
	}
	require.Len(t, fields, len(onnxpb.AttributeProto_AttributeType_name)-1, "all but UNDEFINED")
	for kind := range fields {
		for field, set := range fields {
			a := &onnxpb.AttributeProto{Name: "a", Type: kind}
			set(a)
			err := Check(&onnxpb.ModelProto{IrVersion: 8, OpsetImport: []*onnxpb.OperatorSetIdProto{{Version: 17}},
				Graph: graph([]string{"x"}, []string{"y"}, node("Op", "n", []string{"x"}, []string{"y"}, a))})
			wrong := fmt.Sprintf("its type is %s, its value is in the field of %s", kind, field)
			if kind != field {
				require.ErrorContains(t, err, wrong)
			} else if err != nil {
				require.NotContains(t, err.Error(), wrong)
			}
		}
	}
}

func TestCheckReportsEveryProblemOnce(t *testing.T) {
	g := graph([]string{"x"}, []string{"y"}, add("sum", "x", "x", "y"))
	for i := range 50 {
		g.Node = append(g.Node, add(fmt.Sprint("n", i), "x", "lost", fmt.Sprint("v", i)))
	}
	var err *CheckError
	require.ErrorAs(t, Check(model(g)), &err)
	require.Len(t, err.Problems, maxProblems)
	require.Contains(t, err.Error(), "20 problems, and perhaps more:\n  node \"n0\" (Add)")
	require.Contains(t, err.Error(), "\n  node \"n19\" (Add)")
	g.Node = g.Node[:3]
	require.ErrorContains(t, Check(model(g)), "2 problems:\n  node \"n0\"")
}

// TestCheckIsLinear checks models of 100,000 nodes or weights, on which a quadratic check takes minutes, and counts what it
// allocates beside models of a tenth of the size.
func TestCheckIsLinear(t *testing.T) {
	for name, c := range map[string]struct {
		build func(n int) *onnxpb.GraphProto
		says  string // the error
	}{
		"chain": {build: func(n int) *onnxpb.GraphProto {
			g := graph([]string{"v0"}, []string{fmt.Sprint("v", n)})
			for i := range n {
				a, b := fmt.Sprint("v", n-i-1), fmt.Sprint("v", n-i) // backwards: all of it must be sorted
				g.Node = append(g.Node, add("", a, a, b))
			}
			return g
		}},
		"weights": {build: func(n int) *onnxpb.GraphProto {
			g := graph([]string{"x"}, []string{"y"}, add("sum", "x", "x", "y"))
			for i := range n {
				g.Initializer = append(g.Initializer, FromTensor(fmt.Sprint("w", i), tensor.New(tensor.F32, 1)))
			}
			return g
		}},
		"circle": {says: "more …", build: func(n int) *onnxpb.GraphProto {
			g := graph([]string{"x"}, []string{"v0"})
			for i := range n {
				g.Node = append(g.Node, add("", fmt.Sprint("v", (i+1)%n), "x", fmt.Sprint("v", i)))
			}
			return g
		}},
		"wide": {says: "is not defined anywhere", build: func(n int) *onnxpb.GraphProto {
			var all []string
			for i := range n {
				all = append(all, "x", fmt.Sprint("o", i))
			}
			return graph([]string{"x"}, []string{"y"}, node("Split", "", []string{"x"}, all[1:2]), node("Concat", "", all, []string{"y"}))
		}},
	} {
		allocations := func(n int) float64 {
			m := model(c.build(n))
			return testing.AllocsPerRun(1, func() {
				if err := Check(m); c.says == "" {
					require.NoError(t, err, name)
				} else {
					require.ErrorContains(t, err, c.says, name)
				}
			})
		}
		require.Less(t, allocations(100_000), 12*allocations(10_000), name)
	}
}

func TestDeclaredSizesThatOverflow(t *testing.T) {
	m := model(graph([]string{"x"}, []string{"y"}, add("sum", "x", "x", "y")))
	dim := &onnxpb.TensorShapeProto_Dimension{Value: &onnxpb.TensorShapeProto_Dimension_DimValue{DimValue: math.MaxInt64 / 2}}
	m.Graph.Input[0].Type.GetTensorType().Shape = &onnxpb.TensorShapeProto{Dim: []*onnxpb.TensorShapeProto_Dimension{dim, dim}}
	require.ErrorContains(t, Check(m), `input "x": shape [4611686018427387903,4611686018427387903] of f32 is larger than memory`)
}
