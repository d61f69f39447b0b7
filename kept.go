package rlxc

import "github.com/rlxc/rlxc/internal/engine"

// A Kept is a tensor that stays with a program's device between runs: Session.Keep sends outputs to it, Session.Feed takes inputs from
// it. The kernels read and write its memory, so that nothing is copied, and on a GPU nothing passes through the host, unless the program
// runs in stages, or the output is a part of a value or an input too. Sessions of several programs may use it, one run at a time; programs
// on another device take its content through the host. A run that fails leaves the content as it was.
type Kept struct{ engine *engine.Kept }

// Keep returns a kept tensor with t's content, of any element type but strings.
//
// It fails with ErrInput, ErrMemory or ErrClosed.
func (p *Program) Keep(t *Tensor) (*Kept, error) {
	k, err := p.engine.Keep(t)
	if err != nil {
		return nil, err
	}
	return &Kept{k}, nil
}

// KeepGrowing is Keep for a tensor that grows from run to run on an axis, such as the keys and values that a decoder has seen. Its buffer has
// room for so many places on that axis, and stays where it is. A run that is fed with the tensor, and that keeps for it an output which joins
// the input and what is new along the axis, writes what is new behind what there is, in a program of one stage; otherwise
// the content is copied. A run whose output needs more places than there is room for fails with ErrInput.
//
// It fails with ErrInput, ErrMemory or ErrClosed.
func (p *Program) KeepGrowing(t *Tensor, axis, room int) (*Kept, error) {
	k, err := p.engine.KeepGrowing(t, axis, room)
	if err != nil {
		return nil, err
	}
	return &Kept{k}, nil
}

// Truncate leaves the first places on the axis on which the tensor grows: 0 for an empty cache, fewer to take the last tokens back. It copies
// nothing. It fails with ErrInput if the tensor does not grow or has fewer, with ErrBusy or with ErrClosed.
func (k *Kept) Truncate(places int) error { return k.engine.Truncate(places) }

// Keep sends an output to k in the runs that follow. It is missing from the map that Run returns. k takes the type and shape of
// each run's output. A nil k ends that.
//
// It fails with ErrInput if the model has no such output, with ErrBusy or with ErrClosed.
func (s *Session) Keep(output string, k *Kept) error { return s.engine.Keep(output, k.inner()) }

// Feed takes an input from k in the runs that follow. It must be missing from the inputs of Run, which checks k's type and shape as
// that of any input. The run may send an output to the same k: it reads the old content and writes the new one. A nil k ends that.
//
// It fails with ErrInput if the model has no such input, with ErrBusy or with ErrClosed.
func (s *Session) Feed(input string, k *Kept) error { return s.engine.Feed(input, k.inner()) }

func (k *Kept) inner() *engine.Kept {
	if k == nil {
		return nil
	}
	return k.engine
}

// Tensor returns a copy of the content on the host. It fails with ErrBusy, ErrClosed, or an error of the device.
func (k *Kept) Tensor() (*Tensor, error) { return k.engine.Tensor() }

// Type returns the element type and shape of the content. It fails with ErrBusy or ErrClosed.
func (k *Kept) Type() (DType, []int, error) { return k.engine.Type() }

// ReadAt implements io.ReaderAt over the bytes of the content, row-major and little-endian. It fails with io.EOF at the end, ErrInput
// for a negative offset, ErrBusy, ErrClosed, or an error of the device.
func (k *Kept) ReadAt(p []byte, off int64) (int, error) { return k.engine.ReadAt(p, off) }

// WriteAt implements io.WriterAt over the bytes of the content. Type and shape stay. It fails with ErrInput if the bytes lie outside,
// ErrBusy, ErrClosed, or an error of the device.
func (k *Kept) WriteAt(p []byte, off int64) (int, error) { return k.engine.WriteAt(p, off) }

// Close releases the memory. Sessions must not use k afterwards: their runs fail with ErrClosed. It fails with ErrBusy or ErrClosed.
func (k *Kept) Close() error { return k.engine.Close() }
