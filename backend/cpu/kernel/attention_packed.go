package kernel

import (
	"fmt"
	"sync/atomic"
	"unsafe"
)

// PackedAttention is attention within the sequences of a packed batch. The sequences are only known in a run. Plan divides them into
// pieces: some blocks of queries of one sequence and head. Every caller of Run takes one piece after the other, so that all threads share a
// long sequence.
type PackedAttention struct {
	AttentionShape // shape of the whole packed batch; Batch is the number of sequences
	set            *Set
	bf16From       int // least length of a sequence whose products are in bfloat16; 0 for no length
}

// SequenceFields is the number of fields of a sequence: the first and end of its queries, and of its keys.
const SequenceFields = 4

// NewPackedAttention plans an attention of shape.Batch sequences, of shape.Queries and shape.Keys tokens in all. Products of sequences
// of bf16From queries and keys or more round their operands to bfloat16; 0 means none.
func (s *Set) NewPackedAttention(shape AttentionShape, bf16From int) *PackedAttention {
	return &PackedAttention{AttentionShape: shape, set: s, bf16From: bf16From}
}

// The words of a PackedAttention's plan: how many pieces were taken, how many there are, and two for each piece: its sequence (−1 for
// queries of none) and its number within the head of the sequence.
const (
	piecesTaken = iota
	piecesMade
	firstPiece
	pieceWords = 2
)

// PlanBytes is the memory that Plan writes.
func (a *PackedAttention) PlanBytes() int {
	// A piece has at least a vector of queries, unless it is the last of its sequence. One more piece has the queries of no sequence.
	return 8 * (firstPiece + pieceWords*(ceilDiv(a.Queries, a.set.attention.vec)+a.Batch+1))
}

// one plans the attention of a sequence.
func (a *PackedAttention) one(queries, keys int) Attention {
	shape := a.AttentionShape
	shape.Batch, shape.Queries, shape.Keys = 1, queries, keys
	pairs := a.bf16From > 0 && min(queries, keys) >= a.bf16From
	return a.set.planAttention(shape, a.Batch*a.Heads, pairs)
}

// Plan divides the sequences into pieces. Each sequence has SequenceFields numbers. The queries of sequence 0 must begin at 0, and those of
// each other sequence where the queries of the sequence before it end.
func (a *PackedAttention) Plan(sequences []int32, plan []byte) error {
	words := elementsOf[int64](plan)
	pieces := words[firstPiece:firstPiece]
	words[piecesTaken], words[piecesMade] = 0, 0
	end, err := checkSequences(sequences[:a.Batch*SequenceFields], a.Queries, a.Keys)
	if err != nil {
		return err
	}
	for r := range a.Batch {
		q, last, k, keys := sequenceAt(sequences, r)
		if last == q {
			continue
		}
		one := a.one(last-q, keys-k)
		for piece := range one.partsInHead {
			pieces = append(pieces, int64(r), int64(piece))
		}
	}
	if end < a.Queries {
		pieces = append(pieces, -1, int64(end))
	}
	words[piecesMade] = int64(len(pieces) / pieceWords * a.Heads)
	return nil
}

// checkSequences checks sequences against the numbers of queries and keys, and returns the end of the last one's queries.
func checkSequences(sequences []int32, queries, keys int) (end int, err error) {
	for r := range len(sequences) / SequenceFields {
		q, qEnd, k, kEnd := sequenceAt(sequences, r)
		if q != end || qEnd < q || qEnd > queries || k < 0 || kEnd < k || kEnd > keys || queries == keys && kEnd-k > qEnd-q {
			return 0, fmt.Errorf("sequence %d is %v: of %d queries and %d keys, after %d", r,
				sequences[r*SequenceFields:][:SequenceFields], queries, keys,
				end)
		}
		end = qEnd
	}
	return end, nil
}

func sequenceAt(sequences []int32, r int) (q, qEnd, k, kEnd int) {
	x := sequences[r*SequenceFields:][:SequenceFields]
	return int(x[0]), int(x[1]), int(x[2]), int(x[3])
}

// ScratchBytes is the scratch memory of one worker: what the largest sequence needs.
func (a *PackedAttention) ScratchBytes() int {
	tile := &a.set.attention
	most := 0
	for vecs := 1; vecs <= 2*tile.vecs()+1; vecs++ { // of a sequence's queries: more make blocks of the same sizes
		one := Attention{AttentionShape: a.AttentionShape, set: a.set, pairs: a.bf16From > 0,
			queryBlock: evenBlock(vecs, tile.vecs()) * tile.vec}
		if a.own() && vecs <= tile.vecs() {
			one.Keys = min(a.Keys, vecs*tile.vec)
		}
		one.keyBlock = roundUp(min(max(one.Keys, 1), max(1, a.set.caches.l1/2/(4*one.queryBlock))), 2)
		most = max(most, one.ScratchBytes())
	}
	// And its blocks of queries.
	queries := min(mostBlocks*tile.vecs()*tile.vec, roundUp(a.Queries, tile.vec))
	return most + 4*queries*(roundUp(a.Size, 2)+4+a.ValueSize)
}

