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
	used     []*DeviceTensor // each once
	count    int             // of inputs and outputs that have one
	ever     bool            // there has been one
	inner    bool            // the unit is a branch of an If
	names    []string        // of the outputs, in errors
}

// BindInput makes an input come from a device tensor in the runs that follow; nil ends that.
func (s *Session) BindInput(input string, k *DeviceTensor) error {
	place := slices.IndexFunc(s.p.graph.Inputs, func(v *ir.Value) bool { return v.Name == input })
	if place < 0 {
		return WithKind(ErrInput, fmt.Errorf("the model has no input %s: it takes %s", files.Quote(input), signature(s.p.graph)))
	}
	return s.bindIO(&s.io.from[place], k)
}

// BindOutput makes an output go to a device tensor in the runs that follow, not to the map that Run returns; nil ends that.
func (s *Session) BindOutput(output string, k *DeviceTensor) error {
	place := slices.Index(s.p.graph.OutputNames, output)
	if place < 0 {
		return WithKind(ErrInput, fmt.Errorf("the model has no output %s", files.Quote(output)))
	}
	return s.bindIO(&s.io.to[place], k)
}

func (s *Session) bindIO(place **DeviceTensor, k *DeviceTensor) error {
	if err := s.enter(); err != nil {
		return err
	}
	defer s.busy.Store(false)
	if s.closed {
		return ClosedError("session")
	}
	*place = k
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
	return nil
}

// begin makes the device tensors those of the run that follows; end ends that.
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

// boundInput is the device tensor that a value comes from, nil for none. Rows are laid out anew.
func (f *frame) boundInput(v *ir.Value) *DeviceTensor {
	if i, ok := f.inputs[v]; ok && f.io != nil && f.io.count > 0 && f.rows == nil {
		return f.io.from[i]
	}
	return f.passedOn(v)
}

// passedOn is the device tensor in which a value passes between graphs of the device, nil for none. Rows stay packed, and go to the host.
func (f *frame) passedOn(v *ir.Value) *DeviceTensor {
	if f.rows != nil {
		return nil
	}
	return f.passed[v]
}

// goesTo is the device tensor that an output of a segment goes to, nil for none.
func (f *frame) goesTo(seg *segment, output int) *DeviceTensor {
	if k := f.passedOn(seg.graph.Outputs[output]); k != nil {
		return k
	}
	return f.boundOutput(seg.outputs[output])
}

// boundOutput is the device tensor that an output goes to, nil for none, and for one that the run leaves as it is: a branch of a merged
// decoder that reads the tensor has an output for it that always is empty. The exporter puts it instead of the keys and values of
// the encoder, which do not change.
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

// stays reports whether the device uses the tensor's memory as it is. What passes between graphs has none before the first run.
func (f *frame) stays(k *DeviceTensor) bool {
	return k != nil && (k.now == nil || f.s.p.device.Owns(k.now))
}

// place is how a segment should work on an input, or an output after those.
func (f *frame) place(seg *segment, i int) place {
	k, alone := (*DeviceTensor)(nil), true
	if in := seg.graph.Inputs; i < len(in) {
		k, alone = f.boundInput(in[i]), f.readers[in[i]] == 1
	} else {
		k = f.goesTo(seg, i-len(in))
	}
	if !f.stays(k) {
		return place{axis: -1}
	}
	return place{true, k.grows.along(), alone}
}

// binds reports whether there are device tensors, or have been.
func (f *frame) binds() bool { return f.io != nil && f.io.ever || len(f.passed) > 0 }

// arrange finds the device tensors on whose memory the kernels of a segment may work. They have to be bound to that.
func (f *frame) arrange(seg *segment, p *part) {
	if !f.binds() {
		return
	}
	n := len(seg.graph.Inputs) + len(seg.outputs)
	same, any := true, false
	for i := range n {
		at := f.place(seg, i)
		same, any = same && at == p.outside.at(i), any || at.outside
	}
	if same {
		return
	}
	if p.outside, p.instance = nil, nil; any {
		for i := range n {
			p.outside = append(p.outside, f.place(seg, i))
		}
	}
}

// bindIO gives a bound segment its operands, and says where its results go.
func (f *frame) bindIO(seg *segment, p *part) (err error) {
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
	if axis := b.outside.at(len(b.Planned.Graph.Inputs) + i).axis; axis >= 0 {
		shape = permuted(shape, back(axis, len(shape)))
	}
	return b.results[i].DType, shape
}

// commit ends a run that has succeeded: what goes to device tensors, from the host or where the device has left it, is their content.
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
			k.turn(f.done[i])
		}
	}
	return nil
}

// bindingError is an error about what an output's device tensor can take.
func (f *frame) bindingError(i int, err error) error {
	return fmt.Errorf("output %s: %w", files.Quote(f.io.names[i]), err)
}

// places say how a segment works on its inputs and then its outputs; none where all are as ever.
type places []place

// A place is an input or output of a segment.
type place struct {
	outside bool // it is in a device tensor's own memory
	axis    int  // on which it grows, −1 if it does not
	alone   bool // nothing else reads it
}

func (p places) at(i int) place {
	if len(p) == 0 {
		return place{axis: -1}
	}
	return p[i]
}

// key is what distinguishes positions in a cacheKey.
func (p places) key() string {
	if len(p) == 0 {
		return ""
	}
	return fmt.Sprint([]place(p))
}

// of returns the values at the positions.
func (p places) of(g *ir.Graph) (values []*ir.Value) {
	for i, v := range slices.Concat(g.Inputs, g.Outputs) {
		if p.at(i).outside {
			values = append(values, v)
		}
	}
	return values
}

// growing is the number of positions that grow.
func (p places) growing() (n int) {
	for i := range p {
		if p.at(i).axis >= 0 {
			n++
		}
	}
	return n
}

// only leaves the positions whose values are among some.
func (p places) only(g *ir.Graph, among func(*ir.Value) bool) places {
	left := slices.Clone(p)
	for i, v := range slices.Concat(g.Inputs, g.Outputs) {
		if p.at(i).outside && !among(v) {
			left[i] = place{axis: -1}
		}
	}
	return left
}
