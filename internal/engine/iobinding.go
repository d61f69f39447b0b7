package engine

import (
	"errors"
	"fmt"
	"slices"

	"github.com/rlxc/rlxc/internal/files"
	"github.com/rlxc/rlxc/ir"
	"github.com/rlxc/rlxc/tensor"
)

// An ioBinding is the device tensors of a unit's inputs and outputs.
type ioBinding struct {
	from, to []*DeviceTensor
	used     []*DeviceTensor // all device tensors of from and to, each once
	count    int             // number of inputs and outputs with a device tensor
	ever     bool            // whether an input or output ever had one
	inner    bool            // whether the unit is a branch of an If
	names    []string        // names of the outputs, for errors
}

// BindInput makes an input come from a device tensor in the runs that follow; nil ends that.
func (s *Session) BindInput(input string, k *DeviceTensor) error {
	i := slices.IndexFunc(s.p.graph.Inputs, func(v *ir.Value) bool { return v.Name == input })
	if i < 0 {
		return WithKind(ErrInput, fmt.Errorf("the model has no input %s: it takes %s", files.Quote(input), signature(s.p.graph)))
	}
	return s.alone(func() { s.bindIO(&s.io.from[i], k) })
}

// BindOutput makes an output go to a device tensor in the runs that follow, not to the map that Run returns; nil ends that.
func (s *Session) BindOutput(output string, k *DeviceTensor) error {
	i := slices.Index(s.p.graph.OutputNames, output)
	if i < 0 {
		return WithKind(ErrInput, fmt.Errorf("the model has no output %s", files.Quote(output)))
	}
	return s.alone(func() { s.bindIO(&s.io.to[i], k) })
}

// alone calls change unless the session is closed or another goroutine uses it.
func (s *Session) alone(change func()) error {
	if err := s.enter(); err != nil {
		return err
	}
	defer s.busy.Store(false)
	if s.closed {
		return ClosedError("session")
	}
	change()
	return nil
}

// bindIO sets the device tensor of an input or output. The caller has entered the session.
func (s *Session) bindIO(bound **DeviceTensor, k *DeviceTensor) {
	*bound = k
	c := &s.io
	c.ever, c.count = true, 0
	for _, k := range slices.Concat(c.from, c.to) {
		if k != nil {
			c.count++
		}
	}
	for i, name := range s.p.graph.OutputNames {
		if c.to[i] != nil {
			delete(s.out, name)
		}
	}
}

// begin reserves the device tensors for a run; end releases them.
func (c *ioBinding) begin() error {
	if c.used = c.used[:0]; c.count == 0 {
		return nil
	}
	for _, k := range slices.Concat(c.from, c.to) {
		if k == nil || slices.Contains(c.used, k) {
			continue
		}
		if err := k.enter(); err != nil {
			c.end()
			return err
		}
		c.used = append(c.used, k)
	}
	for i, k := range c.to {
		if k != nil && slices.Contains(c.to[:i], k) {
			c.end()
			return WithKind(ErrInput, errors.New("two outputs are bound to one device tensor"))
		}
	}
	return nil
}

func (c *ioBinding) end() {
	for _, k := range c.used {
		k.leave()
	}
}

// boundInput returns the device tensor that a value comes from, nil for none. A packed batch comes from none.
func (f *frame) boundInput(v *ir.Value) *DeviceTensor {
	if i, ok := f.inputs[v]; ok && f.io != nil && f.io.count > 0 && f.starts == nil {
		return f.io.from[i]
	}
	return f.passedOn(v)
}

// passedOn returns the device tensor in which a value passes between graphs of the device, nil for none. Values of a packed batch pass
// through the host.
func (f *frame) passedOn(v *ir.Value) *DeviceTensor {
	if f.starts != nil {
		return nil
	}
	return f.passed[v]
}

// goesTo returns the device tensor that an output of a stage goes to, nil for none.
func (f *frame) goesTo(seg *stage, output int) *DeviceTensor {
	if k := f.passedOn(seg.graph.Outputs[output]); k != nil {
		return k
	}
	return f.boundOutput(seg.outputs[output])
}

// boundOutput returns the device tensor that an output goes to, nil for none. It is nil also where the run leaves the tensor as it is: a
// branch of a merged decoder that reads the tensor has an output for it that is always empty. The exporter writes that output instead of
// the keys and values of the encoder, which do not change.
func (f *frame) boundOutput(output int) *DeviceTensor {
	if output < 0 || f.io == nil || f.io.to[output] == nil {
		return nil
	}
	k := f.io.to[output]
	if t := f.graph.Outputs[output].Type; f.io.inner && t.Kind == ir.TensorType && slices.Contains(f.io.from, k) {
		if n, ok := t.Shape.Elements().Const(); ok && n == 0 {
			return nil
		}
	}
	return k
}

