package rewrite

import (
	"slices"

	"github.com/rlxc/rlxc/internal/target"
	"github.com/rlxc/rlxc/ir"
	"github.com/rlxc/rlxc/tensor"
)

// A target without a kernel for a convolution has kernels for products: the elements under the window at one position are a row, the
// weights of one output channel a column.

const (
	// maxTaps bounds the elements of a window whose patches are copied: the copy is that many times as large as the input, over the
	// strides.
	maxTaps = 128
	// maxGroups bounds the products that a convolution in groups becomes.
	maxGroups = 32
	// maxTapNodes bounds the nodes of a graph in which convolutions still become products; a hundred layers need a few thousand.
	maxTapNodes = 1 << 16
	// maxPatches bounds the elements of patches that exist at a time, where sizes are known: larger images are done in bands.
	maxPatches = 1 << 24
	// maxBands bounds their number.
	maxBands = 64
)

// convRules replace convolutions by products if the target has no kernel for them.
func convRules() []*Rule {
	x, w, bias := value(), value(), value()
	bare := with(node[ir.Conv](x, w, optional(bias), none()), func(o ir.Conv) bool { return o.Act == ir.NoUnary })
	stored := dequantized()
	transposed := node[ir.Transpose](stored)
	ofBytes := with(node[ir.Conv](either(transposed, stored), w, optional(bias), none()), func(o ir.Conv) bool {
		return o.Act == ir.NoUnary
	})
	quantized := node[ir.QConv](x, w).rest()
	return []*Rule{
		{Name: "conv.bytes", changes: Rounding, pattern: ofBytes, build: func(m *match) *ir.Value {
			o, quantized, weights := opOf[ir.Conv](m, ofBytes), m.get(stored), m.get(w)
			if !storedColumns(weights) || !is8Bit(at(quantized, 0).Type.DType) || quantized.Type.DType != tensor.F32 {
				return nil
			}
			bytes := at(quantized, 0)
			if m.has(transposed) {
				bytes = m.transpose(bytes, opOf[ir.Transpose](m, transposed).Perm...)
			}
			y := m.emit(ir.QConv{Window: o.Window, Group: o.Group}, bytes, at(weights, 0), at(quantized, 2), at(weights, 2),
				at(quantized, 1), at(weights, 1), m.get(bias))
			if !m.onKernel(y.Def) && (o.Group > 1 || o.Taps() > maxTaps) {
				return nil // it would become a convolution of floats again
			}
			return y
		}},
		{Name: "conv.weights", pattern: node[ir.Conv](x, w).rest(), build: func(m *match) *ir.Value {
			v := m.get(w)
			if !isStored(v) || m.takesStored(m.root, ir.ConvW) {
				return nil
			}
			plain, err := evalConstants(v.Def)
			if err != nil {
				return m.refuse("%v", err)
			}
			in := slices.Clone(m.root.Inputs)
			in[ir.ConvW] = m.e.constant(v.Name, plain[0])
			return m.emit(m.root.Op, in...)
		}},
		{Name: "qconv.products", pattern: quantized, build: func(m *match) *ir.Value {
			if m.onKernel(m.root) {
				return nil
			}
			return quantizedPatches(m)
		}},
		{Name: "conv.products", pattern: bare, build: func(m *match) *ir.Value {
			c := patches{match: m, op: opOf[ir.Conv](m, bare), w: m.get(w), bias: m.get(bias)}
			if m.onKernel(m.root) {
				return nil
			}
			return c.products(m.get(x))
		}},
	}
}

// patches is a convolution that becomes products.
type patches struct {
	*match
	op        ir.Conv
	w, bias   *ir.Value
	zero      *ir.Value // what the padding holds, or nil for 0
	positions []ir.Dim
}

// onKernel reports whether there is a target that has a kernel for a node.
func (m *match) onKernel(n *ir.Node) bool { return m.e.t != nil && m.e.t.Where(n) == target.OnKernel }

// storedColumns reports whether weights are dequantised bytes, with a scale for all or for each column.
func storedColumns(w *ir.Value) bool {
	if !isDequantized(w) {
		return false
	}
	o, scales := w.Def.Op.(ir.Dequantize), len(at(w, 1).Type.Shape)
	return is8Bit(at(w, 0).Type.DType) && (scales == 0 || o.Block == 0 && o.Axis == len(w.Type.Shape)-1)
}

