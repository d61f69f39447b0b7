package planner

import (
	"context"
	"fmt"
	"slices"
	"strings"
)

// CapacityError is the error of buffers that do not fit in Options.Capacity.
type CapacityError struct {
	Device         int
	Capacity, Need int64    // bytes; Need is the lower bound where Impossible, else the best arena found
	Impossible     bool     // proved by the buffers that live at Step; else only not found within the budget
	Step           int      // where Impossible
	Buffers        []string // names of the buffers that live at Step, where Impossible
}

func (e *CapacityError) Error() string {
	if !e.Impossible {
		return fmt.Sprintf("no plan of at most %d bytes found on device %d: the best has %d", e.Capacity, e.Device, e.Need)
	}
	const shown = 8
	names := e.Buffers
	more := ""
	if len(names) > shown {
		names, more = names[:shown], fmt.Sprintf(" and %d more", len(e.Buffers)-shown)
	}
	return fmt.Sprintf("no plan of at most %d bytes exists on device %d: at step %d live buffers need %d (%s%s)",
		e.Capacity, e.Device, e.Step, e.Need, strings.Join(names, ", "), more)
}

// Solve assigns an offset to each buffer of p. It is deterministic: the same buffers and options give the same plan, whatever the order
// of the buffers.
//
// With Options.Capacity, Solve may fail with a *CapacityError. If the buffers cannot fit, the plan is nil. If no plan was found that
// fits, the plan is the best one found.
func Solve(p *Problem, o Options) (*Plan, error) { return SolveContext(context.Background(), p, o) }

// SolveContext is Solve, but ctx also ends the search, with the best plan found so far. Such a plan depends on the time and is not
// reproducible. SolveContext fails as Solve does.
func SolveContext(ctx context.Context, p *Problem, o Options) (*Plan, error) {
	l, err := newLayout(p, &o)
	if err != nil {
		return nil, err
	}
	for s := range l.spaces {
		if sp := &l.spaces[s]; o.Capacity > 0 && sp.bound > o.Capacity {
			return nil, sp.impossible(o.Capacity)
		}
	}
	for s := range l.spaces {
		l.spaces[s].done = ctx.Done()
		o.place(&l.spaces[s])
	}
	plan := l.plan(p, &o)
	if o.Capacity > 0 {
		for _, a := range plan.Arenas {
			if need := plan.DeviceSize(a.Device); need > o.Capacity {
				return plan, &CapacityError{Device: a.Device, Capacity: o.Capacity, Need: need}
			}
		}
	}
	return plan, nil
}

// place fills the offsets of a space.
func (o *Options) place(sp *space) {
	if o.ArenaNoReuse && o.Mode != TLSF { // the arena mode keeps lanes apart without reuse as well
		placeApart(sp, o)
		return
	}
	modes[o.Mode].place(sp, o)
}

// impossible builds the proof that the space needs more than capacity.
func (sp *space) impossible(capacity int64) error {
	e := &CapacityError{Device: sp.device, Capacity: capacity, Need: sp.bound, Impossible: true, Step: sp.boundStep}
	for i := range sp.blocks {
		if k := &sp.blocks[i]; k.lives(sp.boundStep) {
			e.Buffers = append(e.Buffers, sp.problem.Buffers[k.buffer].Name)
		}
	}
	return e
}

// plan reads the offsets of all blocks into a Plan.
func (l *layout) plan(p *Problem, o *Options) *Plan {
	plan := &Plan{Options: *o, Unplanned: l.unplanned, Slots: make([]Slot, len(p.Buffers))}
	base := make([]int, len(l.spaces)) // index of each space's first arena
	for s := range l.spaces {
		sp := &l.spaces[s]
		base[s] = len(plan.Arenas)
		plan.Arenas = append(plan.Arenas, sp.arenas()...)
		plan.Peak += sp.peak
		plan.Work += sp.work
		for i := range sp.blocks {
			plan.Rounded += sp.blocks[i].size
			plan.Logical += sp.blocks[i].bytes
		}
	}
	plan.LowerBound = l.bound()
	for i, ref := range l.owner {
		if ref.space < 0 {
			plan.Slots[i].Arena = NoArena
			continue
		}
		sp := &l.spaces[ref.space]
		slot := Slot{Arena: base[ref.space], Offset: sp.blocks[ref.block].offset, Size: o.bytes(&p.Buffers[i])}
		switch k := &sp.blocks[ref.block]; {
		case k.size == 0:
		case sp.segment > 0:
			slot.Arena += int(slot.Offset / sp.segment)
			slot.Offset %= sp.segment
		case 0 < sp.copies && sp.copies <= slot.Offset:
			slot.Arena++
			slot.Offset -= sp.copies
		}
		plan.Slots[i] = slot
	}
	for _, a := range plan.Arenas {
		plan.Committed += a.Size
	}
	plan.Padding = plan.Rounded - plan.Logical
	plan.Reused = max(0, plan.Rounded-plan.Committed)
	return plan
}

// bound sums the lower bounds of the devices.
func (l *layout) bound() int64 {
	var sum int64
	for s := range l.spaces {
		sum += l.spaces[s].bound
	}
	return sum
}

// arenas cuts the space into the memory of its lanes, and into its segments.
func (sp *space) arenas() []Arena {
	at := func(start int64) Arena {
		return Arena{Lane: Lane{Device: sp.device, Copy: start >= sp.copies}, Start: start}
	}
	if sp.segment == 0 {
		list := []Arena{at(0)}
		list[0].Size = roundUp(sp.top(), sp.unit)
		if 0 < sp.copies && sp.copies < list[0].Size {
			list = append(list, at(sp.copies))
			list[0].Size, list[1].Size = sp.copies, list[0].Size-sp.copies
		}
		return list
	}
	list := make([]Arena, max(1, (sp.top()+sp.segment-1)/sp.segment))
	for i := range list {
		list[i] = at(int64(i) * sp.segment)
	}
	for i := range sp.blocks {
		if k := &sp.blocks[i]; k.size > 0 {
			a := &list[k.offset/sp.segment]
			a.Size = max(a.Size, roundUp(k.end()-a.Start, sp.unit))
		}
	}
	return slices.Clip(list)
}
