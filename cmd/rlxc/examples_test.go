package main

import (
	"math"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rlxc/rlxc"
	"github.com/rlxc/rlxc/tensor"
)

// examplesOf reads arrays as those of a model of two inputs.
func examplesOf(t *testing.T, arrays ...tensor.Named) ([]rlxc.Tensors, error) {
	file := filepath.Join(t.TempDir(), "data.npz")
	f, err := os.Create(file)
	require.NoError(t, err)
	require.NoError(t, tensor.WriteNPZ(f, arrays))
	require.NoError(t, f.Close())
	return readExamples(file, twoInputs, 1<<20)
}

var twoInputs = []rlxc.ValueInfo{
	{Name: "ids", DType: tensor.I64, Shape: []string{"batch", "seq"}},
	{Name: "x", DType: tensor.F32, Shape: []string{"batch"}},
}

func TestReadExamples(t *testing.T) {
	ids := tensor.FromSlice([]int64{1, 2, 3, 4, 5, 6}, 3, 2)
	runs, err := examplesOf(t, tensor.Named{Name: "x", Tensor: tensor.New(tensor.F32, 3)}, tensor.Named{Name: "ids", Tensor: ids})
	require.NoError(t, err)
	require.Len(t, runs, 1)
	require.Equal(t, ids.Int64s(), runs[0]["ids"].Int64s())
	runs, err = examplesOf(t, tensor.Named{Name: "ids", Tensor: ids.Reshape(3, 1, 2)},
		tensor.Named{Name: "x", Tensor: tensor.New(tensor.F32, 3, 1)})
	require.NoError(t, err)
	require.Len(t, runs, 3)
	require.Equal(t, "i64[1,2]", runs[2]["ids"].String())
	require.Equal(t, []int64{5, 6}, runs[2]["ids"].Int64s())
}

func TestExamplesThatDoNotFit(t *testing.T) {
	ids, x := tensor.New(tensor.I64, 3, 2), tensor.New(tensor.F32, 3)
	for want, arrays := range map[string]map[string]*tensor.Tensor{
		`no array for input "x": the model takes x f32[batch]`:                             {"ids": ids},
		`unknown input "y": the model takes ids, x`:                                        {"ids": ids, "x": x, "y": x},
		`array "ids" is i32[3,2]: want ids i64[batch,seq]`:                                 {"ids": tensor.New(tensor.I32, 3, 2), "x": x},
		`array "x" is f32[]: want x f32[batch], or one more leading axis for several runs`: {"ids": ids, "x": tensor.New(tensor.F32)},
		`array "x", f32[3], has 1 runs, but "ids" has 2`: {"ids": tensor.New(tensor.I64, 2, 3, 2),
			"x": x},
		`array "ids" is empty: i64[3,0]`: {"ids": tensor.New(tensor.I64, 3, 0), "x": x},
		`array "ids" is empty: i64[0,3,2]`: {"ids": tensor.New(tensor.I64, 0, 3, 2),
			"x": x},
		`array "x" contains NaN at [1]`: {"ids": ids,
			"x": tensor.FromSlice([]float32{0, float32(math.NaN()), 0})},
	} {
		var list []tensor.Named
		for _, name := range []string{"ids", "x", "y"} {
			if arrays[name] != nil {
				list = append(list, tensor.Named{Name: name, Tensor: arrays[name]})
			}
		}
		_, err := examplesOf(t, list...)
		require.ErrorContains(t, err, want)
	}
}

// TestCut cuts batches of inputs that share their first dimension, and no others.
func TestCut(t *testing.T) {
	ids, x := tensor.New(tensor.I64, 19, 2), tensor.New(tensor.F32, 19)
	for i := range 19 {
		ids.SetInt64(2*i, int64(i))
	}
	runs := cut(rlxc.Tensors{"ids": ids, "x": x}, twoInputs)
	require.Len(t, runs, 3)
	require.Equal(t, "i64[3,2]", runs[2]["ids"].String())
	require.Equal(t, "f32[8]", runs[1]["x"].String())
	require.EqualValues(t, 16, runs[2]["ids"].Int64(0))
	require.Len(t, cut(rlxc.Tensors{"ids": ids, "x": tensor.New(tensor.F32, 18)}, twoInputs), 1, "the run says what is wrong")
	fixed := []rlxc.ValueInfo{{Name: "ids", DType: tensor.I64, Shape: []string{"19", "2"}}}
	require.Len(t, cut(rlxc.Tensors{"ids": ids}, fixed), 1)
	other := []rlxc.ValueInfo{twoInputs[0], {Name: "x", DType: tensor.F32, Shape: []string{"seq"}}}
	require.Len(t, cut(rlxc.Tensors{"ids": ids, "x": x}, other), 1)
}

func TestAccuracyOfSeveralRuns(t *testing.T) {
	var a accuracy
	for _, d := range []difference{{Name: "y", MaxAbs: 1, Cosine: 0.9}, {Name: "y", MaxAbs: 3, Cosine: 0.5},
		{Name: "y", MaxAbs: 2, Cosine: 1}} {
		a.add(d)
	}
	require.InDelta(t, 0.8, float64(a.Cosine), 1e-12)
	require.Equal(t, accuracy{Name: "y", MaxAbs: 3, Lowest: 0.5, Cosine: a.Cosine, runs: 3}, a)
}
