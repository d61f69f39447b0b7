// Package planner assigns memory to buffers before the first run. A Problem holds the lifetime and size of each buffer. A Plan holds the
// offset of each buffer and the size of each arena.
//
// The package knows no ONNX, no op and no graph, so it can be tested, fuzzed and compared with other planners alone. Time is counted in
// steps, and memory in bytes.
package planner

import (
	"cmp"
	"errors"
	"fmt"
	"iter"
	"math"
)

// Boundary is the kind of a buffer at the boundary of a program.
type Boundary uint8

const (
	None         Boundary = iota // made and used up inside the program
	Input                        // written by the caller before a run
	Output                       // read by the caller after a run
	Param                        // a weight
	Constant                     // a constant that is not a weight
	DeviceTensor                 // an input or output in separate memory, which lasts between runs: never planned
)

var boundaryNames = [...]string{None: "none", Input: "input", Output: "output", Param: "param", Constant: "constant",
	DeviceTensor: "device-tensor"}

// String returns the word that reports and plan files use.
func (b Boundary) String() string {
	if int(b) < len(boundaryNames) {
		return boundaryNames[b]
	}
	return fmt.Sprintf("Boundary(%d)", b)
}

// Lane is where a buffer is computed: a device, and its compute queue or copy queue. Devices share no memory.
type Lane struct {
	Device int  `json:"device,omitempty"`
	Copy   bool `json:"copy,omitempty"`
}

// Buffer is one value that needs memory over the half-open interval of steps [First, Last).
type Buffer struct {
	// ID distinguishes buffers and breaks ties, so that a plan does not depend on the order of Problem.Buffers. It is usually the index
	// in that slice.
	ID int `json:"id"`
	// Name is the node or value that errors and reports show.
	Name string `json:"name"`
	// Kind colours the chart, for example by op. Detail is shown next to the name, for example a shape.
	Kind   string `json:"kind,omitempty"`
	Detail string `json:"detail,omitempty"`

	Size     int64 `json:"size"`               // bytes
	Elements int64 `json:"elements,omitempty"` // read by Options.UniformElementSize only; 0 means Size
	Align    int64 `json:"align,omitempty"`    // a power of two; 0 means 1; Options.Alignment may be larger

	First int `json:"first"` // the step that writes it
	Last  int `json:"last"`  // the step after the last that reads it

	// Reads and Writes are the steps after First and before Last-1 that read the buffer, and that write it again, in ascending order. A
	// step that overwrites what it reads is in both. Only SolveTwoMemories reads them.
	Reads  []int `json:"reads,omitempty"`
	Writes []int `json:"writes,omitempty"`

	// Level is the longest dependency path to the node that writes the buffer, and LastLevel the longest path to its deepest reader. Only
	// the arena mode reads them. If all are 0, the steps are the levels.
	Level     int `json:"level,omitempty"`
	LastLevel int `json:"last_level,omitempty"`

	// Content is equal for parameters with the same bytes, such as a digest. Only SharedWeightLayout reads it.
	Content string `json:"content,omitempty"`
	// Form is how the program has arranged a tensor of the model for its kernels, such as "panel16". It is empty for a parameter that is
	// read as the model's file has it. Only SharedWeightLayout reads it.
	Form string `json:"form,omitempty"`

	Lane     Lane     `json:"lane,omitzero"`
	DType    uint8    `json:"dtype,omitempty"` // opaque: the remap mode has a pool for each
	Boundary Boundary `json:"boundary,omitempty"`

	// Group is a number that buffers share which use the same memory; 0 means none. They have one offset, and use the memory from the
	// first First to the last Last.
	Group int `json:"group,omitempty"`

	// Fixed places the buffer at Offset, counted from the start of its device's memory.
	Fixed  bool  `json:"fixed,omitempty"`
	Offset int64 `json:"offset,omitempty"`

	// Gaps are in the order of time. The modes disabled, remap and arena ignore them.
	Gaps []Gap `json:"gaps,omitempty"`
}

