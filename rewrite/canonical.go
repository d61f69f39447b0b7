package rewrite

import (
	"math"

	"github.com/rlxc/rlxc/ir"
	"github.com/rlxc/rlxc/tensor"
)

// canonicalRules leave one spelling of what exporters write in several, so that the patterns behind them need only know
// that one: squares and cubes are products, roots are sqrt, x · 1/y is x / y, division by a constant is a product, and
// clipping is max and min.
func canonicalRules() []*Rule {
	x, y, c, d := value(), value(), scalar(), scalar()
	power := func(name string, n float64, build func(m *match, x *ir.Value) *ir.Value) *Rule {
		p := binary(ir.Pow, x, number(n))
		return &Rule{Name: name, pattern: p, build: func(m *match) *ir.Value {
			if !m.get(x).Type.DType.IsFloat() {
				return nil
			}
			return build(m, m.get(x))
		}}
	}
	apply := func(fn ir.UnaryFn) func(m *match, x *ir.Value) *ir.Value {
		return func(m *match, x *ir.Value) *ir.Value { return m.emit(ir.Unary{Fn: fn}, x) }
	}
	mul, div := ir.Binary{Fn: ir.Mul}, ir.Binary{Fn: ir.Div}
	by := binary(ir.Div, x, c)
	twice := binary(ir.Mul, binary(ir.Mul, x, c), d)
	logistic := unary(ir.Reciprocal, sum(unary(ir.Exp, unary(ir.Neg, x)), number(1)))
	lo, hi := value(), value()
	wide := node[ir.Cast](x)
	counted := node[ir.CumSum](wide)
	narrow := with(node[ir.Cast](counted), func(o ir.Cast) bool { return o.To == tensor.I32 })
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
		{Name: "sigmoid", pattern: logistic, build: func(m *match) *ir.Value { return apply(ir.Sigmoid)(m, m.get(x)) }},
		power("pow.2", 2, func(m *match, x *ir.Value) *ir.Value { return m.emit(mul, x, x) }),
		power("pow.3", 3, func(m *match, x *ir.Value) *ir.Value { return m.emit(mul, x, m.emit(mul, x, x)) }),
		power("pow.1/2", 0.5, apply(ir.Sqrt)),
		power("pow.-1/2", -0.5, func(m *match, x *ir.Value) *ir.Value {
			return m.emit(ir.Unary{Fn: ir.Reciprocal}, m.emit(ir.Unary{Fn: ir.Sqrt}, x))
		}),
		power("pow.-1", -1, apply(ir.Reciprocal)),
		{Name: "div.reciprocal", pattern: binary(ir.Div, number(1), x), build: func(m *match) *ir.Value {
			if !m.get(x).Type.DType.IsFloat() {
				return nil
			}
			return m.emit(ir.Unary{Fn: ir.Reciprocal}, m.get(x))
		}},
		{Name: "mul.reciprocal", pattern: binary(ir.Mul, x, unary(ir.Reciprocal, y)), build: func(m *match) *ir.Value {
			return m.emit(div, m.get(x), m.get(y))
		}},
		{Name: "div.constant", pattern: by, build: func(m *match) *ir.Value {
			r := 1 / m.number(c)
			t := m.get(c).Type.DType
			if !t.IsFloat() || !normal(r, t) || !normal(m.number(c), t) {
				return nil
			}
			return m.emit(mul, m.get(x), m.likeConstant(m.get(c), r))
		}},
		{Name: "mul.mul", pattern: twice, build: func(m *match) *ir.Value {
			r := m.number(c) * m.number(d)
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

// likeConstant makes a constant of one element with the type of another.
func (m *match) likeConstant(v *ir.Value, x float64) *ir.Value {
	t := tensor.New(v.Type.DType, v.Const.Shape()...)
	t.SetFloat64(0, x)
	return m.e.g.NewConst("", t)
}
