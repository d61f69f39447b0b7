package ir

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rlxc/rlxc/tensor"
)

// TestPack packs two texts, one of which has its padding in front, and puts them back.
func TestPack(t *testing.T) {
	mask := tensor.FromSlice([]int64{1, 1, 0, 0, 1, 0}, 2, 3)
	ids := tensor.FromSlice([]int64{7, 8, 9, 4, 5, 6}, 2, 3)
	out, err := EvalOp(nil, Pack{}, []*tensor.Tensor{mask, ids})
	require.NoError(t, err)
	require.Equal(t, []int32{0, 2, 0, 2, 2, 4, 3, 4}, tensor.Of[int32](out[PackSequences]))
	require.Equal(t, []int32{0, 2}, tensor.Of[int32](out[PackFirst]))
	require.Equal(t, []int32{0, 1, 0, 2, 1, 2, 3, 4}, tensor.Of[int32](out[PackFirstTokens]))
	require.Equal(t, []int32{0, 1, 0, 1, 1, 2, 1, 2}, tensor.Of[int32](out[PackPooled]))
	require.Equal(t, []int32{0, 1, -1, 4, -1, -1}, tensor.Of[int32](out[PackFlatIndices]))
	require.Equal(t, []int64{0, 1, 0, 1, 0, 0}, tensor.Of[int64](out[PackPositions]))
	require.Equal(t, []int64{7, 8, 4, 5, 0, 0}, tensor.Of[int64](out[PackValues]))
	back, err := EvalOp(nil, Unpack{}, []*tensor.Tensor{out[PackValues], out[PackFlatIndices], mask})
	require.NoError(t, err)
	require.Equal(t, []int64{7, 8, 0, 0, 5, 0}, tensor.Of[int64](back[0]))

	for _, in := range [][]*tensor.Tensor{{ids}, {tensor.New(tensor.I64, 3)}, {mask, tensor.New(tensor.I64, 2)}, {mask, nil}} {
		_, err := EvalOp(nil, Pack{}, in)
		require.Error(t, err)
	}
	// Lengths in place of the mask: a text without tokens keeps none, and the number is not rounded.
	lengths := tensor.FromSlice([]int32{0, 3, 2}, 3)
	x := tensor.FromSlice([]int64{1, 2, 3, 4, 5, 6, 7, 8, 9}, 3, 3)
	out, err = EvalOp(nil, Pack{}, []*tensor.Tensor{lengths, x})
	require.NoError(t, err)
	require.Equal(t, []int32{0, 0, 0, 0, 0, 3, 0, 3, 3, 5, 3, 5}, tensor.Of[int32](out[PackSequences]))
	require.Equal(t, []int32{3, 4, 5, 6, 7}, tensor.Of[int32](out[PackFlatIndices]))
	require.Equal(t, []int64{0, 1, 2, 0, 1}, tensor.Of[int64](out[PackPositions]))
	require.Equal(t, []int64{4, 5, 6, 7, 8}, tensor.Of[int64](out[PackValues]))
	back, err = EvalOp(nil, Unpack{}, []*tensor.Tensor{out[PackValues], out[PackFlatIndices], x})
	require.NoError(t, err)
	require.Equal(t, []int64{0, 0, 0, 4, 5, 6, 7, 8, 0}, tensor.Of[int64](back[0]))
	_, err = EvalOp(nil, Pack{}, []*tensor.Tensor{tensor.FromSlice([]int32{0, 3, 4}, 3), x})
	require.ErrorContains(t, err, "sequence 2 has 4 tokens, of 3")
	_, err = EvalOp(nil, Pack{}, []*tensor.Tensor{tensor.FromSlice([]int32{1, 1}, 2), x})
	require.ErrorContains(t, err, "lengths of 2 sequences")

	places := tensor.FromSlice([]int32{9, 0}, 2)
	for _, in := range [][]*tensor.Tensor{{ids, places, mask}, {tensor.New(tensor.F32, 1, 2), places, mask},
		{tensor.New(tensor.F32, 2), places, mask},
		{tensor.New(tensor.F32, 1, 2), tensor.New(tensor.I64, 2), mask},
		{tensor.New(tensor.F32, 1, 2), tensor.New(tensor.I32, 2), places}} {
		_, err := EvalOp(nil, Unpack{}, in)
		require.Error(t, err)
	}
}

// TestRoundTokens: few numbers stand for many, and none for much less.
func TestRoundTokens(t *testing.T) {
	seen := map[int]bool{}
	for n := range 20_000 {
		r := RoundTokens(n)
		require.GreaterOrEqual(t, r, n)
		require.Less(t, r-n, max(8, n/16))
		seen[r] = true
	}
	require.Less(t, len(seen), 400)
}

// TestBadRows: every op that reads the rows of a packed batch refuses those that are none.
func TestBadRows(t *testing.T) {
	for _, bad := range [][]int32{{-1, 3, 0, 3}, {2, 1, 0, 3}, {0, 4, 0, 3}, {0, 3, -1, 3}, {0, 3, 2, 1}, {0, 3, 0, 4}} {
		for op, at := range map[Op]int{SumSequences{}: 1, Attention{}: AttentionSequences, QAttention{}: QAttentionSequences,
			QMatMul{}: QMatMulSequences} {
			in := make([]*tensor.Tensor, max(at+1, QMatMulYZero+1))
			for i := range 3 {
				in[i] = tensor.New(tensor.F32, 1, 3, 2, 2)
			}
			if op.Kind() == KindQMatMul {
				in[QMatMulA] = tensor.New(tensor.F32, 3, 4)
			}
			in[at] = tensor.FromSlice(bad, 1, SequenceFields)
			_, err := EvalOp(nil, op, in)
			require.ErrorContains(t, err, "sequence 0 is", "%v %v", op.Kind(), bad)
		}
	}
}

// TestEvalPacked: values of sequences that are packed already stay in order, with zeros after them.
func TestEvalPacked(t *testing.T) {
	total := RoundTokens(5)
	x := tensor.FromSlice([]float32{1, 2, 3, 4, 5, 6, 7, 8, 9, 10}, 5, 2)
	ids := tensor.FromSlice([]int64{1, 2, 3, 4, 5}, 5)
	out, err := Pack{}.EvalPacked(nil, []int{0, 2, 5}, []*tensor.Tensor{x, ids})
	require.NoError(t, err)
	require.Equal(t, []int32{0, 2, 0, 2, 2, 5, 2, 5}, tensor.Of[int32](out[PackSequences]))
	require.Equal(t, tensor.Shape{1, total, 2}, out[len(out)-2].Shape())
	require.Equal(t, append([]float64{1, 2, 3, 4, 5, 6, 7, 8, 9, 10}, make([]float64, 2*(total-5))...), out[len(out)-2].Float64s())
	require.Equal(t, tensor.Shape{1, total}, out[len(out)-1].Shape())
	require.Equal(t, append([]int64{1, 2, 3, 4, 5}, make([]int64, total-5)...), out[len(out)-1].Int64s())
	_, err = Pack{Positions: 2}.EvalPacked(nil, []int{0, 2, 5}, nil)
	require.ErrorContains(t, err, "sequence 1 has 3 tokens: the model has 2 positions")
}
