package rlxc

import (
	"context"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rlxc/rlxc/onnx/onnxpb"
	"github.com/rlxc/rlxc/tensor"
)

// untrue is a model whose inputs a and b both name their first axis n: it returns their rows one after the other, the sizes that it takes
// them to have, and with sum their sum.
func untrue(t *testing.T, sum bool, opts ...Option) *Model {
	value := func(name string, dims ...string) *onnxpb.ValueInfoProto {
		shape := &onnxpb.TensorShapeProto{}
		for _, s := range dims {
			size := &onnxpb.TensorShapeProto_Dimension_DimParam{DimParam: s}
			shape.Dim = append(shape.Dim, &onnxpb.TensorShapeProto_Dimension{Value: size})
		}
		t := &onnxpb.TypeProto_Tensor{ElemType: int32(tensor.F32), Shape: shape}
		return &onnxpb.ValueInfoProto{Name: name, Type: &onnxpb.TypeProto{Value: &onnxpb.TypeProto_TensorType{TensorType: t}}}
	}
	node := func(op, out string, in ...string) *onnxpb.NodeProto {
		return &onnxpb.NodeProto{OpType: op, Input: in, Output: []string{out}}
	}
	concat := node("Concat", "rows", "a", "b")
	concat.Attribute = []*onnxpb.AttributeProto{{Name: "axis", Type: onnxpb.AttributeProto_INT}}
	g := &onnxpb.GraphProto{
		Name:   "untrue",
		Input:  []*onnxpb.ValueInfoProto{value("a", "n", "b.0"), value("b", "n", "b.0")},
		Node:   []*onnxpb.NodeProto{concat, node("Shape", "size", "b")},
		Output: []*onnxpb.ValueInfoProto{{Name: "rows"}, {Name: "size"}},
	}
	if sum {
		g.Node, g.Output = append(g.Node, node("Add", "sum", "a", "b")), append(g.Output, &onnxpb.ValueInfoProto{Name: "sum"})
	}
	m, err := FromProto(&onnxpb.ModelProto{IrVersion: 8, OpsetImport: []*onnxpb.OperatorSetIdProto{{Version: 17}}, Graph: g}, "untrue",
		opts...)
	require.NoError(t, err)
	t.Cleanup(func() { m.Close() })
	return m
}

func counted(from, rows int) *Tensor {
	x := tensor.New(tensor.F32, rows, 2)
	for i := range x.Len() {
		x.SetFloat64(i, float64(from+i))
	}
	return x
}

// TestIndependentSizes: a model that uses one name for two sizes runs with independent sizes, and with equal ones too.
func TestIndependentSizes(t *testing.T) {
	ctx := context.Background()
	for _, level := range []Level{O0, O2} {
		p, err := untrue(t, false, WithIndependentSizes()).Compile(ctx, CompileOptions{Level: level, Verify: true})
		require.NoError(t, err)
		s, err := p.NewSession()
		require.NoError(t, err)
		for _, sizes := range [][2]int{{2, 2}, {1, 3}, {4, 4}, {5, 0}, {1, 1}} {
			out, err := s.Run(ctx, Tensors{"a": counted(0, sizes[0]), "b": counted(2*sizes[0], sizes[1])})
			require.NoError(t, err, sizes)
			require.Equal(t, counted(0, sizes[0]+sizes[1]).Float64s(), out["rows"].Float64s(), "%v", sizes)
			require.Equal(t, []float64{float64(sizes[1]), 2}, out["size"].Float64s(), "%v", sizes)
		}
		require.NoError(t, s.Close())
		require.NoError(t, p.Close())
	}
}

// TestOneNameForTwoSizes: without that, and where the nodes do not allow the sizes, the error says what is wrong.
func TestOneNameForTwoSizes(t *testing.T) {
	ctx := context.Background()
	fails := func(m *Model, kind error, texts ...string) {
		p, err := m.Compile(ctx, CompileOptions{})
		require.NoError(t, err)
		defer p.Close()
		s, err := p.NewSession()
		require.NoError(t, err)
		defer s.Close()
		_, err = s.Run(ctx, Tensors{"a": counted(0, 2), "b": counted(0, 3)})
		require.ErrorIs(t, err, kind)
		for _, text := range texts {
			require.ErrorContains(t, err, text)
		}
		same := counted(0, 2)
		out, err := s.Run(ctx, Tensors{"a": same, "b": same})
		require.NoError(t, err)
		require.Equal(t, tensor.Shape{4, 2}, out["rows"].Shape())
	}
	fails(untrue(t, false), ErrInput, `input "b": n is 3 here and 2 in input "a"`, "WithIndependentSizes")
	fails(untrue(t, true, WithIndependentSizes()), ErrShape, "Add")

	p, err := untrue(t, false).Compile(ctx, CompileOptions{})
	require.NoError(t, err)
	file := filepath.Join(t.TempDir(), "untrue.rlxc")
	require.NoError(t, p.Save(file))
	require.NoError(t, p.Close())
	_, err = Open(file, WithIndependentSizes())
	require.ErrorIs(t, err, ErrInput)
	require.ErrorContains(t, err, "a compiled file keeps the names of its sizes")
}