// Problem is a set of buffers to plan.
type Problem struct {
	Buffers []Buffer `json:"buffers"`
	// Views are values without separate memory, and Steps the names of the steps. Both are only for reports.
	Views []View   `json:"views,omitempty"`
	Steps []string `json:"steps,omitempty"`
	// Extensions are the rules that extended lifetimes before planning. Reports print them.
	Extensions []Extension `json:"extensions,omitempty"`
}

// View is a value in the memory of a buffer: a part of it, another shape of it, or the result of a step that overwrote its operand. Its
// bytes are in pieces. For example, the keys in a row-major matrix f32[128, 3·64] of queries, keys and values have offset 256, size 32768,
// and one stride of count 128 and step 768: 128 pieces of 256 bytes.
type View struct {
	Name   string `json:"name"`
	Kind   string `json:"kind,omitempty"`
	Detail string `json:"detail,omitempty"`
	Buffer int    `json:"buffer"`           // index in Problem.Buffers
	Offset int64  `json:"offset,omitempty"` // bytes from the start of the buffer
	Size   int64  `json:"size"`             // bytes of its values, a multiple of the number of pieces
	// Strides are the axes along which the pieces follow each other, from the outermost on. The number of pieces is the product of the
	// counts. Without strides the view is one piece.
	Strides []Stride `json:"strides,omitempty"`
	First   int      `json:"first,omitempty"` // the step that writes it, and the step after the last that reads it
	Last    int      `json:"last,omitempty"`  // 0 if unknown
}

// Stride is an axis of a view. The starts of neighbours along it are Step bytes apart: 0 for a repeated value, and negative backwards.
type Stride struct {
	Count int64 `json:"count"` // at least 1
	Step  int64 `json:"step"`  // bytes
}

// piece returns the bytes of each piece of a view. It fails if a stride is invalid.
func (v *View) piece() (int64, error) {
	pieces := int64(1)
	for _, s := range v.Strides {
		if s.Count < 1 || s.Count > maxBytes/pieces {
			return 0, fmt.Errorf("a stride has count %d", s.Count)
		}
		pieces *= s.Count
	}
	if v.Size < 0 || v.Size%pieces != 0 {
		return 0, fmt.Errorf("%d bytes are not %d pieces of one size", v.Size, pieces)
	}
	return v.Size / pieces, nil
}

// extent returns the bytes of the buffer between which all pieces of a view are. It fails if a stride is invalid.
func (v *View) extent() (low, high int64, err error) {
	piece, err := v.piece()
	if err != nil {
		return 0, 0, err
	}
	low, high = v.Offset, v.Offset
	for _, s := range v.Strides {
		if s.Count > 1 && (s.Step > maxBytes/(s.Count-1) || s.Step < -maxBytes/(s.Count-1)) {
			return 0, 0, fmt.Errorf("a stride has count %d and step %d", s.Count, s.Step)
		}
		low, high = low+min(0, (s.Count-1)*s.Step), high+max(0, (s.Count-1)*s.Step)
		if low < -maxBytes || high > maxBytes {
			return 0, 0, fmt.Errorf("its pieces are apart by more than %d bytes", int64(maxBytes))
		}
	}
	if v.Size == 0 {
		return v.Offset, v.Offset, nil
	}
	return low, high + piece, nil
}

// starts yields the offsets in the buffer at which pieces of a view begin: at most n of them, spread evenly.
func (v *View) starts(n int64) iter.Seq[int64] {
	pieces := int64(1)
	for _, s := range v.Strides {
		pieces *= s.Count
	}
	shown := min(n, pieces)
	return func(yield func(int64) bool) {
		for i := range shown {
			at, rest := v.Offset, i*(pieces/shown)
			for axis := len(v.Strides) - 1; axis >= 0; axis-- {
				s := v.Strides[axis]
				at, rest = at+rest%s.Count*s.Step, rest/s.Count
			}
			if !yield(at) {
				return
			}
		}
	}
}

