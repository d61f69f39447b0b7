// Package arena allocates the memory of a plan: where the buffers are in one allocation a session, that allocation, and what finds
// stray reads and writes.
//
// This package is not part of rlxc's public API and may change without notice.
package arena

import (
	"errors"
	"fmt"

	"github.com/rlxc/rlxc/planner"
)

// ErrNoSlot is wrapped by the error about a buffer that has no memory in an arena.
var ErrNoSlot = errors.New("no memory in this arena")

// BaseAlign is what the first byte of every arena is aligned to, at least.
const BaseAlign = planner.CPUAlignment

// Layout says where the buffers of one bound program are in the memory of one device. It is
// immutable and shared by all sessions; an Arena is the memory for it.
type Layout struct {
	problem *planner.Problem
	plan    *planner.Plan
	base    []int64 // of each arena of the plan in the allocation; -1: is elsewhere
	size    int64
	align   int64
}

// NewLayout puts the plan's arenas of one device one after the other into one allocation. Weight
// segments of the plan stay outside.
func NewLayout(p *planner.Problem, plan *planner.Plan, device int) (*Layout, error) {
	if len(plan.Slots) != len(p.Buffers) {
		return nil, fmt.Errorf("the plan has %d slots for %d buffers", len(plan.Slots), len(p.Buffers))
	}
	l := &Layout{problem: p, plan: plan, base: make([]int64, len(plan.Arenas)), align: max(BaseAlign, plan.Options.Alignment)}
	for i := range p.Buffers {
		if l.plan.Slots[i].Arena != planner.NoArena {
			l.align = max(l.align, p.Buffers[i].Align)
		}
	}
	for i, a := range plan.Arenas {
		l.base[i] = -1
		if a.Device == device && !a.Weights {
			l.base[i] = l.size
			l.size += (a.Size + l.align - 1) / l.align * l.align
		}
	}
	return l, nil
}

// Size returns the bytes that an arena of this layout takes.
func (l *Layout) Size() int64 { return l.size }

// Has reports whether a buffer (an index in the problem's Buffers) has memory here.
func (l *Layout) Has(buffer int) bool {
	_, err := l.Offset(buffer)
	return err == nil
}

// Offset returns the byte of the arena at which a buffer starts.
func (l *Layout) Offset(buffer int) (int64, error) {
	if buffer < 0 || buffer >= len(l.plan.Slots) {
		return 0, fmt.Errorf("buffer %d of %d: %w", buffer, len(l.plan.Slots), ErrNoSlot)
	}
	slot := l.plan.Slots[buffer]
	if slot.Arena == planner.NoArena || l.base[slot.Arena] < 0 {
		return 0, fmt.Errorf("buffer %d (%s): %w: %s", buffer, l.problem.Buffers[buffer].Name, ErrNoSlot, l.whyNot(buffer))
	}
	return l.base[slot.Arena] + slot.Offset, nil
}

// whyNot says where a buffer is instead.
func (l *Layout) whyNot(buffer int) string {
	if a := l.plan.Slots[buffer].Arena; a != planner.NoArena {
		return "it is on " + l.plan.Arenas[a].String()
	}
	for _, u := range l.plan.Unplanned {
		if u.Buffer == buffer {
			return u.Reason
		}
	}
	return "it was not planned"
}

// Capacity returns the bytes that a buffer's values may take; 0 where it has no memory.
func (l *Layout) Capacity(buffer int) int64 {
	if !l.Has(buffer) {
		return 0
	}
	return l.plan.Slots[buffer].Size
}
