package wgpu

import (
	"errors"
	"runtime"

	"github.com/rlxc/rlxc/internal/backend"
	"github.com/rlxc/rlxc/internal/native"
	"github.com/rlxc/rlxc/internal/target"
	"github.com/rlxc/rlxc/ir"
)

// program is a planned graph as a list of actions. Where each root's value is at any time, on the host, the device or
// both, is known when the list is made; so it moves only when somebody reads it on the other side.
type program struct {
	d       *Device
	planned *backend.Planned
	actions []action
	arenas  []int64 // sizes
	staging int64   // bytes that the largest download needs
	outputs []output
	final   *download // of the outputs, the last action if it has anything to do
	// hostReads are the roots, by ID, that the host reads in steps of its own or as outputs.
	hostReads map[int]bool

	params  *native.Buffer // of all dispatches, paramBytes each
	reports []report       // of the status memory
}

// An action is one of the following.
type action interface{ run(in *instance) error }

// dispatch runs a pipeline.
type dispatch struct {
	number   int // in the program: its place in params and its bind group
	node     *ir.Node
	step     int
	pipeline *native.Pipeline
	memories []memory
	groups   [3]uint32
}

// A place is a root's memory in the arena.
type place struct {
	root  int // ID
	arena int
	off   int64
	size  int64
}

// upload brings a root from the host to the device; download the other way, many at once, and waits for them.
type (
	upload   struct{ place }
	download struct {
		places []place
		at     []int64 // in the staging buffer
	}
)

// host runs a node by its Eval.
type host struct {
	node *ir.Node
	in   []operand
	out  []operand
	step int
}

// An output is given from the host's copy of its root, or from the staging buffer.
type output struct {
	operand
	onHost bool
	staged int // the root's index in the last download
}

// stagingAlign is the alignment of downloads in the staging buffer: that of tensors.
const stagingAlign = 64

// Load implements backend.Device.
func (d *Device) Load(p *backend.Planned) (backend.Program, error) {
	l := &loader{
		binder:  &binder{d: d, p: p, own: weights{}},
		prog:    &program{d: d, planned: p},
		fresh:   make([]bool, p.Graph.NumValues()),
		present: make([]bool, p.Graph.NumValues()),
	}
	if err := l.load(); err != nil {
		l.release()
		return nil, err
	}
	params, own := l.prog.params, l.own
	runtime.AddCleanup(l.prog, func(int) { releaseAll(params, own) }, 0)
	return l.prog, nil
}

func releaseAll(params *native.Buffer, own weights) {
	if params != nil {
		params.Release()
	}
	own.release()
}

// loader makes the list of actions.
type loader struct {
	*binder
	prog    *program
	fresh   []bool // by the ID of a root: the device has the value
	present []bool // by the ID of a root: the host has the value
	params  []byte
	shaders []*shader // of the dispatches
}

func (l *loader) release() { releaseAll(l.prog.params, l.own) }

func (l *loader) load() error {
	for _, v := range l.p.Graph.Inputs {
		l.present[v.ID] = true
	}
	for i, n := range l.p.Steps {
		l.node, l.scratch = n, l.p.Scratch[i]
		if err := l.step(i, n); err != nil {
			return n.Fail(err)
		}
	}
	l.results()
	for _, a := range l.p.Plan.Arenas {
		l.prog.arenas = append(l.prog.arenas, int64(pad(int(a.Size), alignment)))
	}
	l.prog.reports = l.reports
	if len(l.params) == 0 {
		return nil
	}
	if err := l.compile(); err != nil {
		return err
	}
	var err error
	if l.prog.params, err = l.d.gpu.Buffer("the parameters", int64(len(l.params)), native.ForUniforms|native.CopyTarget); err != nil {
		return err
	}
	return l.prog.params.Write(0, l.params)
}

// compile makes the pipelines of the dispatches.
func (l *loader) compile() error {
	pipelines, err := l.d.compile(l.shaders)
	if err == nil {
		for _, a := range l.prog.actions {
			if d, ok := a.(*dispatch); ok {
				d.pipeline = pipelines[d.number]
			}
		}
		return nil
	}
	for _, a := range l.prog.actions { // whose it is
		if d, ok := a.(*dispatch); ok {
			if _, err := l.d.compile(l.shaders[d.number : d.number+1]); err != nil {
				return d.node.Fail(err)
			}
		}
	}
	return err
}

// step lists what a node does: its launches if its kernel takes it as it is, its Eval otherwise.
func (l *loader) step(i int, n *ir.Node) error {
	if l.takes(n) {
		var launches []launch
		var err error
		if !empty(n) {
			launches, err = l.d.rows[n.Op.Kind()].bind(l.binder, n)
		}
		if err == nil {
			err = l.launches(i, n, launches)
		}
		if !errors.Is(err, errOnHost) {
			return err
		}
	}
	return l.onHost(i, n)
}

