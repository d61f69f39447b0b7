package planner

import (
	"cmp"
	"errors"
	"slices"
)

// A Stack is a plan for all sizes of its buffers. Of any two buffers that live at the same time, one is above the other, directly or with
// others between them. The offset of a buffer follows from the sizes of the buffers below it. So buffers never overlap, whatever their
// sizes.
//
// For example, buffer a of 3 bytes at 0 lives in steps [0, 2), and on it are b of 2 bytes in [0, 1) and c of 4 bytes in [1, 2), both at 3.
// Below has a for both b and c. If a has 5 bytes in another problem, b and c are at 5, and the arena ends where the larger of them ends.
type Stack struct {
	options Options
	layout  *layout
	order   []int // the buffers with memory from the bottom up, one of each group

	// Below holds, by index in Problem.Buffers, the buffers directly below each buffer. A group has those of its member with the lowest
	// ID.
	Below [][]int
}

// NewStack returns the stack of a plan. It uses offsets only to find which buffers are above which. It fails for a problem with gaps, and
// for the modes disabled, remap and arena, in which sharing does not depend on the steps alone.
func NewStack(p *Problem, plan *Plan) (*Stack, error) {
	s := &Stack{options: plan.Options, Below: make([][]int, len(p.Buffers))}
	if m := s.options.Mode; m == Disabled || m == Remap || m == TLSF || s.options.ArenaNoReuse {
		return nil, errNoStack
	}
	l, err := newLayout(p, &s.options)
	if err != nil {
		return nil, err
	}
	s.layout = l
	for i, slot := range plan.Slots {
		if k := l.block(i); k != nil {
			k.offset = plan.Arenas[slot.Arena].Start + slot.Offset
		}
	}
	for i := range l.spaces {
		if l.spaces[i].gapped {
			return nil, errNoStack
		}
		s.pile(l.spaces[i].blocks)
	}
	return s, nil
}

var errNoStack = errors.New("a stack requires a plan without gaps, in which buffers share memory by their steps alone")

// pile finds what is directly below each block of a space: the highest block so far at a step of its life. What else is below it at that
// step is below that one.
func (s *Stack) pile(blocks []block) {
	order := make([]int32, len(blocks))
	for i := range order {
		order[i] = int32(i)
	}
	slices.SortStableFunc(order, func(a, b int32) int {
		j, k := &blocks[a], &blocks[b]
		return cmp.Or(cmp.Compare(j.offset, k.offset), cmp.Compare(j.size, k.size)) // empty ones have the offset of what is above them
	})
	from, to, sections := sectionsOf(blocks)
	highest := slices.Repeat([]int{-1}, sections)
	for _, i := range order {
		buffer := int(blocks[i].buffer)
		s.order = append(s.order, buffer)
		for t := from[i]; t < to[i]; t++ {
			if k := highest[t]; k >= 0 && !slices.Contains(s.Below[buffer], k) {
				s.Below[buffer] = append(s.Below[buffer], k)
			}
			highest[t] = buffer
		}
	}
}

// block is the block of a buffer, nil if it has no memory.
func (l *layout) block(buffer int) *block {
	ref := l.owner[buffer]
	if ref.space < 0 {
		return nil
	}
	return &l.spaces[ref.space].blocks[ref.block]
}

// Plan plans a problem that differs from the stack's only in sizes. It fails as Solve does, if other buffers have memory than in the
// stack's plan, and if the buffers below a fixed buffer reach into it. One call at a time may be made.
func (s *Stack) Plan(p *Problem) (*Plan, error) {
	l := s.layout
	if err := p.Validate(); err != nil {
		return nil, err
	}
	if len(p.Buffers) != len(s.Below) {
		return nil, errOtherBuffers
	}
	if err := l.resize(p, &s.options); err != nil {
		return nil, err
	}
	for _, i := range s.order {
		k, at := l.block(i), int64(0)
		for _, j := range s.Below[i] {
			below := l.block(j)
			at = max(at, below.offset+below.size)
		}
		sp := &l.spaces[l.owner[i].space]
		if k.fixed && at > k.offset {
			return nil, sp.fail(k, "it is fixed at offset %d, but the buffers below it reach %d", k.offset, at)
		} else if !k.fixed {
			k.offset = sp.fit(at, k.size, k.align)
		}
	}
	for _, i := range s.order {
		if k := l.block(i); k.size == 0 {
			k.offset = 0
		}
	}
	return l.plan(p, &s.options), nil
}

var errOtherBuffers = errors.New("the problem does not fit the stack: other buffers have memory")
