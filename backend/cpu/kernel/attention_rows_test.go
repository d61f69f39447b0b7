package kernel

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestRowsAttention holds attention over texts that lie one after the other to that of each text alone, at lengths around the sizes
// of blocks, with canaries behind the results and scratch memory of exactly the size that is asked for.
func TestRowsAttention(t *testing.T) {
	eachLevel(t, func(t *testing.T, set *Set) {
		for _, lengths := range [][]int{{1}, {}, {3, 1, 17, 64}, {16, 15, 33}, {0, 5, 0}, {300, 7}} {
			for _, size := range []int{32, 20} {
				for _, hidden := range []int{0, 1} { // whether the first query is no key
					t.Run(fmt.Sprintf("%v/%d/%d", lengths, size, hidden), func(t *testing.T) {
						requireRowsAttention(t, set, lengths, size, hidden, 5)
					})
				}
			}
		}
	})
}

func requireRowsAttention(t *testing.T, set *Set, lengths []int, size, hidden, tail int) {
	const heads = 3
	r := rand.New(rand.NewPCG(1, 1))
	var texts []int32
	total := 0
	for _, n := range lengths {
		texts = append(texts, int32(total), int32(total+n), int32(total+min(hidden, n)), int32(total+n))
		total += n
	}
	tokens := total + tail
	packed := make([]float32, tokens*heads*size*3)
	for i := range packed {
		packed[i] = r.Float32()*2 - 1
	}
	out := make([]float32, tokens*heads*size+1)
	for i := range out {
		out[i] = 7
	}
	stride := AttentionStride{Head: size, Seq: 3 * heads * size}
	args := AttentionArgs{Q: packed, K: packed[heads*size:], V: packed[2*heads*size:], Out: out, QStride: stride, KStride: stride, VStride: stride,
		OutStride: AttentionStride{Head: size, Seq: heads * size}, Scale: 0.3}
	a := set.NewRowsAttention(AttentionShape{Batch: len(lengths), Heads: heads, KVHeads: heads, Queries: tokens, Keys: tokens, Size: size, ValueSize: size}, 0)
	plan, scratch := make([]byte, a.PlanBytes()), make([]byte, a.ScratchBytes())
	require.NoError(t, a.Plan(texts, plan))
	a.Run(texts, &args, plan, scratch)
	require.EqualValues(t, 7, out[len(out)-1], "the canary")
	for i := range lengths {
		q, end, k, kEnd := a.text(texts, i)
		if end == q {
			continue
		}
		want := make([]float32, (end-q)*heads*size)
		if kEnd > k {
			one := args
			one.Q, one.K, one.V, one.Out = args.Q[q*stride.Seq:], args.K[k*stride.Seq:], args.V[k*stride.Seq:], want
			alone := set.NewAttention(AttentionShape{Batch: 1, Heads: heads, KVHeads: heads, Queries: end - q, Keys: kEnd - k, Size: size, ValueSize: size})
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

func TestRowsAttentionErrors(t *testing.T) {
	eachLevel(t, func(t *testing.T, set *Set) {
		a := set.NewRowsAttention(AttentionShape{Batch: 2, Heads: 1, KVHeads: 1, Queries: 8, Keys: 8, Size: 4, ValueSize: 4}, 0)
		plan := make([]byte, a.PlanBytes())
		for _, texts := range [][]int32{{1, 4, 1, 4, 4, 8, 4, 8}, {0, 4, 0, 4, 5, 8, 5, 8}, {0, 4, 0, 4, 4, 9, 4, 9}, {0, 4, 0, 4, 4, 8, 8, 4}, {0, 4, -1, 4, 4, 8, 4, 8}, {0, 4, 0, 8, 4, 8, 4, 8}} {
			require.Error(t, a.Plan(texts, plan), "%v", texts)
		}
	})
}
