package cpu

import (
	"context"
	"fmt"
	"runtime/debug"
	"slices"
	"time"
	"unsafe"

	"github.com/rlxc/rlxc/arena"
	"github.com/rlxc/rlxc/backend/cpu/kernel"
	"github.com/rlxc/rlxc/internal/backend"
	"github.com/rlxc/rlxc/internal/files"
	"github.com/rlxc/rlxc/internal/target"
	"github.com/rlxc/rlxc/ir"
	"github.com/rlxc/rlxc/planner"
	"github.com/rlxc/rlxc/tensor"
)

// memory is the arena of one session.
type memory struct {
	arena.Arena
	team   *kernel.Team
	poison byte // 0 for none
}

// Poison makes arena.Watch follow every run, which fills the arena with a byte before it starts and each buffer when its life
// ends: arena.NaNFill or arena.ByteFill. 0 ends it. For tests.
func (m *memory) Poison(with byte) { m.poison = with }

// Close implements backend.Memory.
func (m *memory) Close() { m.Free() }

// program is a planned graph as a list of steps.
type program struct {
	d       *Device
	binder  *binder       // its plan is nil between two calls of Refit
	nodes   []*ir.Node    // node of each step, which errors name; those of the program that Load returned, also after a Refit
	where   []target.Runs // where each step runs, which does not depend on sizes
	steps   []step
	parts   int // number of parts of all steps
	layout  *arena.Layout
	offsets []int64 // offset of each buffer in the arena; −1 for buffers outside the arena
	inputs  []operand
	outputs []operand
	objects []*tensor.Tensor // constant strings, indexed by the value's ID; nil if no value is of strings
}

// Load implements backend.Device.
func (d *Device) Load(p *backend.Planned) (backend.Program, error) {
	all, where := make([]int, len(p.Steps)), make([]target.Runs, len(p.Steps))
	for i, n := range p.Steps {
		all[i], where[i] = i, d.target.Where(n)
	}
	return (&program{d: d, nodes: p.Steps, binder: &binder{d: &d.processor, registers: map[int]filled{}}, where: where,
		steps: make([]step, len(p.Steps)), objects: objectsOf(p.Graph)}).Refit(p, all)
}

// objectsOf lists the constant strings of a graph by their values' IDs.
func objectsOf(g *ir.Graph) (objects []*tensor.Tensor) {
	add := func(v *ir.Value) {
		if v == nil || v.Type.DType != tensor.String {
			return
		}
		if objects == nil {
			objects = make([]*tensor.Tensor, g.NumValues())
		}
		objects[v.ID] = v.Const
	}
	for _, v := range g.Inputs {
		add(v)
	}
	for _, n := range g.Nodes {
		for _, v := range slices.Concat(n.Inputs, n.Outputs) {
			add(v)
		}
	}
	return objects
}

// fix makes a step of the plan. A step that is like another may have its closure.
func (p *program) fix(i int) (err error) {
	b := p.binder
	n, like := b.p.Steps[i], b.p.Like
	b.scratch, b.slots = b.p.Scratch[i], 0
	var st step
	shares := like != nil && like[i] >= 0 && p.steps[like[i]].locations != nil
	if shares {
		st = p.steps[like[i]]
	} else if st, err = p.d.bind(b, n, p.where[i]); err != nil {
		return n.Fail(err)
	}
	if shares || b.slots > 0 {
		st.locations = b.locations(n, p.steps[i].locations)
	}
	if st.node = p.nodes[i]; p.d.times {
		st.node = n // a profile shows its sizes
	}
	p.steps[i] = st
	return nil
}

