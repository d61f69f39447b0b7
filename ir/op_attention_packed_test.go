package ir

import (
	"math"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rlxc/rlxc/tensor"
)

// TestRelativeScores holds operands of scores by relative position to their types, and indices to what there is.
func TestRelativeScores(t *testing.T) {
	x := tensor.New(tensor.F32, 1, 3, 2, 4)
	sequences, positions := tensor.FromSlice([]int32{0, 3, 0, 3}, 1, 4), tensor.FromSlice([]int64{0, 1, 2}, 1, 3)
	scores, index := tensor.New(tensor.F32, 1, 2, 3, 5), tensor.New(tensor.I64, 3, 3)
	run := func(scores, index *tensor.Tensor, at int) error {
		in := []*tensor.Tensor{x, x, x, nil, sequences, positions, nil, nil, nil, nil}
		in[at], in[at+1] = scores, index
		_, err := packedAttention(Attention{Scale: 1}, in)
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
	positions = nil
	require.ErrorContains(t, run(scores, index, AttentionQueryScores), "needs positions")
	require.ErrorContains(t, run(scores, index, AttentionKeyScores), "needs positions")
}

// packedAttention evaluates packed attention, or returns why its operands are invalid.
func packedAttention(op Attention, in []*tensor.Tensor) (*tensor.Tensor, error) {
	values := make([]*Value, len(in))
	for i, t := range in {
		if t != nil {
			values[i] = &Value{Type: TensorOf(t.DType(), Dims(t.Shape()...)...)}
		}
	}
	if _, err := op.Infer(values); err != nil {
		return nil, err
	}
	out, err := EvalOp(nil, op, in)
	if err != nil {
		return nil, err
	}
	return out[0], nil
}

// TestPackedAttention compares packed attention with the formula. One sequence has no token, another no key.
func TestPackedAttention(t *testing.T) {
	numbers := func(from int, shape ...int) *tensor.Tensor {
		x := tensor.New(tensor.F32, shape...)
		for i := range x.Len() {
			x.SetFloat64(i, float64((from+7*i*i)%11)/8)
		}
		return x
	}
	const tokens, heads, size, most = 5, 2, 2, 3
	q, k, v := numbers(1, 1, tokens, heads, size), numbers(4, 1, tokens, heads, size), numbers(8, 1, tokens, heads, size)
	texts := [][4]int{{0, 2, 0, 2}, {2, 2, 2, 2}, {2, 3, 2, 2}, {3, 5, 2, 5}}
	sequences := tensor.FromSlice([]int32{0, 2, 0, 2, 2, 2, 2, 2, 2, 3, 2, 2, 3, 5, 2, 5}, 4, 4)
	at := []int64{0, 2, 1, 0, 1}
	positions := tensor.FromSlice(at, 1, tokens)
	places := []int64{0, 1, -1, 2, 3, -2, 0, -4, 1}
	relative, scores, index := make([]*tensor.Tensor, 10), numbers(3, 1, heads, tokens, 4), tensor.FromSlice(places, most, most)
	relative[AttentionQueryScores], relative[AttentionQueryScores+1] = scores, index
	relative[AttentionKeyScores], relative[AttentionKeyScores+1] = scores, index
	full, vector := numbers(5, 4, heads, most, most), numbers(6, most)
	kept := tensor.FromSlice([]bool{true, false, true, true, true, true, true, true, true, false, true, false}, 4, 1, 1, most)
	forbid := func(ok bool) float64 {
		if ok {
			return 0
		}
		return math.Inf(-1)
	}
	far := func(h, token, own, other int) float64 {
		return scores.Float64((h*tokens+token)*4 + int(places[own*most+other]+4)%4)
	}
	for name, c := range map[string]struct {
		op    Attention
		mask  *tensor.Tensor
		more  []*tensor.Tensor
		score func(r, h, i, j, s, t int) float64 // of query i at position s with key j at position t
	}{
		"alone":         {},
		"causal":        {op: Attention{Causal: true}, score: func(_, _, _, _, s, t int) float64 { return forbid(t <= s) }},
		"a window":      {op: Attention{Window: 2}, score: func(_, _, _, _, s, t int) float64 { return forbid(s-t < 2 && t-s < 2) }},
		"a full mask":   {mask: full, score: func(r, h, _, _, s, t int) float64 { return full.Float64(((r*heads+h)*most+s)*most + t) }},
		"a mask of one": {mask: vector, score: func(_, _, _, _, _, t int) float64 { return vector.Float64(t) }},
		"kept keys":     {mask: kept, score: func(r, _, _, _, _, t int) float64 { return forbid(kept.Float64(r*most+t) == 1) }},
		"distances": {more: relative, score: func(_, h, i, j, s, t int) float64 {
			return far(h, i, s, t) + far(h, j, t, s)
		}},
	} {
		in := append([]*tensor.Tensor{q, k, v, c.mask, sequences, positions}, make([]*tensor.Tensor, 4)...)
		if c.more != nil {
			copy(in[AttentionQueryScores:], c.more[AttentionQueryScores:])
		}
		c.op.Scale = 0.5
		y, err := packedAttention(c.op, in)
		require.NoError(t, err, name)
		want := make([]float64, y.Len())
		for r, text := range texts {
			for i := text[0]; i < text[1]; i++ {
				for h := range heads {
					sum, to := 0.0, want[(i*heads+h)*size:][:size]
					for j := text[2]; j < text[3]; j++ {
						x := 0.0
						for d := range size {
							x += 0.5 * q.Float64((i*heads+h)*size+d) * k.Float64((j*heads+h)*size+d)
						}
						if c.score != nil {
							x += c.score(r, h, i, j, int(at[i]), int(at[j]))
						}
						sum += math.Exp(x)
						for d := range size {
							to[d] += math.Exp(x) * v.Float64((j*heads+h)*size+d)
						}
					}
					for d := range to {
						if sum > 0 {
							to[d] /= sum
						}
					}
				}
			}
		}
		require.InDeltaSlice(t, want, y.Float64s(), 1e-5, name)
	}
}

// TestPackedAttentionRejects: each case has one operand that packed attention cannot have.
func TestPackedAttentionRejects(t *testing.T) {
	zeros := func(d tensor.DType, shape ...int) *tensor.Tensor { return tensor.New(d, shape...) }
	x, longer, two := zeros(tensor.F32, 1, 3, 2, 4), zeros(tensor.F32, 1, 4, 2, 4), zeros(tensor.F32, 2, 3, 2, 4)
	mask, far := zeros(tensor.F32, 3, 3), zeros(tensor.F32, 2, 2)
	sequences, positions := tensor.FromSlice([]int32{0, 3, 0, 3}, 1, 4), tensor.FromSlice([]int64{0, 1, 2}, 1, 3)
	for _, c := range []struct {
		op                   Attention
		q, k                 *tensor.Tensor
		mask                 *tensor.Tensor
		sequences, positions *tensor.Tensor
		why                  string
	}{
		{Attention{Causal: true}, x, x, mask, sequences, positions, ""},
		{Attention{}, longer, x, nil, sequences, nil, ""},
		{Attention{}, longer, x, zeros(tensor.F32, 1, 3), sequences, positions, ""},
		{Attention{}, x, x, nil, zeros(tensor.I64, 1, 4), nil, "want i32[R,4]"},
		{Attention{}, x, x, nil, zeros(tensor.I32, 4), nil, "want i32[R,4]"},
		{Attention{}, x, x, nil, zeros(tensor.I32, 1, 3), nil, "want i32[R,4]"},
		{Attention{}, two, two, nil, sequences, nil, "one batch"},
		{Attention{}, x, x, mask, sequences, zeros(tensor.I32, 1, 3), "i64[1,T] is needed"},
		{Attention{}, x, x, mask, sequences, zeros(tensor.I64, 3), "i64[1,T] is needed"},
		{Attention{}, x, x, mask, sequences, zeros(tensor.I64, 2, 3), "i64[1,T] is needed"},
		{Attention{}, x, x, mask, sequences, zeros(tensor.I64, 1, 4), "i64[1,T] is needed"},
		{Attention{Causal: true, Offset: true}, x, x, nil, sequences, positions, "takes no offset"},
		{Attention{}, x, x, zeros(tensor.F32, 3), sequences, nil, "needs positions for a mask"},
		{Attention{Causal: true}, x, x, nil, sequences, nil, "needs positions for a mask"},
		{Attention{Window: 1}, x, x, nil, sequences, nil, "needs positions for a mask"},
		{Attention{Window: 1}, longer, x, nil, sequences, positions, "4 queries have no positions beside 3 keys"},
		{Attention{}, longer, x, mask, sequences, positions, "4 queries have no positions beside 3 keys"},
		{Attention{}, x, x, far, sequences, positions, "sequence 0: positions 0 and 2 of a mask"},
		{Attention{}, x, x, zeros(tensor.F32, 2, 1), sequences, positions, "sequence 0: positions 2 and 0 of a mask"},
		{Attention{}, x, x, mask, sequences, tensor.FromSlice([]int64{0, -1, 2}, 1, 3), "sequence 0: positions 0 and -1 of a mask"},
		{Attention{}, x, x, nil, tensor.FromSlice([]int32{0, 4, 0, 3}, 1, 4), nil, "sequence 0 is [0 4 0 3], of 3 queries"},
		{Attention{}, x, x, nil, tensor.FromSlice([]int32{-1, 3, 0, 3}, 1, 4), nil, "sequence 0 is"},
		{Attention{}, x, x, nil, tensor.FromSlice([]int32{2, 1, 0, 3}, 1, 4), nil, "sequence 0 is"},
		{Attention{}, x, x, nil, tensor.FromSlice([]int32{0, 3, -1, 3}, 1, 4), nil, "sequence 0 is"},
		{Attention{}, x, x, nil, tensor.FromSlice([]int32{0, 3, 2, 1}, 1, 4), nil, "sequence 0 is"},
		{Attention{}, x, x, nil, tensor.FromSlice([]int32{0, 3, 0, 4}, 1, 4), nil, "sequence 0 is"},
	} {
		c.op.Scale = 1
		_, err := packedAttention(c.op, []*tensor.Tensor{c.q, c.k, c.k, c.mask, c.sequences, c.positions})
		if c.why == "" {
			require.NoError(t, err)
			continue
		}
		require.ErrorContains(t, err, c.why)
	}
}
