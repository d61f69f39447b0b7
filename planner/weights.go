package planner

import (
	"fmt"
	"slices"
	"strings"
)

// SharedWeightLayout is one segment of memory for the parameters of many programs: shape bindings
// of one model, models that share an encoder, a forward/backward pair. Who agrees on a name shares
// the bytes.
type SharedWeightLayout struct {
	Slots []WeightSlot `json:"slots"` // by name
	Size  int64        `json:"size"`  // bytes of the segment
}

// WeightSlot is where a parameter lies in the segment.
type WeightSlot struct {
	Name   string `json:"name"`
	Offset int64  `json:"offset"`
	Size   int64  `json:"size"`
}

// NewSharedWeightLayout lays the parameters (buffers of boundary kind Param) of all programs out
// one after the other, sorted by name, at the options' alignment or their own. A parameter that two
// programs need in different sizes is an error.
func NewSharedWeightLayout(o Options, programs ...*Problem) (*SharedWeightLayout, error) {
	if err := o.validate(); err != nil {
		return nil, err
	}
	aligns := map[string]int64{}
	w := &SharedWeightLayout{}
	for n, p := range programs {
		if err := p.Validate(); err != nil {
			return nil, fmt.Errorf("program %d: %w", n, err)
		}
		for i := range p.Buffers {
			b := &p.Buffers[i]
			if b.Boundary != Param {
				continue
			}
			if align, known := aligns[b.Name]; known {
				aligns[b.Name] = max(align, o.alignment(b))
			} else {
				aligns[b.Name] = o.alignment(b)
			}
			if err := w.insert(WeightSlot{Name: b.Name, Size: o.bytes(b)}); err != nil {
				return nil, fmt.Errorf("program %d: %w", n, err)
			}
		}
	}
	for i := range w.Slots {
		s := &w.Slots[i]
		s.Offset = roundUp(w.Size, aligns[s.Name])
		w.Size = s.Offset + s.Size
	}
	w.Size = roundUp(w.Size, o.align())
	return w, nil
}

// FromForward returns the layout in which a forward plan holds its parameters, so that the backward half of the pair finds
// them there. The forward plan must have allocated them, all in one arena. It fails if it has not, or if two parameters of
// one name differ.
func FromForward(p *Problem, plan *Plan) (*SharedWeightLayout, error) {
	w := &SharedWeightLayout{}
	arena := NoArena
	for i := range p.Buffers {
		b, slot := &p.Buffers[i], plan.Slots[i]
		if b.Boundary != Param {
			continue
		}
		if slot.Arena == NoArena {
			return nil, fmt.Errorf("parameter %s has no memory in the forward plan: plan it with AllocateParams", b.Name)
		}
		if arena == NoArena {
			arena = slot.Arena
			w.Size = plan.Arenas[arena].Size
		}
		if slot.Arena != arena {
			return nil, fmt.Errorf("parameter %s lies in arena %d of the forward plan, others in arena %d", b.Name, slot.Arena, arena)
		}
		if err := w.insert(WeightSlot{Name: b.Name, Offset: slot.Offset, Size: slot.Size}); err != nil {
			return nil, err
		}
	}
	return w, nil
}

// insert adds a slot in its place by name. A name that is there already must mean the same slot.
func (w *SharedWeightLayout) insert(s WeightSlot) error {
	at, known := w.find(s.Name)
	if !known {
		w.Slots = slices.Insert(w.Slots, at, s)
		return nil
	}
	if old := w.Slots[at]; old.Size != s.Size {
		return fmt.Errorf("parameter %s has %d bytes here and %d bytes elsewhere", s.Name, s.Size, old.Size)
	} else if old.Offset != s.Offset {
		return fmt.Errorf("parameter %s lies at offset %d and at offset %d", s.Name, s.Offset, old.Offset)
	}
	return nil
}

func (w *SharedWeightLayout) find(name string) (at int, known bool) {
	return slices.BinarySearchFunc(w.Slots, name, func(s WeightSlot, name string) int { return strings.Compare(s.Name, name) })
}

// Slot returns where a parameter lies.
func (w *SharedWeightLayout) Slot(name string) (WeightSlot, bool) {
	at, known := w.find(name)
	if !known {
		return WeightSlot{}, false
	}
	return w.Slots[at], true
}

// Apply assigns the parameters of a plan, which must have left them unplanned, their slots in the segment: an arena more,
// marked Weights and not counted in the figures. It fails if the plan holds a parameter itself, if the layout lacks one or
// has it in another size or alignment, or if parameters are on several devices.
func (w *SharedWeightLayout) Apply(p *Problem, plan *Plan) error {
	params := map[int]WeightSlot{}
	var lane Lane
	for i := range p.Buffers {
		b := &p.Buffers[i]
		if b.Boundary != Param {
			continue
		}
		slot, known := w.Slot(b.Name)
		switch bytes := plan.Options.bytes(b); {
		case plan.Slots[i].Arena != NoArena:
			return fmt.Errorf("parameter %s has memory in the plan: plan it without AllocateParams", b.Name)
		case !known:
			return fmt.Errorf("the shared weights have no parameter %s", b.Name)
		case slot.Size != bytes:
			return fmt.Errorf("parameter %s needs %d bytes, the shared weights hold %d", b.Name, bytes, slot.Size)
		case slot.Offset%plan.Options.alignment(b) != 0:
			return fmt.Errorf("parameter %s lies at offset %d of the shared weights, not a multiple of %d", b.Name, slot.Offset,
				plan.Options.alignment(b))
		case len(params) > 0 && b.Lane.Device != lane.Device:
			return fmt.Errorf("parameter %s is on device %d, others on device %d", b.Name, b.Lane.Device, lane.Device)
		}
		lane.Device = b.Lane.Device
		params[i] = slot
	}
	for i, slot := range params {
		plan.Slots[i] = Slot{Arena: len(plan.Arenas), Offset: slot.Offset, Size: slot.Size}
	}
	plan.Arenas = append(plan.Arenas, Arena{Lane: lane, Size: w.Size, Weights: true})
	plan.Unplanned = slices.DeleteFunc(plan.Unplanned, func(u Unplanned) bool {
		_, placed := params[u.Buffer]
		return placed
	})
	return nil
}
