package wgpu

import (
	"bytes"
	"fmt"
	"slices"

	"github.com/rlxc/rlxc/tensor"
)

// Programs of one model are lowered and rewritten one by one, so what a rewrite makes (the joined weights of q, k and v, say) is another
// tensor in each, of the same bytes. On the device it is held once: a constant is known by its content.

// A constant is a content that Devices of an accelerator have.
type constant struct {
	like   string // type and shape
	owners map[*Device]*tensor.Tensor
}

// constants are those of an accelerator's Devices, by type and shape.
type constants map[string][]*constant

// find returns the constant with t's content, which d owns from now on.
func (m constants) find(d *Device, t *tensor.Tensor) *constant {
	like := fmt.Sprint(t.DType(), t.Shape())
	for _, c := range m[like] {
		if c.has(t) {
			c.owners[d] = t
			return c
		}
	}
	c := &constant{like, map[*Device]*tensor.Tensor{d: t}}
	m[like] = append(m[like], c)
	return c
}

// has compares with a tensor of a Device that is open: the others' files may be closed.
func (c *constant) has(t *tensor.Tensor) bool {
	for _, owned := range c.owners {
		x, y := owned.Bytes(), t.Bytes()
		return len(x) == 0 || &x[0] == &y[0] || bytes.Equal(x, y)
	}
	return false
}

// leave ends the use of a constant by d.
func (m constants) leave(d *Device, c *constant) {
	delete(c.owners, d)
	if len(c.owners) > 0 {
		return
	}
	m[c.like] = slices.DeleteFunc(m[c.like], func(other *constant) bool { return other == c })
	if len(m[c.like]) == 0 {
		delete(m, c.like)
	}
}
