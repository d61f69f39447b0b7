package rlxc

import (
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/rlxc/rlxc/internal/engine"
	"github.com/rlxc/rlxc/internal/files"
	"github.com/rlxc/rlxc/tensor"
)

// A Cache is the state of a decoder: the device tensors of a session that hold keys, values and recurrent states between runs.
type Cache struct {
	tensors []*DeviceTensor
	growing []*DeviceTensor // those of them that get longer with each step
}

// BindCache makes a cache for a number of sequences, with capacity for that many tokens in each. It binds every input and output that
// holds state. Such an input has a name that begins with past, or that has past after a dot. The output has present instead
// (past_key_values.0.key and present.0.key, past_0 and present_0). Runs take none of these inputs and return none of these outputs. The
// cache is empty at first. State of fixed size, such as that of a recurrence, begins as zeros. A merged decoder computes keys and values
// from an encoder in its first run, and they stay the same in later runs.
//
// It fails with ErrInput if the model has no such inputs, or if the sizes of one follow neither from sequences nor from capacity. It also
// fails with ErrMemory, ErrBusy or ErrClosed.
func (s *Session) BindCache(sequences, capacity int) (*Cache, error) {
	if sequences < 1 || capacity < 1 {
		return nil, engine.WithKind(ErrInput, fmt.Errorf("a cache for %d sequences of %d tokens: both must be positive", sequences,
			capacity))
	}
	c, g := &Cache{}, s.engine.Program().Graph()
	outputs := map[string]bool{}
	for _, name := range g.OutputNames {
		outputs[name] = true
	}
	for i, v := range inputInfo(g) {
		output, ok := presentName(v.Name, outputs)
		if !ok {
			continue
		}
		if err := c.add(s, v, output, i, sequences, capacity); err != nil {
			return nil, errors.Join(err, c.Close())
		}
	}
	if len(c.tensors) == 0 {
		return nil, engine.WithKind(ErrInput,
			errors.New("the model has no inputs past… that are outputs present… too: bind its state with BindInput and BindOutput"))
	}
	return c, nil
}

// presentName is the output that an input of a cache comes from.
func presentName(input string, outputs map[string]bool) (string, bool) {
	for _, pair := range [][2]string{{"past_key_values", "present"}, {"past_key_values", "present_key_values"}, {"past", "present"}} {
		if at := strings.Index(input, pair[0]); at == 0 || at > 0 && input[at-1] == '.' {
			if output := input[:at] + pair[1] + input[at+len(pair[0]):]; outputs[output] {
				return output, true
			}
		}
	}
	return "", false
}

// add binds an input and an output to a device tensor.
func (c *Cache) add(s *Session, v ValueInfo, output string, input, sequences, capacity int) error {
	axis, shared := s.engine.Program().Lengthened(input)
	shape, free := make([]int, len(v.Shape)), 0
	for i, size := range v.Shape {
		n, err := strconv.Atoi(size)
		switch {
		case err == nil:
			shape[i] = n
		case i == axis && shared:
			shape[i] = capacity
		case i == axis:
		case free == 0:
			shape[i], free = sequences, free+1
		case axis >= 0:
			return engine.WithKind(ErrInput, fmt.Errorf("input %s is %v: its sizes follow neither from sequences nor from tokens",
				files.Quote(v.Name), v.Shape))
		}
	}
	p := &Program{s.engine.Program()}
	t := tensor.New(v.DType, shape...)
	make := p.NewDeviceTensor
	if axis >= 0 {
		make = func(t *Tensor) (*DeviceTensor, error) { return p.NewGrowingTensor(t, axis, capacity) }
	}
	k, err := make(t)
	if err != nil {
		return err
	}
	if c.tensors = append(c.tensors, k); axis >= 0 && !shared {
		c.growing = append(c.growing, k)
	}
	return errors.Join(s.BindInput(v.Name, k), s.BindOutput(output, k))
}

// Truncate shortens each sequence to its first tokens: 0 begins new sequences. It does not change caches whose buffers have full capacity
// from the start (models that take past_sequence_length). It fails with ErrInput if a cache holds fewer tokens, and with ErrBusy or
// ErrClosed.
func (c *Cache) Truncate(tokens int) error {
	var errs []error
	for _, k := range c.growing {
		errs = append(errs, k.Truncate(tokens))
	}
	return errors.Join(errs...)
}

// Close releases the memory. Later runs of the session fail with ErrClosed. It fails with ErrBusy or ErrClosed.
func (c *Cache) Close() error {
	var errs []error
	for _, k := range c.tensors {
		errs = append(errs, k.Close())
	}
	return errors.Join(errs...)
}
