package engine

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"runtime/debug"
	"slices"

	"github.com/rlxc/rlxc/internal/backend"
	"github.com/rlxc/rlxc/internal/ops"
	"github.com/rlxc/rlxc/ir"
	"github.com/rlxc/rlxc/tensor"
)

// A frame has the memory and the plans of the stages of a unit, for one session, and the values of its current run.
type frame struct {
	*unit
	s     *Session
	io    *ioBinding // device tensors; nil in the body of a loop
	parts []part     // one for each stage

	passed map[*ir.Value]*DeviceTensor // what a run passes from graph to graph on the device

	values map[*ir.Value]*tensor.Tensor // what passes between stages, where it is on the host
	done   []content                    // for each output, the content of a device tensor, which changes when the run has succeeded
	out    []*tensor.Tensor             // outputs

	seen   []tensor.Shape // shapes of the inputs, from which the sizes follow
	around ir.Binding     // for a body, the sizes of the caller in its last call
	known  ir.Binding     // the sizes of the strict inputs
	loose  ir.Binding     // sizes that the lazy inputs add, if they agree
	sizes  ir.Binding     // known, loose, and the sizes that the run has found
	sliced slicing        // slices of the last run that did not fit
	starts sequenceStarts // starts of the sequences of a packed batch, whose outputs stay packed; nil for a padded batch
}

// A part has the memory and the plans of one stage of a frame that runs on the device.
type part struct {
	memory   backend.Memory
	instance backend.Instance // instance that ran last; nil if it must be bound again
	bound    *Binding         // binding of instance
	sizes    []int            // sizes of the last bound run, in the order of the stage's symbols
	outside  ports            // where the kernels may work on a device tensor's own memory
	boxes    []*entry         // the one used last in front
	boxesAt  ports            // outside of boxes

	in       []*tensor.Tensor
	from, to []backend.Buffer // device tensors, by input and output
}

func (s *Session) newFrame(u *unit) *frame {
	f := &frame{unit: u, s: s, parts: make([]part, len(u.stages)), values: make(map[*ir.Value]*tensor.Tensor, len(u.readers)),
		done: make([]content, len(u.graph.Outputs)), out: make([]*tensor.Tensor, len(u.graph.Outputs)),
		seen: make([]tensor.Shape, len(u.graph.Inputs)), passed: make(map[*ir.Value]*DeviceTensor, len(u.passed))}
	for _, v := range u.passed {
		f.passed[v] = &DeviceTensor{p: s.p}
	}
	for i := range u.stages {
		if g := u.stages[i].graph; g != nil {
			f.parts[i] = part{memory: s.p.device.NewMemory(), in: make([]*tensor.Tensor, len(g.Inputs)),
				from: make([]backend.Buffer, len(g.Inputs)), to: make([]backend.Buffer, len(g.Outputs))}
		}
	}
	return f
}

// memories are the arenas of the stages.
func (f *frame) memories() (all []backend.Memory) {
	for i := range f.parts {
		if m := f.parts[i].memory; m != nil {
			all = append(all, m)
		}
	}
	return all
}

// run runs the stages from the first one on. The values that they read from elsewhere are there. The frame owns the slice that it
// returns.
func (f *frame) run(ctx context.Context, first int) (_ []*tensor.Tensor, err error) {
	defer Guard(&err, debug.SetPanicOnFault(true))
	defer f.release()
	clear(f.done)
	for i := first; i < len(f.stages); i++ {
		seg := &f.stages[i]
		if f.starts != nil && len(seg.unpacks()) > 0 {
			err = f.stayPacked(seg.unpacks())
		} else if seg.node != nil {
			err = f.runNode(ctx, seg.node)
		} else if len(seg.outputs) > 0 {
			err = f.runDevice(ctx, i)
		}
		if err != nil {
			return nil, f.inSequence(i, err)
		}
		for _, v := range seg.dead {
			f.s.env.Release(f.values[v])
			delete(f.values, v)
		}
	}
	for _, i := range f.others {
		if f.out[i], err = f.value(f.graph.Outputs[i]); err != nil {
			return nil, err
		}
	}
	return f.out, nil
}

// release forgets the values of a run. Those of the host are no longer the run's.
func (f *frame) release() {
	for i := range f.stages {
		if n := f.stages[i].node; n != nil {
			for _, v := range n.Outputs {
				f.s.env.Release(f.values[v])
			}
		}
	}
	clear(f.values)
}

