package rlxc

import (
	"context"

	"github.com/rlxc/rlxc/internal/engine"
)

// A Session runs a program in separate memory. Only one goroutine at a time may use a session: methods fail with ErrBusy while another
// goroutine is in one, but for MemoryBytes, which any goroutine may call. Any number of sessions may share a program.
type Session struct{ engine *engine.Session }

// NewSession returns a session. The first run allocates its memory. It fails with ErrClosed.
func (p *Program) NewSession() (*Session, error) {
	s, err := p.engine.NewSession()
	if err != nil {
		return nil, err
	}
	return &Session{s}, nil
}

// Run executes the program. The session owns the returned map and tensors, which are valid until the next Run. They may be inputs of the
// next Run, which copies them first. Session.BindInput avoids that copy. A run at the shapes of the last one allocates nothing else. When
// ctx ends, Run returns its error after the current step. The session can be used again after an error.
//
// It fails with ErrInput, ErrShape, ErrMemory, ErrBusy, ErrClosed, or the error of ctx.
func (s *Session) Run(ctx context.Context, inputs Tensors) (Tensors, error) {
	return s.engine.Run(ctx, inputs)
}

// A PackedBatch holds sequences of any lengths, concatenated without padding.
type PackedBatch struct {
	// Starts holds the index of the first token of each sequence, and then the number of all tokens. Sequence i is the tokens from
	// Starts[i] to Starts[i+1]. Every sequence has at least one token.
	Starts []int
	// Inputs are the inputs of the model except the attention mask, [tokens,…] instead of [batch,tokens,…]. An input that has no axis of
	// tokens is [batch,…], as in Run.
	Inputs Tensors
}

// RunPacked is Run for a packed batch. The program must be Unpadded. Outputs per token are [tokens,…] instead of [batch,seq,…]. Other
// outputs, such as one vector per sequence, are what Run returns.
//
// It fails as Run does, and with ErrInput if the program takes padded sequences.
func (s *Session) RunPacked(ctx context.Context, b PackedBatch) (Tensors, error) {
	return s.engine.RunPacked(ctx, b.Starts, b.Inputs)
}

// MemoryBytes returns the size of the arenas that the session held at the end of its last run, in bytes. It is 0 before the first run and
// after Close.
func (s *Session) MemoryBytes() int64 { return s.engine.MemoryBytes() }

// Close releases the session and the tensors that Run returned. It fails with ErrBusy during a run, and with ErrClosed if the
// session is closed.
func (s *Session) Close() error { return s.engine.Close() }
