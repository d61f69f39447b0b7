package ir

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rlxc/rlxc/tensor"
)

// TestRelativeScores holds operands of scores by relative position to their types, and indices to what there is.
func TestRelativeScores(t *testing.T) {
	x := tensor.New(tensor.F32, 1, 3, 2, 4)
	rows, positions := tensor.FromSlice([]int32{0, 3, 0, 3}, 1, 4), tensor.FromSlice([]int64{0, 1, 2}, 1, 3)
	scores, index := tensor.New(tensor.F32, 1, 2, 3, 5), tensor.New(tensor.I64, 3, 3)
	run := func(scores, index *tensor.Tensor, at int) error {
		in := []*tensor.Tensor{x, x, x, nil, rows, positions, nil, nil, nil, nil}
		in[at], in[at+1] = scores, index
		values := make([]*Value, len(in))
		for i, t := range in {
			if t != nil {
				values[i] = &Value{Type: TensorOf(t.DType(), Dims(t.Shape()...)...)}
			}
		}
		if _, err := (Attention{Scale: 1}).Infer(values); err != nil {
			return err
		}
		_, err := EvalOp(nil, Attention{Scale: 1}, in)
		return err
	}
	for _, at := range []int{AttentionQueryScores, AttentionKeyScores} {
		require.NoError(t, run(scores, index, at))
		require.ErrorContains(t, run(scores, nil, at), "one of scores and indices")
		require.ErrorContains(t, run(nil, index, at), "one of scores and indices")
		for _, bad := range []*tensor.Tensor{tensor.New(tensor.F16, 1, 2, 3, 5), tensor.New(tensor.F32, 2, 3, 5),
			tensor.New(tensor.F32, 2, 2, 3, 5), tensor.New(tensor.F32, 1, 3, 3, 5), tensor.New(tensor.F32, 1, 2, 2, 5)} {
			require.ErrorContains(t, run(bad, index, at), "[1,H,S,N] is needed")
		}
		for _, bad := range []*tensor.Tensor{tensor.New(tensor.I32, 3, 3), tensor.New(tensor.I64, 1, 3, 3), tensor.New(tensor.I64, 3, 4)} {
			require.ErrorContains(t, run(scores, bad, at), "i64[P,P] is needed")
		}
		require.ErrorContains(t, run(scores, tensor.New(tensor.I64, 2, 2), at), "of indices [2,2]")
		for _, i := range []int64{-6, 5} {
			far := tensor.New(tensor.I64, 3, 3)
			far.SetInt64(4, i)
			require.ErrorContains(t, run(scores, far, at), "of 5 scores by relative position")
		}
	}
}