// own reports whether the queries of each sequence are all of its tokens, and its keys all or all but one.
func (a *PackedAttention) own() bool { return a.Queries == a.Keys }

// Run computes pieces until none is left, with ScratchBytes() bytes of scratch that no other caller uses meanwhile. Of the strides of args,
// those of bias and mask alone have a batch: sequences. KeyAt, if it is not nil, are the positions of all keys in their sequences, and of
// all queries if there are as many: bias, mask and window go by them. QueryAt is nil.
func (a *PackedAttention) Run(sequences []int32, args *AttentionArgs, plan, scratch []byte) {
	words := elementsOf[int64](plan)
	taken := (*atomic.Int64)(unsafe.Pointer(&words[piecesTaken]))
	for {
		i := int(taken.Add(1)) - 1
		if i >= int(words[piecesMade]) {
			return
		}
		piece, head := words[firstPiece+i/a.Heads*pieceWords:][:pieceWords], i%a.Heads
		if piece[0] < 0 {
			a.clear(args, head, int(piece[1]), a.Queries)
			continue
		}
		q, qEnd, k, kEnd := sequenceAt(sequences, int(piece[0]))
		one := a.one(qEnd-q, kEnd-k)
		if kEnd == k {
			size := one.partBlocks * one.queryBlock
			first := q + int(piece[1])*size
			a.clear(args, head, first, min(qEnd, first+size))
			continue
		}
		own := *args
		own.Q, own.Out = from(args.Q, q*args.QStride.Seq), from(args.Out, q*args.OutStride.Seq)
		own.K, own.V = from(args.K, k*args.KStride.Seq), from(args.V, k*args.VStride.Seq)
		own.Bias, own.Mask = from(args.Bias, int(piece[0])*args.BiasStride.Batch), from(args.Mask, int(piece[0])*args.MaskStride.Batch)
		own.NaNGuard = true
		var window Window
		if args.Window != nil {
			window = *args.Window
			own.Window = &window
		}
		own.ByQuery.Scores = from(args.ByQuery.Scores, q*args.ByQuery.N)
		own.ByKey.Scores = from(args.ByKey.Scores, k*args.ByKey.N)
		if args.KeyAt != nil {
			own.KeyAt = args.KeyAt[k:kEnd]
			if a.own() {
				own.QueryAt = args.KeyAt[q:qEnd]
			}
			own.follow()
		}
		one.Run(head*one.partsInHead+int(piece[1]), &own, scratch)
	}
}

// follow moves bias, mask and window to where the queries and keys are, if they follow each other: then they have no separate positions.
func (args *AttentionArgs) follow() {
	last := len(args.KeyAt) - 1
	key, query := int(args.KeyAt[0]), 0
	if int(args.KeyAt[last]) != key+last {
		return
	}
	if n := len(args.QueryAt); n > 0 {
		if query = int(args.QueryAt[0]); int(args.QueryAt[n-1]) != query+n-1 {
			return
		}
	}
	args.KeyAt, args.QueryAt = nil, nil
	if args.Bias != nil {
		args.Bias = args.Bias[query*args.BiasStride.Query+key*args.BiasStride.Key:]
	}
	if args.Mask != nil {
		args.Mask = args.Mask[query*args.MaskStride.Query+key*args.MaskStride.Key:]
	}
	if args.Window != nil {
		args.Window.Offset += query - key
	}
	args.ByQuery.Index = args.ByQuery.Index[min(len(args.ByQuery.Index), query*args.ByQuery.IndexRow+key):]
	args.ByKey.Index = args.ByKey.Index[min(len(args.ByKey.Index), key*args.ByKey.IndexRow+query):]
}

// Positions checks positions as KeyAt in Run, below queries and keys where a bias or mask has axes of these lengths; 0 for any.
func (a *PackedAttention) Positions(sequences []int32, at []int64, queries, keys int) error {
	for r := range a.Batch {
		q, qEnd, k, kEnd := sequenceAt(sequences, r)
		if !a.own() {
			q, qEnd = 0, 0
		}
		for _, check := range []struct {
			at    []int64
			below int
		}{{at[q:qEnd], queries}, {at[k:kEnd], keys}} {
			for i, p := range check.at {
				if p < 0 || i > 0 && p <= check.at[i-1] || check.below > 0 && p >= int64(check.below) {
					return fmt.Errorf("sequence %d has a token at position %d, of a mask for %d", r, p, check.below)
				}
			}
		}
	}
	return nil
}

// Indices checks that all indices of scores by relative position are within them.
func (r *RelativeScores) Indices() error {
	for _, i := range r.Index {
		if i < -int64(r.N) || i >= int64(r.N) {
			return fmt.Errorf("index %d of %d scores by relative position", i, r.N)
		}
	}
	return nil
}

// clear makes the results of queries without keys 0.
func (a *PackedAttention) clear(args *AttentionArgs, head, first, end int) {
	for q := first; q < end; q++ {
		clear(args.Out[head*args.OutStride.Head+q*args.OutStride.Seq:][:a.ValueSize])
	}
}

// from is what of x begins at an element.
func from[T any](x []T, at int) []T { return x[min(len(x), at):] }
