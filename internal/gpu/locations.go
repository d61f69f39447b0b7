package gpu

import (
	"slices"

	"github.com/rlxc/rlxc/internal/backend"
	"github.com/rlxc/rlxc/ir"
	"github.com/rlxc/rlxc/planner"
)

// Locations are the positions of a planned graph's values on the device. The segment after those of the plan's arenas is the stream. Each
// device tensor has a segment after it.
type Locations struct {
	*backend.Planned
	outside  map[int]int // segment of each root that is a device tensor, by ID
	reports  []report
	streamed []Streamed // weights that the step being bound reads from the stream
}

// A Streamed is a weight on the host that is copied to the stream before a step.
type Streamed struct {
	Location
	Data []byte // the bytes, in the form that kernels read
}

// Stream returns where the step that is being bound finds a weight of the host. The loader copies data, which must not change, there before
// the step.
func (p *Locations) Stream(data []byte) Location {
	at := Location{Segment: len(p.Plan.Arenas)}
	for _, s := range p.streamed {
		if &s.Data[0] == &data[0] && len(s.Data) == len(data) {
			return s.Location
		}
		at.Offset = s.Offset + align(int64(len(s.Data)), streamAlign)
	}
	p.streamed = append(p.streamed, Streamed{at, data})
	return at
}

// A report is a place where a kernel writes a number that its node rejects, such as an index out of range.
type report struct {
	node *ir.Node
	err  func(number int64) error // makes an error of the number
}

func newLocations(p *backend.Planned) *Locations {
	l := &Locations{Planned: p, outside: map[int]int{}}
	for _, v := range slices.Concat(p.Graph.Inputs, p.Graph.Outputs) {
		root := p.Layout(v).Root
		if i := p.Buffers[root.ID]; i >= 0 && p.Problem.Buffers[i].Boundary == planner.DeviceTensor {
			l.outside[root.ID] = len(p.Plan.Arenas) + 1 + len(l.outside)
		}
	}
	return l
}

// At returns the location of a root. ok is false if the root has no memory on the device.
func (p *Locations) At(root *ir.Value) (at Location, ok bool) {
	if segment, ok := p.outside[root.ID]; ok {
		return Location{Segment: segment}, true
	}
	if root.IsConst() {
		return Location{}, false
	}
	s, ok := p.Slot(root)
	return Location{s.Arena, s.Offset}, ok
}

// Buffer returns the location and the size in bytes of a buffer of the plan.
func (p *Locations) Buffer(i int) (at Location, size int64) {
	s := p.Plan.Slots[i]
	return Location{s.Arena, s.Offset}, s.Size
}

// Lengthens reports whether operand and result of a node are both device tensors from their starts, and returns their segments. If a run
// binds the same device tensor to both, as a decoder does whose cache grows, the result begins with the operand, which need not be copied.
func (p *Locations) Lengthens(n *ir.Node, operand int) (from, to int, ok bool) {
	x, y := p.Layout(n.Inputs[operand]), p.Layout(n.Outputs[0])
	from, ok = p.outside[x.Root.ID]
	if !ok || x.Offset != 0 || y.Offset != 0 {
		return 0, 0, false
	}
	to, ok = p.outside[y.Root.ID]
	return from, to, ok
}

// Report reserves a report in the Status segment and returns its offset in bytes. err makes an error of a number that a kernel writes
// there.
func (p *Locations) Report(n *ir.Node, err func(number int64) error) (offset int) {
	p.reports = append(p.reports, report{n, err})
	return StatusBytes * (len(p.reports) - 1)
}
