package planner

import (
	"fmt"
	"slices"
	"strings"
)

// SharedWeightLayout is one segment of memory for the parameters of many programs, such as shape bindings of one model, models that share
// an encoder, or a pair of forward and backward programs. Parameters with the same content (Buffer.Content) share bytes. A tensor of the
// model that two programs read in the file's form has one slot. A tensor that they pack for different kernels has a slot for each form
// (Buffer.Form). The zero value is an empty segment.
type SharedWeightLayout struct {
	Slots    []WeightSlot `json:"slots"`              // slots in the order of their contents
	Size     int64        `json:"size"`               // bytes of the segment
	Programs int          `json:"programs,omitempty"` // number of programs whose parameters are in the segment
}

// WeightSlot is the location of a content in the segment.
type WeightSlot struct {
	Content string `json:"content"`
	Name    string `json:"name"`           // name of the first parameter that has it
	Form    string `json:"form,omitempty"` // Buffer.Form of the first parameter that has it
	Offset  int64  `json:"offset"`
	Size    int64  `json:"size"`
	// Programs holds the programs that read the content, in ascending order, as indices in the order in which they were laid out. A slot
	// with several programs is shared. Slots of Add have none.
	Programs []int `json:"programs,omitempty"`
}

// NewSharedWeightLayout lays out the parameters (buffers of boundary kind Param) of all programs in the order of their first use, at the
// larger alignment of the options and the parameter. It fails if a parameter has no content, or if a content has two sizes.
func NewSharedWeightLayout(o Options, programs ...*Problem) (*SharedWeightLayout, error) {
	w := &SharedWeightLayout{}
	if err := w.Extend(o, programs...); err != nil {
		return nil, err
	}
	return w, nil
}

// Extend lays out the parameters of further programs. Contents that the segment has keep their offsets, and others are appended to it. For
// example, FromForward(forward, plan) extended by a backward program holds what both read where the forward plan has it, and what only the
// backward program reads after it. It fails as NewSharedWeightLayout does, and if a content is at an offset that a program's alignment
// does not allow. The layout must not be used after an error.
func (w *SharedWeightLayout) Extend(o Options, programs ...*Problem) error {
	if err := o.validate(); err != nil {
		return err
	}
	aligns := map[string]int64{}
	for n, p := range programs {
		if err := p.Validate(); err != nil {
			return fmt.Errorf("program %d: %w", n, err)
		}
		for i := range p.Buffers {
			if b := &p.Buffers[i]; b.Boundary == Param {
				aligns[b.Content] = max(aligns[b.Content], o.alignment(b))
			}
		}
	}
	for n, p := range programs {
		for i := range p.Buffers {
			b := &p.Buffers[i]
			if b.Boundary != Param {
				continue
			}
			if _, err := w.Add(b.Content, b.Name, o.bytes(b), aligns[b.Content]); err != nil {
				return fmt.Errorf("program %d: %w", n, err)
			}
			w.read(b)
		}
		w.Programs++
	}
	w.Size = roundUp(w.Size, o.align())
	return nil
}

// read records that the program that is being laid out reads a parameter, which has a slot.
func (w *SharedWeightLayout) read(b *Buffer) {
	at, _ := w.find(b.Content)
	s := &w.Slots[at]
	if len(s.Programs) == 0 {
		s.Form = b.Form
	}
	if n := len(s.Programs); n == 0 || s.Programs[n-1] != w.Programs {
		s.Programs = append(s.Programs, w.Programs)
	}
}

// Add returns the slot of a content. A new content is appended to the segment. It fails without a content, and if the segment has the
// content in another size or at an offset that the alignment does not allow.
func (w *SharedWeightLayout) Add(content, name string, size, align int64) (WeightSlot, error) {
	if content == "" {
		return WeightSlot{}, fmt.Errorf("parameter %q has no content: set Buffer.Content", name)
	}
	s := WeightSlot{Content: content, Name: name, Offset: roundUp(w.Size, max(align, 1)), Size: size}
	at, known := w.find(content)
	if known {
		return w.Slots[at], w.Slots[at].serves(name, size, align)
	}
	w.Slots, w.Size = slices.Insert(w.Slots, at, s), s.Offset+size
	return s, nil
}

// serves reports why a parameter cannot be in the slot.
func (s *WeightSlot) serves(name string, size, align int64) error {
	switch {
	case s.Size != size:
		return fmt.Errorf("parameter %s needs %d bytes, the shared weights hold %d of its content", name, size, s.Size)
	case s.Offset%max(align, 1) != 0:
		return fmt.Errorf("parameter %s is at offset %d of the shared weights, which is not a multiple of %d", name, s.Offset, align)
	}
	return nil
}

// FromForward returns the layout of the parameters in a forward plan, for the backward half of the pair. Its segment is the arena of the
// forward plan. Extend adds what only the backward half reads, such as a weight that its kernels read in another form. FromForward fails
// if the forward plan has not allocated the parameters in one arena, or if a parameter has no content.
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
			return nil, fmt.Errorf("parameter %s is in arena %d of the forward plan, others in arena %d", b.Name, slot.Arena, arena)
		}
		if b.Content == "" {
			return nil, fmt.Errorf("parameter %q has no content: set Buffer.Content", b.Name)
		}
		if at, known := w.find(b.Content); !known {
			w.Slots = slices.Insert(w.Slots, at, WeightSlot{Content: b.Content, Name: b.Name, Offset: slot.Offset, Size: slot.Size})
		} else if err := w.Slots[at].serves(b.Name, slot.Size, 1); err != nil {
			return nil, err
		}
		w.read(b)
	}
	w.Programs = 1
	return w, nil
}

func (w *SharedWeightLayout) find(content string) (at int, known bool) {
	return slices.BinarySearchFunc(w.Slots, content, func(s WeightSlot, content string) int { return strings.Compare(s.Content, content) })
}

// Slot returns the location of a content.
func (w *SharedWeightLayout) Slot(content string) (WeightSlot, bool) {
	at, known := w.find(content)
	if !known {
		return WeightSlot{}, false
	}
	return w.Slots[at], true
}

// Apply gives the parameters of a plan their slots in the segment, as an additional arena that is marked Weights and not counted in the
// metrics. The plan must have left them unplanned. Apply fails if the plan has memory for a parameter, if the layout lacks one or has it
// in another size or alignment, or if parameters are on several devices.
func (w *SharedWeightLayout) Apply(p *Problem, plan *Plan) error {
	params := map[int]WeightSlot{}
	var lane Lane
	for i := range p.Buffers {
		b := &p.Buffers[i]
		if b.Boundary != Param {
			continue
		}
		slot, known := w.Slot(b.Content)
		switch {
		case plan.Slots[i].Arena != NoArena:
			return fmt.Errorf("parameter %s has memory in the plan: plan it without AllocateParams", b.Name)
		case !known:
			return fmt.Errorf("the shared weights lack the content %q of parameter %s", b.Content, b.Name)
		case len(params) > 0 && b.Lane.Device != lane.Device:
			return fmt.Errorf("parameter %s is on device %d, others on device %d", b.Name, b.Lane.Device, lane.Device)
		}
		if err := slot.serves(b.Name, plan.Options.bytes(b), plan.Options.alignment(b)); err != nil {
			return err
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
