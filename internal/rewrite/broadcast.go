package rewrite

import (
	"slices"

	"github.com/rlxc/rlxc/ir"
	"github.com/rlxc/rlxc/tensor"
)

// broadcastRules move stretching after the ops that broadcast anyway: computing comes first, on the small tensor, and most
// expands end at an op that needs none.
func broadcastRules() []*Rule {
	elementwise := anyNode().when("an elementwise op on a stretched operand", func(m *match, v *ir.Value) bool {
		return m.root.Op.Kind().Has(ir.Elementwise) && slices.ContainsFunc(m.root.Inputs, stretched)
	})
	x := value()
	expand := node[ir.Expand](x)
	transpose, reshape := node[ir.Transpose](expand), node[ir.Reshape](expand)
	q, k, v := value(), value(), value()
	attention := node[ir.Attention](q, k, v, expand)
	return []*Rule{
		{Name: "elementwise.expand", pattern: elementwise, build: func(m *match) *ir.Value {
			in := slices.Clone(m.root.Inputs)
			for i, v := range in {
				switch {
				case !stretched(v):
				case v.Const != nil:
					in[i] = m.e.constant(v.Name, uniformOf(v, 1))
				default:
					in[i] = v.Def.Inputs[0]
				}
			}
			return m.expand(m.emit(m.root.Op, in...), m.root.Outputs[0].Type.Shape)
		}},
		{Name: "transpose.expand", pattern: transpose, build: func(m *match) *ir.Value {
			perm, s := opOf[ir.Transpose](m, transpose).Perm, m.get(x).Type.Shape
			for len(s) < len(perm) {
				s = append(ir.Shape{ir.N(1)}, s...)
			}
			return m.expand(m.transpose(m.reshape(m.get(x), s), perm...), m.root.Outputs[0].Type.Shape)
		}},
		{Name: "reshape.expand", pattern: reshape, build: func(m *match) *ir.Value {
			from, to, small := m.get(expand).Type.Shape, m.root.Outputs[0].Type.Shape, m.get(x).Type.Shape
			axes, ok := sameAxes(from, to)
			if !ok {
				return nil
			}
			s := make(ir.Shape, len(to))
			for i, k := range axes {
				s[i] = ir.N(1)
				if k -= len(from) - len(small); axes[i] >= 0 && k >= 0 {
					s[i] = small[k]
				}
			}
			return m.expand(m.reshape(m.get(x), s), to)
		}},
		{Name: "attention.expand", pattern: attention, build: func(m *match) *ir.Value {
			return m.emit(m.root.Op, m.get(q), m.get(k), m.get(v), m.get(x))
		}},
	}
}

// stretched reports whether v is something smaller, repeated: an Expand, or a constant mask that is the same everywhere.
func stretched(v *ir.Value) bool {
	switch {
	case v == nil:
		return false
	case v.Const != nil:
		return v.Type.DType == tensor.Bool && v.Const.Len() > 1 && uniformOf(v, 1) != nil
	}
	return v.Def != nil && v.Def.Op.Kind() == ir.KindExpand
}
