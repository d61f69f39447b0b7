package lower

import (
	"slices"

	"github.com/rlxc/rlxc/ir"
	"github.com/rlxc/rlxc/tensor"
)

// A window is what convolutions and pools move over the spatial axes of [N,C,…].
type window struct {
	kernel, strides, dilations []int
	pads                       []int  // before each axis, then behind each
	auto                       string // NOTSET, VALID, SAME_UPPER, SAME_LOWER
	ceil                       bool   // round the number of places up
}

// window reads the attributes of an operator over operand 0; kernel is that of the weights, or nil for an operator that
// names it itself, and dilated whether the operator has dilations.
func (c *Context) window(kernel ir.Shape, dilated bool) window {
	axes := Rank(c.In(0)) - 2
	if axes < 1 {
		c.Failf("%v has no spatial axes: [N,C,…] is needed", c.In(0).Type)
	}
	return c.windowOf(axes, kernel, dilated)
}

func (c *Context) windowOf(axes int, kernel ir.Shape, dilated bool) window {
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
	w := window{kernel: list("kernel_shape", axes, 0), strides: list("strides", axes, 1), dilations: slices.Repeat([]int{1}, axes),
		pads: list("pads", 2*axes, 0), auto: c.AttrString("auto_pad", "NOTSET")}
	if dilated {
		w.dilations = list("dilations", axes, 1)
	}
	for i, d := range kernel {
		k, ok := d.Const()
		if !ok || c.HasAttr("kernel_shape") && k != w.kernel[i] {
			c.Failf("weights with a kernel of %v", kernel)
		}
		w.kernel[i] = k
	}
	if !slices.Contains([]string{"NOTSET", "VALID", "SAME_UPPER", "SAME_LOWER"}, w.auto) {
		c.Failf("auto_pad %q is not known", w.auto)
	}
	for i := range axes {
		if w.kernel[i] < 1 || w.strides[i] < 1 || w.dilations[i] < 1 || w.pads[i] < 0 || w.pads[axes+i] < 0 ||
			max(w.kernel[i], w.strides[i], w.dilations[i], w.pads[i], w.pads[axes+i]) > maxWindow {
			c.Failf("axis %d: kernel %d, stride %d, dilation %d, padding %d and %d", i, w.kernel[i], w.strides[i], w.dilations[i], w.pads[i], w.pads[axes+i])
		}
	}
	if w.auto != "NOTSET" && slices.ContainsFunc(w.pads, func(p int) bool { return p != 0 }) {
		c.Failf("attributes pads %v and auto_pad %s contradict each other", w.pads, w.auto)
	}
	return w
}

// fit refuses windows that are larger than what they slide over.
func (c *Context) fit(w window) window {
	for i, d := range c.In(0).Type.Shape[2:] {
		pads := 0
		switch w.auto {
		case "SAME_UPPER", "SAME_LOWER":
			continue
		case "NOTSET":
			pads = w.pads[i] + w.pads[len(w.kernel)+i]
		}
		if ir.LessEqual(ir.N(w.extent(i)), d.Add(ir.N(pads))) == ir.No {
			c.Failf("axis %d: a window of %d elements does not fit into %v and %d of padding", i, w.extent(i), d, pads)
		}
	}
	return w
}

// maxWindow bounds what attributes may say, so that no product of them overflows.
const maxWindow = 1 << 24

// extent is the number of elements from the first of a window to its last.
func (w window) extent(axis int) int { return (w.kernel[axis]-1)*w.dilations[axis] + 1 }

// places is how many windows an axis of size d has, and its padding.
func (w window) places(axis int, d ir.Dim) (n, before, after ir.Dim) {
	stride, extent, one := ir.N(w.strides[axis]), ir.N(w.extent(axis)), ir.N(1)
	switch w.auto {
	case "VALID":
		n = d.Sub(extent).Div(stride).Add(one)
	case "SAME_UPPER", "SAME_LOWER":
		n = d.CeilDiv(stride)
		pad := ir.Max(n.Sub(one).Mul(stride).Add(extent).Sub(d), ir.N(0))
		before = pad.Div(ir.N(2))
		if w.auto == "SAME_LOWER" {
			before = pad.Sub(before)
		}
		after = pad.Sub(before)
	default:
		before, after = ir.N(w.pads[axis]), ir.N(w.pads[len(w.kernel)+axis])
		room := d.Add(before).Add(after).Sub(extent)
		n = room.Div(stride).Add(one)
		if w.ceil { // but no window begins behind the last element
			n = ir.Min(room.CeilDiv(stride).Add(one), d.Add(before).CeilDiv(stride))
		}
	}
	return ir.Max(n, ir.N(0)), before, after
}

// result is the shape of the places of the window over x, with that many channels.
func (w window) result(x ir.Shape, channels ir.Dim) ir.Shape {
	s := ir.Shape{x[0], channels}
	for i, d := range x[2:] {
		n, _, _ := w.places(i, d)
		s = append(s, n)
	}
	return s
}

// A tap is an element of a window: which of the kernel, and the flat position below it in one channel, −1 in the padding.
type tap struct{ kernel, at int }

// padding is how many elements stand before and behind each axis of size in.
func (w window) padding(in tensor.Shape) (before, after []int) {
	for i, d := range in {
		_, b, a := w.places(i, ir.N(d))
		before, after = append(before, b.Int()), append(after, a.Int())
	}
	return before, after
}

// walk moves the window over out places of a padded channel of the spatial shape in. f must not keep the taps. Elements
// that lie behind even the padding are no taps.
func (w window) walk(in, out tensor.Shape, before, after []int, f func(place int, taps []tap)) {
	strides := in.Strides()
	var taps []tap
	ir.EachIndex(out, func(place int, o []int) {
		taps = taps[:0]
		ir.EachIndex(w.kernel, func(k int, e []int) {
			at := 0
			for i := range in {
				p := o[i]*w.strides[i] - before[i] + e[i]*w.dilations[i]
				switch {
				case p >= in[i]+after[i] || p < -before[i]:
					return
				case p < 0 || p >= in[i]:
					at = -1
				case at >= 0:
					at += p * strides[i]
				}
			}
			taps = append(taps, tap{k, at})
		})
		f(place, taps)
	})
}
