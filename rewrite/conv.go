package rewrite

import (
	"slices"

	"github.com/rlxc/rlxc/ir"
	"github.com/rlxc/rlxc/target"
	"github.com/rlxc/rlxc/tensor"
)

// A target without a kernel for a convolution has kernels for products: the elements under the window at one place are a row, the
// weights of one output channel a column.

const (
	// maxTaps bounds the elements of a window whose patches are copied: the copy is so many times as large as the input, over the
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

// convRules make products of the convolutions that the target has no kernel for.
func convRules() []*Rule {
	x, w, bias := value(), value(), value()
	bare := with(node[ir.Conv](x, w, optional(bias), none()), func(o ir.Conv) bool { return o.Act == ir.NoUnary })
	coded := dequantized()
	turned := node[ir.Transpose](coded)
	ofBytes := with(node[ir.Conv](either(turned, coded), w, optional(bias), none()), func(o ir.Conv) bool {
		return o.Act == ir.NoUnary && o.Group == 1 && o.Taps() <= maxTaps
	})
	return []*Rule{
		{Name: "conv.bytes", pattern: ofBytes, build: func(m *match) *ir.Value {
			c := patches{match: m, op: opOf[ir.Conv](m, ofBytes), w: m.get(w), bias: m.get(bias), codes: m.get(coded)}
			matrix, bytes := c.codedMatrix(), at(c.codes, 0)
			if matrix == nil || !is8Bit(bytes.Type.DType) {
				return nil
			}
			if m.has(turned) {
				bytes = m.transpose(bytes, opOf[ir.Transpose](m, turned).Perm...)
			}
			y := m.root.Outputs[0].Type.Shape
			c.places = y[1 : len(y)-1]
			return c.joined(1, c.product(c.padded(bytes), matrix, c.bias, c.bands(bytes))...)
		}},
		{Name: "conv.weights", pattern: node[ir.Conv](x, w).rest(), build: func(m *match) *ir.Value {
			v := m.get(w)
			if !isDequantized(v) || !foldInputs(v.Def) {
				return nil
			}
			plain, err := evalConstants(v.Def)
			if err != nil {
				return m.refuse("%v", err)
			}
			in := slices.Clone(m.root.Inputs)
			in[ir.ConvW] = m.e.g.NewConst(v.Name, plain[0])
			return m.emit(m.root.Op, in...)
		}},
		{Name: "conv.products", pattern: bare, build: func(m *match) *ir.Value {
			c := patches{match: m, op: opOf[ir.Conv](m, bare), w: m.get(w), bias: m.get(bias)}
			if m.e.t != nil && m.e.t.Where(m.root) == target.OnKernel {
				return nil
			}
			return c.products(m.get(x))
		}},
	}
}

// patches is a convolution that becomes products.
type patches struct {
	*match
	op      ir.Conv
	w, bias *ir.Value
	codes   *ir.Value // what dequantises the patches, if they are bytes
	places  []ir.Dim
}

// codedMatrix is the weights [K,M] with their bytes in sight, or nil.
func (c *patches) codedMatrix() *ir.Value {
	if !isDequantized(c.w) {
		return nil
	}
	o, bytes, s := c.w.Def.Op.(ir.Dequantize), at(c.w, 0), c.w.Type.Shape
	vector := len(at(c.w, 1).Type.Shape)
	if !is8Bit(bytes.Type.DType) || vector > 0 && (o.Block != 0 || o.Axis != len(s)-1) {
		return nil
	}
	o.Axis = vector
	return c.emit(o, c.reshape(bytes, ir.Shape{s[:len(s)-1].Elements(), last(s)}), at(c.w, 1), at(c.w, 2))
}

// products returns the result, or nil if it would take too many nodes.
func (c *patches) products(x *ir.Value) *ir.Value {
	channels, groups, taps := last(c.w.Type.Shape), c.op.Group, c.op.Taps()
	depthwise := groups > 1 && channels.Is(groups) && last(x.Type.Shape).Is(groups) && c.w.Const != nil
	if taps > maxTaps || groups > maxGroups && !depthwise {
		return c.refuse("%d taps in %d groups", taps, groups)
	}
	y := c.root.Outputs[0].Type.Shape
	c.places = y[1 : len(y)-1]
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
		_, before, after := c.op.Places(i, x.Type.Shape[1+i])
		pad.Before[1+i], pad.After[1+i] = before, after
		needed = needed || !before.Is(0) || !after.Is(0)
	}
	if !needed {
		return x
	}
	var zero *ir.Value
	if c.codes != nil {
		zero = at(c.codes, 2)
	}
	return c.emit(pad, x, zero)
}

