package gpu

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"runtime"
	"slices"

	"github.com/rlxc/rlxc/internal/backend"
	"github.com/rlxc/rlxc/ir"
	"github.com/rlxc/rlxc/tensor"
)

// An instance runs a program in a memory.
type instance struct {
	*program
	memory     *Memory
	held       *held
	of         *loaded          // the loaded program that the queue and the recordings belong to; older than program.loaded after a Refit
	env        *ir.Env          // environment of the nodes that run on the host
	values     []*tensor.Tensor // the host's copy of each root, by ID; nil if the host has none in this run
	out        []*tensor.Tensor // results of the last run, by output; nil for outputs that are device tensors
	shown      *byte            // first byte of the staging memory that tensors in out are views of; nil for none
	outside    []backend.Buffer // device tensors of the next runs: element i is segment len(arenas)+i
	recordings []recorded       // valid while memory.moved equals moved
	moved      int              // value of memory.moved when recordings were made
	uploads    [][]byte         // uploads of the section that is being submitted; kept to avoid an allocation
	profile    *profile         // nil if times are not recorded
}

// held holds the queue that an instance has to close. It is a separate object, because the cleanup of an instance must not refer to the
// instance.
type held struct{ Queue }

// recorded is a recording with the device tensors that it uses.
type recorded struct {
	Recording
	outside []backend.Buffer
}

// mostRecordings is the maximum number of recordings of an instance. It needs several, because device tensors alternate: a decoder's cache
// is read from one and written to another, and the next run does the reverse.
const mostRecordings = 4

// Attach implements backend.Program.
func (p *program) Attach(m backend.Memory, env *ir.Env) (backend.Instance, error) {
	mem, ok := m.(*Memory)
	if !ok || mem.r != p.r {
		return nil, errors.New("a program cannot run in the memory of another device")
	}
	queue, err := p.kernels.NewQueue(p.r.Profile)
	if err != nil {
		return nil, err
	}
	in := &instance{program: p, memory: mem, held: &held{queue}, of: p.loaded, env: env,
		values: make([]*tensor.Tensor, p.Graph.NumValues()),
		out:    make([]*tensor.Tensor, len(p.outputs)), outside: make([]backend.Buffer, len(p.outside))}
	if p.r.Profile {
		in.profile = &profile{}
	}
	runtime.AddCleanup(in, func(h *held) { h.Close() }, in.held)
	return in, nil
}

// follow replaces the queue and the recordings if the program has been refitted since the last run.
func (in *instance) follow() error {
	if in.of == in.loaded {
		return nil
	}
	queue, err := in.kernels.NewQueue(in.r.Profile)
	if err != nil {
		return err
	}
	in.held.Close()
	in.held.Queue, in.of, in.recordings, in.shown = queue, in.loaded, nil, nil
	clear(in.out)
	return nil
}

// BindBuffers implements backend.Instance: kernels work on the buffers themselves.
func (in *instance) BindBuffers(inputs, outputs []backend.Buffer) {
	bind := func(values []*ir.Value, buffers []backend.Buffer) {
		for i, b := range buffers {
			if b != nil {
				in.outside[in.Locations.outside[in.Layout(values[i]).Root.ID]-len(in.arenas)] = b
			}
		}
	}
	bind(in.Graph.Inputs, inputs)
	bind(in.Graph.Outputs, outputs)
}

// Run implements backend.Instance.
func (in *instance) Run(ctx context.Context, inputs []*tensor.Tensor) (_ []*tensor.Tensor, err error) {
	if err := in.follow(); err != nil {
		return nil, err
	}
	leave, err := in.held.Enter()
	if err != nil {
		return nil, err
	}
	defer leave()
	recording, err := in.record()
	if err != nil {
		return nil, err
	}
	in.profile.start()
	in.env.Give(in.memory.shown)
	in.memory.shown = 0
	clear(in.values)
	for i, v := range in.Graph.Inputs {
		in.values[v.ID] = inputs[i]
	}
	defer func() {
		if r := recover(); r != nil { // an op's Eval has panicked; the process continues
			err = fmt.Errorf("internal error: %v", r)
		}
	}()
	if err := in.env.Within(func() error { return in.act(ctx, recording) }); err != nil {
		return nil, err
	}
	for i := range in.outputs {
		if in.outputs[i].onHost {
			in.memory.shown += in.out[i].Size()
		}
	}
	return in.out, in.env.Hold(in.memory.shown)
}

