package cuda

import (
	"errors"

	"github.com/rlxc/rlxc/internal/backend"
	"github.com/rlxc/rlxc/internal/driver"
	"github.com/rlxc/rlxc/internal/target"
	"github.com/rlxc/rlxc/ir"
)

// program is a planned graph as a list of sections with steps of the host between them. Where each root's value is at any time,
// on the host, the device or both, is known when the list is made; so it moves only when somebody reads it on the other side.
type program struct {
	d        *Device
	planned  *backend.Planned
	sections []section
	arenas   []int64 // sizes
	pinned   int64   // bytes that copies go through
	outputs  []output
	reports  []report
	statusAt int64 // of the reports in the pinned memory
}

// A section is what the device does without the host, one graph, and the step of the host after it, if any.
type section struct {
	items []item
	host  *host
}

// An item of a section is a launch or a copy of a root.
type item struct {
	*launch
	node *ir.Node // of a launch
	copy *transfer
}

// A transfer is a copy of a root from the host's pinned memory to the arena, or back where down.
type transfer struct {
	root   int // ID
	at     address
	size   int64
	pinned int64 // offset
	down   bool
}

// host runs a node by its Eval.
type host struct {
	node *ir.Node
	in   []*operand
	out  []operand
}

// An output is given from the host's copy of its root, or from pinned memory.
type output struct {
	operand
	onHost bool
	pinned int64 // of its root
}

// pinnedAlign is the alignment of values in pinned memory: that of tensors.
const pinnedAlign = 64

// Load implements backend.Device.
func (d *Device) Load(p *backend.Planned) (backend.Program, error) {
	leave, err := d.ctx.Enter()
	if err != nil {
		return nil, err
	}
	defer leave()
	l := &loader{
		binder:  &binder{d: d, p: p},
		prog:    &program{d: d, planned: p, sections: make([]section, 1)},
		fresh:   make([]bool, p.Graph.NumValues()),
		present: make([]bool, p.Graph.NumValues()),
	}
	if err := l.load(); err != nil {
		l.own.free(d.ctx)
		return nil, err
	}
	if len(l.own.slabs) > 0 {
		own(d, l.prog, &l.own)
	}
	return l.prog, nil
}

// loader makes the list of sections.
type loader struct {
	*binder
	prog    *program
	fresh   []bool // by the ID of a root: the device has the value
	present []bool // by the ID of a root: the host has the value
}

func (l *loader) load() error {
	for _, v := range l.p.Graph.Inputs {
		l.present[v.ID] = true
	}
	for i, n := range l.p.Steps {
		l.node, l.scratch = n, l.p.Scratch[i]
		if err := l.step(n); err != nil {
			return n.Fail(err)
		}
	}
	l.results()
	for _, a := range l.p.Plan.Arenas {
		l.prog.arenas = append(l.prog.arenas, a.Size)
	}
	l.prog.reports = l.reports
	l.prog.statusAt = l.pin(l.prog.statusSize())
	var launches []*launch
	for _, s := range l.prog.sections {
		for _, x := range s.items {
			if x.launch != nil {
				launches = append(launches, x.launch)
			}
		}
	}
	return l.d.modules.ready(launches)
}

// statusSize is the size of what kernels report.
func (p *program) statusSize() int64 { return statusBytes * int64(len(p.reports)) }

// last is the section that the list ends with.
func (l *loader) last() *section { return &l.prog.sections[len(l.prog.sections)-1] }

// pin takes pinned memory.
func (l *loader) pin(size int64) int64 {
	at := l.prog.pinned
	l.prog.pinned += (size + pinnedAlign - 1) &^ (pinnedAlign - 1)
	return at
}

// step lists what a node does: its launches if its kernel takes it as it is, its Eval otherwise.
func (l *loader) step(n *ir.Node) error {
	if l.takes(n) {
		reports := len(l.reports)
		var launches []*launch
		var err error
		if !empty(n) {
			launches, err = l.d.rows[n.Op.Kind()].bind(l.binder, n)
		}
		if err == nil {
			l.launches(n, launches)
			return nil
		}
		if !errors.Is(err, errOnHost) {
			return err
		}
		l.reports = l.reports[:reports]
	}
	l.onHost(n)
	return nil
}

// takes reports whether a node can run on the device where its operands are.
func (l *loader) takes(n *ir.Node) bool {
	if l.d.target.Where(n) != target.OnKernel {
		return false
	}
	for _, v := range n.Outputs {
		if !l.onDevice(v) {
			return false
		}
	}
	if empty(n) {
		return true
	}
	for _, v := range n.Inputs {
		if v != nil && (!l.onDevice(v) || v.Type.Sizes().Elements() == 0 && n.Op.Kind() != ir.KindConcat) {
			return false
		}
	}
	return true
}

// empty reports whether a node's results have no elements.
func empty(n *ir.Node) bool {
	for _, v := range n.Outputs {
		if v.Type.Sizes().Elements() > 0 {
			return false
		}
	}
	return true
}

