package gpu

import (
	"errors"
	"runtime"

	"github.com/rlxc/rlxc/internal/backend"
	"github.com/rlxc/rlxc/internal/target"
	"github.com/rlxc/rlxc/ir"
)

// program implements backend.Program.
type program struct {
	*loaded
	r *Runtime
}

// loaded is a planned graph as a list of sections. Where each root's value is at any time, on the host, the device or both, is known
// when the list is made; so it moves only when something reads it on the other side.
type loaded struct {
	*Locations
	kernels  Kernels
	sections []section
	arenas   []int64 // sizes
	uploads  int64   // bytes of staging memory that uploads have
	staging  int64   // bytes of all of it
	outputs  []output
}

// A section is what the device does without the host, and the step of the host after it, if any. What the device reads comes before all
// else: memory of values that are to come belongs to no other value.
type section struct {
	up       []transfer
	steps    []step
	down     []transfer
	launches int // how many
	reports  int // the first of its reports
	status   transfer
	host     *host
}

// A step is a node that runs on the device, by launches from one number to another.
type step struct {
	node       *ir.Node
	number     int // in the plan
	first, end int
}

// A transfer is a copy of a root from the host to the device or back.
type transfer struct {
	root *ir.Value
	Location
	size   int64
	staged int64
}

// A host step runs a node by its Eval.
type host struct {
	node *ir.Node
	in   []value
	out  []*ir.Value // roots
}

// A value is a part of a root's value on the host.
type value struct {
	of     *ir.Value // nil for an absent operand
	layout ir.Layout
}

// An output is a part of the host's copy of its root, or of staging memory, or it is a device tensor.
type output struct {
	value
	outside bool
	onHost  bool
	staged  int64 // of its first byte
	bytes   int64
}

// stagedAlign is the alignment of values in staging memory: that of tensors.
const stagedAlign = 64

// Load implements backend.Device.
func (r *Runtime) Load(p *backend.Planned) (backend.Program, error) {
	l, err := r.load(p)
	if err != nil {
		return nil, err
	}
	return &program{l, r}, nil
}

// Refit implements backend.Program. All launches are made again, which is little beside planning; instances record again in their next run.
func (p *program) Refit(planned *backend.Planned, _ []int) (backend.Program, error) {
	l, err := p.r.load(planned)
	if err != nil {
		return nil, err
	}
	p.kernels.Close()
	p.loaded = l
	return p, nil
}

func (r *Runtime) load(p *backend.Planned) (*loaded, error) {
	locations := newLocations(p)
	l := &loader{
		loaded:  &loaded{Locations: locations, sections: make([]section, 1)},
		r:       r,
		binder:  r.Driver.Binder(locations),
		fresh:   make([]bool, p.Graph.NumValues()),
		present: make([]bool, p.Graph.NumValues()),
	}
	for _, v := range p.Graph.Inputs {
		_, outside := locations.outside[v.ID]
		l.fresh[v.ID], l.present[v.ID] = outside, !outside
	}
	for i, n := range p.Steps {
		if err := l.step(i, n); err != nil {
			l.binder.Abandon()
			return nil, n.Fail(err)
		}
	}
	l.results()
	l.stage()
	for _, a := range p.Plan.Arenas {
		l.arenas = append(l.arenas, r.aligned(max(a.Size, 1)))
	}
	var err error
	if l.kernels, err = l.binder.Finish(); err != nil {
		return nil, err
	}
	runtime.AddCleanup(l.loaded, Kernels.Close, l.kernels)
	return l.loaded, nil
}

// loader makes the list of sections.
type loader struct {
	*loaded
	r        *Runtime
	binder   Binder
	launched int    // launches so far
	fresh    []bool // by the ID of a root: the device has the value
	present  []bool // by the ID of a root: the host has the value
}

// last is the section that the list ends with.
func (l *loader) last() *section { return &l.sections[len(l.sections)-1] }

// step lists what a node does: its launches if its kernel takes it as it is, its Eval otherwise.
func (l *loader) step(i int, n *ir.Node) error {
	if l.takes(n) {
		reports, launches := len(l.reports), 0
		var err error
		if !empty(n) {
			launches, err = l.binder.Bind(n, l.Scratch[i])
		}
		if err == nil {
			l.onKernel(i, n, launches)
			return nil
		}
		if !errors.Is(err, ErrOnHost) {
			return err
		}
		l.reports = l.reports[:reports]
	}
	l.byHost(n)
	return nil
}

