package rlxc

import (
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rlxc/rlxc/onnx"
	"github.com/rlxc/rlxc/onnx/onnxpb"
	"github.com/rlxc/rlxc/tensor"
)

// defaults is a model y = (x·w + c) in the shape s, whose initializers w f32[2,2], c f32[k] and s i64[r] are inputs as well: w is the
// identity, c is [10], and s is [-1].
func defaults(t *testing.T, irVersion int64, opts ...Option) (*Model, error) {
	value := func(name string, d tensor.DType, dims ...any) *onnxpb.ValueInfoProto {
		shape := &onnxpb.TensorShapeProto{}
		for _, s := range dims {
			size := &onnxpb.TensorShapeProto_Dimension{}
			switch s := s.(type) {
			case string:
				size.Value = &onnxpb.TensorShapeProto_Dimension_DimParam{DimParam: s}
			case int:
				size.Value = &onnxpb.TensorShapeProto_Dimension_DimValue{DimValue: int64(s)}
			}
			shape.Dim = append(shape.Dim, size)
		}
		t := &onnxpb.TypeProto_Tensor{ElemType: int32(d), Shape: shape}
		return &onnxpb.ValueInfoProto{Name: name, Type: &onnxpb.TypeProto{Value: &onnxpb.TypeProto_TensorType{TensorType: t}}}
	}
	node := func(op, out string, in ...string) *onnxpb.NodeProto {
		return &onnxpb.NodeProto{OpType: op, Name: out, Input: in, Output: []string{out}}
	}
	g := &onnxpb.GraphProto{
		Name: "defaults",
		Input: []*onnxpb.ValueInfoProto{value("c", tensor.F32, "k"), value("x", tensor.F32, "n", 2), value("w", tensor.F32, 2, 2),
			value("s", tensor.I64, "r")},
		Initializer: []*onnxpb.TensorProto{onnx.FromTensor("w", tensor.FromSlice([]float32{1, 0, 0, 1}, 2, 2)),
			onnx.FromTensor("c", tensor.FromSlice([]float32{10})), onnx.FromTensor("s", tensor.FromSlice([]int64{-1}))},
		Node:   []*onnxpb.NodeProto{node("MatMul", "p", "x", "w"), node("Add", "q", "p", "c"), node("Reshape", "y", "q", "s")},
		Output: []*onnxpb.ValueInfoProto{{Name: "y"}},
	}
	m, err := FromProto(&onnxpb.ModelProto{IrVersion: irVersion, OpsetImport: []*onnxpb.OperatorSetIdProto{{Version: 17}}, Graph: g},
		"defaults", opts...)
	if err == nil {
		t.Cleanup(func() { m.Close() })
	}
	return m, err
}

func infoNames(infos []ValueInfo) (required, optional []string) {
	for _, v := range infos {
		if v.Default {
			optional = append(optional, v.Name)
		} else {
			required = append(required, v.Name)
		}
	}
	return required, optional
}

