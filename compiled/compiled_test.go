package compiled_test

import (
	"context"
	"io/fs"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rlxc/rlxc"
	"github.com/rlxc/rlxc/compiled"
	"github.com/rlxc/rlxc/models"
	"github.com/rlxc/rlxc/onnx/onnxpb"
	"github.com/rlxc/rlxc/tensor"
)

var ctx = context.Background()

// save compiles a model into a file and returns what a run of it in package rlxc returns.
func save(t *testing.T, m *rlxc.Model, in rlxc.Tensors) (path string, want rlxc.Tensors) {
	t.Helper()
	p, err := m.Compile(ctx, rlxc.CompileOptions{})
	require.NoError(t, err)
	t.Cleanup(func() { p.Close() })
	s, err := p.NewSession()
	require.NoError(t, err)
	t.Cleanup(func() { s.Close() })
	want, err = s.Run(ctx, in)
	require.NoError(t, err)
	path = filepath.Join(t.TempDir(), "model.rlxc")
	require.NoError(t, p.Save(path))
	return path, want
}

func TestRunsAsRlxcDoes(t *testing.T) {
	files, err := models.FS("bert-tiny")
	require.NoError(t, err)
	m, err := rlxc.OpenFS(files, "model.onnx")
	require.NoError(t, err)
	defer m.Close()
	in := rlxc.Tensors{}
	for _, v := range m.Inputs() {
		in[v.Name] = tensor.New(v.DType, 2, 9)
	}
	path, want := save(t, m, in)

	p, err := compiled.Open(ctx, path, compiled.Options{Threads: 1})
	require.NoError(t, err)
	require.Len(t, p.Inputs(), len(m.Inputs()))
	for i, v := range m.Inputs() {
		require.Equal(t, compiled.Value{Name: v.Name, DType: v.DType, Shape: v.Shape}, p.Inputs()[i])
	}
	for i, v := range m.Outputs() {
		require.Equal(t, compiled.Value{Name: v.Name, DType: v.DType, Shape: v.Shape}, p.Outputs()[i])
	}
	s, err := p.NewSession()
	require.NoError(t, err)
	require.NoError(t, p.Close())
	require.ErrorIs(t, p.Close(), rlxc.ErrClosed)
	got, err := s.Run(ctx, in)
	require.NoError(t, err)
	require.Len(t, got, len(want))
	for name := range want {
		require.Equal(t, want[name].Bytes(), got[name].Bytes(), name)
	}
	require.Positive(t, s.MemoryBytes())
	require.NoError(t, s.Close())
}

// shaped is Relu, then Reshape to a shape whose length only a run knows.
func shaped() *onnxpb.ModelProto {
	value := func(name string, d tensor.DType, axes ...string) *onnxpb.ValueInfoProto {
		shape := &onnxpb.TensorShapeProto{}
		for _, s := range axes {
			shape.Dim = append(shape.Dim, &onnxpb.TensorShapeProto_Dimension{Value: &onnxpb.TensorShapeProto_Dimension_DimParam{DimParam: s}})
		}
		t := &onnxpb.TypeProto_Tensor{ElemType: int32(d), Shape: shape}
		return &onnxpb.ValueInfoProto{Name: name, Type: &onnxpb.TypeProto{Value: &onnxpb.TypeProto_TensorType{TensorType: t}}}
	}
	y := value("y", tensor.F32)
	y.GetType().GetTensorType().Shape = nil
	return &onnxpb.ModelProto{
		IrVersion:   8,
		OpsetImport: []*onnxpb.OperatorSetIdProto{{Version: 17}},
		Graph: &onnxpb.GraphProto{
			Name: "shaped",
			Node: []*onnxpb.NodeProto{
				{OpType: "Relu", Name: "relu", Input: []string{"x"}, Output: []string{"r"}},
				{OpType: "Reshape", Name: "to its shape", Input: []string{"r", "shape"}, Output: []string{"y"}},
			},
			Input:  []*onnxpb.ValueInfoProto{value("x", tensor.F32, "n"), value("shape", tensor.I64, "rank")},
			Output: []*onnxpb.ValueInfoProto{y},
		},
	}
}

// TestFormFromData holds that a file with an operator that is translated in each run works in package rlxc and is refused here.
func TestFormFromData(t *testing.T) {
	m, err := rlxc.FromProto(shaped(), "shaped")
	require.NoError(t, err)
	defer m.Close()
	in := rlxc.Tensors{"x": tensor.FromSlice([]float32{-1, 2, 3, 4, -5, 6}), "shape": tensor.FromSlice([]int64{3, 1, 2})}
	path, want := save(t, m, in)
	require.Equal(t, tensor.Shape{3, 1, 2}, want["y"].Shape())

	again, err := rlxc.Open(path)
	require.NoError(t, err)
	defer again.Close()
	p, err := again.Compile(ctx, rlxc.CompileOptions{})
	require.NoError(t, err)
	defer p.Close()
	s, err := p.NewSession()
	require.NoError(t, err)
	defer s.Close()
	got, err := s.Run(ctx, in)
	require.NoError(t, err)
	require.Equal(t, want["y"].Bytes(), got["y"].Bytes())

	_, err = compiled.Open(ctx, path, compiled.Options{})
	require.ErrorIs(t, err, compiled.ErrUnsupportedOp)
	require.ErrorContains(t, err, "onnx.Reshape")
	require.ErrorContains(t, err, "to its shape")
	require.ErrorContains(t, err, "open the file with package rlxc")
}

func TestOpenErrors(t *testing.T) {
	_, err := compiled.Open(ctx, filepath.Join(t.TempDir(), "absent.rlxc"), compiled.Options{})
	require.ErrorIs(t, err, fs.ErrNotExist)
	onnx := filepath.Join(t.TempDir(), "model.onnx")
	require.NoError(t, os.WriteFile(onnx, []byte("\x08\x08"), 0o600))
	for _, path := range []string{onnx, t.TempDir()} {
		_, err = compiled.Open(ctx, path, compiled.Options{})
		require.ErrorIs(t, err, compiled.ErrInvalidModel)
		require.ErrorContains(t, err, "not a compiled file")
	}
	require.NoError(t, os.Rename(onnx, onnx+".rlxc"))
	_, err = compiled.Open(ctx, onnx+".rlxc", compiled.Options{})
	require.ErrorIs(t, err, compiled.ErrInvalidModel)
	var none context.Context // what a caller may get wrong
	_, err = compiled.Open(none, onnx, compiled.Options{})
	require.ErrorIs(t, err, compiled.ErrInput)
	_, err = compiled.Open(ctx, onnx, compiled.Options{Ops: []compiled.Op{{Name: "half"}}})
	require.ErrorIs(t, err, compiled.ErrUnsupportedOp)
}
