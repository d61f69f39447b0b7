package engine

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"sync/atomic"

	"github.com/rlxc/rlxc/internal/backend"
	"github.com/rlxc/rlxc/ir"
	"github.com/rlxc/rlxc/tensor"
)

// A Kept is a tensor that stays where the device's memory is, between runs: outputs go to it, inputs come from it. It has two
// buffers, so that a run may read one state and write the next, and leaves the tensor as it was if it fails.
type Kept struct {
	p      *Program
	busy   atomic.Bool
	closed bool

	dtype tensor.DType
	shape tensor.Shape
	now   backend.Buffer
	next  backend.Buffer // of the run that is under way; kept for the next one

	grows growth
}

// Keep makes a tensor that stays with the program's device. Its content is t's.
func (p *Program) Keep(t *tensor.Tensor) (*Kept, error) { return p.keep(t, growth{}) }

// KeepGrowing makes a kept tensor with room for so many places on an axis. Its content is t's.
func (p *Program) KeepGrowing(t *tensor.Tensor, axis, room int) (*Kept, error) {
	if t != nil && !t.IsSequence() && (axis < 0 || axis >= len(t.Shape())) {
		return nil, WithKind(ErrInput, fmt.Errorf("a tensor of shape %v cannot grow on axis %d", t.Shape(), axis))
	}
	if room < 1 || t != nil && t.DType().Size() == 0 {
		return nil, WithKind(ErrInput, errors.New("a tensor that grows needs elements of whole bytes and room for one place or more"))
	}
	return p.keep(t, growth{axis, room})
}

func (p *Program) keep(t *tensor.Tensor, grows growth) (*Kept, error) {
	if t == nil || t.DType() == tensor.String || t.IsSequence() {
		return nil, WithKind(ErrInput, errors.New("only a tensor of numbers can be kept"))
	}
	if err := p.use(); err != nil {
		return nil, err
	}
	k := &Kept{p: p, grows: grows}
	if err := k.store(t); err != nil {
		p.leave()
		return nil, err
	}
	return k, nil
}

// enter begins a use, which leave ends.
func (k *Kept) enter() error {
	if !k.busy.CompareAndSwap(false, true) {
		return WithKind(ErrBusy, errors.New("another goroutine uses the kept tensor"))
	}
	if k.closed {
		k.leave()
		return ClosedError("kept tensor")
	}
	return nil
}

func (k *Kept) leave() { k.busy.Store(false) }

// room makes room for the next content. The current one stays.
func (k *Kept) room(d tensor.DType, shape tensor.Shape) error {
	if err := k.grows.fits(shape); err != nil {
		return err
	}
	elements, err := k.grows.whole(shape).CheckElements(d)
	if err != nil {
		return WithKind(ErrMemory, fmt.Errorf("a kept tensor: %w", err))
	}
	bytes := int64(d.Bytes(elements))
	if k.next != nil && k.next.Size() >= bytes {
		return nil
	}
	if limit := k.p.opts.MemoryLimit; bytes > limit {
		return WithKind(ErrMemory, fmt.Errorf("a kept tensor needs %d bytes, the memory limit is %d", bytes, limit))
	}
	if k.next != nil {
		k.next.Close()
		k.next = nil
	}
	keeper, ok := k.p.device.(backend.Keeper)
	if !ok || k.grows.room > 0 && !k.p.device.Target().Outside {
		k.next = backend.NewHostBuffer(bytes)
		return nil
	}
	if k.grows.room == 0 {
		bytes += bytes / 4 // what grows with each run moves seldom
	}
	next, err := keeper.NewBuffer(bytes)
	if err != nil {
		return WithKind(ErrMemory, err)
	}
	k.next = next
	return nil
}

// empty reports whether the content is nothing that a run could spoil, in a buffer in which there is room for the next content.
func (k *Kept) empty(d tensor.DType, shape tensor.Shape) bool {
	if k.grows.room == 0 || k.shape.Elements() > 0 || k.grows.fits(shape) != nil {
		return false
	}
	elements, err := k.grows.whole(shape).CheckElements(d)
	return err == nil && k.now.Size() >= int64(d.Bytes(elements))
}

// turn makes the next content the current one.
func (k *Kept) turn(d tensor.DType, shape tensor.Shape) {
	k.now, k.next = k.next, k.now
	k.dtype, k.shape = d, shape.Clone()
}

