package rewrite

import (
	"github.com/rlxc/rlxc/ir"
)

// meanOf is the mean of x over its last axes, which stay with size 1.
func meanOf(x *pattern) *pattern {
	p := with(node[ir.Reduce](x), func(o ir.Reduce) bool { return o.Fn == ir.Mean && o.KeepDims })
	p.text = "reduce_mean"
	return p.when("a mean over the last axes", func(m *match, v *ir.Value) bool { return lastAxes(v.Def) > 0 })
}

// lastAxes is the number of axes that a Reduce combines when they are the last ones, 0 otherwise.
func lastAxes(n *ir.Node) int {
	axes, rank := n.Op.(ir.Reduce).Axes, len(n.Inputs[0].Type.Shape)
	for i, a := range axes {
		if a != rank-len(axes)+i {
			return 0
		}
	}
	return len(axes)
}

// cast is p, or p in another type.
func cast(p *pattern) *pattern { return either(p, node[ir.Cast](p)) }

// normRules find LayerNorm and RMSNorm that are written out, and put scale and bias into them. RMSNorm is after
// LayerNorm, which holds its pattern.
func normRules() []*Rule {
	x, eps := value(), scalar()
	mean := meanOf(x)
	centred := binary(ir.Sub, x, mean)
	over := func(s *pattern) (variance, p *pattern) {
		// Exporters of half-precision models square and take the root in float32.
		wide := cast(s)
		variance = meanOf(binary(ir.Mul, wide, wide))
		return variance, binary(ir.Div, s, cast(unary(ir.Sqrt, sum(variance, eps))))
	}
	variance, layer := over(centred)
	square, rms := over(x)

	norm := func(scale, bias *pattern) *pattern {
		return with(node[ir.LayerNorm](x, scale, bias, none()), func(o ir.LayerNorm) bool { return !o.Sum })
	}
	w, b, oldScale := value(), value(), value()
	bare, noBias := norm(none(), none()), norm(optional(oldScale), none())
	scaled, biased := binary(ir.Mul, bare, w), binary(ir.Add, noBias, b)

	narrow, wideX := value(), node[ir.Cast](nil)
	wideX.args[0] = narrow
	wideScale, wideBias := node[ir.Cast](w), node[ir.Cast](b)
	wideNorm := with(node[ir.LayerNorm](wideX, optional(wideScale), optional(wideBias), none()),
		func(o ir.LayerNorm) bool { return !o.Sum })
	casted := node[ir.Cast](wideNorm)

	return []*Rule{
		{Name: "layernorm", changes: Rounding, pattern: layer, near: 4, build: func(m *match) *ir.Value {
			axes := lastAxes(m.get(mean).Def)
			if axes != lastAxes(m.get(variance).Def) {
				return m.refuse("mean and variance are over different axes")
			}
			e, ok := m.epsilon(eps)
			if !ok {
				return nil
			}
			return m.emit(ir.LayerNorm{Axes: axes, Eps: e}, m.get(x))
		}},
		{Name: "rmsnorm", changes: Rounding, pattern: rms, near: 4, build: func(m *match) *ir.Value {
			e, ok := m.epsilon(eps)
			if !ok {
				return nil
			}
			return m.emit(ir.LayerNorm{Axes: lastAxes(m.get(square).Def), Eps: e, RMS: true}, m.get(x))
		}},
		{Name: "layernorm.scale", changes: Rounding, pattern: scaled, build: func(m *match) *ir.Value {
			scale := m.alongAxes(m.get(w), m.get(bare))
			if scale == nil {
				return nil
			}
			return m.emit(opOf[ir.LayerNorm](m, bare), m.get(x), scale)
		}},
		{Name: "layernorm.bias", changes: Rounding, pattern: biased, build: func(m *match) *ir.Value {
			bias := m.alongAxes(m.get(b), m.get(noBias))
			if bias == nil {
				return nil
			}
			return m.emit(opOf[ir.LayerNorm](m, noBias), m.get(x), m.get(oldScale), bias)
		}},
		{Name: "layernorm.cast", changes: Rounding, pattern: casted, build: func(m *match) *ir.Value {
			t := m.get(narrow).Type.DType
			for _, p := range []*pattern{w, b} {
				if v := m.get(p); v != nil && v.Type.DType != t {
					return m.refuse("scale and bias are not %s as x is", t)
				}
			}
			if !holds(m.get(wideX).Type.DType, t) {
				return m.refuse("x does not become wider")
			}
			return m.emit(opOf[ir.LayerNorm](m, wideNorm), m.get(narrow), m.get(w), m.get(b))
		}},
	}
}

// epsilon returns the number that a norm adds, which may be 0.
func (m *match) epsilon(p *pattern) (float32, bool) {
	if m.number(p) == 0 {
		return 0, true
	}
	return m.parameter(m.number(p))
}

// alongAxes returns v in the rank of the axes that norm normalises, nil where v has more axes than those.
func (m *match) alongAxes(v, norm *ir.Value) *ir.Value {
	axes := norm.Def.Op.(ir.LayerNorm).Axes
	s := v.Type.Shape
	for len(s) > axes && s[0].Is(1) {
		s = s[1:]
	}
	if len(s) > axes || !v.IsConst() && len(s) < len(v.Type.Shape) {
		return nil
	}
	return m.reshape(v, s)
}

// reshape returns v in another shape, or v itself if it has that shape.
func (m *match) reshape(v *ir.Value, s ir.Shape) *ir.Value {
	if v.Type.Shape.Equal(s) {
		return v
	}
	if to, ok := (ir.Type{Shape: s}).Static(); ok && v.Const != nil && to.Elements() == v.Const.Len() {
		return m.e.constant(v.Name, v.Const.Reshape(to...))
	}
	return m.emit(ir.Reshape{Shape: s}, v)
}

// transpose permutes the axes of v, or returns v itself where nothing moves.
func (m *match) transpose(v *ir.Value, perm ...int) *ir.Value {
	for i, p := range perm {
		if i != p {
			return m.emit(ir.Transpose{Perm: perm}, v)
		}
	}
	return v
}
