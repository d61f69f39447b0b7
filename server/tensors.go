package server

import (
	"context"
	"errors"
	"sync"

	"github.com/rlxc/rlxc"
	"github.com/rlxc/rlxc/pipeline"
)

// tensors runs a program on the tensors of requests, one at a time: a run uses all threads, and has the arena that the memory limit
// leaves it. Its program bounds that.
type tensors struct {
	program *rlxc.Program
	turn    chan struct{} // of capacity 1: whose turn it is
	waiting chan struct{} // who waits or runs

	mu      sync.Mutex // of what follows; turn says who may change it
	session *rlxc.Session
	held    int64
}

// mostWaiting is how many requests of tensors may wait.
const mostWaiting = 64

func newTensors(p *rlxc.Program) *tensors {
	return &tensors{program: p, turn: make(chan struct{}, 1), waiting: make(chan struct{}, mostWaiting)}
}

// run runs inputs and calls take with the outputs, which are the session's.
func (t *tensors) run(ctx context.Context, in rlxc.Tensors, take func(out rlxc.Tensors) error) error {
	select {
	case t.waiting <- struct{}{}:
		defer func() { <-t.waiting }()
	default:
		return pipeline.ErrQueueFull
	}
	select {
	case t.turn <- struct{}{}:
		defer func() { <-t.turn }()
	case <-ctx.Done():
		return ctx.Err()
	}
	if t.session == nil {
		s, err := t.program.NewSession()
		if err != nil {
			return err
		}
		t.session = s
	}
	out, err := t.session.Run(ctx, in)
	t.mu.Lock()
	t.held = t.session.MemoryBytes()
	t.mu.Unlock()
	if err != nil {
		return err
	}
	return take(out)
}

// memory is how many bytes the session's arena has.
func (t *tensors) memory() int64 {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.held
}

// close waits for what runs.
func (t *tensors) close() error {
	t.turn <- struct{}{}
	defer func() { <-t.turn }()
	if t.session == nil {
		return nil
	}
	err := t.session.Close()
	t.session = nil
	if errors.Is(err, rlxc.ErrClosed) {
		return nil
	}
	return err
}