// store replaces the content from the host.
func (k *Kept) store(t *tensor.Tensor) error {
	if err := k.room(t.DType(), t.Shape()); err != nil {
		return err
	}
	inOrder, err := k.grows.stored(t)
	if err != nil {
		return err
	}
	if err := k.next.WriteAt(inOrder.Bytes(), 0); err != nil {
		return err
	}
	k.turn(t.DType(), t.Shape())
	return nil
}

// bytes is the size of the content.
func (k *Kept) bytes() int64 { return int64(k.dtype.Bytes(k.shape.Elements())) }

// host shows the content on the host: itself where it lies there row-major, a copy elsewhere.
func (k *Kept) host() (*tensor.Tensor, error) {
	data := make([]byte, 0)
	if h, ok := k.now.(*backend.HostBuffer); ok {
		data = h.Bytes()[:k.bytes()]
	} else if n := k.bytes(); n > 0 {
		data = tensor.New(tensor.U8, int(n)).Bytes()
		if err := k.now.ReadAt(data, 0); err != nil {
			return nil, err
		}
	}
	t, err := tensor.FromBytes(k.dtype, k.grows.order(k.shape), data)
	if err != nil {
		return nil, err
	}
	return k.grows.shown(t)
}

// Tensor copies the content to the host.
func (k *Kept) Tensor() (*tensor.Tensor, error) {
	if err := k.enter(); err != nil {
		return nil, err
	}
	defer k.leave()
	t, err := k.host()
	if err != nil {
		return nil, err
	}
	if _, ok := k.now.(*backend.HostBuffer); ok && k.grows.room == 0 {
		t = t.Clone()
	}
	return t, nil
}

// Type is the element type and shape of the content.
func (k *Kept) Type() (tensor.DType, tensor.Shape, error) {
	if err := k.enter(); err != nil {
		return tensor.Invalid, nil, err
	}
	defer k.leave()
	return k.dtype, k.shape.Clone(), nil
}

// ReadAt implements io.ReaderAt over the bytes of the content.
func (k *Kept) ReadAt(p []byte, off int64) (int, error) {
	return k.at(p, off, func(p []byte) error {
		if k.grows.room == 0 {
			return k.now.ReadAt(p, off)
		}
		t, err := k.host()
		if err == nil {
			copy(p, t.Bytes()[off:])
		}
		return err
	})
}

// WriteAt implements io.WriterAt over the bytes of the content, which does not grow.
func (k *Kept) WriteAt(p []byte, off int64) (int, error) {
	n, err := k.at(p, off, func(p []byte) error {
		if k.grows.room == 0 {
			return k.now.WriteAt(p, off)
		}
		t, err := k.host()
		if err != nil {
			return err
		}
		copy(t.Bytes()[off:], p)
		return k.store(t)
	})
	if err == io.EOF {
		err = WithKind(ErrInput, fmt.Errorf("%d bytes at %d do not fit into the kept tensor", len(p), off))
	}
	return n, err
}

// at moves the part of p that the content has.
func (k *Kept) at(p []byte, off int64, move func(p []byte) error) (int, error) {
	if err := k.enter(); err != nil {
		return 0, err
	}
	defer k.leave()
	if off < 0 {
		return 0, WithKind(ErrInput, fmt.Errorf("offset %d is negative", off))
	}
	n := min(int64(len(p)), max(k.bytes()-off, 0))
	if n > 0 {
		if err := move(p[:n]); err != nil {
			return 0, err
		}
	}
	if n < int64(len(p)) {
		return int(n), io.EOF
	}
	return int(n), nil
}

// Truncate leaves the first places on the axis on which the content grows.
func (k *Kept) Truncate(places int) error {
	if err := k.enter(); err != nil {
		return err
	}
	defer k.leave()
	if r := k.grows; r.room == 0 {
		return WithKind(ErrInput, errors.New("the kept tensor does not grow: Program.KeepGrowing makes one that does"))
	} else if has := k.shape[r.axis]; places < 0 || places > has {
		return WithKind(ErrInput, fmt.Errorf("the kept tensor has %d places on axis %d: %d cannot be left of them", has, r.axis, places))
	}
	k.shape[k.grows.axis] = places
	return nil
}

