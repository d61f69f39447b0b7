package cpu

import (
	"context"
	"fmt"
	"sync"
	"time"
	"unsafe"

	"github.com/rlxc/rlxc/arena"
	"github.com/rlxc/rlxc/backend"
	"github.com/rlxc/rlxc/ir"
	"github.com/rlxc/rlxc/tensor"
)

// memory is the arena of one session. It grows to the largest program that ran in it.
type memory struct {
	bytes  []byte
	used   int64 // bytes that hold pages of the system
	poison byte  // 0 for none
}

// slack is how much of an arena stays when a smaller program runs in it. What is above goes back to the system: a program
// that needs it again pays the page faults, which take a hundredth of the time that it computes.
const slack = 8 << 20

// Poison makes every run fill the arena with a byte before it starts and each buffer when its life ends, so that a read of
// memory that the plan calls dead shows: 0xFF is a NaN in every float type, 0xA5 a wild index. 0 ends it. For tests.
func (m *memory) Poison(with byte) { m.poison = with }

func fill(b []byte, with byte) {
	for i := range b {
		b[i] = with
	}
}

// Size implements backend.Memory.
func (m *memory) Size() int64 { return m.used }

// Close implements backend.Memory.
func (m *memory) Close() { m.bytes, m.used = nil, 0 }

// fit makes room for n bytes, and gives back what a larger program has used.
func (m *memory) fit(n int64) {
	switch {
	case m.bytes == nil || int64(len(m.bytes)) < n: // not nil even when empty: base then says that the outputs are shown
		// Twice as much, so that growing shapes do not leave a row of arenas to the garbage collector. Pages that nobody touches
		// take no memory.
		m.bytes = tensor.AlignedBytes(int(max(n, 2*int64(len(m.bytes)))))
		m.used = n
	case m.used > n+slack:
		tensor.ReleasePages(m.bytes[n:m.used])
		m.used = n
	default:
		m.used = max(m.used, n)
	}
}

// A machine is what a step runs on: the arena, and the place for the first error.
type machine struct {
	base unsafe.Pointer
	// objects holds, by the ID of a root, values that are not bytes: strings.
	objects []*tensor.Tensor

	mu  sync.Mutex
	err error
}

// fail keeps the first error of a run; parts of a step may fail at once.
func (m *machine) fail(n *ir.Node, err error) {
	m.mu.Lock()
	if m.err == nil {
		m.err = n.Fail(err)
	}
	m.mu.Unlock()
}

// A step is a kernel with its operands fixed.
type step struct {
	node  *ir.Node
	parts int
	// run executes one part. No two parts with the same worker number run at once: it chooses the scratch.
	run func(m *machine, part, worker int)
	// then is what follows when all parts are done: some kernels work in phases.
	then *step
}

// inTurn joins phases to one step.
func inTurn(phases ...step) step {
	for i := len(phases) - 1; i > 0; i-- {
		phases[i-1].then = &phases[i]
	}
	return phases[0]
}

// program is a planned graph as a list of steps.
type program struct {
	d       *Device
	planned *backend.Planned
	steps   []step
	arena   *arena.Layout
	inputs  []operand
	outputs []operand
	dies    [][]operand // by step: the buffers whose life ends there, for poison runs
}

// Load implements backend.Device.
func (d *Device) Load(p *backend.Planned) (backend.Program, error) {
	layout, err := arena.NewLayout(p.Problem, p.Plan, 0)
	if err != nil {
		return nil, err
	}
	b := &binder{d: d, p: p, arena: layout}
	prog := &program{d: d, planned: p, arena: layout}
	for _, v := range p.Graph.Inputs {
		prog.inputs = append(prog.inputs, b.operand(v))
	}
	for i, n := range p.Steps {
		b.scratch = p.Scratch[i]
		st, err := d.bind(b, n)
		if err != nil {
			return nil, n.Fail(err)
		}
		for phase := &st; phase != nil; phase = phase.then {
			phase.node = n
		}
		prog.steps = append(prog.steps, st)
	}
	for _, v := range p.Graph.Outputs {
		prog.outputs = append(prog.outputs, b.operand(v))
	}
	return prog, nil
}