// value returns a value of the run on the host, or nil if the run has not made it.
func (f *frame) value(v *ir.Value) (t *tensor.Tensor, err error) {
	switch {
	case v == nil:
		return nil, nil
	case v.Const != nil:
		return v.Const.Aligned(), nil
	}
	if t = f.values[v]; t == nil {
		if k := f.boundInput(v); k != nil {
			t, err = k.host()
			f.values[v] = t
		}
	}
	return t, err
}

// runNode runs a node on the host. One with subgraphs calls them.
func (f *frame) runNode(ctx context.Context, n *ir.Node) (err error) {
	if op, ok := n.Op.(ops.If); ok {
		if err := f.runIf(ctx, n, op); err != nil {
			return runError(n.Fail(err))
		}
		return nil
	}
	in := make([]*tensor.Tensor, len(n.Inputs))
	for k, v := range n.Inputs {
		if in[k], err = f.value(v); err != nil {
			return err
		}
	}
	begin := f.s.profile.now()
	host := ir.Evaluator{Context: ctx, Memory: &f.s.use.memory, Call: f.s.call}
	out, err := host.Node(n, in, f.sizes)
	if err != nil {
		return runError(err)
	}
	if len(n.Subgraphs) == 0 { // or the steps of the subgraphs are there
		f.s.profile.host(n, begin)
	}
	for k, v := range n.Outputs {
		if err := f.hold(v, out[k]); err != nil {
			return runError(n.Fail(err))
		}
	}
	return nil
}

// hold takes a result of the host.
func (f *frame) hold(v *ir.Value, t *tensor.Tensor) error {
	f.values[v] = t
	return f.s.use.memory.Take(t.Size())
}

// body begins a call of a subgraph of n.
func (s *Session) body(ctx context.Context, n *ir.Node, subgraph int) (*frame, error) {
	if s.use.calls++; s.use.calls > maxCalls {
		return nil, fmt.Errorf("the loops of the run do not end within the limit of %d iterations", maxCalls)
	}
	return s.frame(s.p.bodies[n.Subgraphs[subgraph]]), ctx.Err()
}

// call runs a subgraph of node n. b holds the sizes known around the node.
func (s *Session) call(n *ir.Node, subgraph int, in []*tensor.Tensor, b ir.Binding) ([]*tensor.Tensor, error) {
	f, err := s.body(s.env.Context, n, subgraph)
	if err != nil {
		return nil, err
	}
	if err := f.bindBody(in, b); err != nil {
		return nil, fmt.Errorf("its subgraph: %w", err)
	}
	out, err := f.run(s.env.Context, 0)
	if err != nil {
		return nil, err
	}
	given := make([]*tensor.Tensor, len(out))
	for i, t := range out {
		if err := s.use.memory.Take(t.Size()); err != nil { // they are the caller's
			return nil, err
		}
		given[i] = t
		if !t.IsSequence() { // sequences hold copies
			given[i] = t.Clone() // the next call writes over it
		}
	}
	return given, nil
}

// bindBody takes the inputs of a call and finds their sizes, beside those around the node, if they are not those of the last call.
func (f *frame) bindBody(in []*tensor.Tensor, b ir.Binding) error {
	same := f.known != nil && len(in) == len(f.graph.Inputs)
	for _, name := range f.symbols {
		n, ok := b[name]
		old, had := f.around[name]
		same = same && ok == had && n == old
	}
	if same {
		f.take(in)
		same = f.sameShapes()
	}
	if !same {
		f.around, f.known = restrict(b, f.symbols), nil
		sizes := maps.Clone(f.around)
		if err := f.graph.BindTensors(in, sizes); err != nil {
			clear(f.values)
			return err
		}
		f.take(in)
		for i, t := range in {
			f.seen[i] = t.Shape().Clone()
		}
		f.known = sizes
	}
	if f.sizes = f.known; len(f.stages) > 1 { // those on the host add to the sizes
		f.sizes = maps.Clone(f.known)
	}
	return nil
}

func (f *frame) take(in []*tensor.Tensor) {
	for i, v := range f.graph.Inputs {
		f.values[v] = in[i]
	}
}

