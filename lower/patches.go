package lower

import (
	"slices"

	"github.com/rlxc/rlxc/ir"
	"github.com/rlxc/rlxc/ops"
	"github.com/rlxc/rlxc/tensor"
)

// A convolution is a product of patches: the elements under the window at one place are a row, the weights of one output
// channel a column. Written so it runs on the kernels of products, takes activations and residuals into their epilogue, and
// leaves its result with the channels last, where the next one wants them.

// maxTaps bounds the number of elements of a window whose patches are copied: the copy is so many times as large as the
// input, over the strides.
const maxTaps = 128

// maxGroups bounds the number of products that a convolution in groups becomes.
const maxGroups = 32

// maxTapNodes bounds the nodes that all convolutions and pools of a model become; a hundred layers need a few thousand.
const maxTapNodes = 1 << 16

// affords reports whether a convolution or pool may become n more nodes.
func (c *Context) affords(n int) bool {
	if c.b.taps+n > maxTapNodes {
		return false
	}
	c.b.taps += n
	return true
}

// maxPatches bounds the elements of patches that exist at a time, where sizes are known: larger images are done in bands.
const maxPatches = 1 << 24

// maxBands bounds their number.
const maxBands = 64

// convProduct is Conv as products, nil where its kernel is left to it: x [N,C,…], weights [M,C/groups,…] and perhaps a bias
// [M] give [N,M,…].
func (c *Context) convProduct(win ops.Window, groups int) []*ir.Value {
	x, w, bias := c.In(0), c.In(1), c.Opt(2)
	taps := win.Taps()
	if groups == 1 && taps > 1 && win.Tiles() {
		return []*ir.Value{c.channelsFirst(c.product(c.tileRows(win, x), w, bias))}
	}
	if taps > maxTaps || groups > 1 && ir.Same(w.Type.Shape[1].Mul(ir.N(groups)), x.Type.Shape[1]) != ir.Yes {
		return nil
	}
	depthwise := groups > 1 && w.Type.Shape[0].Is(groups) && x.Type.Shape[1].Is(groups) && w.Const != nil
	nodes := 3 * taps * len(win.Kernel)
	if !depthwise {
		patch := x.Type.Shape[0].Mul(ir.Shape(w.Type.Shape[1:]).Elements())
		nodes *= groups * len(bandsOf(win.Result(x.Type.Shape, ir.N(1))[2:], patch))
	}
	if !depthwise && groups > maxGroups || !c.affords(nodes) {
		return nil
	}
	if taps > 1 {
		w = c.channelsLast(w)
	}
	x, places := c.padded(win, c.channelsLast(x))
	if depthwise {
		return []*ir.Value{c.channelsFirst(c.depthwise(win, x, places, w, bias))}
	}
	if groups == 1 {
		return []*ir.Value{c.channelsFirst(c.bands(win, x, places, w, bias))}
	}
	parts := make([]*ir.Value, groups)
	for g := range parts {
		share := func(v *ir.Value, axis int) *ir.Value {
			if v == nil {
				return nil
			}
			n := v.Type.Shape[axis].Div(ir.N(groups))
			return c.cut(v, axis, n.Mul(ir.N(g)), n)
		}
		parts[g] = c.bands(win, share(x, Rank(x)-1), places, share(w, 0), share(bias, 0))
	}
	return []*ir.Value{c.channelsFirst(c.Emit(ir.Concat{Axis: Rank(x) - 1}, parts...))}
}

// product multiplies rows with weights [M,…], seen as a matrix, and adds the bias.
func (c *Context) product(rows, w, bias *ir.Value) *ir.Value {
	w = c.Emit(ir.Reshape{Shape: ir.Shape{w.Type.Shape[0], ir.Shape(w.Type.Shape[1:]).Elements()}}, w)
	in := []*ir.Value{rows, w}
	if bias != nil {
		in = append(in, bias)
	}
	return c.Emit(ir.MatMul{TransB: true}, in...)
}