// Refit implements backend.Program. Steps find buffers by their numbers, so those that do not depend on sizes are both programs'.
func (p *program) Refit(planned *backend.Planned, steps []int) (_ backend.Program, err error) {
	b := *p.binder
	b.p = planned
	defer func() { b.p = nil }() // programs of many sizes are kept, and their graphs are not
	q := &program{d: p.d, binder: &b, nodes: p.nodes, where: p.where, steps: slices.Clone(p.steps),
		offsets: make([]int64, len(planned.Problem.Buffers)), inputs: make([]operand, 0, len(planned.Graph.Inputs)),
		outputs: make([]operand, 0, len(planned.Graph.Outputs))}
	if p.objects != nil {
		q.objects = objectsOf(planned.Graph)
	}
	if q.layout, err = arena.NewLayout(planned.Problem, planned.Plan, 0); err != nil {
		return nil, err
	}
	for i := range q.offsets {
		if q.offsets[i] = -1; planned.Problem.Buffers[i].Boundary != planner.DeviceTensor {
			if q.offsets[i], err = q.layout.Offset(i); err != nil {
				return nil, err
			}
		}
	}
	for _, i := range steps {
		if err := q.fix(i); err != nil {
			return nil, err
		}
	}
	for i := range q.steps {
		for st := &q.steps[i]; st != nil; st = st.then {
			q.parts += st.parts
		}
	}
	for _, v := range planned.Graph.Inputs {
		q.inputs = append(q.inputs, q.binder.operand(v))
	}
	for _, v := range planned.Graph.Outputs {
		q.outputs = append(q.outputs, q.binder.operand(v))
	}
	return q, nil
}

// Growth implements backend.Program.
func (p *program) Growth(m backend.Memory) int64 { return max(p.layout.Size()-m.Size(), 0) }

// Attach implements backend.Program.
func (p *program) Attach(m backend.Memory, env *ir.Env) (backend.Instance, error) {
	if p.d.lacks != nil {
		return nil, &backend.Unavailable{Err: p.d.lacks}
	}
	mem, ok := m.(*memory)
	if !ok {
		return nil, fmt.Errorf("backend cpu cannot run in the memory of another backend")
	}
	in := &instance{program: p, memory: mem, out: make([]*tensor.Tensor, len(p.outputs))}
	in.machine.env = env
	in.machine.bases = make([]unsafe.Pointer, len(p.offsets))
	in.machine.objects = slices.Clone(p.objects)
	in.machine.workers = make([]machine, p.d.Threads())
	for i := range in.machine.workers {
		in.machine.workers[i].bases = in.machine.bases
	}
	if p.d.times {
		in.times = make([]backend.StepTime, len(p.steps))
	}
	in.part = func(part, worker int) {
		select {
		case <-in.done: // a step may be a minute's work
		default:
			in.current.run(&in.machine, part, worker)
		}
	}
	return in, nil
}

// grown returns the number of bytes of an output that it shares with the input from which it grows, and 0 if there is none.
func (in *instance) grown(o *operand) int {
	for i := range in.inputs {
		if x := &in.inputs[i]; x.outside && in.machine.bases[x.base] == in.machine.bases[o.base] {
			return x.span * x.width
		}
	}
	return 0
}

// HostSteps implements backend.Program.
func (p *program) HostSteps() []backend.HostStep {
	var steps []backend.HostStep
	for i, n := range p.nodes {
		if p.where[i] == target.OnHost {
			steps = append(steps, backend.HostStep{Node: n})
		}
	}
	return steps
}

// instance is a program on a memory.
type instance struct {
	*program
	memory  *memory
	machine machine
	step    *step                  // step that runs
	current *step                  // phase of the step that runs
	part    func(part, worker int) // runs a part of current; made once, so that a run allocates no closure
	done    <-chan struct{}        // closed when the run's context ends
	out     []*tensor.Tensor       // results of the last run
	base    unsafe.Pointer         // address of the arena of which the tensors in out are views
	times   []backend.StepTime     // times of the last run; nil if they are not recorded
}

// Profile implements backend.Profiler.
func (in *instance) Profile() []backend.StepTime { return in.times }