// Attach implements backend.Program.
func (p *program) Attach(m backend.Memory) (backend.Instance, error) {
	mem, ok := m.(*memory)
	if !ok {
		return nil, fmt.Errorf("backend cpu cannot run in the memory of another backend")
	}
	in := &instance{program: p, memory: mem, out: make([]*tensor.Tensor, len(p.outputs))}
	in.machine.objects = make([]*tensor.Tensor, p.planned.Graph.NumValues())
	for _, v := range p.planned.Graph.Consts() {
		if v.Type.DType == tensor.String {
			in.machine.objects[v.ID] = v.Const
		}
	}
	if p.d.times {
		in.times = make([]backend.StepTime, len(p.steps))
	}
	in.part = func(part, worker int) { in.current.run(&in.machine, part, worker) }
	return in, nil
}

// instance is a program on a memory.
type instance struct {
	*program
	memory  *memory
	machine machine
	current *step
	part    func(part, worker int) // runs a part of current: made once, so that a run makes no closures
	out     []*tensor.Tensor
	base    unsafe.Pointer     // of the arena that out shows
	times   []backend.StepTime // of the last run; nil where they are not kept
}

// Profile implements backend.Profiler.
func (in *instance) Profile() []backend.StepTime { return in.times }

// Run implements backend.Instance.
func (in *instance) Run(ctx context.Context, inputs []*tensor.Tensor) (_ []*tensor.Tensor, err error) {
	in.memory.fit(in.arena.Size())
	if in.machine.base = unsafe.Pointer(unsafe.SliceData(in.memory.bytes)); in.base != in.machine.base {
		in.show()
	}
	in.machine.err = nil
	defer in.recover(&err)
	if in.memory.poison != 0 {
		fill(in.memory.bytes[:in.arena.Size()], in.memory.poison)
	}
	for i := range in.inputs {
		if o := &in.inputs[i]; o.dtype == tensor.String {
			in.machine.objects[o.root] = inputs[i]
		} else {
			copy(o.bytes(&in.machine), inputs[i].Bytes())
		}
	}
	done := ctx.Done()
	var start time.Time
	if in.times != nil {
		start = time.Now()
	}
	for i := range in.steps {
		st := &in.steps[i]
		in.current = st
		if in.times != nil {
			in.times[i].Node, in.times[i].Start = st.node, time.Since(start)
		}
		for ; in.current != nil; in.current = in.current.then {
			in.d.pool.Run(in.current.parts, in.part)
		}
		if in.times != nil {
			in.times[i].End = time.Since(start)
		}
		if in.machine.err != nil {
			return nil, in.machine.err
		}
		if done != nil && ctx.Err() != nil {
			return nil, ctx.Err()
		}
		if in.memory.poison != 0 {
			in.poisonDead(i)
		}
	}
	for i := range in.outputs {
		if o := &in.outputs[i]; o.dtype == tensor.String {
			in.out[i] = in.machine.objects[o.root]
		}
	}
	return in.out, nil
}

// recover turns a panic of a kernel into an error that names the step: the process lives on.
func (in *instance) recover(err *error) {
	if r := recover(); r != nil {
		*err = fmt.Errorf("internal error at node %s (%s): %v", in.current.node.Label(), ir.OpName(in.current.node.Op), r)
	}
}

// show makes the output tensors over the arena, again only when the arena has moved.
func (in *instance) show() {
	for i := range in.outputs {
		o := &in.outputs[i]
		if o.dtype == tensor.String {
			continue
		}
		t, err := tensor.FromBytes(o.dtype, o.shape, o.bytes(&in.machine))
		if err != nil {
			panic(err) // the plan gave the buffer its size
		}
		in.out[i] = t
	}
	in.base = in.machine.base
}

// poisonDead poisons the buffers whose life ended with step i.
func (in *instance) poisonDead(i int) {
	if in.dies == nil {
		in.dies = make([][]operand, len(in.steps))
		for k, b := range in.planned.Problem.Buffers {
			if off, err := in.arena.Offset(k); b.Last-1 < len(in.steps) && err == nil {
				in.dies[b.Last-1] = append(in.dies[b.Last-1], operand{off: int(off), span: int(in.arena.Capacity(k)), width: 1})
			}
		}
	}
	for k := range in.dies[i] {
		fill(in.dies[i][k].bytes(&in.machine), in.memory.poison)
	}
}
