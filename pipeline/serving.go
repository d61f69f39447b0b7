package pipeline

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"time"

	"github.com/rlxc/rlxc"
	"github.com/rlxc/rlxc/internal/files"
	"github.com/rlxc/rlxc/tokenizer"
)

// The errors that a service distinguishes.
var (
	// ErrQueueFull: the queue has no room for the call (Options.Reject).
	ErrQueueFull = errors.New("the queue is full")
	// ErrTooLarge: the call has more tokens than the queue holds (Options.Reject).
	ErrTooLarge = errors.New("the call has more tokens than the queue holds")
	// ErrTask: the model was trained for another task.
	ErrTask = errors.New("the model was trained for another task")
	// ErrInvalid: an argument is invalid, such as a text without a mask for Fill. The text of the error says why. It quotes at most 100
	// bytes of each argument.
	ErrInvalid = errors.New("an argument is invalid")
	// ErrNaN: the model returned NaN for a text. The error names the output.
	ErrNaN = errors.New("the model returned NaN")
	// ErrPooling: neither the model's files nor Options.Pooling name the pooling.
	ErrPooling = errors.New("the pooling is unknown")
	// ErrNotText: the model takes other inputs than tokens, or it has no tokenizer.
	ErrNotText = errors.New("the model does not take text")
)

// Usage is what calls used.
type Usage struct {
	Sequences int
	Tokens    int           // special ones among them, padding not
	Queued    time.Duration // until the first sequence ran
}

type usageKey struct{}

// WithUsage returns a context whose calls add to u. The calls must not overlap.
func WithUsage(ctx context.Context, u *Usage) context.Context {
	return context.WithValue(ctx, usageKey{}, u)
}

// A BatchReport describes a batch that ran.
type BatchReport struct {
	Sequences int
	Tokens    int // padding not among them
	Padding   int
	Took      time.Duration
	Err       error
}

// A State describes the load and the memory of a model at one moment.
type State struct {
	WaitingCalls  int
	WaitingTokens int
	Waited        time.Duration // of the call that waits longest, none of whose sequences has run
	QueueTokens   int           // that may wait
	Running       int           // batches
	Sessions      int           // batches that may run
	Held          int64         // bytes of the sessions' arenas, as of their last runs, and of prefixes that documents share
	Planned       int64         // bytes that they may come to with what was planned so far
	Plans         int64         // bytes of the plans
	Rejected      int           // plans that rlxc made and found unsafe, so that they never ran; above 0 is a fault of rlxc
	Weights       int64         // bytes of all devices' weights; 0 before the first batch
}

// State returns the current state of the model.
func (m *Model) State() State {
	s := m.schedule
	s.mu.Lock()
	state := State{WaitingCalls: len(s.requests), WaitingTokens: s.tokens, QueueTokens: s.capacity, Running: s.busy, Sessions: s.workers}
	for _, r := range s.requests {
		if r.begun.IsZero() {
			state.Waited = max(state.Waited, time.Since(r.asked))
		}
	}
	s.mu.Unlock()
	e := m.engine
	e.mu.Lock()
	defer e.mu.Unlock()
	state.Planned, state.Held = e.planned*int64(state.Sessions)+e.kept, e.kept
	for _, bytes := range e.held {
		state.Held += bytes
	}
	for _, p := range e.programs {
		stats := p.CacheStats()
		state.Plans += stats.Bytes
		state.Rejected += stats.Rejected
		state.Weights += e.weights
	}
	return state
}

// invalidf is an error of the kind ErrInvalid.
func invalidf(format string, args ...any) error {
	return kindError{fmt.Errorf("pipeline: "+format, args...), ErrInvalid}
}

// A kindError is an error of a kind, which its text does not repeat.
type kindError struct {
	error
	kind error
}

func (e kindError) Unwrap() []error { return []error{e.error, e.kind} }

// guard turns a panic, one also one of reading a truncated file, into an error: the process lives on. It is deferred with what
// debug.SetPanicOnFault(true) returned.
func guard(err *error, before bool) {
	debug.SetPanicOnFault(before)
	fault := recover()
	if fault == nil {
		return
	}
	if *err = files.FaultError(fault); *err == nil {
		*err = kindError{fmt.Errorf("internal error: %v", fault), rlxc.ErrInternal}
	}
}

// Encode encodes inputs as the calls of the model do. It fails as tokenizer.Tokenizer.Encodings does, or with the error of ctx.
func (m *Model) Encode(ctx context.Context, inputs []tokenizer.Input, length int, options ...tokenizer.EncodeOption) ([]tokenizer.Encoding,
	error) {
	return m.encode(ctx, inputs, length, nil, options...)
}

// Encoder returns the tokenizer of the model.
func (m *Model) Encoder() *tokenizer.Tokenizer { return m.tok }

// Can reports whether the model can do a task: it was trained for it, or it also has an output or a label for it.
func (m *Model) Can(task Task) bool {
	switch task {
	case m.Task:
		return true
	case Sparse:
		return m.heads.sparse.form.perToken()
	case MultiVector:
		return m.heads.vectors.form == tokenVectors
	case Filling: // a SPLADE model has the head of one
		return m.Task == Sparse && m.weighsWords()
	case ZeroShot:
		return m.heads.logits.form.perText() && m.entailment() >= 0
	}
	return false
}

// Program returns the compiled model, for runs on tensors, with the model's own inputs and outputs. It stays open as long as the model.
func (m *Model) Program() *rlxc.Program { return m.plain }

// Labels returns the names of the model's classes, in order.
func (d *Description) Labels() []string { return d.config.labels }

// Architecture returns the first architecture in config.json, or "" if it has none.
func (d *Description) Architecture() string {
	if len(d.config.Architectures) == 0 {
		return ""
	}
	return d.config.Architectures[0]
}

// Prompts returns the model's prompts by name.
func (d *Description) Prompts() map[string]string { return d.prompts.Prompts }

// Pooling returns the names of the model's poolings, joined by "+". It is "" if the model's files name none.
func (d *Description) Pooling() string {
	for _, module := range d.modules {
		if module.kind == "Pooling" {
			return joined(module.pooling.modes, "+")
		}
	}
	return ""
}
