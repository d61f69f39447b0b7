package planner

import (
	"cmp"
	"slices"
)

// LowerBound returns the bytes that no plan can go below: the largest sum, over the steps, of the live sizes, rounded
// up to the alignment that all buffers of a device share (but for the one that may lie highest), summed over the devices. It fails as Problem.Validate does, and if o is invalid.
func LowerBound(p *Problem, o Options) (int64, error) {
	if err := p.Validate(); err != nil {
		return 0, err
	}
	if err := o.validate(); err != nil {
		return 0, err
	}
	l, err := newLayout(p, &o)
	if err != nil {
		return 0, err
	}
	return l.bound(p, o), nil
}

// measure sweeps over time for the largest sums of live bytes.
func (sp *space) measure() {
	if len(sp.blocks) == 0 {
		return
	}
	begin, end := sp.blocks[0].first, sp.blocks[0].last
	for i := range sp.blocks {
		begin, end = min(begin, sp.blocks[i].first), max(end, sp.blocks[i].last)
	}
	type change struct {
		step          int
		bytes, extent int64
	}
	var live change
	advance := func(c change) {
		live.bytes += c.bytes
		live.extent += c.extent
		sp.peak = max(sp.peak, live.bytes)
		if live.extent > sp.bound {
			sp.bound, sp.boundStep = live.extent, c.step
		}
	}
	if span := end - begin; span <= 4*len(sp.blocks)+64 { // steps are dense: no need to sort
		deltas := make([]change, span+1)
		for i := range sp.blocks {
			k := &sp.blocks[i]
			deltas[k.first-begin].bytes += k.bytes
			deltas[k.first-begin].extent += k.size
			deltas[k.last-begin].bytes -= k.bytes
			deltas[k.last-begin].extent -= k.size
		}
		for t, d := range deltas {
			d.step = begin + t
			advance(d)
		}
	} else {
		deltas := make([]change, 0, 2*len(sp.blocks))
		for i := range sp.blocks {
			k := &sp.blocks[i]
			deltas = append(deltas, change{k.first, k.bytes, k.size}, change{k.last, -k.bytes, -k.size})
		}
		slices.SortFunc(deltas, func(a, b change) int {
			if c := cmp.Compare(a.step, b.step); c != 0 {
				return c
			}
			return cmp.Compare(a.extent, b.extent) // what dies makes room first
		})
		for _, d := range deltas {
			advance(d)
		}
	}
	for i := range sp.blocks { // a fixed block keeps what is below it in the arena
		if k := &sp.blocks[i]; k.fixed && k.offset+k.size > sp.bound {
			sp.bound, sp.boundStep = k.offset+k.size, k.first
		}
	}
	var slack int64 // any of those that live may lie highest
	for i := range sp.blocks {
		if k := &sp.blocks[i]; k.first <= sp.boundStep && sp.boundStep < k.last {
			slack = max(slack, k.slack)
		}
	}
	sp.least = sp.bound - slack
}
