package gpu

import (
	"slices"

	"github.com/rlxc/rlxc/internal/backend"
	"github.com/rlxc/rlxc/ir"
	"github.com/rlxc/rlxc/planner"
)

// Locations say where the values of a planned graph are on the device. Device tensors have separate segments, after the plan's arenas.
type Locations struct {
	*backend.Planned
	outside map[int]int // by the ID of a root that is a device tensor: its segment
	reports []report
}

// A report is about a number that a node does not take.
type report struct {
	node *ir.Node
	err  func(number int64) error
}

func newLocations(p *backend.Planned) *Locations {
	l := &Locations{Planned: p, outside: map[int]int{}}
	for _, v := range slices.Concat(p.Graph.Inputs, p.Graph.Outputs) {
		root := p.Layout(v).Root
		if i := p.Buffers[root.ID]; i >= 0 && p.Problem.Buffers[i].Boundary == planner.DeviceTensor {
			l.outside[root.ID] = len(p.Plan.Arenas) + len(l.outside)
		}
	}
	return l
}

// At is where a root is; ok is false if it has no memory on the device.
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

// Buffer is where a buffer of the plan is.
func (p *Locations) Buffer(i int) (at Location, size int64) {
	s := p.Plan.Slots[i]
	return Location{s.Arena, s.Offset}, s.Size
}

// Lengthens reports whether an operand of a node may be the device tensor that its result is too, with more after it: what copies the one
// to the other then has nothing to do. It returns their segments.
func (p *Locations) Lengthens(n *ir.Node, operand int) (from, to int, ok bool) {
	x, y := p.Layout(n.Inputs[operand]), p.Layout(n.Outputs[0])
	from, ok = p.outside[x.Root.ID]
	if !ok || x.Offset != 0 || y.Offset != 0 {
		return 0, 0, false
	}
	to, ok = p.outside[y.Root.ID]
	return from, to, ok
}

// Report makes a position in the status segment for numbers that a node does not take, of which err says why.
func (p *Locations) Report(n *ir.Node, err func(number int64) error) (offset int) {
	p.reports = append(p.reports, report{n, err})
	return StatusBytes * (len(p.reports) - 1)
}
