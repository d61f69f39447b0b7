package planner

import "fmt"

// Options are the options of a plan.
type Options struct {
	Mode Mode `json:"mode"`

	// Which boundary values get memory in the plan. The others are listed as unplanned. Outputs and values inside the program always get
	// memory.
	AllocateParams    bool `json:"allocate_params,omitempty"`
	AllocateInputs    bool `json:"allocate_inputs,omitempty"`
	AllocateConstants bool `json:"allocate_constants,omitempty"`

	// ArenaNoReuse gives each buffer separate memory in every mode, to find out whether sharing causes a wrong result.
	ArenaNoReuse bool `json:"arena_no_reuse,omitempty"`

	Alignment          int64 `json:"alignment,omitempty"`            // bytes that divide every offset and arena, a power of two; 0 means 1
	TailGuard          bool  `json:"tail_guard,omitempty"`           // max(alignment, 128) free bytes after every boundary buffer
	UniformElementSize bool  `json:"uniform_element_size,omitempty"` // every element takes 4 bytes

	// Segment is the largest binding of the device in bytes. No buffer crosses a multiple of it, and each arena has at most that many
	// bytes. 0 means no limit.
	Segment int64 `json:"segment,omitempty"`

	// Capacity is the number of bytes per device in which the buffers should fit. Planning stops at the first plan that fits. 0 means the
	// smallest plan.
	Capacity int64 `json:"capacity,omitempty"`

	// Budget limits the search, in units of work of a few nanoseconds each. It counts work instead of time, so that plans are
	// reproducible. 0 means the budget of the mode, and a negative number means no search.
	Budget int64 `json:"budget,omitempty"`
}

// CPUAlignment is the alignment of offsets on the CPU: a cache line, and an AVX-512 register.
const CPUAlignment = 64

// Inference returns options that put all boundary values into the arena.
func Inference() Options {
	return Options{AllocateParams: true, AllocateInputs: true, AllocateConstants: true, Alignment: CPUAlignment}
}

// Activations returns options that keep weights and constants in a separate segment. rlxc runs models with these.
func Activations() Options {
	return Options{AllocateInputs: true, Alignment: CPUAlignment}
}

// BackwardActivationsOnly returns options for the backward half of a training pair. It plans inputs, constants, and results of the
// backward pass. Parameters stay where the forward plan put them (FromForward).
func BackwardActivationsOnly() Options {
	return Options{AllocateInputs: true, AllocateConstants: true, Alignment: CPUAlignment}
}

const minGuard = 128

// Guard returns the number of free bytes after every boundary buffer.
func (o *Options) Guard() int64 {
	if !o.TailGuard {
		return 0
	}
	return max(o.align(), minGuard)
}

func (o *Options) validate() error {
	switch {
	case o.Mode >= numModes:
		return fmt.Errorf("unknown planner mode %d", o.Mode)
	case o.Alignment < 0 || o.Alignment&(o.Alignment-1) != 0 || o.Alignment > maxAlign:
		return fmt.Errorf("alignment %d is not a power of two up to %d", o.Alignment, maxAlign)
	case o.Segment < 0:
		return fmt.Errorf("segment size %d is negative", o.Segment)
	case o.Segment%o.align() != 0:
		return fmt.Errorf("segment size %d is not a multiple of the alignment %d", o.Segment, o.Alignment)
	case o.Capacity < 0:
		return fmt.Errorf("capacity %d is negative", o.Capacity)
	}
	return nil
}

func (o *Options) align() int64 { return max(o.Alignment, 1) }

// segment returns the bytes of a segment, of which every alignment that fits is a part; 0 without segments.
func (o *Options) segment(p *Problem) int64 {
	align := o.align()
	for i := range p.Buffers {
		if a := o.alignment(&p.Buffers[i]); a <= o.Segment {
			align = max(align, a)
		}
	}
	return o.Segment - o.Segment%align
}

// unplanned returns why a buffer gets no memory, or "".
func (o *Options) unplanned(b *Buffer, segment int64) string {
	switch {
	case b.Boundary == DeviceTensor:
		return "it stays between runs, in separate memory"
	case b.Boundary == Param && !o.AllocateParams:
		return "parameters have their own segment"
	case b.Boundary == Input && !o.AllocateInputs:
		return "inputs stay in the caller's memory"
	case b.Boundary == Constant && !o.AllocateConstants:
		return "constants have their own segment"
	case o.Segment > 0 && o.extent(b) > o.Segment:
		return fmt.Sprintf("%d bytes are above the segment limit of %d", o.extent(b), o.Segment)
	case segment > 0 && max(o.extent(b), o.alignment(b)) > segment:
		return fmt.Sprintf("%d bytes aligned to %d do not fit a segment of %d", o.extent(b), o.alignment(b), o.Segment)
	}
	return ""
}

// bytes returns what the values of b take.
func (o *Options) bytes(b *Buffer) int64 {
	if o.UniformElementSize && b.Elements > 0 {
		return 4 * b.Elements
	}
	return b.Size
}

// alignment returns the bytes of which the offset of b is a multiple.
func (o *Options) alignment(b *Buffer) int64 { return max(o.align(), b.Align) }

// extent returns the bytes that b keeps others out of: its values and its guard. Its own alignment moves its start alone: what
// follows it may start at once.
func (o *Options) extent(b *Buffer) int64 {
	n := o.bytes(b)
	if n > 0 && b.Boundary != None {
		n += o.Guard()
	}
	return n
}

func roundUp(n, align int64) int64 { return (n + align - 1) &^ (align - 1) }
