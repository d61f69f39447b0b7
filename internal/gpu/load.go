package gpu

import (
	"errors"
	"runtime"

	"github.com/rlxc/rlxc/internal/backend"
	"github.com/rlxc/rlxc/internal/target"
	"github.com/rlxc/rlxc/ir"
)

// program implements backend.Program. Refit replaces loaded.
type program struct {
	*loaded
	r *Runtime
}

// loaded is a planned graph as a list of sections. The list is made once, in the order of the steps. While it is made, the loader keeps
// track of whether the host, the device or both have each root's value, so that a value is copied only if the other side reads it.
type loaded struct {
	*Locations
	kernels  Kernels
	sections []section
	arenas   []int64 // bytes of each arena, aligned, and of the stream
	uploads  int64   // bytes of staging memory for the uploads of all sections; 0 if uploads are not staged
	staging  int64   // bytes of staging memory, uploads included
	outputs  []output
}

// A section is a list of commands that the device runs without the host, and a step on the host after them. All uploads of a section come
// first. An uploaded value is an input or the result of an earlier step on the host, so no other value uses its memory any more.
type section struct {
	up       []transfer
	steps    []step
	down     []transfer
	launches int      // number of launches of steps
	reports  int      // index in Locations.reports of the section's first report
	status   transfer // download of the section's reports; its size is 0 if there are none
	host     *host    // nil for the last section
}

// A step is a node that runs on the device by the launches first, first+1, …, end-1.
type step struct {
	node       *ir.Node
	number     int // index of the step in the plan
	first, end int
	streamed   []Streamed // weights that are copied to the stream before the launches
}

// A transfer is a copy of a root from the host to the device or back.
type transfer struct {
	root     *ir.Value
	Location       // memory of the root on the device
	size     int64 // bytes
	staged   int64 // offset in the staging memory
}

// A host step runs a node by its Eval.
type host struct {
	node *ir.Node
	in   []value
	out  []*ir.Value // roots of the node's results
}

// A value is an operand or an output, which the host reads from its copy of the operand's root.
type value struct {
	of     *ir.Value // nil for an absent operand
	layout ir.Layout
}

// An output is a view of the host's copy of its root, a view of staging memory, or a device tensor.
type output struct {
	value
	outside bool  // the output is a device tensor
	onHost  bool  // the output is a view of the host's copy of its root
	staged  int64 // offset of the first byte in the staging memory, if neither outside nor onHost is set
	bytes   int64 // size of the output
}

// stagedAlign is the alignment of values in staging memory, in bytes. It equals that of tensors, because outputs are views of this memory.
const stagedAlign = 64

// Load implements backend.Device.
func (r *Runtime) Load(p *backend.Planned) (backend.Program, error) {
	l, err := r.load(p)
	if err != nil {
		return nil, err
	}
	return &program{l, r}, nil
}

// Refit implements backend.Program. It makes all launches again, which takes less time than planning. Instances make new recordings in
// their next runs.
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
	l.arenas = append(l.arenas, r.aligned(l.stream))
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
	stream   int64  // bytes of the stream that steps so far need
	fresh    []bool // whether the device has the current value of each root, by ID
	present  []bool // whether the host has the current value of each root, by ID
}

// last returns the last section of the list.
func (l *loader) last() *section { return &l.sections[len(l.sections)-1] }

// step appends a node to the list: its launches if its kernel supports it, otherwise a step on the host.
func (l *loader) step(i int, n *ir.Node) error {
	if l.runsOnDevice(n) {
		reports, launches := len(l.reports), 0
		var err error
		l.streamed = nil
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

// runsOnDevice reports whether the target has a kernel for a node, and the kernel can reach all operands and results.
func (l *loader) runsOnDevice(n *ir.Node) bool {
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

// onKernel appends the launches of step i of the plan, and uploads of the operands that the device does not have.
func (l *loader) onKernel(i int, n *ir.Node, launches int) {
	for _, v := range n.Inputs {
		if v != nil {
			l.bringUp(l.Layout(v).Root)
		}
	}
	if launches > 0 {
		s := l.last()
		s.steps = append(s.steps, step{n, i, l.launched, l.launched + launches, l.streamed})
		for _, x := range l.streamed {
			l.stream = max(l.stream, x.Offset+align(int64(len(x.Data)), streamAlign))
		}
		s.launches += launches
		l.launched += launches
	}
	for _, v := range n.Outputs {
		id := l.Layout(v).Root.ID
		l.fresh[id], l.present[id] = true, false
	}
}

// bringUp adds an upload to the last section unless the device has the root's value.
func (l *loader) bringUp(root *ir.Value) {
	if root.IsConst() || l.fresh[root.ID] {
		return
	}
	l.fresh[root.ID] = true
	l.transfer(root, &l.last().up)
}

// bringDown adds a download to the last section unless the host has the root's value.
func (l *loader) bringDown(root *ir.Value) {
	if root.IsConst() || l.present[root.ID] {
		return
	}
	l.present[root.ID] = true
	l.transfer(root, &l.last().down)
}

// transfer adds a copy of a root to a list. A root without elements is not copied.
func (l *loader) transfer(root *ir.Value, list *[]transfer) {
	at, ok := l.At(root)
	if !ok || root.Type.Kind != ir.TensorType {
		return
	}
	if size := int64(root.Type.DType.Bytes(root.Type.Elements())); size > 0 {
		*list = append(*list, transfer{root: root, Location: at, size: size})
	}
}

// byHost ends the last section with a step on the host, for which it downloads the operands that the host does not have.
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

// value returns a value with its layout, and an empty one for an absent operand.
func (l *loader) value(v *ir.Value) value {
	if v == nil {
		return value{}
	}
	return value{v, l.Layout(v)}
}

// results lists the outputs. Outputs that are device tensors stay on the device, and those that the host has are views of its copies. The
// others are downloaded.
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

// stage assigns offsets in the staging memory. Uploads have memory of their own. The downloads of all sections share the memory after it,
// since the host copies the downloads of a section before the next section is submitted.
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

// assignStaging gives each transfer an offset at the end of the staging memory, whose size it increases.
func assignStaging(list []transfer, size *int64) {
	for i := range list {
		list[i].staged = *size
		*size += align(list[i].size, stagedAlign)
	}
}

// HostSteps implements backend.Program. Downloads count for the step that waits for them. Uploads count for the step that computed the
// root. Uploads of inputs are not counted.
func (p *loaded) HostSteps() []backend.HostStep {
	var steps []backend.HostStep
	maker := map[*ir.Value]int{} // index in steps of the step that computes a root
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

// Streamed implements backend.Streamer.
func (p *loaded) Streamed() (copied, room int64) {
	for _, s := range p.sections {
		for _, x := range s.steps {
			for _, w := range x.streamed {
				copied += int64(len(w.Data))
			}
		}
	}
	return copied, p.arenas[len(p.arenas)-1]
}

// commands lists the commands of each section. If poisoned is set, the commands fill all arenas with the poison before the first section,
// and each buffer after the last step that uses it.
func (p *loaded) commands(poisoned bool) [][]Command {
	list := make([][]Command, len(p.sections))
	dead := 0 // buffers whose last step is at most this one have been filled
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
				if size > 0 {
					c = append(c, Command{Kind: Copy, Location: Location{Segment: k}, From: poison, Size: size})
				}
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
			for _, w := range x.streamed {
				c = append(c, Command{Kind: Upload, Location: w.Location, Size: int64(len(w.Data)), Data: w.Data})
			}
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
