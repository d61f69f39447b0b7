package rlxc

import (
	"context"

	"github.com/rlxc/rlxc/internal/engine"
)

// A Session runs a program in memory of its own. One goroutine at a time uses a session; any number of sessions share a
// program.
type Session struct{ engine *engine.Session }

// NewSession makes a session. It takes memory on its first run.
func (p *Program) NewSession() (*Session, error) {
	s, err := p.engine.NewSession()
	if err != nil {
		return nil, err
	}
	return &Session{s}, nil
}

// Run executes the program. The map and the tensors that it gives belong to the session and hold until its next Run. A run
// at shapes like the last run's allocates nothing. When ctx ends, the run ends behind the step that it is at. After an error the
// session can be used as before.
func (s *Session) Run(ctx context.Context, inputs Tensors) (Tensors, error) {
	return s.engine.Run(ctx, inputs)
}

// MemoryBytes is the size of the arenas that the session holds.
func (s *Session) MemoryBytes() int64 { return s.engine.MemoryBytes() }

// Close ends the use of the session and of the tensors that it gave. It is an error while the session runs.
func (s *Session) Close() error { return s.engine.Close() }
