package onnx

import (
	"math"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/proto"

	"github.com/rlxc/rlxc/onnx/onnxpb"
	"github.com/rlxc/rlxc/tensor"
)

// TestSaveLarge saves a model that is too large for one file: large weights move to a second one, whatever field they are
// in, and come back as they were.
func TestSaveLarge(t *testing.T) {
	maxFile = 3000
	defer func() { maxFile = math.MaxInt32 }()
	raw, small := tensor.New(tensor.U8, 1001), tensor.New(tensor.F32, 10)
	typed := &onnxpb.TensorProto{Name: "typed", DataType: int32(tensor.F32), Dims: []int64{500}}
	for i := range raw.Len() {
		raw.SetInt64(i, int64(i))
	}
	for i := range 500 {
		typed.FloatData = append(typed.FloatData, float32(i))
	}
	odd := tensor.New(tensor.U8, 1100)
	odd.SetInt64(7, 9)
	p := &onnxpb.ModelProto{IrVersion: 8, OpsetImport: []*onnxpb.OperatorSetIdProto{{Version: 17}}, Graph: &onnxpb.GraphProto{
		Name:        "g",
		Initializer: []*onnxpb.TensorProto{FromTensor("odd", odd), FromTensor("raw", raw), typed, FromTensor("small", small)},
		Node:        []*onnxpb.NodeProto{{OpType: "Identity", Input: []string{"typed"}, Output: []string{"y"}}},
		Output: []*onnxpb.ValueInfoProto{{Name: "y",
			Type: &onnxpb.TypeProto{Value: &onnxpb.TypeProto_TensorType{TensorType: &onnxpb.TypeProto_Tensor{ElemType: 1}}}}},
	}}
	before := proto.Clone(p)
	file := filepath.Join(t.TempDir(), "large.onnx")
	require.NoError(t, Save(file, p))
	require.True(t, proto.Equal(before, p), "the model in memory is not changed")
	info, err := os.Stat(file + ".data")
	require.NoError(t, err)
	require.EqualValues(t, 1152+2000, info.Size(), "two weights, the second aligned")
	m, err := Open(file)
	require.NoError(t, err)
	defer m.Close()
	for i, want := range p.Graph.Initializer {
		a, err := Tensor(want)
		require.NoError(t, err)
		b, err := Tensor(m.Proto.Graph.Initializer[i])
		require.NoError(t, err)
		require.Equal(t, a.String(), b.String())
		require.Equal(t, a.Bytes(), b.Bytes())
	}

	p.Graph.Node[0].Name = string(make([]byte, maxFile))
	require.ErrorContains(t, Save(file, p), "does not fit into one protobuf file")
	require.Error(t, Save(filepath.Join(t.TempDir(), "nowhere", "x.onnx"), p))
}
