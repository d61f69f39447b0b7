package planner

import "slices"

// Arena is one piece of memory of a plan.
type Arena struct {
	Lane
	// Start is the address of the arena's first byte in the memory of its device: a multiple of Options.Segment, or the end of the arena
	// before it on the device. Fixed offsets count from address 0.
	Start int64 `json:"start,omitempty"`
	Size  int64 `json:"size"` // bytes, a multiple of Options.Alignment
	// Weights marks a segment that SharedWeightLayout.Apply added: parameters of several programs, which runs never write.
	Weights bool `json:"weights,omitempty"`
}

// Slot is the location of a buffer. A buffer without memory has offset 0 of arena -1.
type Slot struct {
	Arena  int   `json:"arena"`  // index in Plan.Arenas, or NoArena
	Offset int64 `json:"offset"` // bytes from the start of the arena
	Size   int64 `json:"size"`   // bytes that the buffer's values may take
}

// NoArena is the arena of a buffer that was not planned.
const NoArena = -1

// WithUnplanned returns the plan for a problem that has additional buffers at its end. The options of the plan leave them without memory.
func (plan *Plan) WithUnplanned(p *Problem) *Plan {
	more := *plan
	segment := plan.Options.segment(p)
	more.Slots, more.Unplanned = slices.Clip(plan.Slots), slices.Clip(plan.Unplanned)
	for i := len(plan.Slots); i < len(p.Buffers); i++ {
		more.Slots = append(more.Slots, Slot{Arena: NoArena})
		more.Unplanned = append(more.Unplanned, Unplanned{i, plan.Options.unplanned(&p.Buffers[i], segment)})
	}
	return &more
}

// Unplanned is a buffer without memory in the plan.
type Unplanned struct {
	Buffer int    `json:"buffer"` // index in Problem.Buffers
	Reason string `json:"reason"`
}

// Metrics summarise a plan, in bytes over all devices. Groups that share memory count once.
type Metrics struct {
	Logical    int64 `json:"logical"`     // sum of the sizes
	Rounded    int64 `json:"rounded"`     // sum of the sizes with alignment and guards: the arena without sharing
	Peak       int64 `json:"peak"`        // largest sum over the steps of the live sizes
	LowerBound int64 `json:"lower_bound"` // the same with the alignment that all buffers share and guards: no plan is smaller
	Committed  int64 `json:"committed"`   // size of the arenas
	Padding    int64 `json:"padding"`     // Rounded - Logical
	// Rounded - Committed: what sharing saves. It is 0 if the pools of the remap mode take more.
	Reused int64 `json:"reused"`
}

// Plan is the solution of a Problem.
type Plan struct {
	Options Options `json:"options"`
	Metrics
	Work      int64       `json:"work,omitempty"` // work of the heuristics and the search, in the units of Options.Budget
	Arenas    []Arena     `json:"arenas"`
	Slots     []Slot      `json:"slots"` // one for each of Problem.Buffers, in their order
	Unplanned []Unplanned `json:"unplanned,omitempty"`
}

// Ratio returns the size of the arenas as a multiple of the lower bound. The optimum is 1.
func (plan *Plan) Ratio() float64 {
	if plan.LowerBound == 0 {
		return 1
	}
	return float64(plan.Committed) / float64(plan.LowerBound)
}

// DeviceSize returns the number of bytes that the plan takes on a device.
func (plan *Plan) DeviceSize(device int) int64 {
	var sum int64
	for _, a := range plan.Arenas {
		if a.Device == device {
			sum += a.Size
		}
	}
	return sum
}
