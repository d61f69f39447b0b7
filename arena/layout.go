// Package arena allocates the memory of a plan: the location of buffers in one allocation per session, that allocation, and the detection
// of stray reads and writes.
//
// This package is not part of rlxc's public API and may change without notice.
package arena

import (
	"errors"
	"fmt"

	"github.com/rlxc/rlxc/planner"
)

// ErrNoSlot: a buffer has no memory in an arena.
var ErrNoSlot = errors.New("no memory in this arena")

// BaseAlign is the minimum alignment of the first byte of every arena.
const BaseAlign = planner.CPUAlignment

// Layout is the location of the buffers of a bound program in the memory of one device. It is immutable, and all sessions share it. An
// Arena is the memory for it.
type Layout struct {
	problem *planner.Problem
	plan    *planner.Plan
	base    []int64 // offset of each arena of the plan in the allocation; -1 if the arena is on another device
	size    int64   // bytes of the allocation
	align   int64   // alignment of the allocation, in bytes
}

// NewLayout concatenates the plan's arenas of one device in one allocation. Weight segments of the plan are not included.
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

// Offset returns the byte offset of a buffer in the arena.
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

// Capacity returns the number of bytes for a buffer's values, or 0 if it has no memory.
func (l *Layout) Capacity(buffer int) int64 {
	if !l.Has(buffer) {
		return 0
	}
	return l.plan.Slots[buffer].Size
}