// validate checks that a view is within its buffer, and lives no longer than the buffer or the buffer's group.
func (v *View) validate(p *Problem, lives map[int][2]int) error {
	if v.Buffer < 0 || v.Buffer >= len(p.Buffers) {
		return fmt.Errorf("it is in buffer %d of %d", v.Buffer, len(p.Buffers))
	}
	b := &p.Buffers[v.Buffer]
	low, high, err := v.extent()
	if err != nil {
		return err
	}
	if v.Offset < 0 || v.Offset > b.Size || low < 0 || high > b.Size {
		return fmt.Errorf("it takes bytes [%d, %d) of buffer %d, which has %d", low, high, b.ID, b.Size)
	}
	first, last := b.First, b.Last
	if life, grouped := lives[b.Group]; grouped {
		first, last = life[0], life[1]
	}
	if v.Last != 0 && (v.First < first || v.Last > last || v.First > v.Last) {
		return fmt.Errorf("it lives in steps [%d, %d), buffer %d in [%d, %d)", v.First, v.Last, b.ID, first, last)
	}
	return nil
}

// Extension is the effect of one liveness extension on the problem.
type Extension struct {
	Name       string   `json:"name"`
	Policy     string   `json:"policy"`
	Buffers    []string `json:"buffers,omitempty"` // whose lifetimes it extended
	PeakGrowth int64    `json:"peak_growth"`       // growth of the lower bound, in bytes
}

// maxBytes bounds every sum that the planner forms, so that none of them can wrap.
const maxBytes = math.MaxInt64 / 4

// Validate reports the first buffer for which no plan is possible. Solve calls it. The error names the buffer.
func (p *Problem) Validate() error {
	var total int64
	seen := newIDSet(len(p.Buffers))
	for i := range p.Buffers {
		b := &p.Buffers[i]
		if err := b.validate(); err != nil {
			return &bufferError{i, b, err}
		}
		if !seen.add(b.ID) {
			return &bufferError{i, b, errors.New("a duplicate id")}
		}
		if total += max(b.Size, 4*b.Elements); total > maxBytes {
			return &bufferError{i, b, fmt.Errorf("the sizes up to here sum to more than %d bytes", int64(maxBytes))}
		}
	}
	if len(p.Views) > 0 {
		lives := p.groupLives()
		for i := range p.Views {
			if err := p.Views[i].validate(p, lives); err != nil {
				return fmt.Errorf("view %s: %w", p.Views[i].Name, err)
			}
		}
	}
	return p.validateGroups()
}

// groupLives returns the first and the last step of each group.
func (p *Problem) groupLives() map[int][2]int {
	lives := map[int][2]int{}
	for i := range p.Buffers {
		b := &p.Buffers[i]
		if b.Group == 0 {
			continue
		}
		life, known := lives[b.Group]
		if !known {
			life = [2]int{b.First, b.Last}
		}
		lives[b.Group] = [2]int{min(life[0], b.First), max(life[1], b.Last)}
	}
	return lives
}

// A bufferError is what is wrong with a buffer of a problem, by its index.
type bufferError struct {
	at     int
	buffer *Buffer
	err    error
}

func (e *bufferError) Error() string {
	return fmt.Sprintf("buffer %d (%s): %v", e.buffer.ID, e.buffer.Name, e.err)
}

func (e *bufferError) Unwrap() error { return e.err }