// stays reports whether kernels work on the tensor's own memory. A tensor that passes between graphs has no memory before the first run.
func (f *frame) stays(k *DeviceTensor) bool {
	return k != nil && (k.now == nil || f.s.p.device.Owns(k.now))
}

// port returns how a stage should work on input i; outputs are numbered after the inputs.
func (f *frame) port(seg *stage, i int) port {
	var k *DeviceTensor
	var alone bool
	if in := seg.graph.Inputs; i < len(in) {
		k, alone = f.boundInput(in[i]), f.readers[in[i]] == 1
	} else {
		k = f.goesTo(seg, i-len(in))
	}
	if !f.stays(k) {
		return port{axis: -1}
	}
	return port{true, k.grows.along(), alone}
}

// binds reports whether there are device tensors, or have been.
func (f *frame) binds() bool { return f.io != nil && f.io.ever || len(f.passed) > 0 }

// arrange finds the device tensors on whose memory the kernels of a stage may work. If they have changed, the stage is bound again.
func (f *frame) arrange(seg *stage, p *part) {
	if !f.binds() {
		return
	}
	n := len(seg.graph.Inputs) + len(seg.outputs)
	same, any := true, false
	for i := range n {
		at := f.port(seg, i)
		same, any = same && at == p.outside.at(i), any || at.outside
	}
	if same {
		return
	}
	if p.outside, p.instance = nil, nil; any {
		for i := range n {
			p.outside = append(p.outside, f.port(seg, i))
		}
	}
}

// bindIO sets the operands of a bound stage and the buffers of its results.
func (f *frame) bindIO(seg *stage, p *part) (err error) {
	for k, v := range seg.graph.Inputs {
		p.in[k], p.from[k] = nil, nil
		if t := f.boundInput(v); f.stays(t) && p.bound.outside.at(k).outside {
			p.from[k] = t.now
		} else if p.in[k], err = f.value(v); err != nil {
			return err
		}
	}
	if !f.binds() {
		return nil
	}
	for k, o := range seg.outputs {
		t := f.goesTo(seg, k)
		if p.to[k] = nil; !f.stays(t) || !p.bound.outside.at(len(p.in)+k).outside {
			continue
		}
		dtype, shape := p.bound.result(k)
		if f.passedOn(seg.graph.Outputs[k]) == t {
			held := t.held()
			if err := t.renew(dtype, shape); err != nil {
				return err
			}
			if err := f.s.use.memory.Take(t.held() - held); err != nil {
				return err
			}
			p.to[k] = t.now
			continue
		}
		if old := p.bound.grown[k]; old >= 0 && f.boundInput(seg.graph.Inputs[old]) == t || t.empty(dtype, shape) {
			err, p.to[k] = t.grows.fits(shape), t.now
		} else {
			err, p.to[k] = t.reserve(dtype, shape), t.next
		}
		if err != nil {
			return f.bindingError(o, err)
		}
		f.done[o] = content{p.to[k], dtype, shape}
	}
	p.instance.BindBuffers(p.from, p.to)
	return nil
}

// result is the type of an output, whichever axis is in front.
func (b *Binding) result(i int) (tensor.DType, tensor.Shape) {
	shape := b.results[i].Sizes()
	if axis := b.outside.at(len(b.outside) - len(b.results) + i).axis; axis >= 0 {
		shape = permuted(shape, back(axis, len(shape)))
	}
	return b.results[i].DType, shape
}

// commit ends a run that has succeeded: each bound output becomes the content of its device tensor.
func (f *frame) commit() (err error) {
	if f.io == nil || f.io.count == 0 {
		return nil
	}
	for i := range f.out {
		k := f.boundOutput(i)
		if k == nil || f.done[i].buffer != nil {
			continue
		}
		t := f.out[i]
		if t.DType() == tensor.String || t.IsSequence() {
			return WithKind(ErrInput, fmt.Errorf("output %s cannot be bound: it is not a tensor of numbers", files.Quote(f.io.names[i])))
		}
		if f.done[i], err = k.fill(t); err != nil {
			return f.bindingError(i, err)
		}
	}
	for i, k := range f.io.to {
		if f.done[i].buffer != nil {
			k.set(f.done[i])
		}
	}
	return nil
}

// bindingError adds the name of output i to an error of its device tensor.
func (f *frame) bindingError(i int, err error) error {
	return fmt.Errorf("output %s: %w", files.Quote(f.io.names[i]), err)
}
