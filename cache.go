package rlxc

import "github.com/rlxc/rlxc/internal/engine"

// A Cache is what a decoder has seen: the device tensors of a session that hold keys, values and states from step to step.
type Cache struct{ engine *engine.DecoderCache }

// BindCache makes a cache for a number of sequences, with capacity for that many tokens in each, and binds every input and output that
// hold one: an input whose name begins with past, or has it after a dot, and that is an output too where its name has present in that
// place (past_key_values.0.key and present.0.key, past_0 and present_0). Runs take none of these inputs and return none of these
// outputs. The cache is empty; what does not grow, such as the state of a recurrence, is zeros. Keys and values that a merged decoder
// computes from an encoder in its first run stay as they are in those that follow.
//
// It fails with ErrInput if the model has no such inputs, or one whose sizes follow neither from sequences nor from capacity; with
// ErrMemory, ErrBusy or ErrClosed.
func (s *Session) BindCache(sequences, capacity int) (*Cache, error) {
	c, err := s.engine.BindCache(sequences, capacity)
	if err != nil {
		return nil, err
	}
	return &Cache{c}, nil
}

// Truncate leaves the first tokens of each text: 0 to begin new ones. Caches whose buffers have their room from the start (models that
// take past_sequence_length) stay as they are. It fails with ErrInput if a cache holds fewer, with ErrBusy or with ErrClosed.
func (c *Cache) Truncate(tokens int) error { return c.engine.Truncate(tokens) }

// Close releases the memory. Later runs of the session fail with ErrClosed. It fails with ErrBusy or ErrClosed.
func (c *Cache) Close() error { return c.engine.Close() }