// quantizedPatches makes a convolution of bytes a product of patches of bytes, or, of groups and large windows, a convolution of floats:
// exactly so where its sums are wanted.
func quantizedPatches(m *match) *ir.Value {
	o, in := m.root.Op.(ir.QConv), qOperands(m.root.Outputs[0])
	x, w, y := in[ir.QMatMulA], in[ir.QMatMulB], m.root.Outputs[0].Type
	s := w.Type.Shape
	c := patches{match: m, op: ir.Conv{Window: o.Window, Group: o.Group}, w: w, zero: in[ir.QMatMulAZero]}
	if o.Group == 1 && o.Taps() <= maxTaps {
		c.positions = y.Shape[1 : len(y.Shape)-1]
		w = c.reshape(w, ir.Shape{s[:len(s)-1].Elements(), last(s)})
		return c.joined(1, c.rows(c.padded(x), c.bands(x), func(rows *ir.Value) *ir.Value {
			return m.emit(ir.QMatMul{Act: o.Act}, append([]*ir.Value{rows, w}, in[2:]...)...)
		})...)
	}
	if in[ir.QMatMulResidual] != nil || o.Act != ir.NoUnary || in[ir.QMatMulYScale] != nil && len(in[ir.QMatMulYScale].Type.Shape) > 0 {
		return m.refuse("%d taps in %d groups", o.Taps(), o.Group)
	}
	scale, wide := in[ir.QMatMulAScale], tensor.F64
	// tiles of a single group round
	if n, known := s[:len(s)-1].Elements().Const(); known && n <= maxExactF32 && o.Group > 1 || scale != nil {
		wide = tensor.F32
	}
	one := func() *ir.Value {
		t := tensor.New(wide)
		t.SetFloat64(0, 1)
		return m.e.constant("", t)
	}
	floats := func(v, scale, zero *ir.Value) *ir.Value {
		op := ir.Dequantize{To: wide}
		if scale == nil {
			scale = one()
		}
		if zero != nil && len(zero.Type.Shape) > len(scale.Type.Shape) {
			scale = m.emit(ir.Expand{Shape: zero.Type.Shape}, scale)
		}
		if len(scale.Type.Shape) > 0 {
			op.Axis = len(v.Type.Shape) - 1
			if zero != nil && len(zero.Type.Shape) == 0 {
				zero = m.emit(ir.Expand{Shape: scale.Type.Shape}, zero)
			}
		}
		return m.emit(op, v, scale, zero)
	}
	bias := in[ir.QMatMulBias]
	if bias != nil && bias.Type.DType == tensor.I32 {
		bias = m.emit(ir.Cast{To: wide}, bias)
		if scale != nil {
			bias = m.emit(ir.Binary{Fn: ir.Mul}, bias, m.emit(ir.Binary{Fn: ir.Mul}, scale, in[ir.QMatMulBScale]))
		}
	}
	sums := m.emit(c.op, floats(x, scale, in[ir.QMatMulAZero]), floats(w, in[ir.QMatMulBScale], in[ir.QMatMulBZero]), bias)
	switch {
	case scale == nil:
		return m.emit(ir.Cast{To: tensor.I32}, sums)
	case in[ir.QMatMulYScale] == nil:
		return sums
	}
	return m.emit(ir.Quantize{To: y.DType}, sums, in[ir.QMatMulYScale], in[ir.QMatMulYZero])
}

// maxExactF32 is the most products of differences of bytes of which float32 holds the sums.
const maxExactF32 = 1 << 24 / (255 * 255)

// products returns the result, or nil if it would take too many nodes.
func (c *patches) products(x *ir.Value) *ir.Value {
	channels, groups, taps := last(c.w.Type.Shape), c.op.Group, c.op.Taps()
	depthwise := groups > 1 && channels.Is(groups) && last(x.Type.Shape).Is(groups) && c.w.Const != nil
	if taps > maxTaps || groups > maxGroups && !depthwise {
		return c.refuse("%d taps in %d groups", taps, groups)
	}
	y := c.root.Outputs[0].Type.Shape
	c.positions = y[1 : len(y)-1]
	bands := c.bands(x)
	nodes := 3 * taps * len(c.op.Kernel)
	if !depthwise {
		nodes *= groups * len(bands)
	}
	if len(c.e.g.Nodes)+nodes > maxTapNodes {
		return c.refuse("%d nodes more", nodes)
	}
	x = c.padded(x)
	if depthwise {
		return c.depthwise(x)
	}
	share := func(v *ir.Value, axis, g int) *ir.Value {
		if v == nil || groups == 1 {
			return v
		}
		n := v.Type.Shape[axis].Div(ir.N(groups))
		return c.take(v, axis, n.Mul(ir.N(g)), n)
	}
	matrix := c.reshape(c.w, ir.Shape{c.w.Type.Shape[:len(y)-1].Elements(), channels})
	parts := make([]*ir.Value, groups)
	for g := range parts {
		parts[g] = c.joined(1, c.product(share(x, len(y)-1, g), share(matrix, 1, g), share(c.bias, 0, g), bands)...)
	}
	return c.joined(len(y)-1, parts...)
}