// Run implements backend.Instance.
func (in *instance) Run(ctx context.Context, inputs []*tensor.Tensor) (_ []*tensor.Tensor, err error) {
	in.memory.Fit(in.layout)
	if base := unsafe.Pointer(unsafe.SliceData(in.memory.Memory())); in.base != base {
		in.base = base
		in.show()
	}
	in.machine.err = nil
	defer in.recover(&err, debug.SetPanicOnFault(true))
	team := in.memory.team
	team.Enter(in.parts)
	defer team.Leave()
	var watch *arena.Watch
	if in.memory.poison != 0 {
		watch = arena.NewWatch(&in.memory.Arena, in.memory.poison)
		for i := range in.outputs {
			if o := &in.outputs[i]; o.outside {
				arena.Fill(o.bytes(&in.machine)[in.grown(o):], in.memory.poison)
			}
		}
	}
	for i := range in.inputs {
		switch o := &in.inputs[i]; {
		case o.dtype == tensor.String:
			in.machine.objects[o.root] = inputs[i]
		case !o.outside:
			copy(o.bytes(&in.machine), inputs[i].Bytes())
		}
	}
	in.done = ctx.Done()
	var start time.Time
	if in.times != nil {
		start = time.Now()
	}
	for i := range in.steps {
		st := &in.steps[i]
		in.step, in.current, in.machine.locations = st, st, st.locations
		if watch != nil {
			watch.Before(i)
		}
		if in.times != nil {
			in.times[i].Node, in.times[i].Start = st.node, time.Since(start)
		}
		team.Run(st.parts, in.part)
		for in.current.then != nil && in.machine.err == nil { // a phase trusts what the one before has checked
			in.current = in.current.then
			team.Run(in.current.parts, in.part)
		}
		if in.times != nil {
			in.times[i].End = time.Since(start)
		}
		if in.machine.err != nil {
			return nil, st.node.Fail(in.machine.err)
		}
		if in.done != nil && ctx.Err() != nil {
			return nil, ctx.Err()
		}
		if watch != nil {
			if err := watch.After(i); err != nil {
				return nil, st.node.Fail(err)
			}
		}
	}
	for i := range in.outputs {
		if o := &in.outputs[i]; o.dtype == tensor.String {
			in.out[i] = in.machine.objects[o.root]
		}
	}
	return in.out, nil
}

// recover turns a panic of a kernel into an error that names the step, so that the process continues.
func (in *instance) recover(err *error, before bool) {
	debug.SetPanicOnFault(before)
	r := recover()
	if r == nil {
		return
	}
	if *err = files.FaultError(r); *err == nil {
		*err = fmt.Errorf("internal error at node %s (%s): %v", in.step.node.Label(), ir.OpName(in.step.node.Op), r)
	}
}

// show finds the buffers and makes the output tensors, again only when the arena has moved.
func (in *instance) show() {
	for i, offset := range in.offsets {
		if offset >= 0 {
			in.machine.bases[i] = unsafe.Add(in.base, offset)
		}
	}
	for i := range in.outputs {
		o := &in.outputs[i]
		if o.dtype == tensor.String || o.outside {
			continue
		}
		t, err := tensor.FromBytes(o.dtype, o.shape, o.bytes(&in.machine))
		if err != nil {
			panic(err) // the plan gave the buffer its size
		}
		in.out[i] = t
	}
}

// NewMemory implements backend.Device.
func (d *Device) NewMemory() backend.Memory { return &memory{team: d.pool.NewTeam()} }

// bind makes the step of a node.
func (d *Device) bind(b *binder, n *ir.Node, where target.Runs) (step, error) {
	if isEmpty(n) {
		return bindEmpty(b, n), nil
	}
	in, out := b.operands(n)
	switch where {
	case target.OnKernel:
		e := d.kernels[n.Op.Kind()]
		if e.Shares == nil || !e.Shares(n) {
			return e.Bind(b, n, in, out)
		}
		b.share(n, in, out)
		return e.Bind(b, n, in, out)
	case target.OnHost:
		return bindHost(b, n, in, out)
	}
	return step{}, fmt.Errorf("%s is no step", ir.OpName(n.Op))
}
