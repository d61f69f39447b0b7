package planner

import (
	"cmp"
	"container/heap"
	"slices"
)

// LowerBound returns the number of bytes that every plan needs. It is the largest sum of live sizes over the steps, summed over the
// devices. Sizes are rounded up to the alignment that all buffers of a device share, except for the one live buffer that may be highest.
// It fails as Problem.Validate does, and if o is invalid.
func LowerBound(p *Problem, o Options) (int64, error) {
	l, err := newLayout(p, &o)
	if err != nil {
		return 0, err
	}
	return l.bound(), nil
}

// A Bound proves how much memory a device needs at least: that many bytes are live at one step.
type Bound struct {
	Device int `json:"device,omitempty"`
	Step   int `json:"step"`
	// Buffers are indices in Problem.Buffers. All of them live at the step. Bytes is the sum of their sizes with guards, rounded up to
	// the smallest alignment on the device, minus the largest rounding of any of them, because one of them is highest. For example,
	// buffers of 1 and 8 bytes, both aligned to 8, prove 8 + 8 - 7 = 9 bytes. One member represents a group, with the largest size and
	// the whole lifetime of the group. Of a buffer in a gap, only the bytes in use count. Their start is aligned too.
	Buffers []int `json:"buffers"`
	// End is true if a single fixed buffer determines Bytes, by its end instead of a sum. With segments, it is the end in its segment.
	End   bool  `json:"end,omitempty"`
	Bytes int64 `json:"bytes"`
}

// Bounds proves the lower bound, with a Bound for each device. It fails as LowerBound does.
func Bounds(p *Problem, o Options) ([]Bound, error) {
	l, err := newLayout(p, &o)
	if err != nil {
		return nil, err
	}
	var bounds []Bound
	for s := range l.spaces {
		sp := &l.spaces[s]
		b := Bound{Device: sp.device, Step: sp.boundStep, Bytes: sp.bound}
		if highest := sp.boundBlock; highest != nil {
			b.Buffers, b.End = []int{int(highest.buffer)}, true
		} else {
			for i := range sp.blocks {
				if k := &sp.blocks[i]; k.lives(sp.boundStep) {
					b.Buffers = append(b.Buffers, int(k.buffer))
				}
			}
		}
		bounds = append(bounds, b)
	}
	return bounds, nil
}

// measure finds the peak and the bound of the space by a sweep over time.
func (sp *space) measure() {
	if len(sp.blocks) == 0 {
		return
	}
	type change struct {
		step          int
		bytes, extent int64
	}
	var live change
	padded := sp.paddings()
	advance := func(c change) {
		live.bytes += c.bytes
		live.extent += c.extent
		sp.peak = max(sp.peak, live.bytes)
		if live.extent > sp.bound {
			if need := live.extent - padded.largest(c.step); need > sp.bound {
				sp.bound, sp.boundStep = need, c.step
			}
		}
	}
	begin, end := sp.blocks[0].first, sp.blocks[0].last
	for i := range sp.blocks {
		k := &sp.blocks[i]
		begin, end = min(begin, k.first), max(end, k.last)
	}
	if span := end - begin; span <= 4*len(sp.blocks)+64 { // steps are dense: no need to sort
		deltas := make([]change, span+1)
		for i := range sp.blocks {
			k := &sp.blocks[i]
			for p := range k.held() {
				deltas[p.first-begin].bytes += p.bytes
				deltas[p.first-begin].extent += p.high - p.low
				deltas[p.last-begin].bytes -= p.bytes
				deltas[p.last-begin].extent -= p.high - p.low
			}
		}
		for t, d := range deltas {
			d.step = begin + t
			advance(d)
		}
	} else {
		deltas := make([]change, 0, 2*len(sp.blocks))
		for i := range sp.blocks {
			k := &sp.blocks[i]
			for p := range k.held() {
				extent := p.high - p.low
				deltas = append(deltas, change{p.first, p.bytes, extent}, change{p.last, -p.bytes, -extent})
			}
		}
		slices.SortFunc(deltas, func(a, b change) int {
			return cmp.Or(cmp.Compare(a.step, b.step), cmp.Compare(a.extent, b.extent)) // what dies makes room first
		})
		for _, d := range deltas {
			advance(d)
		}
	}
	for i := range sp.blocks { // a fixed block keeps what is below it in the arena, or in its segment
		k := &sp.blocks[i]
		end := k.end()
		if sp.segment > 0 {
			end -= k.offset / sp.segment * sp.segment
		}
		if k.fixed && end > sp.bound {
			sp.bound, sp.boundStep, sp.boundBlock = end, k.first, k
		}
	}
	sp.bound = roundUp(sp.bound, sp.unit)
}

// paddings finds the largest padding among the blocks that live at a step, for steps that ascend.
type paddings struct {
	coming []padded   // holds that begin after the step of the last call, in the order of their first steps
	live   paddedHeap // holds that have begun; holds that are over stay in it until they are in front
}

// padded is a hold of a block with padding.
type padded struct {
	first, last int
	padding     int64 // bytes
}

// paddings collects the holds of the blocks that have padding. Most spaces have none: their buffers have one alignment.
func (sp *space) paddings() (p paddings) {
	for i := range sp.blocks {
		if k := &sp.blocks[i]; k.padding > 0 {
			for h := range k.held() {
				p.coming = append(p.coming, padded{h.first, h.last, k.padding})
			}
		}
	}
	slices.SortFunc(p.coming, func(a, b padded) int { return cmp.Compare(a.first, b.first) })
	return p
}

// largest returns the largest padding of a block that lives at a step, in bytes; 0 if none has any.
func (p *paddings) largest(step int) int64 {
	for len(p.coming) > 0 && p.coming[0].first <= step {
		heap.Push(&p.live, p.coming[0])
		p.coming = p.coming[1:]
	}
	for len(p.live) > 0 && p.live[0].last <= step {
		heap.Pop(&p.live)
	}
	if len(p.live) == 0 {
		return 0
	}
	return p.live[0].padding
}

// paddedHeap has the largest padding in front.
type paddedHeap []padded

func (h paddedHeap) Len() int           { return len(h) }
func (h paddedHeap) Less(i, j int) bool { return h[i].padding > h[j].padding }
func (h paddedHeap) Swap(i, j int)      { h[i], h[j] = h[j], h[i] }
func (h *paddedHeap) Push(x any)        { *h = append(*h, x.(padded)) }
func (h *paddedHeap) Pop() any {
	last := len(*h) - 1
	x := (*h)[last]
	*h = (*h)[:last]
	return x
}
