package planner

import (
	"cmp"
	"fmt"
	"maps"
	"math"
	"slices"
)

// block is what the modes place: a buffer, or a group of them, with guard and grain in its size.
type block struct {
	first, last int
	size, align int64
	padding     int64 // bytes of size that rounding to the grain of the space has added
	bytes       int64 // size without guard and grain
	level       int   // execution level of the node that writes it
	lastLevel   int   // largest execution level of a node that reads it
	offset      int64 // the answer; given where fixed
	fixed       bool
	buffer      int32 // index of the member with the lowest id
	gapped      bool
	holds       []hold // parts of the life of a gapped block, in order; nil without gaps
}

// space is the memory of one device and all blocks in it.
// The blocks are in the order of their ids, whatever the order of the problem's buffers.
type space struct {
	device  int
	blocks  []block
	segment int64 // no block crosses a multiple of it; 0: no limit
	align   int64 // the largest alignment of a block
	grain   int64 // every block, and every part of one, starts at a multiple of it, so that rounding up to it loses nothing below the top
	unit    int64 // alignment of all offsets, and of the size of an arena, in bytes
	gapped  bool  // some block is
	problem *Problem

	// bound is the lower bound in bytes: no arena is smaller. Its proof is the sum of the blocks that live at boundStep, without the
	// largest padding among them, since one of them is highest; or the end of boundBlock, a fixed block, if that is not nil.
	bound      int64
	boundStep  int
	boundBlock *block
	peak       int64 // largest sum of live bytes, without grain and guards
	work       int64 // done by the heuristics and the search

	done <-chan struct{} // closed: the search ends

	// copies is the offset at which the memory of the copy lane begins in the arena mode. It is 0 if all blocks are of the copy lane, and
	// math.MaxInt64 if the copy lane has no memory of its own, as in all other modes.
	copies int64

	limit int64 // placing blocks ends at the first that ends there or above: the rest cannot help
	most  int64 // or when that much work is done
}

// blockRef finds the block of a buffer.
type blockRef struct{ space, block int32 }

// layout holds the blocks of a problem, by device.
type layout struct {
	spaces    []space
	owner     []blockRef // block of each buffer; the space is -1 if the buffer is not planned
	unplanned []Unplanned
}

// newLayout validates a problem and options, and sorts buffers into blocks and spaces.
func newLayout(p *Problem, o *Options) (*layout, error) {
	if err := p.Validate(); err != nil {
		return nil, err
	}
	if err := o.validate(); err != nil {
		return nil, err
	}
	return layOut(p, o)
}

func layOut(p *Problem, o *Options) (*layout, error) {
	l := &layout{owner: make([]blockRef, len(p.Buffers))}
	segment := o.segment(p)
	l.addSpaces(p, o.align(), segment)
	groups := map[int]blockRef{}
	stepped := p.stepped()
	for _, i := range byID(p.Buffers) {
		b := &p.Buffers[i]
		if o.unplanned(b, segment) != "" {
			l.owner[i] = blockRef{space: -1}
			continue
		}
		s := slices.IndexFunc(l.spaces, func(s space) bool { return s.device == b.Lane.Device })
		sp := &l.spaces[s]
		ref := blockRef{int32(s), int32(len(sp.blocks))}
		if b.Group != 0 {
			if known, ok := groups[b.Group]; ok {
				l.owner[i] = known
				sp.blocks[known.block].join(b, o, stepped)
				continue
			}
			groups[b.Group] = ref
		}
		l.owner[i] = ref
		level, lastLevel := b.levels(stepped)
		sp.blocks = append(sp.blocks, block{
			first: b.First, last: b.Last, align: o.alignment(b), level: level, lastLevel: lastLevel, buffer: i, gapped: len(b.Gaps) > 0,
		})
		sp.gapped = sp.gapped || len(b.Gaps) > 0
	}
	return l, l.resize(p, o)
}

// resize gives the blocks the sizes of a problem that has the same blocks.
func (l *layout) resize(p *Problem, o *Options) error {
	segment := o.segment(p)
	l.unplanned = nil
	for s := range l.spaces {
		sp := &l.spaces[s]
		sp.problem, sp.bound, sp.boundStep, sp.boundBlock, sp.peak = p, 0, 0, nil, 0
		for i := range sp.blocks {
			sp.blocks[i].size, sp.blocks[i].bytes = 0, 0
		}
	}
	for i := range p.Buffers {
		b, k, reason := &p.Buffers[i], l.block(i), o.unplanned(&p.Buffers[i], segment)
		switch {
		case (k == nil) != (reason != ""):
			return errOtherBuffers
		case k == nil:
			l.unplanned = append(l.unplanned, Unplanned{i, reason})
			continue
		}
		k.size, k.bytes = max(k.size, o.extent(b)), max(k.bytes, o.bytes(b))
		if b.Fixed {
			k.fixed, k.offset = true, b.Offset
		}
		if k.gapped {
			k.holds = b.holds(k.bytes, k.size-k.bytes)
		}
	}
	for s := range l.spaces {
		sp := &l.spaces[s]
		sp.round()
		if err := sp.checkFixed(); err != nil {
			return err
		}
		sp.measure()
	}
	return nil
}

