package engine

import (
	"errors"
	"fmt"
	"io"
	"sync/atomic"

	"github.com/rlxc/rlxc/arena"
	"github.com/rlxc/rlxc/internal/backend"
	"github.com/rlxc/rlxc/tensor"
)

// A DeviceTensor is a tensor that stays where the device's memory is, between runs: outputs go to it, inputs come from it. It has two
// buffers, so that a run may read one state and write the next, and leaves the tensor as it was if it fails.
type DeviceTensor struct {
	p      *Program
	busy   atomic.Bool
	closed bool

	dtype tensor.DType
	shape tensor.Shape
	now   backend.Buffer
	next  backend.Buffer // buffer that the current run writes; kept for the next run

	grows growth
}

// Lengthened returns the axis on which the program makes an input longer, −1 if it does not. It reports shared if the input already has
// the size of the result, so that both can be one buffer.
func (p *Program) Lengthened(input int) (axis int, shared bool) {
	return lengthenedBy(p.graph, p.graph.Inputs[input])
}

// NewDeviceTensor makes a tensor that stays with the program's device. Its content is t's.
func (p *Program) NewDeviceTensor(t *tensor.Tensor) (*DeviceTensor, error) {
	return newDeviceTensor(p, t, growth{})
}

// NewGrowingTensor makes a device tensor with room for that many positions on an axis. Its content is t's.
func (p *Program) NewGrowingTensor(t *tensor.Tensor, axis, capacity int) (*DeviceTensor, error) {
	if t != nil && !t.IsSequence() && (axis < 0 || axis >= len(t.Shape())) {
		return nil, WithKind(ErrInput, fmt.Errorf("a tensor of shape %v cannot grow on axis %d", t.Shape(), axis))
	}
	if capacity < 1 || t != nil && t.DType().Size() == 0 {
		return nil, WithKind(ErrInput, errors.New("a growing tensor needs elements of whole bytes and a capacity of 1 or more"))
	}
	return newDeviceTensor(p, t, growth{axis, capacity})
}

func newDeviceTensor(p *Program, t *tensor.Tensor, grows growth) (*DeviceTensor, error) {
	if t == nil || t.DType() == tensor.String || t.IsSequence() {
		return nil, WithKind(ErrInput, errors.New("only a tensor of numbers can be a device tensor"))
	}
	if err := p.use(); err != nil {
		return nil, err
	}
	k := &DeviceTensor{p: p, grows: grows}
	if err := k.store(t); err != nil {
		p.leave()
		return nil, err
	}
	return k, nil
}

// enter begins a use, which leave ends.
func (k *DeviceTensor) enter() error {
	if !k.busy.CompareAndSwap(false, true) {
		return WithKind(ErrBusy, errors.New("another goroutine uses the device tensor"))
	}
	if k.closed {
		k.leave()
		return ClosedError("device tensor")
	}
	return nil
}

func (k *DeviceTensor) leave() { k.busy.Store(false) }

// reserve makes room for the next content. The current one stays.
func (k *DeviceTensor) reserve(d tensor.DType, shape tensor.Shape) error {
	if err := k.grows.fits(shape); err != nil {
		return err
	}
	elements, err := k.grows.whole(shape).CheckElements(d)
	if err != nil {
		return WithKind(ErrMemory, fmt.Errorf("a device tensor: %w", err))
	}
	bytes := int64(d.Bytes(elements))
	if k.next != nil && k.next.Size() >= bytes {
		return nil
	}
	if limit := k.p.opts.MemoryLimit; bytes > limit {
		return WithKind(ErrMemory, fmt.Errorf("a device tensor needs %d bytes, the memory limit is %d", bytes, limit))
	}
	if k.next != nil {
		k.next.Close()
		k.next = nil
	}
	if k.grows.capacity == 0 {
		bytes += bytes / 4 // what grows with each run moves seldom
	}
	next, err := k.p.device.NewBuffer(bytes)
	if err != nil {
		return WithKind(ErrMemory, err)
	}
	k.next = next
	return nil
}

// renew makes room for another content instead of the current one.
func (k *DeviceTensor) renew(d tensor.DType, shape tensor.Shape) error {
	k.now, k.next = k.next, k.now
	if bytes := int64(d.Bytes(shape.Elements())); k.next != nil && k.next.Size() > 4*bytes+arena.Slack {
		k.next.Close()
		k.next = nil
	}
	err := k.reserve(d, shape)
	if err == nil {
		k.set(content{k.next, d, shape})
	}
	return err
}

// held is the bytes of both buffers.
func (k *DeviceTensor) held() (n int64) {
	for _, b := range []backend.Buffer{k.now, k.next} {
		if b != nil {
			n += b.Size()
		}
	}
	return n
}

