package wgpu

import (
	"github.com/rlxc/rlxc/internal/backend"
	"github.com/rlxc/rlxc/internal/native"
	"github.com/rlxc/rlxc/tensor"
)

// A buffer implements backend.Buffer. Its bytes never pass through the host unless somebody asks for them.
type buffer struct {
	*native.Buffer
	gpu *native.Device
}

// NewBuffer implements backend.Keeper.
func (d *Device) NewBuffer(size int64) (backend.Buffer, error) {
	b, err := d.gpu.Buffer("a kept tensor", size, native.CopySource|native.CopyTarget)
	if err != nil {
		return nil, err
	}
	return &buffer{b, d.gpu}, nil
}

// Takes implements backend.Keeper: the GPU must be the same.
func (d *Device) Takes(b backend.Buffer) bool {
	own, ok := b.(*buffer)
	return ok && own.gpu == d.gpu
}

// Size implements backend.Buffer.
func (b *buffer) Size() int64 { return b.Buffer.Size }

// Close implements backend.Buffer.
func (b *buffer) Close() { b.Release() }

// ReadAt implements backend.Buffer.
func (b *buffer) ReadAt(p []byte, off int64) error {
	first, end := b.whole(p, off)
	staging, err := b.gpu.Buffer("reading a kept tensor", end-first, native.MapRead|native.CopyTarget)
	if err != nil {
		return err
	}
	defer staging.Release()
	e := b.gpu.Encoder()
	if err := e.Begin(); err != nil {
		return err
	}
	e.Copy(staging, 0, b.Buffer, first, end-first)
	if err := e.Submit(); err != nil {
		return err
	}
	data, err := staging.Map(end - first)
	if err != nil {
		return err
	}
	copy(p, data[off-first:])
	return nil
}

// WriteAt implements backend.Buffer.
func (b *buffer) WriteAt(p []byte, off int64) error {
	first, end := b.whole(p, off)
	if first == off && end == off+int64(len(p)) {
		return b.Write(off, p)
	}
	words := make([]byte, end-first)
	if err := b.ReadAt(words, first); err != nil {
		return err
	}
	copy(words[off-first:], p)
	return b.Write(first, words)
}

// whole is the range of words that has the bytes: devices copy words.
func (b *buffer) whole(p []byte, off int64) (first, end int64) {
	return off &^ 3, (off + int64(len(p)) + 3) &^ 3
}

// carried are the inputs and outputs that stay on the device.
type carried struct {
	from map[int]*buffer // by the ID of an input
	to   []*buffer       // by output
	// skipped are the roots that need not come to the host at the end: by ID.
	skipped map[int]bool
}

// Carry implements backend.Carrier.
func (in *instance) Carry(inputs, outputs []backend.Buffer) {
	c := carried{from: map[int]*buffer{}, to: make([]*buffer, len(in.outputs)), skipped: map[int]bool{}}
	for i, b := range inputs {
		if b != nil {
			c.from[in.planned.Graph.Inputs[i].ID] = b.(*buffer)
		}
	}
	for i, b := range outputs {
		if b != nil {
			c.to[i] = b.(*buffer)
		}
	}
	for i, o := range in.outputs {
		if skip, seen := c.skipped[o.root]; !seen || skip {
			c.skipped[o.root] = c.to[i] != nil && in.copies(&in.outputs[i])
		}
	}
	in.carried = c
}

// copies reports whether the device copies the output to a buffer by itself.
func (in *instance) copies(o *output) bool {
	return !o.onHost && o.elements() > 0 && (in.final.places[o.staged].off+int64(o.off))%4 == 0
}

// input is where an input comes from, nil for the host.
func (c *carried) input(root int) *buffer { return c.from[root] }

// output is where an output goes, nil for the host.
func (c *carried) output(i int) *buffer {
	if c.to == nil {
		return nil
	}
	return c.to[i]
}

// fetchCarried brings inputs to the host that its steps read.
func (in *instance) fetchCarried() error {
	for _, v := range in.planned.Graph.Inputs {
		b := in.carried.input(v.ID)
		if b == nil || !in.hostReads[v.ID] {
			continue
		}
		x := tensor.New(v.Type.DType, v.Type.Sizes()...)
		if err := b.ReadAt(x.Bytes(), 0); err != nil {
			return err
		}
		in.values[v.ID] = x
	}
	return nil
}

// carryOut records the copies of outputs to their buffers, at the end of a run.
func (in *instance) carryOut() error {
	for i := range in.outputs {
		b, o := in.carried.output(i), &in.outputs[i]
		if b == nil || !in.copies(o) {
			continue
		}
		if err := in.record(); err != nil {
			return err
		}
		p := in.final.places[o.staged]
		in.encoder.Copy(b.Buffer, 0, in.memory.segments[p.arena], p.off+int64(o.off), int64(o.elements()*o.width))
	}
	return nil
}

// giveOut writes an output that has come to the host to its buffer.
func (in *instance) giveOut(i int) error {
	b, t := in.carried.output(i), in.out[i]
	in.out[i] = nil
	return b.WriteAt(t.Bytes(), 0)
}
