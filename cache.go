package rlxc

import "github.com/rlxc/rlxc/internal/engine"

// A Cache is the state of a decoder: the device tensors of a session that hold keys, values and recurrent states between runs.
type Cache struct{ engine *engine.DecoderCache }

// BindCache makes a cache for a number of sequences, with capacity for that many tokens in each. It binds every input and output that
// holds state. Such an input has a name that begins with past, or that has past after a dot. The output has present instead
// (past_key_values.0.key and present.0.key, past_0 and present_0). Runs take none of these inputs and return none of these outputs. The
// cache is empty at first. State of fixed size, such as that of a recurrence, begins as zeros. A merged decoder computes keys and values
// from an encoder in its first run, and they stay the same in later runs.
//
// It fails with ErrInput if the model has no such inputs, or if the sizes of one follow neither from sequences nor from capacity. It also
// fails with ErrMemory, ErrBusy or ErrClosed.
func (s *Session) BindCache(sequences, capacity int) (*Cache, error) {
	c, err := s.engine.BindCache(sequences, capacity)
	if err != nil {
		return nil, err
	}
	return &Cache{c}, nil
}

// A CacheInput is an input of a decoder that holds state of earlier runs: keys, values, or a recurrent state.
type CacheInput struct {
	Input  string // name of the input
	Output string // name of the output that is the content of the input in the next run
	// Axis is the axis on which the program appends the tokens of a run. It is -1 if the shape of the state is the same in each run, also
	// because the buffer has its full capacity from the start.
	Axis int
}

// CacheInputs returns the inputs that BindCache binds, in the model's order; none for a model without such inputs.
func (p *Program) CacheInputs() []CacheInput {
	var list []CacheInput
	for _, c := range p.engine.CacheInputs() {
		list = append(list, CacheInput(c))
	}
	return list
}

// Truncate shortens each sequence to its first tokens: 0 begins new sequences. It does not change caches whose buffers have full capacity
// from the start (models that take past_sequence_length). It fails with ErrInput if a cache holds fewer tokens, and with ErrBusy or
// ErrClosed.
func (c *Cache) Truncate(tokens int) error { return c.engine.Truncate(tokens) }

// Close releases the memory. Later runs of the session fail with ErrClosed. It fails with ErrBusy or ErrClosed.
func (c *Cache) Close() error { return c.engine.Close() }