// bands makes the products of the patches of the padded x [N,…,C], a band of places at a time.
func (c *Context) bands(win ops.Window, x *ir.Value, places []ir.Dim, w, bias *ir.Value) *ir.Value {
	patch := x.Type.Shape[0].Mul(ir.Shape(w.Type.Shape[1:]).Elements())
	var parts []*ir.Value
	for _, b := range bandsOf(places, patch) {
		parts = append(parts, c.product(c.tapRows(win, x, b.first, append([]ir.Dim{b.count}, places[1:]...)), w, bias))
	}
	if len(parts) == 1 {
		return parts[0]
	}
	return c.Emit(ir.Concat{Axis: 1}, parts...)
}

// depthwise is a convolution each channel of which is one of its own: what the taps meet, times a weight for each channel,
// added up. x is padded, [N,…,C], w is [C,…,1].
func (c *Context) depthwise(win ops.Window, x *ir.Value, places []ir.Dim, w, bias *ir.Value) *ir.Value {
	channels, taps := w.Const.Shape()[0], tensor.Shape(win.Kernel).Elements()
	y := bias
	ir.EachIndex(nil, win.Kernel, func(k int, at []int) {
		part, factor := x, tensor.New(w.Type.DType, channels)
		for i, e := range at {
			part = c.tap(win, part, i, e, ir.Dim{}, places[i])
		}
		for ch := range channels {
			factor.SetFloat64(ch, w.Const.Float64(ch*taps+k))
		}
		if part = c.binary(ir.Mul, part, c.Constant(factor)); y != nil {
			part = c.binary(ir.Add, part, y)
		}
		y = part
	})
	return y
}

// cut is a slice along one axis.
func (c *Context) cut(v *ir.Value, axis int, first, size ir.Dim) *ir.Value {
	o := ir.Slice{Starts: make([]ir.Dim, Rank(v)), Sizes: slices.Clone(v.Type.Shape), Steps: slices.Repeat([]int{1}, Rank(v))}
	o.Starts[axis], o.Sizes[axis] = first, size
	return c.Emit(o, v)
}

// A band is some of the places along the first spatial axis.
type band struct{ first, count ir.Dim }

// bandsOf divides the places, at each of which there are so many elements, so that the patches of a band stay small.
func bandsOf(places []ir.Dim, elements ir.Dim) (bands []band) {
	size, known := ir.Shape(places).Elements().Mul(elements).Const()
	if n := (size + maxPatches - 1) / maxPatches; known && n > 1 {
		rows := places[0].Int()
		n = min(n, maxBands, rows)
		each := (rows + n - 1) / n
		for i := 0; i < rows; i += each {
			bands = append(bands, band{ir.N(i), ir.N(min(each, rows-i))})
		}
		return bands
	}
	return []band{{count: places[0]}}
}

// channelsLast moves axis 1 to the end; a constant becomes another one.
func (c *Context) channelsLast(x *ir.Value) *ir.Value {
	perm := append(slices.Delete(firstAxes(Rank(x)), 1, 2), 1)
	if x.Const == nil {
		return c.Emit(ir.Transpose{Perm: perm}, x)
	}
	s, width := x.Const.Shape(), x.Const.DType().Size()
	outer, channels, inner := s[0], s[1], s[2:].Elements()
	y := tensor.New(x.Const.DType(), append(append(tensor.Shape{s[0]}, s[2:]...), s[1])...)
	from, to := x.Const.Bytes(), y.Bytes()
	for o := range outer {
		for ch := range channels {
			for i := range inner {
				copy(to[((o*inner+i)*channels+ch)*width:][:width], from[((o*channels+ch)*inner+i)*width:])
			}
		}
	}
	return c.b.g.NewConst(x.Name, y)
}

// channelsFirst undoes channelsLast.
func (c *Context) channelsFirst(x *ir.Value) *ir.Value {
	perm := firstAxes(Rank(x))
	copy(perm[2:], perm[1:])
	perm[1] = Rank(x) - 1
	return c.Emit(ir.Transpose{Perm: perm}, x)
}

// padded puts the window's padding around the spatial axes of x [N,…,C], zeros or value, and counts its places.
func (c *Context) padded(win ops.Window, x *ir.Value, value ...*ir.Value) (y *ir.Value, places []ir.Dim) {
	pad := ir.Pad{Before: make([]ir.Dim, Rank(x)), After: make([]ir.Dim, Rank(x))}
	needed := false
	for i := range win.Kernel {
		n, before, after := win.Places(i, x.Type.Shape[1+i])
		places = append(places, n)
		pad.Before[1+i], pad.After[1+i] = before, after
		needed = needed || !before.Is(0) || !after.Is(0)
	}
	if needed {
		x = c.Emit(pad, append([]*ir.Value{x}, value...)...)
	}
	return x, places
}