// empty reports whether the content is nothing that a run could spoil, in a buffer in which there is room for the next content.
func (k *DeviceTensor) empty(d tensor.DType, shape tensor.Shape) bool {
	if k.grows.capacity == 0 || k.shape.Elements() > 0 || k.grows.fits(shape) != nil {
		return false
	}
	elements, err := k.grows.whole(shape).CheckElements(d)
	return err == nil && k.now.Size() >= int64(d.Bytes(elements))
}

// A content is what a device tensor holds, or will.
type content struct {
	buffer backend.Buffer // nil for none
	dtype  tensor.DType
	shape  tensor.Shape
}

// set makes c the content: that of the next buffer, or one that has grown in place.
func (k *DeviceTensor) set(c content) {
	if c.buffer == k.next {
		k.now, k.next = k.next, k.now
	}
	k.dtype, k.shape = c.dtype, c.shape.Clone()
}

// fill makes the next content from the host.
func (k *DeviceTensor) fill(t *tensor.Tensor) (c content, err error) {
	if err := k.reserve(t.DType(), t.Shape()); err != nil {
		return c, err
	}
	inOrder, err := k.grows.stored(t)
	if err != nil {
		return c, err
	}
	return content{k.next, t.DType(), t.Shape()}, k.next.WriteAt(inOrder.Bytes(), 0)
}

// store replaces the content from the host.
func (k *DeviceTensor) store(t *tensor.Tensor) error {
	c, err := k.fill(t)
	if err == nil {
		k.set(c)
	}
	return err
}

// bytes is the size of the content.
func (k *DeviceTensor) bytes() int64 { return int64(k.dtype.Bytes(k.shape.Elements())) }

// host shows the content on the host: itself where it is there row-major, a copy elsewhere.
func (k *DeviceTensor) host() (*tensor.Tensor, error) { return k.show(k.content()) }

func (k *DeviceTensor) content() content { return content{k.now, k.dtype, k.shape} }

func (k *DeviceTensor) show(c content) (*tensor.Tensor, error) {
	data, n := make([]byte, 0), c.dtype.Bytes(c.shape.Elements())
	if h, ok := c.buffer.(*backend.HostBuffer); ok {
		data = h.Bytes()[:n]
	} else if n > 0 {
		data = tensor.New(tensor.U8, n).Bytes()
		if err := c.buffer.ReadAt(data, 0); err != nil {
			return nil, err
		}
	}
	t, err := tensor.FromBytes(c.dtype, k.grows.order(c.shape), data)
	if err != nil {
		return nil, err
	}
	return k.grows.shown(t)
}

// Tensor copies the content to the host.
func (k *DeviceTensor) Tensor() (*tensor.Tensor, error) {
	if err := k.enter(); err != nil {
		return nil, err
	}
	defer k.leave()
	t, err := k.host()
	if err != nil {
		return nil, err
	}
	if _, ok := k.now.(*backend.HostBuffer); ok && k.grows.capacity == 0 {
		t = t.Clone()
	}
	return t, nil
}

// Type is the element type and shape of the content.
func (k *DeviceTensor) Type() (tensor.DType, tensor.Shape, error) {
	if err := k.enter(); err != nil {
		return tensor.Invalid, nil, err
	}
	defer k.leave()
	return k.dtype, k.shape.Clone(), nil
}

// ReadAt implements io.ReaderAt over the bytes of the content.
func (k *DeviceTensor) ReadAt(p []byte, off int64) (int, error) {
	return k.at(p, off, func(p []byte) error {
		if k.grows.capacity == 0 {
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
func (k *DeviceTensor) WriteAt(p []byte, off int64) (int, error) {
	n, err := k.at(p, off, func(p []byte) error {
		if k.grows.capacity == 0 {
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
		err = WithKind(ErrInput, fmt.Errorf("%d bytes at %d do not fit into the device tensor", len(p), off))
	}
	return n, err
}

// at moves the part of p that the content has.
func (k *DeviceTensor) at(p []byte, off int64, move func(p []byte) error) (int, error) {
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

// Truncate leaves the first positions on the axis on which the content grows.
func (k *DeviceTensor) Truncate(positions int) error {
	if err := k.enter(); err != nil {
		return err
	}
	defer k.leave()
	if r := k.grows; r.capacity == 0 {
		return WithKind(ErrInput, errors.New("the device tensor does not grow: Program.NewGrowingTensor makes one that does"))
	} else if has := k.shape[r.axis]; positions < 0 || positions > has {
		return WithKind(ErrInput, fmt.Errorf("the device tensor has size %d on axis %d and cannot be truncated to %d", has, r.axis,
			positions))
	}
	k.shape[k.grows.axis] = positions
	return nil
}

// Close releases the memory.
func (k *DeviceTensor) Close() error {
	if err := k.enter(); err != nil {
		return err
	}
	defer k.leave()
	k.closed = true
	k.release()
	return k.p.leave()
}

func (k *DeviceTensor) release() {
	for _, b := range []backend.Buffer{k.now, k.next} {
		if b != nil {
			b.Close()
		}
	}
}
