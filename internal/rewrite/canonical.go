package rewrite

import (
	"math"

	"github.com/rlxc/rlxc/ir"
	"github.com/rlxc/rlxc/tensor"
)

// canonicalRules leave one spelling of what exporters write in several, so that the patterns after them need only know
// that one: squares and cubes are products, roots are sqrt, x · 1/y is x / y, division by a constant is a product, and
// clipping is max and min.
func canonicalRules() []*Rule {
	x, c, d := value(), scalar(), scalar()
	mul, div := ir.Binary{Fn: ir.Mul}, ir.Binary{Fn: ir.Div}
	floats := func(m *match) bool { return m.root.Outputs[0].Type.DType.IsFloat() }
	power := func(name string, n float64, changes Change, x *pattern, build func(m *match, x *ir.Value) *ir.Value) *Rule {
		return &Rule{Name: name, changes: changes, pattern: binary(ir.Pow, x, number(n)), build: func(m *match) *ir.Value {
			if !floats(m) {
				return nil
			}
			return build(m, m.get(x))
		}}
	}
	apply := func(fn ir.UnaryFn) func(m *match, x *ir.Value) *ir.Value {
		return func(m *match, x *ir.Value) *ir.Value { return m.emit(ir.Unary{Fn: fn}, x) }
	}
	// The root of −∞ is not a number, its power 1/2 is +∞.
	radicand := value().when("never negative", func(_ *match, v *ir.Value) bool { return neverNegative(v) })
	// A quotient by a root is never by a subnormal, whose reciprocal is infinite.
	root := value().when("a root", func(_ *match, v *ir.Value) bool { return v.Def != nil && v.Def.Op == ir.Op(ir.Unary{Fn: ir.Sqrt}) })
	by := binary(ir.Div, x, c)
	twice := binary(ir.Mul, binary(ir.Mul, x, c), d)
	logistic := unary(ir.Reciprocal, sum(unary(ir.Exp, unary(ir.Neg, x)), number(1)))
	lo, hi := value(), value()
	wide := node[ir.Cast](x)
	counted := node[ir.CumSum](wide)
	narrow := with(node[ir.Cast](counted), func(o ir.Cast) bool { return o.To == tensor.I32 })
	// reciprocal puts a product by 1/c for a quotient by c, where both keep their precision.
	reciprocal := func(m *match, holds func(c float64) bool) *ir.Value {
		n, t := m.number(c), m.get(c).Type.DType
		if !t.IsFloat() || !normal(1/n, t) || !normal(n, t) || !holds(n) {
			return nil
		}
		return m.emit(mul, m.get(x), m.likeConstant(m.get(c), 1/n))
	}
	return []*Rule{
		// Counting in 64 bits and keeping 32 is counting in 32: both wrap.
		{Name: "cumsum.narrow", pattern: narrow, build: func(m *match) *ir.Value {
			if m.get(wide).Type.DType != tensor.I64 || m.get(x).Type.DType.IsFloat() {
				return nil
			}
			return m.emit(opOf[ir.CumSum](m, counted), m.emit(m.root.Op, m.get(x)))
		}},
		{Name: "clip", pattern: node[ir.Clip](x, optional(lo), optional(hi)), build: func(m *match) *ir.Value {
			y := m.get(x)
			for p, fn := range []ir.BinaryFn{ir.MaxFn, ir.MinFn} {
				if limit := m.get([]*pattern{lo, hi}[p]); limit != nil {
					y = m.emit(ir.Binary{Fn: fn}, y, limit)
				}
			}
			return y
		}},
		{Name: "sigmoid", changes: Rounding, pattern: logistic, build: func(m *match) *ir.Value { return apply(ir.Sigmoid)(m, m.get(x)) }},
		power("pow.2", 2, Exact, x, func(m *match, x *ir.Value) *ir.Value { return m.emit(mul, x, x) }),
		power("pow.3", 3, Rounding, x, func(m *match, x *ir.Value) *ir.Value { return m.emit(mul, x, m.emit(mul, x, x)) }),
		power("pow.1/2", 0.5, Exact, radicand, apply(ir.Sqrt)),
		power("pow.-1/2", -0.5, Rounding, radicand, func(m *match, x *ir.Value) *ir.Value {
			return m.emit(ir.Unary{Fn: ir.Reciprocal}, m.emit(ir.Unary{Fn: ir.Sqrt}, x))
		}),
		power("pow.-1", -1, Exact, x, apply(ir.Reciprocal)),
		{Name: "div.reciprocal", pattern: binary(ir.Div, number(1), x), build: func(m *match) *ir.Value {
			if !floats(m) || len(m.get(x).Type.Shape) < len(m.root.Outputs[0].Type.Shape) {
				return nil
			}
			return m.emit(ir.Unary{Fn: ir.Reciprocal}, m.get(x))
		}},
		{Name: "mul.reciprocal", changes: Rounding, pattern: binary(ir.Mul, x, unary(ir.Reciprocal, root)),
			build: func(m *match) *ir.Value {
				return m.emit(div, m.get(x), m.get(root))
			}},
		{Name: "div.power_of_two", pattern: by, build: func(m *match) *ir.Value {
			return reciprocal(m, func(c float64) bool { f, _ := math.Frexp(c); return math.Abs(f) == 0.5 })
		}},
		{Name: "div.constant", changes: Rounding, pattern: by, build: func(m *match) *ir.Value {
			return reciprocal(m, func(float64) bool { return true })
		}},
		{Name: "mul.mul", changes: Rounding, pattern: twice, build: func(m *match) *ir.Value {
			r := m.number(c) * m.number(d)
			if m.e.how.exact && (math.Abs(m.number(c))-1)*(math.Abs(m.number(d))-1) < 0 {
				return m.refuse("one factor makes numbers larger and the other smaller, so that x·c may overflow or underflow")
			}
			t := m.get(c).Type
			if !t.DType.IsFloat() || !normal(r, t.DType) || !t.Equal(m.get(d).Type) {
				return nil
			}
			return m.emit(mul, m.get(x), m.likeConstant(m.get(c), r))
		}},
	}
}

// normal reports whether a number keeps its precision in t: it is neither subnormal nor beyond the largest.
func normal(x float64, t tensor.DType) bool {
	lo, hi := 0x1p-126, math.MaxFloat32
	if t == tensor.F16 {
		lo, hi = 0x1p-14, 65504.0
	}
	return math.Abs(x) >= lo && math.Abs(x) <= hi
}

// modest reports whether a factor may move past a sum of products. A sum has no prescribed order, so it may overflow or not by a few
// powers of 2 in any engine. With --exact, a factor from 2⁻²⁴ to 2²⁴ may move the border of overflow by as much, and no other.
func (m *match) modest(factor float64) bool {
	const most = 1 << 24
	f := math.Abs(factor)
	return !m.e.how.exact || f >= 1.0/most && f <= most
}

// likeConstant makes a constant of one element with the type of another.
func (m *match) likeConstant(v *ir.Value, x float64) *ir.Value {
	t := tensor.New(v.Type.DType, v.Const.Shape()...)
	t.SetFloat64(0, x)
	return m.e.constant("", t)
}