// launches appends the launches of a step, after the uploads that they need.
func (l *loader) launches(n *ir.Node, launches []*launch) {
	for _, v := range n.Inputs {
		if v == nil || l.p.Layout(v).Root.IsConst() {
			continue
		}
		if root := l.p.Layout(v).Root; !l.fresh[root.ID] {
			l.fresh[root.ID] = true
			l.transfer(root, false)
		}
	}
	s := l.last()
	for _, x := range launches {
		s.items = append(s.items, item{launch: x, node: n})
	}
	for _, v := range n.Outputs {
		id := l.p.Layout(v).Root.ID
		l.fresh[id], l.present[id] = true, false
	}
}

// transfer appends a copy of a root; roots without elements lie nowhere.
func (l *loader) transfer(root *ir.Value, down bool) *transfer {
	o := l.place(root)
	if _, ok := l.p.Slot(root); !ok || root.Type.Kind != ir.TensorType || o.elements() == 0 {
		return nil
	}
	t := &transfer{root: root.ID, at: o.at, size: int64(o.width * o.elements()), down: down}
	t.pinned = l.pin(t.size)
	s := l.last()
	s.items = append(s.items, item{copy: t})
	return t
}

// onHost appends a step of the host, after the downloads that it needs.
func (l *loader) onHost(n *ir.Node) {
	h := &host{node: n}
	for _, v := range n.Inputs {
		if v == nil {
			h.in = append(h.in, nil)
			continue
		}
		o := l.place(v)
		h.in = append(h.in, &o)
		if root := l.p.Layout(v).Root; !root.IsConst() && !l.present[root.ID] {
			l.present[root.ID] = true
			l.transfer(root, true)
		}
	}
	for _, v := range n.Outputs {
		h.out = append(h.out, l.place(v))
		id := l.p.Layout(v).Root.ID
		l.fresh[id], l.present[id] = false, true
	}
	l.last().host = h
	l.prog.sections = append(l.prog.sections, section{})
}

// results lists where the outputs are at the end.
func (l *loader) results() {
	pinned := map[int]int64{}
	for _, v := range l.p.Graph.Outputs {
		root := l.p.Layout(v).Root
		out := output{operand: l.place(v), onHost: l.present[root.ID] || root.IsConst()}
		if !out.onHost {
			at, known := pinned[root.ID]
			if t := (*transfer)(nil); !known {
				if t = l.transfer(root, true); t != nil {
					at = t.pinned
				}
				pinned[root.ID] = at
			}
			out.pinned = at
		}
		l.prog.outputs = append(l.prog.outputs, out)
	}
}

// HostSteps implements backend.Program: downloads go before the step that waits for them, uploads after the one that made their
// root, or that root is an input.
func (p *program) HostSteps() []backend.HostStep {
	var steps []backend.HostStep
	maker := map[int]int{} // of a root by its ID: index into steps
	for _, s := range p.sections {
		var down int64
		for _, x := range s.items {
			switch {
			case x.copy == nil:
			case x.copy.down:
				down += x.copy.size
			default:
				if i, ok := maker[x.copy.root]; ok {
					steps[i].Up += x.copy.size
				}
			}
		}
		if s.host == nil {
			continue
		}
		for _, o := range s.host.out {
			maker[o.root] = len(steps)
		}
		steps = append(steps, backend.HostStep{Node: s.host.node, Down: down})
	}
	return steps
}

// capture makes the graph of a section, nil for one without items. The first clears the status, the last brings it to the host.
func (in *instance) capture(i int) (*driver.Graph, error) {
	s, m, ctx := &in.sections[i], in.memory, in.d.ctx
	last := i == len(in.sections)-1
	if len(s.items) == 0 && (!last || len(in.reports) == 0) {
		return nil, nil
	}
	return in.stream.Capture(func() error {
		if in.profile != nil {
			if err := in.stream.RecordInGraph(in.profile.events[i][0]); err != nil {
				return err
			}
		}
		for k, x := range s.items {
			var err error
			switch {
			case x.launch != nil:
				if err = x.record(ctx, in.stream, m, in.profile == nil && k > 0 && s.items[k-1].launch != nil); err == nil && in.profile != nil {
					err = in.stream.RecordInGraph(in.profile.event(i, k))
				}
			case x.copy.down:
				err = in.stream.Download(m.pinned.Bytes()[x.copy.pinned:][:x.copy.size], x.copy.at.resolve(m))
			default:
				err = in.stream.Upload(x.copy.at.resolve(m), m.pinned.Bytes()[x.copy.pinned:][:x.copy.size])
			}
			if err != nil && x.node != nil {
				return x.node.Fail(err)
			}
			if err != nil {
				return err
			}
		}
		if size := in.statusSize(); last && size > 0 {
			return in.stream.Download(m.pinned.Bytes()[in.statusAt:][:size], m.status.at)
		}
		return nil
	})
}
