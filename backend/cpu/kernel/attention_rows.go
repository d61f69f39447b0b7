package kernel

import (
	"fmt"
	"sync/atomic"
	"unsafe"
)

// RowsAttention is attention within texts of any lengths whose tokens are one after the other. Which texts there are is only
// known in a run: Plan cuts them into pieces, some blocks of queries of a text and head each, and whoever calls Run takes one piece
// after the other. So one long text among many short ones is shared by all.
type RowsAttention struct {
	AttentionShape // of all texts together; Batch is how many there are
	set            *Set
	bf16From       int // tokens of a text from which on products round to bfloat16; 0 for never
}

// TextFields are the numbers that describe a text: the first and end of its queries, and of its keys.
const TextFields = 4

// NewRowsAttention plans an attention of shape.Batch texts, of shape.Queries and shape.Keys tokens together. Products of texts of bf16From
// queries and keys or more round their operands to bfloat16; 0 means none.
func (s *Set) NewRowsAttention(shape AttentionShape, bf16From int) *RowsAttention {
	return &RowsAttention{AttentionShape: shape, set: s, bf16From: bf16From}
}

// The words of a RowsAttention's plan: how many pieces were taken, how many there are, and two for each piece: its text (−1 for
// the queries of none) and number within the text's head.
const (
	piecesTaken = iota
	piecesMade
	firstPiece
	pieceWords = 2
)

// PlanBytes is the memory that Plan writes.
func (a *RowsAttention) PlanBytes() int {
	// A piece has a vector of queries at least, unless it is a text's last one. One more is for the queries of no text.
	return 8 * (firstPiece + pieceWords*(ceilDiv(a.Queries, a.set.attention.vec)+a.Batch+1))
}

// one plans the attention of a text.
func (a *RowsAttention) one(queries, keys int) Attention {
	shape := a.AttentionShape
	shape.Batch, shape.Queries, shape.Keys = 1, queries, keys
	pairs := a.bf16From > 0 && min(queries, keys) >= a.bf16From
	return a.set.planAttention(shape, a.Batch*a.Heads, pairs)
}

// Plan cuts texts, TextFields numbers each, into pieces. Their queries must follow each other from 0 on.
func (a *RowsAttention) Plan(texts []int32, plan []byte) error {
	words := elementsOf[int64](plan)
	pieces := words[firstPiece:firstPiece]
	words[piecesTaken], words[piecesMade] = 0, 0
	end, err := checkTexts(texts[:a.Batch*TextFields], a.Queries, a.Keys)
	if err != nil {
		return err
	}
	for r := range a.Batch {
		q, last, k, keys := textAt(texts, r)
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

// checkTexts holds texts to that many queries and keys, and returns the end of the last one's queries.
func checkTexts(texts []int32, queries, keys int) (end int, err error) {
	for r := range len(texts) / TextFields {
		q, qEnd, k, kEnd := textAt(texts, r)
		if q != end || qEnd < q || qEnd > queries || k < 0 || kEnd < k || kEnd > keys || queries == keys && kEnd-k > qEnd-q {
			return 0, fmt.Errorf("sequence %d is %v: of %d queries and %d keys, after %d", r, texts[r*TextFields:][:TextFields], queries,
				keys,
				end)
		}
		end = qEnd
	}
	return end, nil
}

func textAt(texts []int32, r int) (q, qEnd, k, kEnd int) {
	x := texts[r*TextFields:][:TextFields]
	return int(x[0]), int(x[1]), int(x[2]), int(x[3])
}

// ScratchBytes is the scratch memory that one worker needs: no less than any text does.
func (a *RowsAttention) ScratchBytes() int {
	tile := &a.set.attention
	most := 0
	for vecs := 1; vecs <= 2*tile.vecs()+1; vecs++ { // of a text's queries: more make blocks of the same sizes
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

// own reports whether each text sees its own tokens, of which its queries are all, and its keys all or all but one.
func (a *RowsAttention) own() bool { return a.Queries == a.Keys }

// Run computes pieces until none is left, with ScratchBytes() bytes of scratch that nobody else uses meanwhile. Of the strides of args,
// those of bias and mask alone have a batch: texts. KeyAt, if it is not nil, are the positions of all keys in their texts, and of all
// queries if there are as many: bias, mask and window go by them. QueryAt is nil.
func (a *RowsAttention) Run(texts []int32, args *AttentionArgs, plan, scratch []byte) {
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
		q, qEnd, k, kEnd := textAt(texts, int(piece[0]))
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
func (a *RowsAttention) Positions(texts []int32, at []int64, queries, keys int) error {
	for r := range a.Batch {
		q, qEnd, k, kEnd := textAt(texts, r)
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
func (a *RowsAttention) clear(args *AttentionArgs, head, first, end int) {
	for q := first; q < end; q++ {
		clear(args.Out[head*args.OutStride.Head+q*args.OutStride.Seq:][:a.ValueSize])
	}
}

// from is what of x begins at an element.
func from[T any](x []T, at int) []T { return x[min(len(x), at):] }
