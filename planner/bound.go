package planner

import (
	"cmp"
	"slices"
)

// LowerBound returns the number of bytes that every plan needs. It is the largest sum of live sizes over the steps, summed over the
// devices. Sizes are rounded up to the alignment that all buffers of a device share, except for the one buffer that may be highest. It
// fails as Problem.Validate does, and if o is invalid.
func LowerBound(p *Problem, o Options) (int64, error) {
	l, err := newLayout(p, &o)
	if err != nil {
		return 0, err
	}
	return l.bound(p, o), nil
}

// A Bound proves how much memory a device needs at least: that many bytes are live at one step.
type Bound struct {
	Device int `json:"device,omitempty"`
	Step   int `json:"step"`
	// Buffers are indices in Problem.Buffers. All of them live at the step. Bytes is the sum of their sizes with guards, rounded up to
	// the smallest alignment on the device, minus the largest rounding of any buffer on the device, because one buffer is highest. One
	// member represents a group, with the largest size and the whole lifetime of the group. Of a buffer in a gap, only the bytes in use
	// count. Their start is aligned too.
	Buffers []int `json:"buffers"`
	// End is true if a single fixed buffer determines Bytes, by its end instead of a sum.
	End   bool  `json:"end,omitempty"`
	Bytes int64 `json:"bytes"`
}

// Bounds proves the lower bound, with a Bound for each device. It fails as LowerBound does.
func Bounds(p *Problem, o Options) ([]Bound, error) {
	o.Mode = Auto // one space a device
	l, err := newLayout(p, &o)
	if err != nil {
		return nil, err
	}
	var bounds []Bound
	for s := range l.spaces {
		sp := &l.spaces[s]
		b := Bound{Device: sp.lane.Device, Step: sp.boundStep, Bytes: sp.least}
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
			sp.bound, sp.boundStep, sp.boundBlock = k.offset+k.size, k.first, k
		}
	}
	var slack int64 // any block may be highest
	for i := range sp.blocks {
		slack = max(slack, sp.blocks[i].slack)
	}
	sp.least = roundUp(max(0, sp.bound-slack), sp.unit)
}