// takes reports whether a node can run on the device where its operands are.
func (l *loader) takes(n *ir.Node) bool {
	if l.d.target.Where(n) != target.OnKernel {
		return false
	}
	for _, v := range n.Outputs {
		if !l.onDevice(v, false) {
			return false
		}
	}
	if empty(n) {
		return true
	}
	for _, v := range n.Inputs {
		if v == nil {
			continue
		}
		if !l.onDevice(v, l.pieces(n, v)) || v.Type.Sizes().Elements() == 0 && n.Op.Kind() != ir.KindConcat {
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

// launches appends the dispatches of a step, after the uploads that they need.
func (l *loader) launches(i int, n *ir.Node, launches []launch) error {
	var list []dispatch
	params := l.params
	for _, x := range launches {
		if !l.d.fits(x.shader) {
			return errOnHost
		}
		list = append(list, dispatch{number: len(params) / paramBytes, node: n, step: i, memories: x.shader.memories, groups: x.groups})
		params = append(params, x.shader.block()...)
	}
	for _, v := range n.Inputs {
		if v != nil && !l.p.Layout(v).Root.IsConst() {
			l.bringUp(l.p.Layout(v).Root)
		}
	}
	l.params = params
	for k := range list {
		l.prog.actions = append(l.prog.actions, &list[k])
		l.shaders = append(l.shaders, launches[k].shader)
	}
	for _, v := range n.Outputs {
		id := l.p.Layout(v).Root.ID
		l.fresh[id], l.present[id] = true, false
	}
	return nil
}

// place is where a root lies; roots without elements lie nowhere.
func (l *loader) place(root *ir.Value) (place, bool) {
	s, ok := l.p.Slot(root)
	if !ok || root.Type.Kind != ir.TensorType {
		return place{}, false
	}
	size := int64(root.Type.DType.Bytes(root.Type.Sizes().Elements()))
	return place{root.ID, s.Arena, s.Offset, size}, size > 0
}

// bringUp makes sure that the device has a root's value.
func (l *loader) bringUp(root *ir.Value) {
	if l.fresh[root.ID] {
		return
	}
	l.fresh[root.ID] = true
	if p, ok := l.place(root); ok {
		l.prog.actions = append(l.prog.actions, &upload{p})
	}
}

// onHost appends a step of the host, after the download that it needs.
func (l *loader) onHost(i int, n *ir.Node) error {
	h, down := &host{node: n, step: i}, &download{}
	for _, v := range n.Inputs {
		if v == nil {
			h.in = append(h.in, operand{})
			continue
		}
		h.in = append(h.in, l.hostOperand(v))
		if root := l.p.Layout(v).Root; !root.IsConst() && !l.present[root.ID] {
			l.present[root.ID] = true
			if p, ok := l.place(root); ok {
				down.add(p)
			}
		}
	}
	if len(down.places) > 0 {
		l.prog.actions = append(l.prog.actions, down)
		l.prog.staging = max(l.prog.staging, down.size())
	}
	for _, v := range n.Outputs {
		h.out = append(h.out, l.hostOperand(v))
		id := l.p.Layout(v).Root.ID
		l.fresh[id], l.present[id] = false, true
	}
	l.prog.actions = append(l.prog.actions, h)
	return nil
}

// hostOperand resolves a value for the host: offsets count from the root's own first byte.
func (l *loader) hostOperand(v *ir.Value) operand {
	lay := l.p.Layout(v)
	o := operand{dtype: v.Type.DType, root: lay.Root.ID, strides: lay.Strides, width: v.Type.DType.Size()}
	if v.Type.Kind == ir.TensorType {
		o.shape = v.Type.Sizes()
	}
	o.off = lay.Offset * o.width
	if lay.Root.IsConst() {
		o.constant = lay.Root.Const
	}
	return o
}

// results lists where the outputs are at the end.
func (l *loader) results() {
	down := &download{}
	index := map[int]int{}
	for _, v := range l.p.Graph.Outputs {
		root := l.p.Layout(v).Root
		out := output{operand: l.hostOperand(v), onHost: l.present[root.ID]}
		if p, ok := l.place(root); ok && !out.onHost {
			k, known := index[root.ID]
			if !known {
				k = len(down.places)
				index[root.ID] = k
				down.add(p)
			}
			out.staged = k
		}
		l.prog.outputs = append(l.prog.outputs, out)
	}
	l.prog.final = down
	l.prog.hostReads = map[int]bool{}
	for _, a := range l.prog.actions {
		if h, ok := a.(*host); ok {
			for _, o := range h.in {
				l.prog.hostReads[o.root] = true
			}
		}
	}
	for _, o := range l.prog.outputs {
		l.prog.hostReads[o.root] = l.prog.hostReads[o.root] || o.onHost
	}
	if len(down.places) > 0 || len(l.reports) > 0 {
		l.prog.actions = append(l.prog.actions, down)
		l.prog.staging = max(l.prog.staging, down.size())
	}
}

func (d *download) add(p place) {
	d.at = append(d.at, d.size())
	d.places = append(d.places, p)
}

// statusBytes is the size of the status memory.
func (p *program) statusBytes() int64 { return 4 * reportWords * int64(len(p.reports)) }

// stagingBytes is the size of the staging buffer.
func (p *program) stagingBytes() int64 { return p.staging + int64(pad(int(p.statusBytes()), 16)) }

// size is what the download takes in the staging buffer so far.
func (d *download) size() int64 {
	if n := len(d.places); n > 0 {
		return int64(pad(int(d.at[n-1]+d.places[n-1].size), stagingAlign))
	}
	return 0
}

// HostSteps implements backend.Program: a download goes before the step that waits for it, an upload after the one that made
// its root, or that root is an input.
func (p *program) HostSteps() []backend.HostStep {
	var steps []backend.HostStep
	maker := map[int]int{} // of a root by its ID: index into steps
	var down int64
	for _, a := range p.actions {
		switch a := a.(type) {
		case *download:
			for _, place := range a.places {
				down += place.size
			}
		case *upload:
			if i, ok := maker[a.root]; ok {
				steps[i].Up += a.size
			}
		case *host:
			for _, o := range a.out {
				maker[o.root] = len(steps)
			}
			steps = append(steps, backend.HostStep{Node: a.node, Down: down})
			down = 0
		}
	}
	return steps
}
