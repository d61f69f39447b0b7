package server

import (
	"cmp"
	"context"
	"errors"
	"sync"
	"time"

	"github.com/rlxc/rlxc"
	"github.com/rlxc/rlxc/pipeline"
)

// tensors runs a program on the tensors of requests, one at a time: a run uses all threads, and has the arena that the memory limit
// leaves it. Its program bounds that.
type tensors struct {
	program *rlxc.Program
	busy    chan struct{} // of capacity 1: the one run at a time holds it
	waiting chan struct{} // who waits or runs

	mu      sync.Mutex // of what follows; who holds busy may change it
	session *rlxc.Session
	held    int64
	stats   tensorStats
}

// tensorStats are what the requests of tensors took since the model was opened.
type tensorStats struct {
	success, fail, queue, compute spent
	last                          time.Time
}

// spent is a time that was spent often.
type spent struct {
	Count int64 `json:"count"`
	NS    int64 `json:"ns"`
}

func (s *spent) add(d time.Duration) {
	s.Count++
	s.NS += int64(d)
}

// mostWaiting is how many requests of tensors may wait.
const mostWaiting = 64

func newTensors(p *rlxc.Program) *tensors {
	return &tensors{program: p, busy: make(chan struct{}, 1), waiting: make(chan struct{}, mostWaiting)}
}

// run runs inputs and calls take with the outputs, which are the session's.
func (t *tensors) run(ctx context.Context, in rlxc.Tensors, take func(out rlxc.Tensors) error) (err error) {
	asked := time.Now()
	begun := asked
	defer func() {
		t.mu.Lock()
		defer t.mu.Unlock()
		s := &t.stats
		if s.last = time.Now(); err != nil {
			s.fail.add(s.last.Sub(asked))
			return
		}
		s.success.add(s.last.Sub(asked))
		s.queue.add(begun.Sub(asked))
		s.compute.add(s.last.Sub(begun))
	}()
	select {
	case t.waiting <- struct{}{}:
		defer func() { <-t.waiting }()
	default:
		return pipeline.ErrQueueFull
	}
	select {
	case t.busy <- struct{}{}:
		defer func() { <-t.busy }()
	case <-ctx.Done():
		return ctx.Err()
	}
	begun = time.Now()
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
	// As package pipeline does for texts: a changed file makes other numbers, or any error.
	if err = cmp.Or(t.program.CheckFiles(), err); err != nil {
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

// statistics are those of the requests so far.
func (t *tensors) statistics() tensorStats {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.stats
}

// close waits for what runs.
func (t *tensors) close() error {
	t.busy <- struct{}{}
	defer func() { <-t.busy }()
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
