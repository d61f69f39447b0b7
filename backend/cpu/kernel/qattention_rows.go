package kernel

import (
	"sync"
	"sync/atomic"
	"unsafe"
)

// QRowsAttention is attention of quantised values within texts of any lengths whose tokens are one after the other. Whoever calls Run takes
// one head of a text after the other.
type QRowsAttention struct {
	QAttentionShape // of all texts together; Batch is how many there are
	set             *Set
	plans           *QPlans
}

// QPlans are the plans of texts, which have no masks, by their shapes. There are as many as lengths have been met.
type QPlans struct {
	mu    sync.RWMutex
	plans map[QAttentionShape]*QAttention
}

// NewQRowsAttention plans an attention of shape.Batch texts, of shape.Queries and shape.Keys tokens together.
func (s *Set) NewQRowsAttention(shape QAttentionShape, plans *QPlans) *QRowsAttention {
	return &QRowsAttention{QAttentionShape: shape, set: s, plans: plans}
}

// one plans the attention of a text.
func (a *QRowsAttention) one(queries, keys int) *QAttention {
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

// PlanBytes is the memory that Plan writes: the number of heads that were taken, and the end of the last text's queries.
func (a *QRowsAttention) PlanBytes() int { return 2 * 8 }

// Plan checks texts, TextFields numbers each, whose queries must follow each other from 0 on.
func (a *QRowsAttention) Plan(texts []int32, plan []byte) error {
	end, err := checkTexts(texts[:a.Batch*TextFields], a.Queries, a.Keys)
	words := elementsOf[int64](plan)
	words[0], words[1] = 0, int64(end)
	return err
}

// ScratchBytes is the scratch memory that one worker needs: no less than any text does, which may have larger blocks of queries than one
// that has all tokens.
func (a *QRowsAttention) ScratchBytes() int {
	all := a.set.NewQAttention(QAttentionShape{Batch: 1, Heads: a.Heads, Queries: a.Queries, Keys: a.Keys, Size: a.Size,
		ValueSize: a.ValueSize})
	return all.ScratchBytes() + a.set.caches.l2/2 + blockRows*(roundUp(a.Size, 64)+64)
}

// Run computes heads of texts until none is left, with ScratchBytes() bytes of scratch that nobody else uses meanwhile. The strides of args
// have no batch; a mask it has none.
func (a *QRowsAttention) Run(texts []int32, args *QAttentionArgs, plan, scratch []byte) {
	words := elementsOf[int64](plan)
	taken := (*atomic.Int64)(unsafe.Pointer(&words[0]))
	for {
		i := int(taken.Add(1)) - 1
		r, head := i/a.Heads, i%a.Heads
		if r > a.Batch {
			return
		}
		if r == a.Batch { // tokens of no text
			a.clear(args, head, int(words[1]), a.Queries)
			continue
		}
		q, qEnd, k, kEnd := textAt(texts, r)
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
func (a *QRowsAttention) clear(args *QAttentionArgs, head, first, end int) {
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