// tap is what element k of the window meets along a spatial axis of x [N,…,C] at so many places from the first.
func (c *Context) tap(win ops.Window, x *ir.Value, axis, k int, first, places ir.Dim) *ir.Value {
	cut := ir.Slice{Starts: make([]ir.Dim, Rank(x)), Sizes: slices.Clone(x.Type.Shape), Steps: slices.Repeat([]int{1}, Rank(x))}
	stride := win.Strides[axis]
	cut.Starts[1+axis], cut.Sizes[1+axis], cut.Steps[1+axis] = first.Mul(ir.N(stride)).Add(ir.N(k*win.Dilations[axis])), places, stride
	return c.Emit(cut, x)
}

// tapRows returns the patches of the padded x [N,…,C] at places, from the first along the first axis, as rows
// [N, places…, taps·C]: for each tap the elements that it meets are a slice with steps, and the slices stand side by side.
func (c *Context) tapRows(win ops.Window, x *ir.Value, first ir.Dim, places []ir.Dim) *ir.Value {
	var parts []*ir.Value
	from := make([]ir.Dim, len(places))
	from[0] = first
	ir.EachIndex(nil, win.Kernel, func(_ int, at []int) {
		part := x
		for i, k := range at {
			part = c.tap(win, part, i, k, from[i], places[i])
		}
		parts = append(parts, part)
	})
	if len(parts) == 1 {
		return parts[0]
	}
	return c.Emit(ir.Concat{Axis: Rank(x) - 1}, parts...)
}

// poolTaps combines what the taps of a pool meet, an axis after the other, and returns [N,C,…]; fill is what the padding
// holds.
func (c *Context) poolTaps(win ops.Window, fn ir.BinaryFn, fill float64) *ir.Value {
	x := c.In(0)
	y, places := c.padded(win, c.channelsLast(x), c.Scalar(x.Type.DType, fill))
	for i, n := range win.Kernel {
		all := c.tap(win, y, i, 0, ir.Dim{}, places[i])
		for k := 1; k < n; k++ {
			all = c.binary(fn, all, c.tap(win, y, i, k, ir.Dim{}, places[i]))
		}
		y = all
	}
	return c.channelsFirst(y)
}

// tapped reports whether a pool is computed by poolTaps: every window holds an element that is no padding, ends where the
// padding does, and has few taps along each axis.
func (c *Context) tapped(w ops.Window) bool {
	nodes := 0
	for i, k := range w.Kernel {
		nodes += 2 * k
		if k > maxTaps || w.Dilations[i] != 1 || w.Pads[i] >= k || w.Pads[len(w.Kernel)+i] >= k {
			return false
		}
	}
	return c.In(0).Type.DType.IsFloat() && !w.Ceil && c.affords(nodes)
}

// tileRows returns the patches as rows [N, places…, C·taps]: the spatial axes are split into place and element.
func (c *Context) tileRows(win ops.Window, x *ir.Value) *ir.Value {
	s := x.Type.Shape
	axes := len(win.Kernel)
	cut := ir.Slice{Starts: make([]ir.Dim, axes+2), Sizes: slices.Clone(s), Steps: slices.Repeat([]int{1}, axes+2)}
	split := slices.Clone(s[:2])
	rows, elements := ir.Shape{s[0]}, s[1]
	perm, within := []int{0}, []int{1}
	for i, k := range win.Kernel {
		n, _, _ := win.Places(i, s[2+i])
		cut.Sizes[2+i] = n.Mul(ir.N(k))
		split = append(split, n, ir.N(k))
		rows, elements = append(rows, n), elements.Mul(ir.N(k))
		perm, within = append(perm, 2+2*i), append(within, 3+2*i)
	}
	if !ir.Shape(cut.Sizes).Equal(s) { // what is left over at the end belongs to no window
		x = c.Emit(cut, x)
	}
	x = c.Emit(ir.Transpose{Perm: append(perm, within...)}, c.Emit(ir.Reshape{Shape: split}, x))
	return c.Emit(ir.Reshape{Shape: append(rows, elements)}, x)
}