// A strip is some of the places along the first spatial axis.
type strip struct{ first, count ir.Dim }

// bands divides the places so that the patches of a band stay small.
func (c *patches) bands(x *ir.Value) (strips []strip) {
	w := c.w.Type.Shape
	patch := x.Type.Shape[0].Mul(w[:len(w)-1].Elements())
	size, known := ir.Shape(c.places).Elements().Mul(patch).Const()
	if n := (size + maxPatches - 1) / maxPatches; known && n > 1 {
		rows := c.places[0].Int()
		n = min(n, maxBands, rows)
		each := (rows + n - 1) / n
		for i := 0; i < rows; i += each {
			strips = append(strips, strip{ir.N(i), ir.N(min(each, rows-i))})
		}
		return strips
	}
	return []strip{{count: c.places[0]}}
}

// tap is what one element of the window meets in the padded x, at the places of a band.
func (c *patches) tap(x *ir.Value, at []int, b strip) *ir.Value {
	n := len(x.Type.Shape)
	cut := ir.Slice{Starts: make([]ir.Dim, n), Sizes: slices.Clone(x.Type.Shape), Steps: slices.Repeat([]int{1}, n)}
	for i, k := range at {
		first, count := ir.Dim{}, c.places[i]
		if i == 0 {
			first, count = b.first, b.count
		}
		stride := c.op.Strides[i]
		cut.Starts[1+i], cut.Sizes[1+i], cut.Steps[1+i] = first.Mul(ir.N(stride)).Add(ir.N(k*c.op.Dilations[i])), count, stride
	}
	return c.emit(cut, x)
}

// product multiplies the patches of the padded x with weights [taps·C,M], a band after the other.
func (c *patches) product(x, w, bias *ir.Value, strips []strip) (parts []*ir.Value) {
	for _, b := range strips {
		var taps []*ir.Value
		ir.EachIndex(nil, c.op.Kernel, func(_ int, at []int) { taps = append(taps, c.tap(x, at, b)) })
		rows := c.joined(len(x.Type.Shape)-1, taps...)
		if c.codes != nil {
			rows = c.dequantize(c.codes, rows)
		}
		parts = append(parts, c.emit(ir.MatMul{}, rows, w, bias))
	}
	return parts
}

// depthwise is a convolution each channel of which is one of its own: what the taps meet, times a weight for each channel,
// added up.
func (c *patches) depthwise(x *ir.Value) *ir.Value {
	y, all, weights := c.bias, strip{count: c.places[0]}, c.w.Const.Aligned()
	ir.EachIndex(nil, c.op.Kernel, func(k int, at []int) {
		channels := c.op.Group
		factor := tensor.New(c.w.Type.DType, channels)
		for ch := range channels {
			factor.SetFloat64(ch, weights.Float64(k*channels+ch))
		}
		part := c.emit(ir.Binary{Fn: ir.Mul}, c.tap(x, at, all), c.e.g.NewConst("", factor))
		if y != nil {
			part = c.emit(ir.Binary{Fn: ir.Add}, part, y)
		}
		y = part
	})
	return y
}

// convPadRule takes zeros around an operand into the padding of the window.
func convPadRule() *Rule {
	x, w, zero, bias, residual := value(), value(), number(0), value(), value()
	pad := with(node[ir.Pad](x, optional(zero)), func(o ir.Pad) bool { return o.Mode == ir.PadConstant })
	turned := node[ir.Transpose](pad)
	conv := node[ir.Conv](either(turned, pad), w, optional(bias), optional(residual))
	return &Rule{Name: "conv.pad", pattern: conv, build: func(m *match) *ir.Value {
		o, p, from := opOf[ir.Conv](m, conv), opOf[ir.Pad](m, pad), m.get(x)
		if o.Auto != "NOTSET" && o.Auto != "VALID" {
			return nil
		}
		o.Auto, o.Pads = "NOTSET", slices.Clone(o.Pads)
		for i := range p.Before {
			axis := i
			if m.has(turned) {
				axis = opOf[ir.Transpose](m, turned).Perm[i]
			}
			before, known := p.Before[axis].Const()
			after, ends := p.After[axis].Const()
			if !known || !ends || before < 0 || after < 0 {
				return nil
			}
			if spatial := i - 1; spatial >= 0 && spatial < len(o.Kernel) {
				o.Pads[spatial] += before
				o.Pads[len(o.Kernel)+spatial] += after
			} else if before+after > 0 {
				return nil
			}
		}
		if m.has(turned) {
			from = m.transpose(from, opOf[ir.Transpose](m, turned).Perm...)
		}
		return m.emit(o, from, m.get(w), m.get(bias), m.get(residual))
	}}
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
