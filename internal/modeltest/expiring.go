package modeltest

import (
	"context"
	"sync/atomic"
)

// An Expiring context is cancelled once it has been asked that many times.
type Expiring struct {
	context.Context
	left   atomic.Int64
	cancel func()
}

// NewExpiring makes one. Cancel frees what it holds.
func NewExpiring(parent context.Context, asked int64) (ctx *Expiring, cancel func()) {
	inner, cancel := context.WithCancel(parent)
	e := &Expiring{Context: inner, cancel: cancel}
	e.left.Store(asked)
	return e, cancel
}

// Expired reports whether it was asked often enough.
func (e *Expiring) Expired() bool { return e.left.Load() < 0 }

func (e *Expiring) ask() {
	if e.left.Add(-1) < 0 {
		e.cancel()
	}
}

// Err implements context.Context.
func (e *Expiring) Err() error {
	e.ask()
	return e.Context.Err()
}

// Done implements context.Context.
func (e *Expiring) Done() <-chan struct{} {
	e.ask()
	return e.Context.Done()
}

// Expire calls do with contexts that are cancelled after 0, 1, 2, … questions, and then after more and more, until one is not cancelled.
func Expire(parent context.Context, do func(ctx *Expiring, asked int64)) {
	for asked, step := int64(0), int64(1); ; asked += step {
		if asked > 8 {
			step = asked / 3
		}
		ctx, cancel := NewExpiring(parent, asked)
		do(ctx, asked)
		cancel()
		if !ctx.Expired() {
			return
		}
	}
}
