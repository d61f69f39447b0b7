package engine

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/rlxc/rlxc/internal/files"
	"github.com/rlxc/rlxc/ir"
	"github.com/rlxc/rlxc/tensor"
)

// A DecoderCache is the state of a decoder: the device tensors of a session that hold keys, values and recurrent states between runs.
type DecoderCache struct {
	s       *Session
	tensors []*DeviceTensor
	growing []*DeviceTensor // those of them that get longer with each step
	held    []int           // positions of those at the beginning
}

// A cachePort is an input that holds state of a decoder, and the output that it comes from.
type cachePort struct {
	*ir.Value
	output string
	axis   int  // on which the program makes it longer, −1 if it does not
	shared bool // it has full capacity from the start
}

// cachePorts lists the inputs of the program that hold a cache.
func (p *Program) cachePorts() (ports []cachePort) {
	for i, v := range p.graph.Inputs {
		if output := presentName(v.Name, p.graph.OutputNames); output != "" {
			axis, shared := p.Lengthened(i)
			ports = append(ports, cachePort{v, output, axis, shared})
		}
	}
	return ports
}

// presentName is the output that an input of a cache comes from, "" for none.
func presentName(input string, outputs []string) string {
	for _, pair := range [][2]string{{"past_key_values", "present"}, {"past_key_values", "present_key_values"}, {"past", "present"}} {
		if at := strings.Index(input, pair[0]); at == 0 || at > 0 && input[at-1] == '.' {
			if output := input[:at] + pair[1] + input[at+len(pair[0]):]; slices.Contains(outputs, output) {
				return output
			}
		}
	}
	return ""
}

// BindCache makes an empty cache and binds every input and output that hold one.
func (s *Session) BindCache(sequences, capacity int) (_ *DecoderCache, err error) {
	if sequences < 1 || capacity < 1 {
		return nil, WithKind(ErrInput, fmt.Errorf("a cache for %d sequences of %d tokens: both must be positive", sequences, capacity))
	}
	ports := s.p.cachePorts()
	if len(ports) == 0 {
		return nil, WithKind(ErrInput,
			errors.New("the model has no inputs past… that are outputs present… too: bind its state with BindInput and BindOutput"))
	}
	c := &DecoderCache{s: s}
	for _, v := range ports {
		shape, err := v.empty(sequences, capacity)
		if err == nil {
			err = c.bind(v, tensor.New(v.Type.DType, shape...), capacity)
		}
		if err != nil {
			return nil, errors.Join(err, c.Close())
		}
	}
	return c, nil
}

// HoldCache binds the inputs of a run that the program makes longer, with the content that they have in the run, and takes them out of it.
// There is room for what the run returned.
func (s *Session) HoldCache(in, out map[string]*tensor.Tensor) (*DecoderCache, error) {
	c := &DecoderCache{s: s}
	for _, v := range s.p.cachePorts() {
		past, present := in[v.Name], out[v.output]
		if v.axis < 0 || past == nil || present == nil {
			continue
		}
		if err := c.bind(v, past, present.Shape()[v.axis]); err != nil {
			return nil, errors.Join(err, c.Close())
		}
		delete(in, v.Name)
	}
	return c, nil
}

// empty is the shape of an input before the first step.
func (v *cachePort) empty(sequences, capacity int) (tensor.Shape, error) {
	sizes := Sizes(v.Type)
	shape, free := make(tensor.Shape, len(sizes)), 0
	for i, size := range sizes {
		n, err := strconv.Atoi(size)
		switch {
		case err == nil:
			shape[i] = n
		case i == v.axis && v.shared:
			shape[i] = capacity
		case i == v.axis:
		case free == 0:
			shape[i], free = sequences, free+1
		case v.axis >= 0:
			return nil, WithKind(ErrInput, fmt.Errorf("input %s is %v: its sizes follow neither from sequences nor from tokens",
				files.Quote(v.Name), sizes))
		}
	}
	return shape, nil
}

// bind binds an input and its output to a device tensor with a content.
func (c *DecoderCache) bind(v cachePort, t *tensor.Tensor, capacity int) (err error) {
	var k *DeviceTensor
	if v.axis < 0 {
		k, err = c.s.p.NewDeviceTensor(t)
	} else {
		k, err = c.s.p.NewGrowingTensor(t, v.axis, capacity)
	}
	if err != nil {
		return err
	}
	if c.tensors = append(c.tensors, k); v.axis >= 0 && !v.shared {
		c.growing, c.held = append(c.growing, k), append(c.held, t.Shape()[v.axis])
	}
	return errors.Join(c.s.BindInput(v.Name, k), c.s.BindOutput(v.output, k))
}

// Len is the number of inputs that the cache stands for.
func (c *DecoderCache) Len() int { return len(c.tensors) }

// Truncate leaves the first positions of what grows.
func (c *DecoderCache) Truncate(positions int) error {
	var errs []error
	for _, k := range c.growing {
		errs = append(errs, k.Truncate(positions))
	}
	return errors.Join(errs...)
}

// Rewind takes back what runs have appended.
func (c *DecoderCache) Rewind() error {
	var errs []error
	for i, k := range c.growing {
		errs = append(errs, k.Truncate(c.held[i]))
	}
	return errors.Join(errs...)
}

// Close releases the memory.
func (c *DecoderCache) Close() error {
	var errs []error
	for _, k := range c.tensors {
		errs = append(errs, k.Close())
	}
	return errors.Join(errs...)
}
