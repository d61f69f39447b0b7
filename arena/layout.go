// Package arena gives a plan its memory: one allocation a session, typed slices of it by buffer,
// the read-only segment that all sessions share for weights, and what finds stray reads and writes.
package arena

import (
	"errors"
	"fmt"

	"github.com/rlxc/rlxc/planner"
	"github.com/rlxc/rlxc/tensor"
)

// ErrNoSlot is wrapped by the error about a buffer that has no memory in an arena.
var ErrNoSlot = errors.New("no memory in this arena")

// BaseAlign is what the first byte of every arena is aligned to, at least.
const BaseAlign = planner.CPUAlignment

// Layout says where the buffers of one bound program lie in the memory of one device. It is
// immutable and shared by all sessions; an Arena is the memory for it.
type Layout struct {
	problem *planner.Problem
	plan    *planner.Plan
	device  int
	base    []int64 // of each arena of the plan in the allocation; -1: lies elsewhere
	size    int64
	align   int64
}

// NewLayout puts the plan's arenas of one device behind each other into one allocation. Weight
// segments of the plan stay outside.
func NewLayout(p *planner.Problem, plan *planner.Plan, device int) (*Layout, error) {
	if len(plan.Slots) != len(p.Buffers) {
		return nil, fmt.Errorf("the plan has %d slots for %d buffers", len(plan.Slots), len(p.Buffers))
	}
	l := &Layout{problem: p, plan: plan, device: device, base: make([]int64, len(plan.Arenas)), align: max(BaseAlign, plan.Options.Alignment)}
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

// Plan returns the plan behind the layout.
func (l *Layout) Plan() *planner.Plan { return l.plan }

// Find returns the index of the first buffer of that name.
func (l *Layout) Find(name string) (buffer int, ok bool) {
	for i := range l.problem.Buffers {
		if l.problem.Buffers[i].Name == name {
			return i, true
		}
	}
	return 0, false
}

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

// whyNot says where a buffer lies instead.
func (l *Layout) whyNot(buffer int) string {
	if a := l.plan.Slots[buffer].Arena; a != planner.NoArena {
		return "it lies on " + l.plan.Arenas[a].String()
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

// DType returns the element type of a buffer.
func (l *Layout) DType(buffer int) tensor.DType {
	return tensor.DType(l.problem.Buffers[buffer].DType)
}

// elements returns how many elements of its type a buffer holds at most.
func (l *Layout) elements(buffer int) int {
	bits := l.DType(buffer).Bits()
	if bits == 0 {
		return 0
	}
	if n := l.problem.Buffers[buffer].Elements; n > 0 {
		return int(n)
	}
	return int(l.Capacity(buffer) * 8 / int64(bits))
}
