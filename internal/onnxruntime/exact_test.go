package onnxruntime

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rlxc/rlxc/onnx/onnxpb"
	"github.com/rlxc/rlxc/tensor"
)

// largest is a product of the largest uint8 with the largest int8, which saturates where two of them are added in 16 bits.
func largest() *onnxpb.ModelProto {
	weights := make([]byte, 4*2)
	for i := range weights {
		weights[i] = 127
	}
	p := model(nil, []*onnxpb.ValueInfoProto{declared("x", tensor.F32, []int64{1, 4})},
		[]*onnxpb.ValueInfoProto{declared("y", tensor.I32, []int64{1, 2}), declared("z", tensor.I32, []int64{1, 2})})
	p.Graph.Initializer = []*onnxpb.TensorProto{{Name: "w", DataType: int32(tensor.I8), Dims: []int64{4, 2}, RawData: weights},
		{Name: "point", DataType: int32(tensor.I8), RawData: []byte{0xff}}}
	p.Graph.Node = []*onnxpb.NodeProto{
		{OpType: "DynamicQuantizeLinear", Input: []string{"x"}, Output: []string{"q", "scale", "zero"}},
		{OpType: "MatMulInteger", Input: []string{"q", "w"}, Output: []string{"y"}},
		{OpType: "MatMulInteger", Input: []string{"q", "w", "zero", "point"}, Output: []string{"z"}},
	}
	return p
}

func TestReferenceIsExact(t *testing.T) {
	need(t)
	s := open(t, largest(), Options{Level: None})
	out, err := s.Run(context.Background(), map[string]*tensor.Tensor{"x": tensor.FromSlice([]float32{1, 1, 1, 1}, 1, 4)})
	require.NoError(t, err)
	require.Equal(t, []int32{4 * 255 * 127, 4 * 255 * 127}, tensor.Of[int32](out["y"]))
	require.Equal(t, []int32{4 * 255 * 128, 4 * 255 * 128}, tensor.Of[int32](out["z"]))
}

// TestWidened runs the changed model on whatever processor there is.
func TestWidened(t *testing.T) {
	need(t)
	p := widened(largest())
	require.NotNil(t, p)
	require.Nil(t, widened(p), "there is nothing left to change")
	s := open(t, p, Options{Level: None})
	out, err := s.Run(context.Background(), map[string]*tensor.Tensor{"x": tensor.FromSlice([]float32{1, 1, 1, 1}, 1, 4)})
	require.NoError(t, err)
	require.Equal(t, []int32{4 * 255 * 127, 4 * 255 * 127}, tensor.Of[int32](out["y"]))
	require.Equal(t, []int32{4 * 255 * 128, 4 * 255 * 128}, tensor.Of[int32](out["z"]))
}
