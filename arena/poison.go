package arena

import (
	"fmt"
	"slices"

	"github.com/rlxc/rlxc/planner"
)

// The fill patterns of poison runs. Every float of 16, 32 or 64 bits read from NaNFill is a NaN. ByteFill makes conspicuous integers.
const (
	NaNFill  = 0xff
	ByteFill = 0xa5
)

// Fill sets all bytes.
func Fill(b []byte, fill byte) {
	if len(b) == 0 {
		return
	}
	b[0] = fill
	for n := 1; n < len(b); n *= 2 {
		copy(b[n:], b[:n])
	}
}

// Watch checks a run step by step. It starts with an arena that is poisoned as a whole, so that a read of unwritten memory gives a wrong
// result. Before the step that writes a buffer, Watch fills the guard bytes after it. After each step it reports a guard that was
// overwritten, and poisons the buffers that died.
type Watch struct {
	arena  *Arena
	fill   byte
	guard  int64
	starts map[int][]int // buffers by first step
	ends   map[int][]int // buffers by the step after their last
	armed  []int
}

// NewWatch poisons the arena and watches a run on it.
func NewWatch(a *Arena, fill byte) *Watch {
	l := a.layout
	Fill(a.Memory(), fill)
	w := &Watch{arena: a, fill: fill, guard: l.plan.Options.Guard(), starts: map[int][]int{}, ends: map[int][]int{}}
	last := map[int]int{} // last step of each group
	for i := range l.problem.Buffers {
		b := &l.problem.Buffers[i]
		last[b.Group] = max(last[b.Group], b.Last)
	}
	for i := range l.problem.Buffers {
		b := &l.problem.Buffers[i]
		if !l.Has(i) || l.Capacity(i) == 0 {
			continue
		}
		w.starts[b.First] = append(w.starts[b.First], i)
		if b.Group == 0 || last[b.Group] == b.Last { // another member of the group may still use the memory
			w.ends[b.Last] = append(w.ends[b.Last], i)
		}
	}
	return w
}

// guardOf returns the bytes kept free after a boundary buffer.
func (w *Watch) guardOf(buffer int) []byte {
	offset, _ := w.arena.layout.Offset(buffer) // it has memory, or it would not be watched
	end := offset + w.arena.layout.Capacity(buffer)
	return w.arena.memory[end : end+w.guard]
}

// Before must be called before a step.
func (w *Watch) Before(step int) {
	for _, i := range w.starts[step] {
		if w.arena.layout.problem.Buffers[i].Boundary != planner.None {
			Fill(w.guardOf(i), ByteFill)
			w.armed = append(w.armed, i)
		}
	}
}

// After must be called after a step.
func (w *Watch) After(step int) error {
	for _, i := range w.armed {
		for at, b := range w.guardOf(i) {
			if b != ByteFill {
				return fmt.Errorf("step %d wrote %d bytes past the end of buffer %d (%s)", step, at, i,
					w.arena.layout.problem.Buffers[i].Name)
			}
		}
	}
	for _, i := range w.ends[step+1] {
		w.armed = slices.DeleteFunc(w.armed, func(j int) bool { return j == i })
		offset, _ := w.arena.layout.Offset(i)
		Fill(w.arena.memory[offset:offset+w.arena.layout.Capacity(i)], w.fill)
	}
	return nil
}
