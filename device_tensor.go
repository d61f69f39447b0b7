package rlxc

import "github.com/rlxc/rlxc/internal/engine"

// A DeviceTensor is a tensor that stays on a program's device between runs. Session.BindOutput writes an output to it, and
// Session.BindInput reads an input from it. Kernels use its memory directly, and nothing is copied. There are three exceptions: a node on
// the host reads or writes the tensor, the output is part of another value, or the output is also an input. Sessions of several programs
// may share a device tensor, one run at a time. Programs on another device read it through the host. A run that fails does not change the
// content.
type DeviceTensor struct{ engine *engine.DeviceTensor }

// NewDeviceTensor returns a device tensor with the content of t. All element types but strings are supported.
//
// It fails with ErrInput, ErrMemory or ErrClosed.
func (p *Program) NewDeviceTensor(t *Tensor) (*DeviceTensor, error) {
	k, err := p.engine.NewDeviceTensor(t)
	if err != nil {
		return nil, err
	}
	return &DeviceTensor{k}, nil
}

// NewGrowingTensor is NewDeviceTensor for a tensor that grows along an axis from run to run, such as the keys and values of a decoder.
// capacity is the largest size of that axis, and the buffer is allocated for it once. If an input and an output that appends to it along
// the axis are bound to the tensor, a run writes only the new elements. Otherwise the content is copied. A run whose output exceeds the
// capacity fails with ErrInput.
//
// It fails with ErrInput, ErrMemory or ErrClosed.
func (p *Program) NewGrowingTensor(t *Tensor, axis, capacity int) (*DeviceTensor, error) {
	k, err := p.engine.NewGrowingTensor(t, axis, capacity)
	if err != nil {
		return nil, err
	}
	return &DeviceTensor{k}, nil
}

// Truncate shortens a growing tensor to its first positions: 0 empties a cache, and a smaller number drops the last tokens. It copies
// nothing. It fails with ErrInput if the tensor does not grow or has fewer positions, and with ErrBusy or ErrClosed.
func (k *DeviceTensor) Truncate(positions int) error { return k.engine.Truncate(positions) }

// BindOutput writes an output to k in later runs. Run no longer returns that output. k takes the type and shape of each run's output. A
// nil k ends the binding.
//
// It fails with ErrInput if the model has no such output, and with ErrBusy or ErrClosed.
func (s *Session) BindOutput(output string, k *DeviceTensor) error {
	return s.engine.BindOutput(output, k.inner())
}

// BindInput reads an input from k in later runs. The inputs of Run must not contain it. Run checks the type and shape of k as it does for
// any input. An output may be bound to the same k: the run reads the old content and writes the new one. A nil k ends the binding.
//
// It fails with ErrInput if the model has no such input, and with ErrBusy or ErrClosed.
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

// ReadAt implements io.ReaderAt for the bytes of the content, row-major and little-endian. It fails with io.EOF at the end, with ErrInput
// for a negative offset, with ErrBusy or ErrClosed, or with an error of the device.
func (k *DeviceTensor) ReadAt(p []byte, off int64) (int, error) { return k.engine.ReadAt(p, off) }

// WriteAt implements io.WriterAt for the bytes of the content. Type and shape stay the same. It fails with ErrInput if the bytes are
// outside the content, with ErrBusy or ErrClosed, or with an error of the device.
func (k *DeviceTensor) WriteAt(p []byte, off int64) (int, error) { return k.engine.WriteAt(p, off) }

// Close releases the memory. Later runs of sessions to which k is bound fail with ErrClosed. It fails with ErrBusy or ErrClosed.
func (k *DeviceTensor) Close() error { return k.engine.Close() }