// takes reports whether a node can run on the device where its operands are.
func (l *loader) takes(n *ir.Node) bool {
	if l.r.Target().Where(n) != target.OnKernel {
		return false
	}
	for _, v := range n.Outputs {
		if !l.reaches(n, v) {
			return false
		}
	}
	if empty(n) {
		return true
	}
	for _, v := range n.Inputs {
		if v != nil && (!l.reaches(n, v) || v.Type.Elements() == 0 && n.Op.Kind() != ir.KindConcat) {
			return false
		}
	}
	return true
}

// reaches reports whether the kernel of n can read and write a value: a tensor that has memory on the device, or a constant.
func (l *loader) reaches(n *ir.Node, v *ir.Value) bool {
	if v.Type.Kind != ir.TensorType || v.Type.DType.Size() == 0 {
		return false
	}
	root := l.Layout(v).Root
	if root.IsConst() {
		return root.Const != nil && l.binder.Reads(n, v)
	}
	if v.Type.Elements() == 0 {
		return true
	}
	if _, ok := l.outside[root.ID]; ok {
		most := l.r.Target().Segment
		return most == 0 || int64(root.Type.DType.Bytes(root.Type.Elements())) <= most
	}
	_, ok := l.At(root)
	return ok
}

// empty reports whether a node's results have no elements.
func empty(n *ir.Node) bool {
	for _, v := range n.Outputs {
		if v.Type.Elements() > 0 {
			return false
		}
	}
	return true
}

// onKernel appends the launches of a step, and uploads what they need.
func (l *loader) onKernel(i int, n *ir.Node, launches int) {
	for _, v := range n.Inputs {
		if v != nil {
			l.bringUp(l.Layout(v).Root)
		}
	}
	if launches > 0 {
		s := l.last()
		s.steps = append(s.steps, step{n, i, l.launched, l.launched + launches})
		s.launches += launches
		l.launched += launches
	}
	for _, v := range n.Outputs {
		id := l.Layout(v).Root.ID
		l.fresh[id], l.present[id] = true, false
	}
}

// bringUp makes sure that the device has a root's value.
func (l *loader) bringUp(root *ir.Value) {
	if root.IsConst() || l.fresh[root.ID] {
		return
	}
	l.fresh[root.ID] = true
	l.transfer(root, &l.last().up)
}

// bringDown makes sure that the host has a root's value.
func (l *loader) bringDown(root *ir.Value) {
	if root.IsConst() || l.present[root.ID] {
		return
	}
	l.present[root.ID] = true
	l.transfer(root, &l.last().down)
}

// transfer adds a copy of a root to a list; what has no elements is not copied.
func (l *loader) transfer(root *ir.Value, list *[]transfer) {
	at, ok := l.At(root)
	if !ok || root.Type.Kind != ir.TensorType {
		return
	}
	if size := int64(root.Type.DType.Bytes(root.Type.Elements())); size > 0 {
		*list = append(*list, transfer{root: root, Location: at, size: size})
	}
}

// byHost appends a step of the host, and downloads what it needs.
func (l *loader) byHost(n *ir.Node) {
	h := &host{node: n}
	for _, v := range n.Inputs {
		h.in = append(h.in, l.value(v))
		if v != nil {
			l.bringDown(l.Layout(v).Root)
		}
	}
	for _, v := range n.Outputs {
		root := l.Layout(v).Root
		h.out = append(h.out, root)
		l.fresh[root.ID], l.present[root.ID] = false, true
	}
	l.last().host = h
	l.sections = append(l.sections, section{reports: len(l.reports)})
}

// value resolves a value for the host.
func (l *loader) value(v *ir.Value) value {
	if v == nil {
		return value{}
	}
	return value{v, l.Layout(v)}
}