// TestOverridable runs a session with and without values for inputs that have a default, in turn, at every level and from a compiled file.
func TestOverridable(t *testing.T) {
	x := tensor.FromSlice([]float32{1, 2, 3, 4}, 2, 2)
	rows := []struct {
		name string
		in   Tensors
		want *Tensor
	}{
		{"no value", Tensors{"x": x}, tensor.FromSlice([]float32{11, 12, 13, 14})},
		{"c", Tensors{"x": x, "c": tensor.FromSlice([]float32{1})}, tensor.FromSlice([]float32{2, 3, 4, 5})},
		{"c of another size", Tensors{"x": x, "c": tensor.FromSlice([]float32{1, 2})}, tensor.FromSlice([]float32{2, 4, 4, 6})},
		{"no value again", Tensors{"x": x}, tensor.FromSlice([]float32{11, 12, 13, 14})},
		{"w and s", Tensors{"x": x, "w": tensor.FromSlice([]float32{0, 2, 1, 0}, 2, 2), "s": tensor.FromSlice([]int64{4, 1, 1})},
			tensor.FromSlice([]float32{12, 12, 14, 16}, 4, 1, 1)},
		{"no value at another size", Tensors{"x": tensor.FromSlice([]float32{5, 6}, 1, 2)}, tensor.FromSlice([]float32{15, 16})},
	}
	for _, level := range []Level{O0, O1, O2} {
		m, err := defaults(t, 8, WithOverridable("w", "c"), WithOverridable("s"))
		require.NoError(t, err)
		p, err := m.Compile(t.Context(), CompileOptions{Level: level, Verify: true})
		require.NoError(t, err)
		defer p.Close()
		file := filepath.Join(t.TempDir(), "defaults.rlxc")
		require.NoError(t, p.Save(file))
		f, err := Open(file)
		require.NoError(t, err)
		defer f.Close()
		saved, err := f.Compile(t.Context(), CompileOptions{})
		require.NoError(t, err)
		defer saved.Close()
		for name, p := range map[string]*Program{"compiled": p, "saved": saved} {
			required, optional := infoNames(p.Inputs())
			require.Equal(t, []string{"x"}, required)
			require.Equal(t, []string{"c", "w", "s"}, optional)
			s, err := p.NewSession()
			require.NoError(t, err)
			defer s.Close()
			for _, r := range rows {
				t.Run("-O "+string(level)+" "+name+"/"+r.name, func(t *testing.T) {
					out, err := s.Run(t.Context(), r.in)
					require.NoError(t, err)
					require.Equal(t, r.want.String(), out["y"].String())
					require.Equal(t, tensor.Of[float32](r.want), tensor.Of[float32](out["y"]))
				})
			}
		}
	}
}

// TestNotOverridable: without the option an initializer is a constant, and names that are none are refused.
func TestNotOverridable(t *testing.T) {
	m, err := defaults(t, 8)
	require.NoError(t, err)
	required, optional := infoNames(m.Inputs())
	require.Equal(t, []string{"x"}, required)
	require.Empty(t, optional)
	_, optional = infoNames(m.Overridable())
	require.Equal(t, []string{"c", "w", "s"}, optional)
	require.Equal(t, []string{"2", "2"}, m.Overridable()[1].Shape)
	p, err := m.Compile(t.Context(), CompileOptions{})
	require.NoError(t, err)
	defer p.Close()
	s, err := p.NewSession()
	require.NoError(t, err)
	defer s.Close()
	x, c := tensor.New(tensor.F32, 1, 2), tensor.New(tensor.F32, 1)
	_, err = s.Run(t.Context(), Tensors{"x": x, "c": c})
	require.ErrorIs(t, err, ErrInput)
	require.ErrorContains(t, err, `input "c" has a default, which is compiled as a constant: `+
		"to give it a value, open the model with WithOverridable")
	file := filepath.Join(t.TempDir(), "defaults.rlxc")
	require.NoError(t, p.Save(file))
	_, err = Open(file, WithOverridable("c"))
	require.ErrorIs(t, err, ErrInput)
	require.ErrorContains(t, err, "compile the model again with overridable inputs")

	for _, row := range []struct {
		name, input string
		irVersion   int64
	}{{"no initializer", "x", 8}, {"no name", "z", 8}, {"before IR version 4", "c", 3}} {
		t.Run(row.name, func(t *testing.T) {
			_, err := defaults(t, row.irVersion, WithOverridable(row.input))
			require.ErrorIs(t, err, ErrInput)
			require.ErrorContains(t, err, "no input with a default")
		})
	}
	m, err = defaults(t, 3)
	require.NoError(t, err)
	require.Empty(t, m.Overridable())

	m, err = defaults(t, 8, WithOverridable("c"))
	require.NoError(t, err)
	p, err = m.Compile(t.Context(), CompileOptions{})
	require.NoError(t, err)
	defer p.Close()
	s, err = p.NewSession()
	require.NoError(t, err)
	defer s.Close()
	_, err = s.Run(t.Context(), Tensors{"x": x, "c": nil})
	require.ErrorIs(t, err, ErrInput)
	require.ErrorContains(t, err, `input "c" is missing`)
}
