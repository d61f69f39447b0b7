package rewrite

import (
	"github.com/rlxc/rlxc/internal/target"
	"github.com/rlxc/rlxc/ir"
)

// epilogueRules put what follows a product with a weight into its epilogue, in the order in which it runs there: scale,
// bias, activation, residual. They go last, since attention and QKV look for the parts.
func epilogueRules() []*Rule {
	a, b, bias, residual, c := value(), value(), value(), value(), scalar()
	bare := byWeight(linear(matmul(a, b, nil, nil)))
	unactivated := byWeight(linear(matmul(a, b, optional(bias), nil)))
	activated := node[ir.Unary](unactivated)
	alone := byWeight(matmul(a, b, optional(bias), nil))
	x, y, scale, shift := value(), value(), value(), value()
	add := binary(ir.Add, x, y).replaced()
	norm := with(node[ir.LayerNorm](add, optional(scale), optional(shift), none()), func(o ir.LayerNorm) bool { return !o.Sum })
	return []*Rule{
		{Name: "matmul.alpha", changes: Rounding, pattern: binary(ir.Mul, bare, c), build: func(m *match) *ir.Value {
			o, ok := opOf[ir.MatMul](m, bare), false
			if o.Alpha, ok = m.parameter(float64(o.Scale()) * m.number(c)); !ok {
				return nil
			}
			return m.emit(o, m.get(a), m.get(b))
		}},
		{Name: "matmul.activation", changes: Rounding, pattern: activated, build: func(m *match) *ir.Value {
			o, u := opOf[ir.MatMul](m, unactivated), opOf[ir.Unary](m, activated)
			if u.Real() == nil || u.Fn.HasStep() {
				return nil
			}
			o.Act, o.ActAlpha, o.ActBeta = u.Fn, u.Alpha, u.Beta
			v := m.emit(o, m.get(a), m.get(b), m.get(bias))
			if _, plain := epilogue(u); !plain && m.e.t != nil && m.e.t.Where(v.Def) != target.OnKernel {
				return nil
			}
			return v
		}},
		{Name: "matmul.residual", pattern: binary(ir.Add, alone, residual), build: func(m *match) *ir.Value {
			if !m.get(residual).Type.Equal(m.get(alone).Type) {
				return nil
			}
			return m.emit(opOf[ir.MatMul](m, alone), m.get(a), m.get(b), m.get(bias), m.get(residual))
		}},
		// A sum that no product took: the norm makes it, and returns it to what reads it besides.
		{Name: "layernorm.residual", changes: Rounding, pattern: norm, build: func(m *match) *ir.Value {
			if !m.get(x).Type.Equal(m.get(y).Type) {
				return nil
			}
			o := opOf[ir.LayerNorm](m, norm)
			o.Sum = len(m.get(add).Uses) > 1 || m.e.outputs[m.get(add)]
			v := m.emit(o, m.get(x), m.get(scale), m.get(shift), m.get(y))
			if o.Sum {
				m.replace(m.get(add), v.Def.Outputs[1])
			}
			return v
		}},
	}
}

// epilogue is the function that a product may apply to its sums, if it has no parameters.
func epilogue(u ir.Unary) (ir.UnaryFn, bool) {
	return u.Fn, u.Fn.IsEpilogue() && u == (ir.Unary{Fn: u.Fn})
}