func (c *patches) joined(axis int, parts ...*ir.Value) *ir.Value {
	if len(parts) == 1 {
		return parts[0]
	}
	return c.emit(ir.Concat{Axis: axis}, parts...)
}

// padded puts the window's padding around the spatial axes of x.
func (c *patches) padded(x *ir.Value) *ir.Value {
	n := len(x.Type.Shape)
	pad := ir.Pad{Before: make([]ir.Dim, n), After: make([]ir.Dim, n)}
	needed := false
	for i := range c.op.Kernel {
		_, before, after := c.op.Positions(i, x.Type.Shape[1+i])
		pad.Before[1+i], pad.After[1+i] = before, after
		needed = needed || !before.Is(0) || !after.Is(0)
	}
	if !needed {
		return x
	}
	return c.emit(pad, x, c.zero)
}

// A strip is some of the positions along the first spatial axis.
type strip struct{ first, count ir.Dim }

// bands divides the positions so that the patches of a band stay small.
func (c *patches) bands(x *ir.Value) (strips []strip) {
	w := c.w.Type.Shape
	patch := x.Type.Shape[0].Mul(w[:len(w)-1].Elements())
	size, known := ir.Shape(c.positions).Elements().Mul(patch).Const()
	if n := (size + maxPatches - 1) / maxPatches; known && n > 1 {
		rows := c.positions[0].Int()
		n = min(n, maxBands, rows)
		each := (rows + n - 1) / n
		for i := 0; i < rows; i += each {
			strips = append(strips, strip{ir.N(i), ir.N(min(each, rows-i))})
		}
		return strips
	}
	return []strip{{count: c.positions[0]}}
}

// tap is what one element of the window meets in the padded x, at the positions of a band.
func (c *patches) tap(x *ir.Value, at []int, b strip) *ir.Value {
	n := len(x.Type.Shape)
	cut := ir.Slice{Starts: make([]ir.Dim, n), Sizes: slices.Clone(x.Type.Shape), Steps: slices.Repeat([]int{1}, n)}
	for i, k := range at {
		first, count := ir.Dim{}, c.positions[i]
		if i == 0 {
			first, count = b.first, b.count
		}
		stride := c.op.Strides[i]
		cut.Starts[1+i], cut.Sizes[1+i], cut.Steps[1+i] = first.Mul(ir.N(stride)).Add(ir.N(k*c.op.Dilations[i])), count, stride
	}
	return c.emit(cut, x)
}

// product multiplies the patches of the padded x with weights [taps·C,M].
func (c *patches) product(x, w, bias *ir.Value, strips []strip) []*ir.Value {
	return c.rows(x, strips, func(rows *ir.Value) *ir.Value { return c.emit(ir.MatMul{}, rows, w, bias) })
}

// rows multiplies the patches of the padded x, a band after the other.
func (c *patches) rows(x *ir.Value, strips []strip, multiply func(rows *ir.Value) *ir.Value) (parts []*ir.Value) {
	for _, b := range strips {
		var taps []*ir.Value
		ir.EachIndex(nil, c.op.Kernel, func(_ int, at []int) { taps = append(taps, c.tap(x, at, b)) })
		parts = append(parts, multiply(c.joined(len(x.Type.Shape)-1, taps...)))
	}
	return parts
}

// depthwise is a convolution each channel of which is a separate one: what the taps meet, times a weight for each channel,
// added up.
func (c *patches) depthwise(x *ir.Value) *ir.Value {
	y, all, weights := c.bias, strip{count: c.positions[0]}, c.w.Const.Aligned()
	ir.EachIndex(nil, c.op.Kernel, func(k int, at []int) {
		channels := c.op.Group
		factor := tensor.New(c.w.Type.DType, channels)
		for ch := range channels {
			factor.SetFloat64(ch, weights.Float64(k*channels+ch))
		}
		part := c.emit(ir.Binary{Fn: ir.Mul}, c.tap(x, at, all), c.e.constant("", factor))
		if y != nil {
			part = c.emit(ir.Binary{Fn: ir.Add}, part, y)
		}
		y = part
	})
	return y
}

