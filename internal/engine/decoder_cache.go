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
	ports   []cachePort
	tensors []*DeviceTensor // one for each port
	growing []*DeviceTensor // the tensors that get longer with each step
	held    []int           // positions that each growing tensor had at the beginning
}

// A cachePort is an input that holds state of a decoder, and the output that makes its next value.
type cachePort struct {
	*ir.Value
	output string
	axis   int  // on which the program makes it longer, −1 if it does not
	shared bool // it has full capacity from the start
}

// cachePorts lists the inputs of a program that hold a cache.
func cachePorts(p *Program) (ports []cachePort) {
	for i, v := range p.graph.Inputs {
		if output := presentName(v.Name, p.graph.OutputNames); output != "" {
			axis, shared := p.Lengthened(i)
			ports = append(ports, cachePort{v, output, axis, shared})
		}
	}
	return ports
}

// A CacheInput is an input that holds a cache, the output that it comes from, and the axis on which the program makes it longer, −1 if it
// does not.
type CacheInput struct {
	Input, Output string
	Axis          int
}

// CacheInputs lists the inputs that hold a cache.
func (p *Program) CacheInputs() (list []CacheInput) {
	for _, v := range cachePorts(p) {
		c := CacheInput{v.Name, v.output, v.axis}
		if v.shared {
			c.Axis = -1
		}
		list = append(list, c)
	}
	return list
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
	ports := cachePorts(s.p)
	if len(ports) == 0 {
		return nil, WithKind(ErrInput,
			errors.New("the model has no inputs past… that are outputs present… too: bind its state with BindInput and BindOutput"))
	}
	c := &DecoderCache{s: s}
	for _, v := range ports {
		shape, err := v.empty(sequences, capacity)
		if err == nil {
			err = c.add(v, tensor.New(v.Type.DType, shape...), capacity)
		}
		if err != nil {
			return nil, errors.Join(err, c.Close())
		}
	}
	return c.bind()
}

// HoldCache binds the inputs of a run that the program makes longer, with the content that they have in the run, and takes them out of it.
// There is room for what the run returned.
func (s *Session) HoldCache(in, out map[string]*tensor.Tensor) (*DecoderCache, error) {
	c := &DecoderCache{s: s}
	for _, v := range cachePorts(s.p) {
		past, present := in[v.Name], out[v.output]
		if v.axis < 0 || past == nil || present == nil {
			continue
		}
		if err := c.add(v, past, present.Shape()[v.axis]); err != nil {
			return nil, errors.Join(err, c.Close())
		}
		delete(in, v.Name)
	}
	return c.bind()
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

// add makes the device tensor of an input and its output, with a content.
func (c *DecoderCache) add(v cachePort, t *tensor.Tensor, capacity int) (err error) {
	var k *DeviceTensor
	if v.axis < 0 {
		k, err = c.s.p.NewDeviceTensor(t)
	} else {
		k, err = c.s.p.NewGrowingTensor(t, v.axis, capacity)
	}
	if err != nil {
		return err
	}
	c.ports = append(c.ports, v)
	if c.tensors = append(c.tensors, k); v.axis >= 0 && !v.shared {
		c.growing, c.held = append(c.growing, k), append(c.held, t.Shape()[v.axis])
	}
	return nil
}

// bind binds all inputs and outputs of the cache, or none, after which the cache is closed: no run finds some of them bound.
func (c *DecoderCache) bind() (*DecoderCache, error) {
	s := c.s
	err := s.alone(func() {
		for i, v := range c.ports {
			s.bindIO(&s.io.from[slices.Index(s.p.graph.Inputs, v.Value)], c.tensors[i])
			s.bindIO(&s.io.to[slices.Index(s.p.graph.OutputNames, v.output)], c.tensors[i])
		}
	})
	if err != nil {
		return nil, errors.Join(err, c.Close())
	}
	return c, nil
}

// Len is the number of inputs whose values the cache holds.
func (c *DecoderCache) Len() int { return len(c.tensors) }

// Truncate leaves the first positions of what grows.
func (c *DecoderCache) Truncate(positions int) error {
	return c.each(c.growing, func(_ int, k *DeviceTensor) error { return k.Truncate(positions) })
}

// Rewind takes back what runs have appended.
func (c *DecoderCache) Rewind() error {
	return c.each(c.growing, func(i int, k *DeviceTensor) error { return k.Truncate(c.held[i]) })
}

// Close releases the memory.
func (c *DecoderCache) Close() error {
	return c.each(c.tensors, func(_ int, k *DeviceTensor) error { return k.Close() })
}

// each changes tensors of the cache while no goroutine uses the session: a run finds all of them changed, or none.
func (c *DecoderCache) each(tensors []*DeviceTensor, change func(i int, k *DeviceTensor) error) error {
	if err := c.s.enter(); err != nil {
		return err
	}
	defer c.s.busy.Store(false)
	var errs []error
	for i, k := range tensors {
		errs = append(errs, change(i, k))
	}
	return errors.Join(errs...)
}
