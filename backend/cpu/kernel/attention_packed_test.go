package kernel

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestPackedAttention compares attention over a packed batch with that over each sequence alone, at lengths around the sizes of blocks,
// with canaries after the results and scratch memory of exactly the size that is asked for.
func TestPackedAttention(t *testing.T) {
	eachLevel(t, func(t *testing.T, set *Set) {
		for _, lengths := range [][]int{{1}, {}, {3, 1, 17, 64}, {16, 15, 33}, {0, 5, 0}, {300, 7}} {
			for _, size := range []int{32, 20} {
				for _, hidden := range []int{0, 1} { // whether the first query is no key
					for _, bf16From := range []int{0, 16} { // length of sequences whose products round
						t.Run(fmt.Sprintf("%v/%d/%d/%d", lengths, size, hidden, bf16From), func(t *testing.T) {
							requirePackedAttention(t, set, lengths, size, hidden, 5, bf16From)
						})
					}
				}
			}
		}
	})
}

func requirePackedAttention(t *testing.T, set *Set, lengths []int, size, hidden, tail, bf16From int) {
	const heads = 3
	r := rand.New(rand.NewPCG(1, 1))
	var sequences []int32
	total := 0
	for _, n := range lengths {
		sequences = append(sequences, int32(total), int32(total+n), int32(total+min(hidden, n)), int32(total+n))
		total += n
	}
	tokens := total + tail
	packed := operand[float32](tokens * heads * size * 3)
	for i := range packed {
		packed[i] = r.Float32()*2 - 1
	}
	out := make([]float32, tokens*heads*size+1)
	for i := range out {
		out[i] = 7
	}
	stride := AttentionStride{Head: size, Seq: 3 * heads * size}
	args := AttentionArgs{Q: packed, K: packed[heads*size:], V: packed[2*heads*size:], Out: out, QStride: stride, KStride: stride,
		VStride:   stride,
		OutStride: AttentionStride{Head: size, Seq: heads * size}, Scale: 0.3}
	a := set.NewPackedAttention(AttentionShape{Batch: len(lengths), Heads: heads, KVHeads: heads, Queries: tokens, Keys: tokens, Size: size,
		ValueSize: size}, bf16From)
	plan, scratch := make([]byte, a.PlanBytes()), make([]byte, a.ScratchBytes())
	require.NoError(t, a.Plan(sequences, plan))
	a.Run(sequences, &args, plan, scratch)
	require.EqualValues(t, 7, out[len(out)-1], "the canary")
	for i := range lengths {
		q, end, k, kEnd := sequenceAt(sequences, i)
		if end == q {
			continue
		}
		want := make([]float32, (end-q)*heads*size)
		if kEnd > k {
			one := args
			one.Q, one.K, one.V, one.Out = args.Q[q*stride.Seq:], args.K[k*stride.Seq:], args.V[k*stride.Seq:], want
			shape := AttentionShape{Batch: 1, Heads: heads, KVHeads: heads, Queries: end - q, Keys: kEnd - k, Size: size, ValueSize: size}
			alone := set.NewAttention(shape)
			if bf16From > 0 && min(end-q, kEnd-k) >= bf16From {
				alone = set.NewAttentionBF16(shape)
			}
			own := make([]byte, alone.ScratchBytes())
			for part := range alone.Parts() {
				alone.Run(part, &one, own)
			}
		}
		for j, w := range want {
			require.InDelta(t, w, out[q*heads*size+j], 1e-6, "text %d element %d", i, j)
		}
	}
	for _, x := range out[total*heads*size : len(out)-1] {
		require.Zero(t, x, "tokens of no text")
	}
}