// Close releases the memory.
func (k *Kept) Close() error {
	if err := k.enter(); err != nil {
		return err
	}
	defer k.leave()
	k.closed = true
	for _, b := range []backend.Buffer{k.now, k.next} {
		if b != nil {
			b.Close()
		}
	}
	return k.p.leave()
}

// carried are the kept tensors of a session, by place in the graph's inputs and outputs.
type carried struct {
	from, to []*Kept
	used     []*Kept // each once
	buffers  struct{ from, to []backend.Buffer }
	outside  places // where the kernels may work on a kept tensor's own memory
}

// places are some of a graph's inputs and outputs: a byte for each input, then for each output, '0' for those that are not meant, and
// for others '1' and the axes in front of the one on which they grow, if they do. "" is none.
type places string

// of returns the values at the places.
func (p places) of(g *ir.Graph) (values []*ir.Value) {
	if p == "" {
		return nil
	}
	for i, v := range slices.Concat(g.Inputs, g.Outputs) {
		if p.has(i) {
			values = append(values, v)
		}
	}
	return values
}

// has reports whether a place is meant.
func (p places) has(i int) bool { return p != "" && p[i] != '0' }

// only leaves the places whose values are among some.
func (p places) only(g *ir.Graph, among func(*ir.Value) bool) places {
	if p == "" {
		return ""
	}
	left := []byte(p)
	for i, v := range slices.Concat(g.Inputs, g.Outputs) {
		if p.has(i) && !among(v) {
			left[i] = '0'
		}
	}
	return places(left)
}

// places are those of the kept tensors on whose own memory the kernels may work.
func (c *carried) places() places {
	if c == nil {
		return ""
	}
	return c.outside
}

// Feed makes an input come from a kept tensor in the runs that follow; nil ends that.
func (s *Session) Feed(input string, k *Kept) error {
	place := slices.IndexFunc(s.p.graph.Inputs, func(v *ir.Value) bool { return v.Name == input })
	if place < 0 {
		return WithKind(ErrInput, fmt.Errorf("the model has no input %s: it takes %s", tensor.Quote(input), s.signature()))
	}
	return s.carry(k, func(c *carried) { c.from[place] = k })
}

// Keep makes an output go to a kept tensor in the runs that follow, not to the map that Run returns; nil ends that.
func (s *Session) Keep(output string, k *Kept) error {
	place := slices.Index(s.p.graph.OutputNames, output)
	if place < 0 {
		return WithKind(ErrInput, fmt.Errorf("the model has no output %s", tensor.Quote(output)))
	}
	return s.carry(k, func(c *carried) {
		c.to[place] = k
	})
}

func (s *Session) carry(k *Kept, set func(*carried)) error {
	if err := s.enter(); err != nil {
		return err
	}
	defer s.busy.Store(false)
	if s.closed {
		return ClosedError("session")
	}
	if s.carried == nil {
		in, out := len(s.p.graph.Inputs), len(s.p.graph.Outputs)
		s.carried = &carried{from: make([]*Kept, in), to: make([]*Kept, out)}
		s.carried.buffers.from, s.carried.buffers.to = make([]backend.Buffer, in), make([]backend.Buffer, out)
	}
	set(s.carried)
	for i, name := range s.p.graph.OutputNames {
		if s.carried.to[i] != nil {
			delete(s.out, name)
		}
	}
	return s.eachBranch(func(r *Session) error { return r.carry(k, set) })
}

// none reports whether all values come from the host and go there.
func (c *carried) none() bool {
	kept := func(k *Kept) bool { return k != nil }
	return c == nil || !slices.ContainsFunc(c.from, kept) && !slices.ContainsFunc(c.to, kept)
}

// begin makes the kept tensors those of the run that follows; end ends that.
func (c *carried) begin() error {
	if c == nil {
		return nil
	}
	c.used = c.used[:0]
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
			return WithKind(ErrInput, errors.New("two outputs go to one kept tensor"))
		}
	}
	return nil
}

func (c *carried) end() {
	if c != nil {
		for _, k := range c.used {
			k.leave()
		}
	}
}

// stays reports whether a run uses the tensor's memory on the device as it is.
func (s *Session) stays(k *Kept) bool {
	d, ok := s.p.device.(backend.Keeper)
	return ok && s.p.stages[0].graph == s.p.graph && d.Takes(k.now)
}