// runIf runs a branch of an If. Device tensors that nothing else reads, or that a result goes to, are the branch's: a merged decoder is two
// models in one If, and its cache grows where it is.
func (f *frame) runIf(ctx context.Context, n *ir.Node, op ops.If) error {
	condition, err := f.value(n.Inputs[0])
	if err != nil {
		return err
	}
	subgraph, from, to, err := op.Branch(condition, len(n.Inputs))
	if err != nil {
		return err
	}
	r, err := f.s.body(ctx, n, subgraph)
	if err != nil {
		return err
	}
	if len(r.graph.Inputs) != to-from || len(r.graph.Outputs) != len(n.Outputs) {
		return errors.New("its operands and results are not those of its subgraph")
	}
	r.io = &ioBinding{from: make([]*DeviceTensor, to-from), to: make([]*DeviceTensor, len(n.Outputs)),
		names: make([]string, len(n.Outputs))}
	r.io.ever, r.io.inner = true, true
	for i, v := range n.Inputs[from:to] {
		x := r.graph.Inputs[i]
		if k := f.boundInput(v); k != nil && f.readers[v] == 1 {
			r.io.from[i], r.io.count = k, r.io.count+1
		} else if r.values[x], err = f.value(v); err != nil {
			return err
		} else if r.values[x] == nil && !slices.Contains(r.lazy, x) {
			return WithKind(ErrInput, missingInput(f.graph, v))
		}
	}
	output := func(v *ir.Value) int { // that the value is, and nothing else
		if f.readers[v] > 0 {
			return -1
		}
		return slices.Index(f.graph.Outputs, v)
	}
	for i, v := range n.Outputs {
		if k := f.boundOutput(output(v)); k != nil {
			r.io.to[i], r.io.names[i], r.io.count = k, f.io.names[output(v)], r.io.count+1
		}
	}
	known := restrict(f.sizes, r.symbols)
	maps.DeleteFunc(known, func(name string, _ int) bool { _, ok := f.loose[name]; return ok }) // the branch may read another input
	r.known = nil
	if err := r.bindInputs(known); err != nil {
		return fmt.Errorf("its subgraph: %w", err)
	}
	addSizes(r.sizes, f.loose)
	out, err := r.run(ctx, 0)
	if err != nil {
		return err
	}
	for i, v := range n.Outputs {
		d := r.done[i]
		if k := r.io.to[i]; k != nil && r.boundOutput(i) == nil {
			d = k.content()
		}
		if d.buffer != nil {
			f.done[output(v)] = d
		}
		shape := d.shape
		if t := out[i]; t != nil {
			if err := f.hold(v, t); err != nil {
				return err
			}
			shape = t.Shape()
		}
		for k, d := range v.Type.Shape {
			if name, ok := d.Symbol(); ok && k < len(shape) {
				f.sizes[name] = shape[k]
			}
		}
	}
	return nil
}

// runDevice runs a graph on the device.
func (f *frame) runDevice(ctx context.Context, i int) error {
	seg, p := &f.stages[i], &f.parts[i]
	f.arrange(seg, p)
	err := f.bind(i)
	if err == nil {
		err = f.s.work(ctx, p.bound)
	}
	if err == nil {
		err = f.bindIO(seg, p)
	}
	if err != nil {
		return err
	}
	begin := f.s.profile.now()
	out, err := p.instance.Run(ctx, p.in)
	if err != nil {
		return runError(err)
	}
	f.s.profile.device(p.instance, p.bound.steps, begin)
	for i, v := range seg.graph.Outputs {
		o, t := seg.outputs[i], out[i]
		if o >= 0 {
			if f.out[o] = t; f.readers[v] > 0 && p.to[i] != nil {
				if t, err = f.io.to[o].show(f.done[o]); err != nil {
					return err
				}
			}
		}
		if f.readers[v] > 0 {
			f.values[v] = t
		}
		if k := f.passedOn(v); k != nil && t != nil { // the plan has it in memory that shows more than it
			if err := k.store(t); err != nil {
				return err
			}
		}
	}
	return nil
}