// TestPackedAttentionPositions compares bias, mask and bounds by position with the same written out for each sequence, where tokens follow
// each other and where some are left out.
func TestPackedAttentionPositions(t *testing.T) {
	const heads, size = 3, 20
	lengths := []int{3, 1, 17, 64, 130}
	positions := 1 + 3*slices.Max(lengths)
	bias, mask := operand[float32](heads*positions*positions), operand[byte](positions*positions)
	some := rand.New(rand.NewPCG(2, 3))
	for i := range bias {
		bias[i] = some.Float32()*4 - 2
	}
	for i := range mask {
		mask[i] = byte(some.IntN(2))
	}
	eachLevel(t, func(t *testing.T, set *Set) {
		for _, step := range []int{1, 3} {
			for name, window := range map[string]*Window{"all": nil, "causal": {Left: -1}, "window": {Left: 5, Right: 5},
				"both": {Left: 40}} {
				for _, what := range []string{"nothing", "bias", "bias of keys", "mask", "relative"} {
					for _, hidden := range []int{0, 2} {
						t.Run(fmt.Sprintf("step %d/%s/%s/%d", step, name, what, hidden), func(t *testing.T) {
							r := rand.New(rand.NewPCG(2, 2))
							var sequences []int32
							var at []int64
							for _, n := range lengths {
								first, position := int32(len(at)), int64(r.IntN(3))
								for range n {
									at = append(at, position)
									position += 1 + int64(r.IntN(step))
								}
								sequences = append(sequences, first, int32(len(at)), first+int32(min(hidden, n)), int32(len(at)))
							}
							tokens := len(at)
							x := operand[float32](3 * tokens * heads * size)
							for i := range x {
								x[i] = r.Float32()*2 - 1
							}
							stride := AttentionStride{Head: size, Seq: heads * size}
							args := AttentionArgs{Q: x, K: x[tokens*heads*size:], V: x[2*tokens*heads*size:],
								Out:     make([]float32, tokens*heads*size),
								QStride: stride, KStride: stride, VStride: stride, OutStride: stride, Scale: 0.3, Window: window, KeyAt: at}
							add := func(head, query, key int) float32 { return 0 } // of tokens
							switch what {
							case "bias":
								args.Bias, args.BiasStride = bias, MaskStride{Head: positions * positions, Query: positions, Key: 1}
								add = func(head, query, key int) float32 {
									return bias[(head*positions+int(at[query]))*positions+int(at[key])]
								}
							case "bias of keys":
								args.Bias, args.BiasStride = bias, MaskStride{Head: positions, Key: 1}
								add = func(head, query, key int) float32 { return bias[head*positions+int(at[key])] }
							case "mask":
								args.Mask, args.MaskStride = mask, MaskStride{Query: positions, Key: 1}
								add = func(head, query, key int) float32 {
									return float32(math.Log(float64(mask[int(at[query])*positions+int(at[key])])))
								}
							case "relative":
								const n = 5
								relative := func() (r2 RelativeScores) {
									r2 = RelativeScores{Scores: operand[float32](heads * tokens * n), Head: tokens * n, N: n,
										Index: make([]int64, positions*positions), IndexRow: positions}
									for i := range r2.Scores {
										r2.Scores[i] = r.Float32()*4 - 2
									}
									for i := range r2.Index {
										r2.Index[i] = r.Int64N(2*n) - n
									}
									return r2
								}
								args.ByQuery, args.ByKey = relative(), relative()
								require.NoError(t, args.ByKey.Indices())
								of := func(x *RelativeScores, head, own, other int) float32 {
									return x.Scores[(head*tokens+own)*n+int(x.Index[int(at[own])*positions+int(at[other])]+n)%n]
								}
								add = func(head, query, key int) float32 {
									return of(&args.ByQuery, head, query, key) + of(&args.ByKey, head, key, query)
								}
							}
							a := set.NewPackedAttention(AttentionShape{Batch: len(lengths), Heads: heads, KVHeads: heads, Queries: tokens,
								Keys: tokens, Size: size, ValueSize: size}, 0)
							plan, scratch := make([]byte, a.PlanBytes()), make([]byte, a.ScratchBytes())
							require.NoError(t, a.Plan(sequences, plan))
							require.NoError(t, a.Positions(sequences, at, positions, positions))
							a.Run(sequences, &args, plan, scratch)
							for i := range lengths {
								q, end, k, kEnd := sequenceAt(sequences, i)
								want := make([]float32, (end-q)*heads*size)
								one := AttentionArgs{Q: args.Q[q*stride.Seq:], K: from(args.K, k*stride.Seq),
									V: from(args.V, k*stride.Seq), Out: want,
									QStride: stride, KStride: stride, VStride: stride, OutStride: stride, Scale: 0.3, NaNGuard: true}
								for head := range heads {
									for query := q; query < end; query++ {
										for key := k; key < kEnd; key++ {
											x := add(head, query, key)
											if d := int(at[key] - at[query]); window != nil &&
												(window.Left >= 0 && -d > window.Left || window.Right >= 0 && d > window.Right) {
												x = negInf
											}
											one.Bias = append(one.Bias, x)
										}
									}
								}
								one.BiasStride = MaskStride{Head: (end - q) * (kEnd - k), Query: kEnd - k, Key: 1}
								if kEnd > k {
									alone := set.NewAttention(AttentionShape{Batch: 1, Heads: heads, KVHeads: heads, Queries: end - q,
										Keys: kEnd - k, Size: size, ValueSize: size})
									own := make([]byte, alone.ScratchBytes())
									for part := range alone.Parts() {
										alone.Run(part, &one, own)
									}
								}
								for j, w := range want {
									require.InDelta(t, w, args.Out[q*heads*size+j], 2e-6, "text %d element %d", i, j)
								}
							}
						})
					}
				}
			}
		}
	})
}

func TestPackedAttentionErrors(t *testing.T) {
	eachLevel(t, func(t *testing.T, set *Set) {
		a := set.NewPackedAttention(AttentionShape{Batch: 2, Heads: 1, KVHeads: 1, Queries: 8, Keys: 8, Size: 4, ValueSize: 4}, 0)
		plan := make([]byte, a.PlanBytes())
		for _, sequences := range [][]int32{{1, 4, 1, 4, 4, 8, 4, 8}, {0, 4, 0, 4, 5, 8, 5, 8}, {0, 4, 0, 4, 4, 9, 4, 9},
			{0, 4, 0, 4, 4, 8, 8, 4}, {0, 4, -1, 4, 4, 8, 4, 8}, {0, 4, 0, 8, 4, 8, 4, 8}} {
			require.Error(t, a.Plan(sequences, plan), "%v", sequences)
		}
		sequences := []int32{0, 4, 1, 4, 4, 8, 4, 8}
		require.NoError(t, a.Positions(sequences, []int64{0, 2, 3, 4, 0, 1, 2, 9}, 10, 0))
		for _, at := range [][]int64{{0, 2, 2, 4, 0, 1, 2, 9}, {0, 2, 3, 4, 0, 1, 2, 10}, {-1, 2, 3, 4, 0, 1, 2, 9}} {
			require.ErrorContains(t, a.Positions(sequences, at, 10, 10), "has a token at position")
		}
		for _, i := range []int64{-4, 3} {
			require.ErrorContains(t, (&RelativeScores{N: 3, Index: []int64{0, i}}).Indices(), "of 3 scores by relative position")
		}
	})
}
