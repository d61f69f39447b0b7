package kernel

import (
	"sync"
	"sync/atomic"
	"unsafe"
)

// PackedQAttention is attention of quantised values within the sequences of a packed batch. Each caller of Run takes one head of a
// sequence after the other.
type PackedQAttention struct {
	QAttentionShape // shape of the whole packed batch; Batch is the number of sequences
	set             *Set
	plans           *QPlans
}

// QPlans holds a plan for each length of a sequence that has occurred. Packed sequences need no mask.
type QPlans struct {
	mu    sync.RWMutex
	plans map[QAttentionShape]*QAttention
}

// NewPackedQAttention plans the attention of shape.Batch sequences that have shape.Queries and shape.Keys tokens in total.
func (s *Set) NewPackedQAttention(shape QAttentionShape, plans *QPlans) *PackedQAttention {
	return &PackedQAttention{QAttentionShape: shape, set: s, plans: plans}
}

// one plans the attention of a sequence.
func (a *PackedQAttention) one(queries, keys int) *QAttention {
	shape := QAttentionShape{Batch: 1, Heads: a.Heads, Queries: queries, Keys: keys, Size: a.Size, ValueSize: a.ValueSize}
	a.plans.mu.RLock()
	one := a.plans.plans[shape]
	a.plans.mu.RUnlock()
	if one == nil {
		one = a.set.NewQAttention(shape)
		one.partsInHead = 1 // keys and values are packed once
		a.plans.mu.Lock()
		if a.plans.plans == nil {
			a.plans.plans = map[QAttentionShape]*QAttention{}
		}
		a.plans.plans[shape] = one
		a.plans.mu.Unlock()
	}
	return one
}

// PlanBytes is the memory that Plan writes: the number of heads that were taken, and the end of the last sequence's queries.
func (a *PackedQAttention) PlanBytes() int { return 2 * 8 }

// Plan checks the sequences. Each has SequenceFields numbers. The queries of sequence 0 must begin at 0, and those of each other sequence
// where the queries of the sequence before it end.
func (a *PackedQAttention) Plan(sequences []int32, plan []byte) error {
	end, err := checkSequences(sequences[:a.Batch*SequenceFields], a.Queries, a.Keys)
	words := elementsOf[int64](plan)
	words[0], words[1] = 0, int64(end)
	return err
}

// ScratchBytes is the scratch memory of one worker: what the largest sequence needs, which may have larger blocks of queries than one that
// has all tokens.
func (a *PackedQAttention) ScratchBytes() int {
	all := a.set.NewQAttention(QAttentionShape{Batch: 1, Heads: a.Heads, Queries: a.Queries, Keys: a.Keys, Size: a.Size,
		ValueSize: a.ValueSize})
	return all.ScratchBytes() + a.set.caches.l2/2 + blockRows*(roundUp(a.Size, 64)+64)
}

// Run computes heads of sequences until none is left. It needs ScratchBytes() bytes of scratch that no other call uses. The strides of args
// have no batch; a mask it has none.
func (a *PackedQAttention) Run(sequences []int32, args *QAttentionArgs, plan, scratch []byte) {
	words := elementsOf[int64](plan)
	taken := (*atomic.Int64)(unsafe.Pointer(&words[0]))
	for {
		i := int(taken.Add(1)) - 1
		r, head := i/a.Heads, i%a.Heads
		if r > a.Batch {
			return
		}
		if r == a.Batch { // tokens of no sequence
			a.clear(args, head, int(words[1]), a.Queries)
			continue
		}
		q, qEnd, k, kEnd := sequenceAt(sequences, r)
		if q == qEnd || k == kEnd {
			a.clear(args, head, q, qEnd)
			continue
		}
		own := *args
		own.Q.skip(q)
		own.K.skip(k)
		own.V.skip(k)
		if own.Quantized.Dst != nil {
			own.Quantized.Dst = own.Quantized.Dst[q*own.OutStride.Seq:]
		} else {
			own.Out = own.Out[q*own.OutStride.Seq:]
		}
		a.one(qEnd-q, kEnd-k).Run(head, &own, scratch)
	}
}

// skip leaves out that many positions.
func (h *QuantizedHeads) skip(n int) {
	h.Quantized = h.Quantized[min(len(h.Quantized), n*h.Stride.Seq):]
}

// clear makes the results of queries 0.
func (a *PackedQAttention) clear(args *QAttentionArgs, head, first, end int) {
	for q := first; q < end; q++ {
		at := head*args.OutStride.Head + q*args.OutStride.Seq
		if args.Quantized.Dst == nil {
			clear(args.Out[at:][:a.ValueSize])
			continue
		}
		for i := range args.Quantized.Dst[at:][:a.ValueSize] {
			args.Quantized.Dst[at+i] = byte(args.Quantized.Zero)
		}
	}
}