// bind binds a stage's graph to the sizes of the run, if it is not.
func (f *frame) bind(i int) error {
	seg, p, s := &f.stages[i], &f.parts[i], f.s
	if p.instance != nil && p.fits(seg, f.sizes) {
		return nil
	}
	p.instance, p.sizes = nil, p.sizes[:0] // a binding's sizes may change
	for _, name := range seg.symbols {
		p.sizes = append(p.sizes, f.sizes[name])
	}
	var b *Binding
	var e *entry
	var err error
	if seg.lengthens || s.p.device.Target().Resizes && len(seg.symbols) > 0 {
		b, err = f.boxed(i)
	} else if e, err = s.p.bind(seg, f.sizes, p.outside); err == nil {
		b = e.binding
	}
	if err != nil {
		return err
	}
	account, grows := &s.use.memory, b.program.Growth(p.memory)
	if err = account.Fits(grows + b.host); err == nil {
		err = account.Take(grows)
	}
	if err != nil {
		return WithKind(ErrMemory, fmt.Errorf("the arenas and results of the run at %s: %w", describe(f.sizes), err))
	}
	inst := b.instance
	attach := func() (backend.Instance, error) {
		instance, err := b.program.Attach(p.memory, &s.env)
		return instance, unavailable(err)
	}
	if e != nil {
		inst, err = s.p.cache.instance(e, s, attach)
	} else if inst == nil {
		inst, err = attach()
		b.instance = inst
	}
	if err != nil {
		return err
	}
	if len(f.stages) == 1 {
		s.settle(b.Resident)
	}
	p.instance, p.bound = inst, b
	return nil
}

// fits reports whether the instance is bound to some sizes.
func (p *part) fits(seg *stage, sizes ir.Binding) bool {
	for k, name := range seg.symbols {
		if sizes[name] != p.sizes[k] {
			return false
		}
	}
	return true
}

// bindInputs finds the sizes of the inputs, beside those around a body, if they are not those of the last run.
func (f *frame) bindInputs(around ir.Binding) (err error) {
	if f.known == nil || !f.sameShapes() {
		defer Guard(&err, debug.SetPanicOnFault(true))
		known := ir.Binding{}
		maps.Copy(known, around)
		f.known, f.loose = nil, ir.Binding{}
		in := make([]*tensor.Tensor, len(f.strict.Inputs))
		dtypes, shapes := make([]tensor.DType, len(in)), make([]tensor.Shape, len(in))
		for i, v := range f.strict.Inputs {
			in[i] = f.values[v]
			dtypes[i], shapes[i] = f.input(v)
		}
		if slices.Contains(in, nil) {
			err = f.strict.BindInputs(dtypes, shapes, known)
		} else {
			err = f.strict.BindTensors(in, known)
		}
		if err != nil {
			return bindError(err)
		}
		clash := map[string]bool{}
		for _, v := range f.lazy {
			_, shape := f.input(v)
			for k, d := range v.Type.Shape {
				if name, ok := d.Symbol(); ok && k < len(shape) {
					old, seen := f.loose[name]
					clash[name] = clash[name] || seen && old != shape[k]
					f.loose[name] = shape[k]
				}
			}
		}
		maps.DeleteFunc(f.loose, func(name string, _ int) bool { _, ok := known[name]; return ok || clash[name] })
		for i, v := range f.graph.Inputs {
			_, shape := f.input(v)
			f.seen[i] = shape.Clone()
		}
		f.known, f.sizes = known, known
	}
	if len(f.stages) > 1 { // those on the host add to the sizes
		f.sizes = maps.Clone(f.known)
		addSizes(f.sizes, f.loose)
	}
	return nil
}

// addSizes adds the sizes that b lacks.
func addSizes(b, more ir.Binding) {
	for name, n := range more {
		if _, ok := b[name]; !ok {
			b[name] = n
		}
	}
}

// sameShapes reports whether the inputs have the shapes of seen and their declared types, so that the sizes of the last run hold.
func (f *frame) sameShapes() bool {
	for i, v := range f.graph.Inputs {
		d, shape := f.input(v)
		if isOdd(v) || !shape.Equal(f.seen[i]) || d != v.Type.DType && !(d == tensor.Invalid && slices.Contains(f.lazy, v)) {
			return false
		}
	}
	return true
}

// input is the type of an input of the run. One that is missing, which only a lazy one can be, has none.
func (f *frame) input(v *ir.Value) (tensor.DType, tensor.Shape) {
	if t := f.values[v]; t != nil && !t.IsSequence() {
		return t.DType(), t.Shape()
	}
	if k := f.boundInput(v); k != nil {
		return k.dtype, k.shape
	}
	return tensor.Invalid, nil
}