// record grows the memory to what the program needs, and returns a recording that uses the current buffers and device tensors.
func (in *instance) record() (Recording, error) {
	if err := in.memory.grow(in.program); err != nil {
		return nil, err
	}
	if in.moved != in.memory.moved {
		for _, r := range in.recordings {
			r.Close()
		}
		in.recordings, in.shown, in.moved = nil, nil, in.memory.moved
	}
	for _, r := range in.recordings {
		if slices.Equal(r.outside, in.outside) {
			return r.Recording, nil
		}
	}
	if len(in.recordings) == mostRecordings {
		in.recordings[0].Close()
		in.recordings = slices.Delete(in.recordings, 0, 1)
	}
	r, err := in.held.Record(in.commands(in.memory.poison != 0), in.segment, in.memory.staging)
	if err != nil {
		return nil, err
	}
	in.recordings = append(in.recordings, recorded{r, slices.Clone(in.outside)})
	return r, nil
}

// segment returns the buffer of a segment.
func (in *instance) segment(i int) backend.Buffer {
	switch {
	case i == Status:
		return in.memory.status
	case i == poison:
		return in.memory.poisoned
	case i < len(in.arenas):
		return in.memory.segments[i]
	}
	return in.outside[i-len(in.arenas)]
}

// act runs the sections in order, and after each section its step on the host.
func (in *instance) act(ctx context.Context, r Recording) error {
	var staged []byte
	for i := range in.sections {
		if ctx.Err() != nil {
			return ctx.Err()
		}
		s := &in.sections[i]
		in.uploads = in.uploads[:0]
		for _, t := range s.up {
			in.uploads = append(in.uploads, in.values[t.root.ID].Bytes())
		}
		err := r.Submit(i, in.uploads)
		clear(in.uploads)
		if err != nil {
			return err
		}
		if staged, err = r.Wait(i); err != nil {
			return err
		}
		if err := in.profile.read(r, i, s); err != nil {
			return err
		}
		if err := in.check(s, staged); err != nil {
			return err
		}
		if s.host == nil {
			continue
		}
		if err := in.fetch(s, staged); err != nil {
			return err
		}
		if err := in.eval(s.host); err != nil {
			return err
		}
	}
	if ctx.Err() != nil {
		return ctx.Err()
	}
	return in.results(staged)
}

// check returns the error of the first report that a kernel has written in a section. It clears all reports if there is one.
func (in *instance) check(s *section, staged []byte) error {
	for off := int64(0); off < s.status.size; off += StatusBytes {
		words := staged[s.status.staged+off:][:StatusBytes]
		if binary.LittleEndian.Uint32(words) == 0 {
			continue
		}
		r := in.reports[s.reports+int(off/StatusBytes)]
		number := int64(binary.LittleEndian.Uint64(words[StatusBytes-8:]))
		if err := in.memory.clear(); err != nil {
			return err
		}
		return r.node.Fail(r.err(number))
	}
	return nil
}

// fetch copies a section's downloads to the host's values.
func (in *instance) fetch(s *section, staged []byte) error {
	for _, t := range s.down {
		in.env.Take(t.size)
		v, err := tensor.FromBytes(t.root.Type.DType, t.root.Type.Sizes(), slices.Clone(staged[t.staged:][:t.size]))
		if err != nil {
			return err
		}
		in.values[t.root.ID] = v
	}
	return nil
}

// eval runs a step on the host.
func (in *instance) eval(h *host) error {
	began := in.profile.now()
	var results []*tensor.Tensor
	err := in.env.Within(func() (err error) {
		args := make([]*tensor.Tensor, len(h.in))
		for i := range h.in {
			args[i] = in.tensor(&h.in[i])
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
		in.values[h.out[i].ID] = t
	}
	return nil
}

// tensor returns a value as a view of the host's copy of its root, and nil for an absent operand.
func (in *instance) tensor(v *value) *tensor.Tensor {
	if v.of == nil {
		return nil
	}
	t, root := v.of.Type, v.layout.Root
	from := root.Const
	if !root.IsConst() {
		from = in.values[root.ID]
	}
	var shape tensor.Shape
	if t.Kind == ir.TensorType {
		shape = t.Sizes()
	}
	return backend.View(in.env, from, t.DType, shape, v.layout.Strides, v.layout.Offset)
}

// results sets in.out. Outputs that were downloaded are views of staging memory, which are valid until the next run.
func (in *instance) results(staged []byte) error {
	var shown *byte
	if len(staged) > 0 {
		shown = &staged[0]
	}
	for i := range in.outputs {
		switch o := &in.outputs[i]; {
		case o.outside:
			in.out[i] = nil
		case o.onHost:
			in.out[i] = in.tensor(&o.value)
		case o.bytes == 0:
			in.out[i] = tensor.New(o.of.Type.DType, o.of.Type.Sizes()...)
		case in.out[i] == nil || shown != in.shown:
			t, err := tensor.FromBytes(o.of.Type.DType, o.of.Type.Sizes(), staged[o.staged:][:o.bytes])
			if err != nil {
				return err
			}
			in.out[i] = t
		}
	}
	in.shown = shown
	return nil
}