// convPadRule takes what is put around an operand into the padding of the window: zeros, or the zero point of bytes.
func convPadRule() *Rule {
	x, edge := value(), value()
	pad := with(node[ir.Pad](x, optional(edge)), func(o ir.Pad) bool { return o.Mode == ir.PadConstant })
	transposed := node[ir.Transpose](pad)
	conv := node[ir.Conv](either(transposed, pad)).rest()
	conv.kinds = append(conv.kinds, ir.KindQConv)
	return &Rule{Name: "conv.pad", pattern: conv, build: func(m *match) *ir.Value {
		var perm []int
		if m.has(transposed) {
			perm = opOf[ir.Transpose](m, transposed).Perm
		}
		op, p, in := m.root.Op, opOf[ir.Pad](m, pad), slices.Clone(m.root.Inputs)
		var zero *ir.Value
		var fits bool
		switch o := op.(type) {
		case ir.Conv:
			o.Window, fits = withPadding(o.Window, p, perm)
			op = o
		case ir.QConv:
			o.Window, fits = withPadding(o.Window, p, perm)
			op, zero = o, ir.Operand(in, ir.QMatMulAZero)
		}
		around, known := numberOrZero(m.get(edge))
		inside, knows := numberOrZero(zero)
		if !fits || m.get(edge) != zero && !(known && knows && around == inside) {
			return nil
		}
		in[0] = m.get(x)
		if perm != nil {
			in[0] = m.transpose(in[0], perm...)
		}
		return m.emit(op, in...)
	}}
}

// withPadding is a window that pads as p does, too, of an operand whose axes perm takes from that of p; fits is false if there is none.
func withPadding(w ir.Window, p ir.Pad, perm []int) (_ ir.Window, fits bool) {
	if w.Auto != "NOTSET" && w.Auto != "VALID" {
		return w, false
	}
	w.Auto, w.Pads = "NOTSET", slices.Clone(w.Pads)
	for i := range p.Before {
		axis := i
		if perm != nil {
			axis = perm[i]
		}
		before, known := p.Before[axis].Const()
		after, ends := p.After[axis].Const()
		if !known || !ends || before < 0 || after < 0 {
			return w, false
		}
		if spatial := i - 1; spatial >= 0 && spatial < len(w.Kernel) {
			w.Pads[spatial] += before
			w.Pads[len(w.Kernel)+spatial] += after
		} else if before+after > 0 {
			return w, false
		}
	}
	return w, true
}

// convEpilogueRules put what follows a convolution into its epilogue, a factor and a sum of each channel into its weights and bias.
func convEpilogueRules() []*Rule {
	x, w, bias, c, residual := value(), value(), value(), value(), value()
	plain := func(o ir.Conv) bool { return o.Act == ir.NoUnary }
	bare := with(node[ir.Conv](x, w, none(), none()), plain)
	unactivated := with(node[ir.Conv](x, w, optional(bias), none()), plain)
	activated := node[ir.Unary](unactivated)
	alone := node[ir.Conv](x, w, optional(bias), none())
	return append([]*Rule{
		{Name: "conv.bias", pattern: binary(ir.Add, bare, c), build: func(m *match) *ir.Value {
			b := m.perColumn(m.get(c))
			if b == nil {
				return nil
			}
			return m.emit(opOf[ir.Conv](m, bare), m.get(x), m.get(w), b)
		}},
		{Name: "conv.activation", changes: Rounding, pattern: activated, build: func(m *match) *ir.Value {
			o := opOf[ir.Conv](m, unactivated)
			u := opOf[ir.Unary](m, activated)
			if u.Real() == nil {
				return nil
			}
			o.Act, o.Alpha, o.Beta = u.Fn, u.Alpha, u.Beta
			return m.emit(o, m.get(x), m.get(w), m.get(bias))
		}},
		{Name: "conv.residual", pattern: binary(ir.Add, alone, residual), build: func(m *match) *ir.Value {
			if !m.get(residual).Type.Equal(m.get(alone).Type) {
				return nil
			}
			return m.emit(opOf[ir.Conv](m, alone), m.get(x), m.get(w), m.get(bias), m.get(residual))
		}},
	}, columnRules("conv", unactivated, x, w, bias, func(*match) int { return 1 })...)
}
