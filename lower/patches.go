package lower

import (
	"slices"

	"github.com/rlxc/rlxc/ir"
)

// Windows that tile are views of their operand.

// maxTaps bounds the elements of a window whose transposed convolution is a product.
const maxTaps = 128

// maxTapNodes bounds the nodes that all transposed convolutions of a model become.
const maxTapNodes = 1 << 16

// affords reports whether a transposed convolution may become n more nodes.
func (c *context) affords(n int) bool {
	if c.b.taps+n > maxTapNodes {
		return false
	}
	c.b.taps += n
	return true
}

// conv is Conv: x [N,C,…], weights [M,C/groups,…] and perhaps a bias [M] give [N,M,…].
func (c *context) conv(win ir.Window, groups int) *ir.Value {
	x, w, bias := c.In(0), c.expanded(c.In(1)), c.expanded(c.Opt(2))
	if groups == 1 && win.Tiles() && (win.Taps() == 1 || len(win.Kernel) > 2 || isFew(w.Type.Shape[1])) {
		return c.channelsFirst(c.product(c.tileRows(win, x), w, bias))
	}
	if groups < 1 || groups > ir.MaxSize {
		c.Failf("%d groups: want at least 1", groups)
	}
	if ir.Same(w.Type.Shape[1].Mul(ir.N(groups)), x.Type.Shape[1]) == ir.No {
		c.Failf("weights %v in %d groups for %v: their channels times the groups must be those of the input", w.Type, groups, x.Type)
	}
	in := []*ir.Value{c.channelsLast(x), c.weights(w, kernelAxes(rank(w)), c.kernelFirst)}
	if bias != nil {
		in = append(in, bias)
	}
	return c.channelsFirst(c.Emit(ir.Conv{Window: win, Group: groups}, in...))
}

// fewChannels are those of an image, which are apart, and whose patches are rows in the order of the weights. More channels are beside each
// other: a convolution copies them in runs, where such rows would be made of single elements.
const fewChannels = 4

func isFew(channels ir.Dim) bool {
	n, ok := channels.Const()
	return ok && n <= fewChannels
}

// convBytes is a convolution of bytes with the other operands of a QMatMul; that of one element at every position is a product.
func (c *context) convBytes(win ir.Window, groups int, x, w *ir.Value, more ...*ir.Value) *ir.Value {
	in := append([]*ir.Value{c.channelsLast(x), c.kernelFirst(c.weight(w))}, more...)
	if groups == 1 && win.Taps() == 1 && win.Tiles() {
		s := in[1].Type.Shape
		in[1] = c.reshape(in[1], s[len(s)-2:])
		return c.channelsFirst(c.Emit(ir.QMatMul{}, in...))
	}
	return c.channelsFirst(c.Emit(ir.QConv{Window: win, Group: groups}, in...))
}

// kernelAxes says which axis each of [M,C,…] becomes in […,C,M].
func kernelAxes(rank int) []int {
	axes := []int{rank - 1, rank - 2}
	for i := range rank - 2 {
		axes = append(axes, i)
	}
	return axes
}

// kernelFirst returns weights [M,C,…] as […,C,M].
func (c *context) kernelFirst(w *ir.Value) *ir.Value {
	order := ir.Transpose{Perm: append(upTo(rank(w))[2:], 1, 0)}
	if w.Const == nil {
		return c.Emit(order, w)
	}
	return c.b.g.NewConst(w.Name, c.evaluated(order, w.Const.Aligned()))
}

// product multiplies rows with weights [M,…], seen as a matrix, and adds the bias.
func (c *context) product(rows, w, bias *ir.Value) *ir.Value {
	axes := []int{0, 1}
	if !ir.Shape(w.Type.Shape[2:]).Elements().Is(1) { // channels are not a separate axis
		axes = axes[:1]
	}
	w = c.weights(w, axes, func(w *ir.Value) *ir.Value {
		return c.Emit(ir.Reshape{Shape: ir.Shape{w.Type.Shape[0], ir.Shape(w.Type.Shape[1:]).Elements()}}, w)
	})
	in := []*ir.Value{rows, w}
	if bias != nil {
		in = append(in, bias)
	}
	return c.Emit(ir.MatMul{TransB: true}, in...)
}

// untiled is a ConvTranspose whose windows are side by side: x [N,C,…] times weights [C,M,…], whose columns are the elements of a
// window, each with M channels.
func (c *context) untiled(win ir.Window) *ir.Value {
	x, w, bias := c.channelsLast(c.In(0)), c.In(1), c.Opt(2)
	taps, channels := win.Taps(), w.Type.Shape[1]
	matrix := func(w *ir.Value) *ir.Value {
		return c.reshape(c.channelsLast(w), ir.Shape{w.Type.Shape[0], channels.Mul(ir.N(taps))})
	}
	in := []*ir.Value{x, c.besideEachOther(w, taps, matrix)}
	if bias != nil {
		in = append(in, c.Emit(ir.Concat{}, slices.Repeat([]*ir.Value{bias}, taps)...))
	}
	y, s, n := c.Emit(ir.MatMul{}, in...), x.Type.Shape, len(win.Kernel)
	split, whole, perm := slices.Clone(s[:1+n]), slices.Clone(s[:1]), []int{0}
	for i, k := range win.Kernel {
		split = append(split, ir.N(k))
		whole = append(whole, s[1+i].Mul(ir.N(k)))
		perm = append(perm, 1+i, 1+n+i)
	}
	y = c.Emit(ir.Transpose{Perm: append(perm, 1+2*n)}, c.reshape(y, append(split, channels)))
	return c.channelsFirst(c.reshape(y, append(whole, channels)))
}

// channelsLast moves axis 1 to the end.
func (c *context) channelsLast(x *ir.Value) *ir.Value {
	perm := append(slices.Delete(upTo(rank(x)), 1, 2), 1)
	return c.Emit(ir.Transpose{Perm: perm}, x)
}

// channelsFirst undoes channelsLast.
func (c *context) channelsFirst(x *ir.Value) *ir.Value {
	perm := upTo(rank(x))
	copy(perm[2:], perm[1:])
	perm[1] = rank(x) - 1
	return c.Emit(ir.Transpose{Perm: perm}, x)
}

// tileRows returns the patches as rows [N, positions…, C·taps]: the spatial axes are split into position and element.
func (c *context) tileRows(win ir.Window, x *ir.Value) *ir.Value {
	s := x.Type.Shape
	axes := len(win.Kernel)
	cut := ir.Slice{Starts: make([]ir.Dim, axes+2), Sizes: slices.Clone(s), Steps: slices.Repeat([]int{1}, axes+2)}
	split := slices.Clone(s[:2])
	rows, elements := ir.Shape{s[0]}, s[1]
	perm, within := []int{0}, []int{1}
	for i, k := range win.Kernel {
		n, _, _ := win.Positions(i, s[2+i])
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
