package main

import (
	"testing"
	"testing/fstest"

	"github.com/stretchr/testify/require"

	"github.com/rlxc/rlxc/tensor"
)

func TestPool(t *testing.T) {
	hidden := tensor.FromSlice([]float32{1, 2, 3, 4, 50, 60, 7, 8, 9, 10, 11, 12}, 2, 3, 2)
	mask := tensor.FromSlice([]int64{1, 1, 0, 1, 1, 1}, 2, 3)
	require.Equal(t, []float32{2, 3}, pool(hidden, mask, 0, "mean"))
	require.Equal(t, []float32{9, 10}, pool(hidden, mask, 1, "mean"))
	require.Equal(t, []float32{18, 22}, pool(hidden, nil, 0, "mean"))
	require.Equal(t, []float32{7, 8}, pool(hidden, mask, 1, "cls"))
	require.Equal(t, []float32{0, 0}, pool(hidden, tensor.New(tensor.I64, 2, 3), 0, "mean"), "nothing counts")

	v := []float32{3, -4}
	normalize(v)
	require.Equal(t, []float32{0.6, -0.8}, v)
	v = []float32{0, 0}
	normalize(v)
	require.Equal(t, []float32{0, 0}, v)
}

func TestDataSetsInOrder(t *testing.T) {
	folder := fstest.MapFS{}
	for _, name := range []string{"test_data_set_10", "test_data_set_9", "test_data_set_0", "other"} {
		folder[name+"/input_0.pb"] = &fstest.MapFile{}
	}
	sets, err := (&source{folder: folder}).dataSets()
	require.NoError(t, err)
	require.Equal(t, []string{"test_data_set_0", "test_data_set_9", "test_data_set_10"}, sets)
}
