package wgpu

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"runtime"
	"slices"

	"github.com/rlxc/rlxc/internal/backend"
	"github.com/rlxc/rlxc/internal/native"
	"github.com/rlxc/rlxc/ir"
	"github.com/rlxc/rlxc/tensor"
)

// Attach implements backend.Program.
func (p *program) Attach(m backend.Memory, env *ir.Env) (backend.Instance, error) {
	mem, ok := m.(*arena)
	if !ok {
		return nil, errors.New("backend wgpu cannot run in the memory of another backend")
	}
	in := &instance{program: p, memory: mem, encoder: p.d.gpu.Encoder(), groups: make([]*native.BindGroup, p.dispatches()),
		env: env, values: make([]*tensor.Tensor, p.planned.Graph.NumValues()), out: make([]*tensor.Tensor, len(p.outputs)), moved: -1}
	if p.d.profile {
		var err error
		if in.profile, err = p.newProfiler(len(in.groups)); err != nil {
			return nil, err
		}
	}
	runtime.AddCleanup(in, func(groups []*native.BindGroup) {
		for _, g := range groups {
			if g != nil {
				g.Release()
			}
		}
	}, in.groups)
	return in, nil
}

func (p *program) dispatches() int {
	n := 0
	for _, a := range p.actions {
		if _, ok := a.(*dispatch); ok {
			n++
		}
	}
	return n
}

// instance is a program on a memory.
type instance struct {
	*program
	memory    *arena
	encoder   *native.Encoder
	recording bool
	recorded  int                 // dispatches of this run
	groups    []*native.BindGroup // by dispatch
	moved     int                 // the memory's count when groups were made
	values    []*tensor.Tensor    // by the ID of a root: the host's copies
	out       []*tensor.Tensor
	mapped    []byte // the last download
	last      *download
	shown     *byte // where the outputs in out lie
	poison    *poisoner
	profile   *profiler // nil where times are not kept
	env       *ir.Env   // of the steps of the host
	carried   carried
}

// Run implements backend.Instance.
func (in *instance) Run(ctx context.Context, inputs []*tensor.Tensor) (_ []*tensor.Tensor, err error) {
	if err := in.ready(); err != nil {
		return nil, err
	}
	in.profile.start()
	in.recorded = 0
	in.env.Give(in.memory.shown)
	in.memory.shown = 0
	clear(in.values)
	for i, v := range in.planned.Graph.Inputs {
		in.values[v.ID] = inputs[i]
	}
	if err := in.fetchCarried(); err != nil {
		return nil, err
	}
	defer func() {
		if r := recover(); r != nil { // of an op's Eval: the process lives on
			err = fmt.Errorf("internal error: %v", r)
		}
		if err != nil && in.recording {
			in.encoder.Abandon()
			in.recording = false
		}
	}()
	if in.memory.poison != 0 {
		if err := in.poisonAll(); err != nil {
			return nil, err
		}
	}
	if err := in.env.Within(func() error { return in.act(ctx) }); err != nil {
		return nil, err
	}
	for i := range in.outputs {
		if in.outputs[i].onHost && in.out[i] != nil {
			in.memory.shown += in.out[i].Size()
		}
	}
	return in.out, in.env.Hold(in.memory.shown)
}

// act executes the actions.
func (in *instance) act(ctx context.Context) error {
	for _, a := range in.actions {
		if err := a.run(in); err != nil {
			return err
		}
		if ctx.Err() != nil {
			return ctx.Err()
		}
	}
	if err := in.carryOut(); err != nil {
		return err
	}
	if err := in.submit(); err != nil { // nothing reads what is left, but it must not stay
		return err
	}
	if err := in.profile.finish(in.encoder); err != nil {
		return err
	}
	return in.results()
}

// ready makes room in the memory and binds its buffers, again only when they have moved.
func (in *instance) ready() error {
	if in.memory.staging != nil {
		in.memory.staging.Unmap()
	}
	in.mapped, in.last = nil, nil
	if err := in.memory.grow(in.program); err != nil {
		return err
	}
	if in.moved == in.memory.moved {
		return nil
	}
	in.shown = nil
	for _, a := range in.actions {
		d, ok := a.(*dispatch)
		if !ok {
			continue
		}
		g, err := in.bind(d)
		if err != nil {
			return err
		}
		if old := in.groups[d.number]; old != nil {
			old.Release()
		}
		in.groups[d.number] = g
	}
	in.poison = nil
	in.moved = in.memory.moved
	return nil
}

// bind binds the memories of a dispatch.
func (in *instance) bind(d *dispatch) (*native.BindGroup, error) {
	ranges := []native.Range{{Buffer: in.params, Offset: int64(d.number) * paramBytes, Size: paramBytes}}
	for _, m := range d.memories {
		b := m.constant
		switch {
		case m.status:
			b = in.memory.status
		case b == nil:
			b = in.memory.segments[m.arena]
		}
		ranges = append(ranges, native.Range{Buffer: b, Size: b.Size})
	}
	return in.d.gpu.Bind(d.pipeline, ranges)
}

// record makes sure that commands are being recorded.
func (in *instance) record() error {
	if in.recording {
		return nil
	}
	if err := in.encoder.Begin(); err != nil {
		return err
	}
	in.recording = true
	return nil
}

// submit sends what was recorded.
func (in *instance) submit() error {
	if !in.recording {
		return nil
	}
	in.recording = false
	return in.encoder.Submit()
}

