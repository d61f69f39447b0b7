package rlxc

import (
	"context"

	"github.com/rlxc/rlxc/internal/engine"
)

// A Session runs a program in separate memory. Only one goroutine at a time may use a session; any number of sessions may share
// a program.
type Session struct{ engine *engine.Session }

// NewSession returns a session, which allocates its memory on the first run. It fails with ErrClosed.
func (p *Program) NewSession() (*Session, error) {
	s, err := p.engine.NewSession()
	if err != nil {
		return nil, err
	}
	return &Session{s}, nil
}

// Run executes the program. The session owns the returned map and tensors; they are valid until its next Run. Tensors that it returned
// last may be inputs of the next Run, which copies them first; Session.BindInput does without. Otherwise a run at the shapes of the last
// one allocates nothing. When ctx ends, Run returns its error after the current step. After an error the session can be used again.
//
// It fails with ErrInput, ErrShape, ErrMemory, ErrBusy, ErrClosed, or the error of ctx.
func (s *Session) Run(ctx context.Context, inputs Tensors) (Tensors, error) {
	return s.engine.Run(ctx, inputs)
}

// A PackedBatch holds sequences of any lengths, concatenated without padding.
type PackedBatch struct {
	// Starts has the first token of each sequence, and at the end the number of all tokens: sequence i is the tokens from Starts[i] to
	// Starts[i+1]. Every sequence has a token.
	Starts []int
	// Inputs are those of the model but for the attention mask, without the axis of sequences: [tokens,…] in place of [batch,tokens,…].
	Inputs Tensors
}

// RunPacked is Run for sequences without padding, of a program that is Unpadded. Outputs of tokens are [tokens,…] in place of
// [batch,seq,…]; the others, such as one vector for each sequence, are what Run returns.
//
// It fails as Run does, and with ErrInput if the program takes padded sequences.
func (s *Session) RunPacked(ctx context.Context, b PackedBatch) (Tensors, error) {
	return s.engine.RunRows(ctx, b.Starts, b.Inputs)
}

// MemoryBytes returns the size of the arenas that the session holds, in bytes.
func (s *Session) MemoryBytes() int64 { return s.engine.MemoryBytes() }

// Close releases the session and the tensors that Run returned. It fails with ErrBusy during a run, and with ErrClosed if the
// session is closed.
func (s *Session) Close() error { return s.engine.Close() }
