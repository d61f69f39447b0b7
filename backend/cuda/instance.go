package cuda

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/rlxc/rlxc/internal/backend"
	"github.com/rlxc/rlxc/internal/driver"
	"github.com/rlxc/rlxc/ir"
	"github.com/rlxc/rlxc/tensor"
)

// instance is a program on a memory: a graph for each section.
type instance struct {
	*program
	memory  *arena
	made    *made
	stream  *driver.Stream
	moved   int              // the memory's count when graphs were made
	values  []*tensor.Tensor // by the ID of a root: the host's copies
	out     []*tensor.Tensor
	shown   *byte // where the outputs in out lie
	profile *profiler
	env     *ir.Env // of the steps of the host
}

// made is what an instance has on the device.
type made struct {
	stream *driver.Stream
	graphs []*driver.Graph
	events []*driver.Event
}

func (m *made) free(*driver.Context) {
	for _, g := range m.graphs {
		if g != nil {
			g.Free()
		}
	}
	for _, e := range m.events {
		e.Free()
	}
	if m.stream != nil {
		m.stream.Close()
	}
}

// Attach implements backend.Program.
func (p *program) Attach(m backend.Memory, env *ir.Env) (backend.Instance, error) {
	mem, ok := m.(*arena)
	if !ok {
		return nil, errors.New("backend cuda cannot run in the memory of another backend")
	}
	leave, err := p.d.ctx.Enter()
	if err != nil {
		return nil, err
	}
	defer leave()
	in := &instance{program: p, memory: mem, env: env, values: make([]*tensor.Tensor, p.planned.Graph.NumValues()), out: make([]*tensor.Tensor, len(p.outputs)), moved: -1}
	in.made = &made{graphs: make([]*driver.Graph, len(p.sections))}
	own(p.d, in, in.made)
	if in.stream, err = p.d.ctx.NewStream(); err != nil {
		return nil, err
	}
	in.made.stream = in.stream
	if p.d.profile {
		in.profile, err = newProfiler(in)
	}
	return in, err
}

// Run implements backend.Instance.
func (in *instance) Run(ctx context.Context, inputs []*tensor.Tensor) (_ []*tensor.Tensor, err error) {
	leave, err := in.stream.Enter()
	if err != nil {
		return nil, err
	}
	defer leave()
	if err := in.ready(); err != nil {
		return nil, err
	}
	in.env.Give(in.memory.shown)
	in.memory.shown = 0
	clear(in.values)
	for i, v := range in.planned.Graph.Inputs {
		in.values[v.ID] = inputs[i]
	}
	defer func() {
		if r := recover(); r != nil { // of an op's Eval: the process lives on
			err = fmt.Errorf("internal error: %v", r)
		}
	}()
	if in.memory.poison != 0 {
		for _, b := range in.memory.segments {
			if err := in.d.ctx.Fill(b.at, in.memory.poison, b.size); err != nil {
				return nil, err
			}
		}
	}
	in.profile.start()
	if err := in.env.Within(func() error { return in.act(ctx) }); err != nil {
		return nil, err
	}
	for i := range in.outputs {
		if in.outputs[i].onHost {
			in.memory.shown += in.out[i].Size()
		}
	}
	return in.out, in.env.Hold(in.memory.shown)
}

// act executes the sections.
func (in *instance) act(ctx context.Context) error {
	for i := range in.sections {
		if err := in.section(i); err != nil {
			return err
		}
		if ctx.Err() != nil {
			return ctx.Err()
		}
	}
	if err := in.check(); err != nil {
		return err
	}
	return in.results()
}

// ready makes room in the memory and records the graphs, again only when the memory has moved.
func (in *instance) ready() error {
	if err := in.memory.grow(in.program); err != nil {
		return err
	}
	if in.moved == in.memory.moved {
		return nil
	}
	in.shown = nil
	for i := range in.sections {
		if old := in.made.graphs[i]; old != nil {
			old.Free()
			in.made.graphs[i] = nil
		}
		g, err := in.capture(i)
		if err != nil {
			return err
		}
		in.made.graphs[i] = g
	}
	in.moved = in.memory.moved
	return nil
}

// section runs a section and the step of the host after it.
func (in *instance) section(i int) error {
	s, pinned := &in.sections[i], in.memory.pinned.Bytes()
	for _, x := range s.items {
		if t := x.copy; t != nil && !t.down {
			copy(pinned[t.pinned:][:t.size], in.values[t.root].Bytes())
		}
	}
	if g := in.made.graphs[i]; g != nil {
		if err := in.stream.Run(g); err != nil {
			return err
		}
		if err := in.stream.Wait(); err != nil {
			return err
		}
		if err := in.profile.read(i); err != nil {
			return err
		}
	}
	if s.host == nil {
		return nil
	}
	for _, x := range s.items {
		if t := x.copy; t != nil && t.down {
			root := in.planned.Root(t.root)
			in.env.Take(t.size)
			v, err := tensor.FromBytes(root.Type.DType, root.Type.Sizes(), append([]byte(nil), pinned[t.pinned:][:t.size]...))
			if err != nil {
				return err
			}
			in.values[t.root] = v
		}
	}
	return in.eval(s.host)
}

// eval runs a step of the host.
func (in *instance) eval(h *host) error {
	began := in.profile.now()
	var results []*tensor.Tensor
	err := in.env.Within(func() (err error) {
		args := make([]*tensor.Tensor, len(h.in))
		for i, o := range h.in {
			if o != nil {
				args[i] = o.tensor(in.env, in.values)
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
	return nil
}

// check finds errors that kernels left, and clears them.
func (in *instance) check() error {
	status := in.memory.pinned.Bytes()[in.statusAt:][:in.statusSize()]
	for i, r := range in.reports {
		words := status[statusBytes*i:]
		if binary.LittleEndian.Uint32(words) == 0 {
			continue
		}
		if err := in.d.ctx.Fill(in.memory.status.at, 0, in.memory.status.size); err != nil {
			return err
		}
		return r.node.Fail(backend.OutOfRange(int64(binary.LittleEndian.Uint64(words[8:])), r.axis, r.size))
	}
	return nil
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

// results shows the outputs: those of the device in pinned memory.
func (in *instance) results() error {
	pinned := in.memory.pinned.Bytes()
	same := in.shown == &pinned[0]
	for i := range in.outputs {
		o := &in.outputs[i]
		n := o.elements() * o.width
		switch {
		case o.onHost:
			in.out[i] = o.tensor(in.env, in.values)
		case n == 0:
			in.out[i] = tensor.New(o.dtype, o.shape...)
		case !same || in.out[i] == nil:
			t, err := tensor.FromBytes(o.dtype, o.shape, pinned[o.pinned+int64(o.off):][:n])
			if err != nil {
				return err
			}
			in.out[i] = t
		}
	}
	in.shown = &pinned[0]
	return nil
}
