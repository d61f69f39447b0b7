package planner

import "slices"

// Arena is one piece of memory that a plan asks for.
type Arena struct {
	Lane
	// Start is the address of the arena's first byte in its device's memory: 0, or where
	// Options.Segment cuts that memory a multiple of it.
	Start int64 `json:"start,omitempty"`
	Size  int64 `json:"size"` // bytes, a multiple of Options.Alignment
	// Weights marks a segment that SharedWeightLayout.Apply added: parameters of several programs,
	// never written by a run.
	Weights bool `json:"weights,omitempty"`
}

// Slot is where a buffer is. The zero offset of arena -1 stands for a buffer without memory.
type Slot struct {
	Arena  int   `json:"arena"`  // index in Plan.Arenas, or NoArena
	Offset int64 `json:"offset"` // bytes from the start of the arena
	Size   int64 `json:"size"`   // bytes that the buffer's values may take
}

// NoArena is the arena of a buffer that was not planned.
const NoArena = -1

// WithUnplanned returns the plan of a problem that has gained buffers at its end which the plan's options leave without memory.
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

// Unplanned is a buffer that got no memory.
type Unplanned struct {
	Buffer int    `json:"buffer"` // index in Problem.Buffers
	Reason string `json:"reason"`
}

// Figures sum a plan up, in bytes over all devices. Groups that share memory count once.
type Figures struct {
	Logical    int64 `json:"logical"`     // sum of the sizes
	Rounded    int64 `json:"rounded"`     // sum of the sizes with alignment and guards: the arena without sharing
	Peak       int64 `json:"peak"`        // largest sum over the steps of the live sizes
	LowerBound int64 `json:"lower_bound"` // the same with the alignment that all buffers share and guards: no plan is smaller
	Committed  int64 `json:"committed"`   // what the arenas take
	Padding    int64 `json:"padding"`     // Rounded - Logical
	// Rounded - Committed: what sharing saves; 0 where the pools of the remap mode take more than that
	Reused int64 `json:"reused"`
}

// Plan is the answer to a Problem.
type Plan struct {
	Options Options `json:"options"`
	Figures
	Work      int64       `json:"work,omitempty"` // what the heuristics and the search took, in the units of Options.Budget
	Arenas    []Arena     `json:"arenas"`
	Slots     []Slot      `json:"slots"` // one for each of Problem.Buffers, in their order
	Unplanned []Unplanned `json:"unplanned,omitempty"`
}

// Ratio returns the size of the arenas as a multiple of the lower bound; 1 is the best there is.
func (plan *Plan) Ratio() float64 {
	if plan.LowerBound == 0 {
		return 1
	}
	return float64(plan.Committed) / float64(plan.LowerBound)
}

// DeviceSize returns the bytes that the plan takes on one device.
func (plan *Plan) DeviceSize(device int) int64 {
	var sum int64
	for _, a := range plan.Arenas {
		if a.Device == device {
			sum += a.Size
		}
	}
	return sum
}
