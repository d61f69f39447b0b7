package lower

import (
	"slices"

	"github.com/rlxc/rlxc/ir"
)

// window reads the attributes of an operator over operand 0; kernel is that of the weights, or nil for an operator that
// names it itself, and dilated whether the operator has dilations.
func (c *context) window(kernel ir.Shape, dilated bool) ir.Window {
	return c.windowOf(rank(c.In(0))-2, kernel, dilated)
}

func (c *context) windowOf(axes int, kernel ir.Shape, dilated bool) ir.Window {
	if axes < 1 {
		c.Failf("%v has no spatial axes: [N,C,…] is needed", c.In(0).Type)
	}
	list := func(name string, n, def int) []int {
		v, ok := c.AttrInts(name)
		if !ok {
			return slices.Repeat([]int{def}, n)
		}
		if len(v) != n {
			c.Failf("attribute %s has %d entries, not %d", name, len(v), n)
		}
		return v
	}
	w := ir.Window{Kernel: list("kernel_shape", axes, 0), Strides: list("strides", axes, 1), Dilations: slices.Repeat([]int{1}, axes),
		Pads: list("pads", 2*axes, 0), Auto: c.AttrString("auto_pad", "NOTSET")}
	if dilated {
		w.Dilations = list("dilations", axes, 1)
	}
	for i, d := range kernel {
		k, ok := d.Const()
		if !ok || i >= axes || c.HasAttr("kernel_shape") && k != w.Kernel[i] {
			c.Failf("weights with a kernel of %v", kernel)
		}
		w.Kernel[i] = k
	}
	if err := w.Check(axes); err != nil {
		c.Failf("%w", err)
	}
	return w
}
