package rlxc

import "github.com/rlxc/rlxc/internal/engine"

// A DeviceTensor is a tensor that stays with a program's device between runs. Session.BindOutput sends outputs to it, Session.BindInput
// takes inputs from it. The kernels read and write its memory, so that nothing is copied, and on a GPU nothing passes through the host,
// unless a node on the host makes or reads it, or the output is a part of a value or an input too. Sessions of several programs may use it,
// one run at a time; programs on another device take its content through the host. A run that fails leaves the content as it was.
type DeviceTensor struct{ engine *engine.DeviceTensor }

// NewDeviceTensor returns a device tensor with t's content, of any element type but strings.
//
// It fails with ErrInput, ErrMemory or ErrClosed.
func (p *Program) NewDeviceTensor(t *Tensor) (*DeviceTensor, error) {
	k, err := p.engine.NewDeviceTensor(t)
	if err != nil {
		return nil, err
	}
	return &DeviceTensor{k}, nil
}

// NewGrowingTensor is NewDeviceTensor for a tensor that grows from run to run on an axis, such as the keys and values that a decoder has
// seen. capacity is the largest size of that axis; the buffer has room for it and stays where it is. If an input is bound to the tensor,
// and an output that appends to the input along the axis, a run writes what is new and nothing else; otherwise the content is copied. A run
// whose output exceeds the capacity fails with ErrInput.
//
// It fails with ErrInput, ErrMemory or ErrClosed.
func (p *Program) NewGrowingTensor(t *Tensor, axis, capacity int) (*DeviceTensor, error) {
	k, err := p.engine.NewGrowingTensor(t, axis, capacity)
	if err != nil {
		return nil, err
	}
	return &DeviceTensor{k}, nil
}

// Truncate leaves the first positions on the axis on which the tensor grows: 0 for an empty cache, fewer to take the last tokens back. It
// copies nothing. It fails with ErrInput if the tensor does not grow or has fewer, with ErrBusy or with ErrClosed.
func (k *DeviceTensor) Truncate(places int) error { return k.engine.Truncate(places) }

// BindOutput sends an output to k in the runs that follow. It is missing from the map that Run returns. k takes the type and shape of
// each run's output. A nil k ends that.
//
// It fails with ErrInput if the model has no such output, with ErrBusy or with ErrClosed.
func (s *Session) BindOutput(output string, k *DeviceTensor) error {
	return s.engine.BindOutput(output, k.inner())
}

// BindInput takes an input from k in the runs that follow. It must be missing from the inputs of Run, which checks k's type and shape as
// that of any input. The run may send an output to the same k: it reads the old content and writes the new one. A nil k ends that.
//
// It fails with ErrInput if the model has no such input, with ErrBusy or with ErrClosed.
func (s *Session) BindInput(input string, k *DeviceTensor) error {
	return s.engine.BindInput(input, k.inner())
}

func (k *DeviceTensor) inner() *engine.DeviceTensor {
	if k == nil {
		return nil
	}
	return k.engine
}

// Tensor returns a copy of the content on the host. It fails with ErrBusy, ErrClosed, or an error of the device.
func (k *DeviceTensor) Tensor() (*Tensor, error) { return k.engine.Tensor() }

// Type returns the element type and shape of the content. It fails with ErrBusy or ErrClosed.
func (k *DeviceTensor) Type() (DType, []int, error) { return k.engine.Type() }

// ReadAt implements io.ReaderAt over the bytes of the content, row-major and little-endian. It fails with io.EOF at the end, ErrInput
// for a negative offset, ErrBusy, ErrClosed, or an error of the device.
func (k *DeviceTensor) ReadAt(p []byte, off int64) (int, error) { return k.engine.ReadAt(p, off) }

// WriteAt implements io.WriterAt over the bytes of the content. Type and shape stay. It fails with ErrInput if the bytes are outside,
// ErrBusy, ErrClosed, or an error of the device.
func (k *DeviceTensor) WriteAt(p []byte, off int64) (int, error) { return k.engine.WriteAt(p, off) }

// Close releases the memory. Sessions must not use k afterwards: their runs fail with ErrClosed. It fails with ErrBusy or ErrClosed.
func (k *DeviceTensor) Close() error { return k.engine.Close() }
