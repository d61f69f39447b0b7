package wgpu

import "github.com/rlxc/rlxc/tensor"

// Programs of one model are lowered and rewritten one by one, so what a rewrite makes (the joined weights of q, k and v, say) is another
// tensor in each, of the same bytes. On the device it is held once: a constant is known by its content.

// A constant is a content that Devices of an accelerator have. Each has a separate tensor, since the others' files may be closed.
type constant struct{ owners map[*Device]*tensor.Tensor }

// Content implements sharing.Holder, by the tensor of any Device that is open.
func (c *constant) Content() (kind any, data *tensor.Tensor) {
	for _, data = range c.owners {
		break
	}
	return nil, data
}

// constant returns the constant with the content of t, and makes d one of its owners.
func (d *Device) constant(t *tensor.Tensor) *constant {
	c, ok := d.constants.Find(nil, t)
	if !ok {
		c = &constant{map[*Device]*tensor.Tensor{d: t}}
		d.constants.Add(c)
	}
	c.owners[d] = t
	return c
}

// leave ends the use of a constant.
func (d *Device) leaveConstant(c *constant) {
	if len(c.owners) == 1 {
		d.constants.Remove(c)
	}
	delete(c.owners, d)
}