func (b *Buffer) validate() error {
	switch {
	case b.Size < 0:
		return fmt.Errorf("size %d is negative", b.Size)
	case b.Size > maxBytes:
		return fmt.Errorf("size %d is above the limit of %d bytes", b.Size, int64(maxBytes))
	case b.Elements < 0 || b.Elements > maxBytes/4:
		return fmt.Errorf("%d elements are outside 0 to %d", b.Elements, int64(maxBytes/4))
	case b.First >= b.Last:
		return fmt.Errorf("the lifetime [%d, %d) is empty: first must be below last", b.First, b.Last)
	case b.First < -maxStep || b.Last > maxStep:
		return fmt.Errorf("the lifetime [%d, %d) is outside of the steps -2^61 to 2^61", b.First, b.Last)
	case b.Align < 0 || b.Align&(b.Align-1) != 0 || b.Align > maxAlign:
		return fmt.Errorf("alignment %d is not a power of two up to %d", b.Align, maxAlign)
	case b.Level < 0:
		return fmt.Errorf("level %d is negative", b.Level)
	case b.LastLevel > maxStep:
		return fmt.Errorf("its last level %d is above 2^61", b.LastLevel)
	case b.LastLevel < b.Level:
		return fmt.Errorf("its last level %d is before its level %d", b.LastLevel, b.Level)
	case int(b.Boundary) >= len(boundaryNames):
		return fmt.Errorf("unknown boundary kind %d", b.Boundary)
	case b.Lane.Device < 0:
		return fmt.Errorf("device %d is negative", b.Lane.Device)
	case !b.Fixed && b.Offset != 0:
		return errors.New("an offset without fixed has no meaning")
	case b.Fixed && (b.Offset < 0 || b.Offset > maxBytes):
		return fmt.Errorf("fixed offset %d is outside 0 to %d", b.Offset, int64(maxBytes))
	}
	return cmp.Or(b.validateGaps(), b.validateUses())
}

const (
	maxAlign = 1 << 30
	maxStep  = 1 << 61 // a copy buffer may be held twice its life
)

// stepped reports whether the problem names no execution levels, so that the steps stand for them.
func (p *Problem) stepped() bool {
	for i := range p.Buffers {
		if b := &p.Buffers[i]; b.Level != 0 || b.LastLevel != 0 {
			return false
		}
	}
	return true
}

// levels returns the first and the last execution level of b.
func (b *Buffer) levels(stepped bool) (first, last int) {
	if stepped {
		return b.First, b.Last - 1
	}
	return b.Level, b.LastLevel
}

// validateGroups checks that the members of each group can share one piece of memory.
func (p *Problem) validateGroups() error {
	var first map[int]*Buffer
	for i := range p.Buffers {
		b := &p.Buffers[i]
		if b.Group == 0 {
			continue
		}
		if first == nil {
			first = map[int]*Buffer{}
		}
		a, ok := first[b.Group]
		if !ok {
			first[b.Group] = b
			continue
		}
		if a.Lane != b.Lane {
			return &bufferError{i, b, fmt.Errorf("buffer %d (%s) of the same group %d is on another lane", a.ID, a.Name,
				b.Group)}
		}
		if a.Fixed && b.Fixed && a.Offset != b.Offset {
			return &bufferError{i, b, fmt.Errorf("it is fixed at offset %d, but buffer %d (%s) of the same group %d at %d",
				b.Offset, a.ID, a.Name, b.Group, a.Offset)}
		}
		if b.Fixed {
			first[b.Group] = b
		}
	}
	return nil
}

// idSet notices ids that are used twice. Ids are nearly always 0 … n-1, so a bitmap holds those
// and a map the rest.
type idSet struct {
	dense []uint64
	rest  map[int]struct{}
}

func newIDSet(n int) *idSet { return &idSet{dense: make([]uint64, n/64+1)} }

// add reports whether id was not in the set before.
func (s *idSet) add(id int) bool {
	if id >= 0 && id < len(s.dense)*64 {
		word, bit := &s.dense[id/64], uint64(1)<<(id%64)
		fresh := *word&bit == 0
		*word |= bit
		return fresh
	}
	if s.rest == nil {
		s.rest = map[int]struct{}{}
	}
	_, known := s.rest[id]
	s.rest[id] = struct{}{}
	return !known
}