// feed brings the kept inputs that a run cannot read where they are to the host, and finds what it may work on in place.
func (s *Session) feed() error {
	c := s.carried
	if c == nil {
		return nil
	}
	for i, k := range c.from {
		if k == nil {
			continue
		}
		if s.in[i] = nil; s.stays(k) {
			continue
		}
		t, err := k.host()
		if err != nil {
			return err
		}
		s.in[i] = t
	}
	var outside places
	if !c.none() && s.p.device.Target().Outside {
		at := make([]byte, 0, len(c.from)+len(c.to))
		for i, k := range slices.Concat(c.from, c.to) {
			if at = append(at, '0'); k != nil && s.stays(k) && (i < len(c.from) || !s.leaves(i-len(c.from))) {
				at[len(at)-1] = k.grows.place()
			}
		}
		outside = places(at)
	}
	if outside != c.outside {
		c.outside, s.last = outside, nil
	}
	return nil
}

// runKept is a run of a bound program of one stage with kept tensors.
func (s *Session) runKept(ctx context.Context) ([]*tensor.Tensor, error) {
	c, outputs := s.carried, s.bound.Planned.Graph.Outputs
	anywhere := !s.p.device.Target().Outside
	for i, k := range c.from {
		if c.buffers.from[i] = nil; k == nil || s.in[i] != nil {
			continue
		}
		if anywhere || s.bound.outside.has(i) {
			c.buffers.from[i] = k.now
			continue
		}
		t, err := k.host()
		if err != nil {
			return nil, err
		}
		s.in[i] = t
	}
	for i, k := range c.to {
		if c.buffers.to[i] = nil; k == nil || s.leaves(i) || !s.stays(k) || !anywhere && !s.bound.outside.has(len(c.from)+i) {
			continue
		}
		if old := s.bound.grown[i]; old >= 0 && c.from[old] == k || k.empty(outputs[i].Type.DType, s.keptShape(i)) {
			if err := k.grows.fits(s.keptShape(i)); err != nil {
				return nil, s.keptError(i, err)
			}
			c.buffers.to[i] = k.now
			continue
		}
		if err := k.room(outputs[i].Type.DType, s.keptShape(i)); err != nil {
			return nil, s.keptError(i, err)
		}
		c.buffers.to[i] = k.next
	}
	if carrier, ok := s.last.(backend.Carrier); ok {
		carrier.Carry(c.buffers.from, c.buffers.to)
	}
	out, err := s.last.Run(ctx, s.in)
	if err != nil {
		return nil, err
	}
	for i, k := range c.to {
		if k != nil && c.buffers.to[i] != nil {
			if c.buffers.to[i] == k.now { // it has grown where it lies
				k.next, k.now = k.now, k.next
			}
			k.turn(outputs[i].Type.DType, s.keptShape(i))
		}
	}
	return out, nil
}

// leaves reports whether an output leaves the kept tensor that it goes to as it is: one that always is empty, in the branch of a merged decoder
// that reads the tensor. Its exporter puts it in the place of the keys and values of the encoder, which do not change.
func (s *Session) leaves(output int) bool {
	return s.p.void != nil && s.p.void[output] && slices.Contains(s.carried.from, s.carried.to[output])
}

// keptShape is the shape of a bound output that is kept, whichever axis is in front.
func (s *Session) keptShape(i int) tensor.Shape {
	shape := s.bound.Planned.Graph.Outputs[i].Type.Sizes()
	if axis := s.bound.outside.axis(len(s.carried.from) + i); axis >= 0 {
		shape = permuted(shape, back(axis, len(shape)))
	}
	return shape
}

// keptError is an error about what an output's kept tensor can take.
func (s *Session) keptError(i int, err error) error {
	return fmt.Errorf("output %s: %w", tensor.Quote(s.p.graph.OutputNames[i]), err)
}

// keep stores the outputs that are kept and that the run left on the host.
func (s *Session) keep(out []*tensor.Tensor) error {
	if s.carried == nil {
		return nil
	}
	for i, k := range s.carried.to {
		if k == nil || out[i] == nil || s.leaves(i) {
			continue
		}
		if t := out[i]; t.DType() == tensor.String || t.IsSequence() {
			return WithKind(ErrInput, fmt.Errorf("output %s cannot be kept: it is not a tensor of numbers", tensor.Quote(s.p.graph.OutputNames[i])))
		}
		if err := k.store(out[i]); err != nil {
			return s.keptError(i, err)
		}
	}
	return nil
}