// results lists where the outputs are at the end: device tensors on the device, others wherever they were made.
func (l *loader) results() {
	down := map[int]bool{}
	for _, v := range l.Graph.Outputs {
		root := l.Layout(v).Root
		o := output{value: l.value(v)}
		if v.Type.Kind == ir.TensorType {
			o.bytes = int64(v.Type.DType.Bytes(v.Type.Elements()))
		}
		switch _, outside := l.outside[root.ID]; {
		case outside:
			o.outside = true
			l.bringUp(root)
		case (root.IsConst() || l.present[root.ID]) && !down[root.ID]:
			o.onHost = true
		default:
			down[root.ID] = true
			l.bringDown(root)
		}
		l.outputs = append(l.outputs, o)
	}
}

// stage lays the staging memory out. Downloads of one section come where those of another were, which the host has copied by then.
func (l *loader) stage() {
	if l.r.StagedUploads {
		for i := range l.sections {
			assignStaging(l.sections[i].up, &l.uploads)
		}
	}
	for i := range l.sections {
		s, size := &l.sections[i], l.uploads
		assignStaging(s.down, &size)
		end := len(l.reports)
		if i+1 < len(l.sections) {
			end = l.sections[i+1].reports
		}
		if n := StatusBytes * int64(end-s.reports); n > 0 {
			s.status = transfer{Location: Location{Status, StatusBytes * int64(s.reports)}, size: n, staged: size}
			size += n
		}
		l.staging = max(l.staging, size)
	}
	staged := map[*ir.Value]int64{}
	for _, t := range l.last().down {
		staged[t.root] = t.staged
	}
	for i := range l.outputs {
		o := &l.outputs[i]
		o.staged = staged[o.layout.Root] + int64(o.layout.Offset*o.of.Type.DType.Size())
	}
}

// assignStaging assigns staging memory to transfers.
func assignStaging(list []transfer, size *int64) {
	for i := range list {
		list[i].staged = *size
		*size += align(list[i].size, stagedAlign)
	}
}

// HostSteps implements backend.Program: downloads belong to the step that waits for them, uploads to the one that made their root,
// unless that is an input.
func (p *loaded) HostSteps() []backend.HostStep {
	var steps []backend.HostStep
	maker := map[*ir.Value]int{} // of a root: index into steps
	for _, s := range p.sections {
		for _, t := range s.up {
			if i, ok := maker[t.root]; ok {
				steps[i].Up += t.size
			}
		}
		if s.host == nil {
			continue
		}
		var down int64
		for _, t := range s.down {
			down += t.size
		}
		for _, root := range s.host.out {
			maker[root] = len(steps)
		}
		steps = append(steps, backend.HostStep{Node: s.host.node, Down: down})
	}
	return steps
}

// commands lists the commands of each section. Where memory is poisoned, it is so as a whole before the first section, and buffer by
// buffer when their lives end.
func (p *loaded) commands(poisoned bool) [][]Command {
	list := make([][]Command, len(p.sections))
	dead := 0 // steps whose dead buffers are poisoned
	for i, s := range p.sections {
		var c []Command
		bury := func(before int) {
			if !poisoned {
				return
			}
			for k, b := range p.Problem.Buffers {
				if at, size := p.Buffer(k); b.Last > dead && b.Last <= before && at.Segment >= 0 && size > 0 {
					c = append(c, Command{Kind: Copy, Location: at, From: poison, Size: size})
				}
			}
			dead = max(dead, before)
		}
		if i == 0 && poisoned {
			for k, size := range p.arenas {
				c = append(c, Command{Kind: Copy, Location: Location{Segment: k}, From: poison, Size: size})
			}
		}
		if len(s.steps) > 0 {
			bury(s.steps[0].number)
		}
		for _, t := range s.up {
			c = append(c, Command{Kind: Upload, Location: t.Location, Size: t.size, Staged: t.staged})
		}
		for _, x := range s.steps {
			bury(x.number)
			for k := x.first; k < x.end; k++ {
				c = append(c, Command{Kind: Launch, Node: x.node, Launch: k})
			}
		}
		for _, t := range append(s.down[:len(s.down):len(s.down)], s.status) {
			if t.size > 0 {
				c = append(c, Command{Kind: Download, Location: t.Location, Size: t.size, Staged: t.staged})
			}
		}
		list[i] = c
	}
	return list
}