// round finds the alignments of the blocks, and rounds their sizes up to the grain.
func (sp *space) round() {
	sp.align, sp.grain = 1, maxAlign
	for i := range sp.blocks {
		k := &sp.blocks[i]
		if k.size == 0 {
			k.fixed, k.offset = false, 0 // an empty block has no position
			continue
		}
		sp.align, sp.grain = max(sp.align, k.align), min(sp.grain, k.align)
		for _, p := range k.holds {
			sp.grain = min(sp.grain, grainOf(p.low))
		}
	}
	if sp.segment > 0 { // the highest block of each segment needs no padding
		sp.grain = min(sp.grain, sp.unit)
	}
	for i := range sp.blocks {
		k := &sp.blocks[i]
		size := roundUp(k.size, min(sp.unit, sp.grain))
		k.size = roundUp(size, sp.grain)
		k.padding = k.size - size
		for n := range k.holds {
			k.holds[n].high = roundUp(k.holds[n].high, sp.grain)
		}
	}
}

// grainOf returns the largest alignment that an offset has.
func grainOf(offset int64) int64 {
	if offset == 0 {
		return maxAlign
	}
	return offset & -offset
}

// addSpaces makes an empty space for each device, in order.
func (l *layout) addSpaces(p *Problem, unit, segment int64) {
	counts := map[int]int{}
	for i := range p.Buffers {
		counts[p.Buffers[i].Lane.Device]++
	}
	for _, device := range slices.Sorted(maps.Keys(counts)) {
		l.spaces = append(l.spaces, space{device: device, unit: unit, segment: segment, problem: p,
			blocks: make([]block, 0, counts[device]), copies: math.MaxInt64, limit: math.MaxInt64, most: math.MaxInt64})
	}
}

// byID returns the indices of the buffers in the order of their ids.
func byID(buffers []Buffer) []int32 {
	indices := make([]int32, len(buffers))
	sorted := true
	for i := range indices {
		indices[i] = int32(i)
		sorted = sorted && (i == 0 || buffers[i-1].ID < buffers[i].ID)
	}
	if !sorted {
		slices.SortFunc(indices, func(a, b int32) int { return cmp.Compare(buffers[a].ID, buffers[b].ID) })
	}
	return indices
}

// join adds a member of the block's group to it.
func (k *block) join(b *Buffer, o *Options, stepped bool) {
	k.first, k.last = min(k.first, b.First), max(k.last, b.Last)
	level, lastLevel := b.levels(stepped)
	k.level, k.lastLevel = min(k.level, level), max(k.lastLevel, lastLevel)
	k.align = max(k.align, o.alignment(b))
}

// movable reports whether a mode has to find the block a place. Blocks without bytes stay at 0.
func (k *block) movable() bool { return !k.fixed && k.size > 0 }

// fit returns the lowest offset from at on where a block may start as far as its alignment and
// the segments go.
func (sp *space) fit(at, size, align int64) int64 {
	at = roundUp(at, align)
	if sp.segment > 0 && size > 0 && at/sp.segment != (at+size-1)/sp.segment {
		return (at/sp.segment + 1) * sp.segment
	}
	return at
}

// behindFixed returns the first offset above all fixed blocks.
func (sp *space) behindFixed() (top int64) {
	for i := range sp.blocks {
		if k := &sp.blocks[i]; k.fixed {
			top = max(top, k.offset+k.size)
		}
	}
	return top
}

// maxSegments bounds how many arenas are before a fixed block.
const maxSegments = 1 << 16

// checkFixed reports fixed blocks that cannot be where they are.
func (sp *space) checkFixed() error {
	var fixed []*block
	for i := range sp.blocks {
		if k := &sp.blocks[i]; k.fixed {
			if sp.segment > 0 && k.offset/sp.segment > maxSegments {
				return sp.fail(k, "it is fixed at offset %d, after more than %d segments of %d bytes", k.offset, maxSegments, sp.segment)
			}
			if sp.fit(k.offset, k.size, k.align) != k.offset {
				return sp.fail(k, "it is fixed at offset %d, which its alignment %d and the segment limit %d do not allow", k.offset,
					k.align, sp.segment)
			}
			fixed = append(fixed, k)
		}
	}
	slices.SortFunc(fixed, func(a, b *block) int { return cmp.Compare(a.offset, b.offset) })
	var below []*block // blocks that end above the start of the present one
	for _, k := range fixed {
		below = slices.DeleteFunc(below, func(b *block) bool { return b.offset+b.size <= k.offset })
		for _, b := range below {
			if clash(b, k) {
				return sp.fail(k, "it is fixed in the same memory as %s, and both live at the same time", sp.describe(b))
			}
		}
		below = append(below, k)
	}
	return nil
}

// fail is an error about a block.
func (sp *space) fail(k *block, format string, args ...any) error {
	return &bufferError{int(k.buffer), &sp.problem.Buffers[k.buffer], fmt.Errorf(format, args...)}
}

// describe names a block in errors.
func (sp *space) describe(k *block) string {
	b := &sp.problem.Buffers[k.buffer]
	return fmt.Sprintf("buffer %d (%s)", b.ID, b.Name)
}

// need returns the bytes of a block without its padding. What is above a block starts after the padding, so padding counts only where
// nothing is above it.
func (k *block) need() int64 { return k.size - k.padding }

// end returns the address after a block, without its padding.
func (k *block) end() int64 { return k.offset + k.need() }

// top returns the size that the placed blocks need.
func (sp *space) top() int64 {
	var top int64
	for i := range sp.blocks {
		top = max(top, sp.blocks[i].end())
	}
	return top
}

// givesUp reports whether a block was placed so high, or so late, that the others need no place any more.
func (sp *space) givesUp(k *block) bool { return k.end() >= sp.limit || sp.work >= sp.most }

// committed returns the bytes that the placed blocks need: all below the top, or the used part of each segment.
func (sp *space) committed() int64 {
	if sp.segment == 0 {
		return sp.top()
	}
	var sum int64
	for _, a := range sp.arenas() {
		sum += a.Size
	}
	return sum
}