func (d *dispatch) run(in *instance) error {
	if err := in.pass(d.step); err != nil {
		return err
	}
	if err := in.record(); err != nil {
		return err
	}
	in.profile.before(in.encoder, d)
	in.encoder.Dispatch(d.pipeline, in.groups[d.number], d.groups)
	in.profile.after(in.encoder, d)
	if in.recorded++; in.recorded == firstSubmit {
		return in.submit()
	}
	return nil
}

// firstSubmit is the number of dispatches that are submitted by themselves: the device works on them while the host
// records the rest.
var firstSubmit = 32

// run writes the host's bytes. What was recorded goes first: it may still use the memory.
func (u *upload) run(in *instance) error {
	if b := in.carried.input(u.root); b != nil {
		if err := in.record(); err != nil {
			return err
		}
		in.encoder.Copy(in.memory.segments[u.arena], u.off, b.Buffer, 0, u.size)
		return nil
	}
	if err := in.submit(); err != nil {
		return err
	}
	return in.memory.segments[u.arena].Write(u.off, in.values[u.root].Bytes())
}

// run waits for the values, and for the status words after them.
func (d *download) run(in *instance) error {
	if err := in.fetched(); err != nil { // a mapped buffer cannot be written
		return err
	}
	leave := func(p place) bool { return d == in.final && in.carried.skipped[p.root] }
	if in.statusBytes() == 0 && !slices.ContainsFunc(d.places, func(p place) bool { return !leave(p) }) {
		return nil
	}
	if err := in.record(); err != nil {
		return err
	}
	for i, p := range d.places {
		if leave(p) {
			continue
		}
		in.encoder.Copy(in.memory.staging, d.at[i], in.memory.segments[p.arena], p.off, p.size)
	}
	if status := in.statusBytes(); status > 0 {
		in.encoder.Copy(in.memory.staging, d.size(), in.memory.status, 0, status)
	}
	if err := in.submit(); err != nil {
		return err
	}
	bytes, err := in.memory.staging.Map(d.size() + in.statusBytes())
	if err != nil {
		return err
	}
	in.mapped, in.last = bytes, d
	return in.check(bytes[d.size():])
}

// check finds errors that kernels left, and clears them.
func (in *instance) check(status []byte) error {
	for i, r := range in.reports {
		words := status[4*reportWords*i:]
		if binary.LittleEndian.Uint32(words) == 0 {
			continue
		}
		number := int64(binary.LittleEndian.Uint64(words[4:]))
		if err := in.memory.status.Write(0, make([]byte, in.statusBytes())); err != nil {
			return err
		}
		return r.node.Fail(r.err(number))
	}
	return nil
}

// fetched copies a download to the host's values, so that the staging buffer is free for the next.
func (in *instance) fetched() error {
	if in.last == nil {
		return nil
	}
	for i, p := range in.last.places {
		root := in.planned.Root(p.root)
		in.env.Take(p.size)
		t, err := tensor.FromBytes(root.Type.DType, root.Type.Sizes(), slices.Clone(in.mapped[in.last.at[i]:][:p.size]))
		if err != nil {
			return err
		}
		in.values[p.root] = t
	}
	in.memory.staging.Unmap()
	in.mapped, in.last = nil, nil
	return nil
}

func (h *host) run(in *instance) error {
	if err := in.fetched(); err != nil {
		return err
	}
	began := in.profile.now()
	var results []*tensor.Tensor
	err := in.env.Within(func() (err error) {
		args := make([]*tensor.Tensor, len(h.in))
		for i := range h.in {
			if h.node.Inputs[i] != nil {
				args[i] = h.in[i].tensor(in.env, in.values)
			}
		}
		results, err = backend.Eval(in.env, h.node, args)
		return err
	})
	in.profile.host(h.node, began)
	if err != nil {
		return h.node.Fail(err)
	}
	for i, t := range results {
		in.env.Take(t.Size())
		in.values[h.out[i].root] = t
	}
	return in.pass(h.step)
}

// tensor shows an operand in the host's copy of its root.
func (o *operand) tensor(env *ir.Env, values []*tensor.Tensor) *tensor.Tensor {
	t := o.constant
	if t == nil {
		t = values[o.root]
	}
	off := 0
	if o.width > 0 {
		off = o.off / o.width
	}
	return backend.View(env, t, o.dtype, o.shape, o.strides, off)
}

// results shows the outputs: those of the device in the staging buffer, which stays mapped until the next run.
func (in *instance) results() error {
	same := in.mapped != nil && in.shown == &in.mapped[0]
	for i := range in.outputs {
		o := &in.outputs[i]
		n := o.elements() * o.width
		if in.carried.output(i) != nil && in.copies(o) {
			in.out[i] = nil
			continue
		}
		switch {
		case o.onHost:
			in.out[i] = o.tensor(in.env, in.values)
		case n == 0:
			in.out[i] = tensor.New(o.dtype, o.shape...)
		case !same || in.out[i] == nil:
			t, err := tensor.FromBytes(o.dtype, o.shape, in.mapped[in.last.at[o.staged]+int64(o.off):][:n])
			if err != nil {
				return err
			}
			in.out[i] = t
		}
		if in.carried.output(i) != nil {
			if err := in.giveOut(i); err != nil {
				return err
			}
		}
	}
	if in.mapped != nil {
		in.shown = &in.mapped[0]
	}
	return nil
}
