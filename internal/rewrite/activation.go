package rewrite

import (
	"math"

	"github.com/rlxc/rlxc/internal/target"
	"github.com/rlxc/rlxc/ir"
	"github.com/rlxc/rlxc/tensor"
)

// activationRules find activations that exporters write out. All operands of a product or sum may be in any order.
func activationRules() []*Rule {
	x, c := value(), scalar()
	becomes := func(name string, changes Change, op ir.Unary, p *pattern) *Rule {
		return &Rule{Name: name, changes: changes, pattern: p, near: 4, build: func(m *match) *ir.Value { return m.emit(op, m.get(x)) }}
	}
	// half is x/2 · (1 + s).
	half := func(s *pattern) *pattern { return product(x, number(0.5), sum(s, number(1))) }
	// The argument of the tanh approximation is sqrt(2/π) · (x + 0.044715·x³), or with x in front.
	outer, inner := math.Sqrt(2/math.Pi), 0.044715
	swish := product(x, unary(ir.Sigmoid, product(x, c)))
	low, high := scalar(), scalar()
	clamped := between(x, low, high)
	// The hard functions clamp x + 3 between 0 and 6.
	shifted := sum(x, number(3))
	clampedUnary := with(unary(ir.Clamp, shifted), func(o ir.Unary) bool { return o.Alpha == 0 && o.Beta == 6 })
	hard := either(clampedUnary, between(shifted, number(0), number(6)))
	isHard := func(o ir.Unary) bool { return near(float64(o.Alpha), 1.0/6, tensor.F32) && o.Beta == 0.5 }
	gate := with(unary(ir.HardSigmoid, x), isHard)
	return []*Rule{
		{Name: "clamp", pattern: clamped, build: func(m *match) *ir.Value {
			least, most := 0.0, m.number(high)
			if m.has(low) {
				least = m.number(low)
			}
			op := ir.Unary{Fn: ir.Clamp, Alpha: float32(least), Beta: float32(most)}
			bounds := least <= most && float64(op.Alpha) == least && float64(op.Beta) == most && !math.IsInf(most-least, 0)
			if !bounds || !m.get(x).Type.DType.IsFloat() || !m.get(x).Type.Equal(m.root.Outputs[0].Type) {
				return nil
			}
			v := m.emit(op, m.get(x))
			if m.e.t != nil && m.e.t.Where(v.Def) != target.OnKernel {
				return nil
			}
			return v
		}},
		becomes("relu", Exact, ir.Unary{Fn: ir.Relu}, binary(ir.MaxFn, x, number(0))),
		becomes("gelu", Rounding, ir.Unary{Fn: ir.Gelu}, half(unary(ir.Erf, product(x, number(math.Sqrt(0.5)))))),
		becomes("gelu.tanh", Rounding, ir.Unary{Fn: ir.GeluTanh}, half(unary(ir.Tanh, either(
			product(number(outer), sum(x, product(x, x, x, number(inner)))),
			product(number(outer), x, sum(number(1), product(x, x, number(inner)))),
			sum(product(number(outer), x), product(x, x, x, number(outer*inner))),
		)))),
		becomes("hard_swish", Rounding, ir.Unary{Fn: ir.HardSwish}, either(product(x, hard, number(1.0/6)), product(x, gate))),
		{Name: "hard_sigmoid", changes: Rounding, pattern: product(hard, number(1.0/6)), near: 3, build: func(m *match) *ir.Value {
			alpha, ok := m.parameter(1.0 / 6)
			if !ok {
				return nil
			}
			return m.emit(ir.Unary{Fn: ir.HardSigmoid, Alpha: alpha, Beta: 0.5}, m.get(x))
		}},
		becomes("silu", Rounding, ir.Unary{Fn: ir.Silu, Alpha: 1}, product(x, unary(ir.Sigmoid, x))),
		{Name: "gelu.sigmoid", changes: Rounding, pattern: swish, build: func(m *match) *ir.Value {
			alpha, ok := m.parameter(m.number(c))
			if !ok {
				return nil
			}
			return m.emit(ir.Unary{Fn: ir.Silu, Alpha: alpha}, m.get(x))
		}},
	}
}

// between is x with a lower and an upper bound, in any order. A bound of 0 may be a Relu.
func between(x, low, high *pattern) *pattern {
	below, above := either(unary(ir.Relu, x), binary(ir.MaxFn, x, low)), binary(ir.MinFn, x, high)
	return either(binary(ir.MinFn, below, high), binary(ir.MaxFn, above, low), unary(ir.Relu, above))
}
