package rewrite

import (
	"slices"

	"github.com/rlxc/rlxc/ir"
)

// transposeRules move transposes after the ops that do not care, as sinkRules do with reshapes: a convolution leaves its
// channels last and the next one wants them there, so what stands between two of them meets and cancels.
func transposeRules() []*Rule {
	x, y, c := value(), value(), value()
	left, right := node[ir.Transpose](x), node[ir.Transpose](y)
	onLeft, onRight := binary2(left, c), binary2(c, right)
	reduced, cut := node[ir.Reduce](left), node[ir.Slice](left)
	joined := with(anyNode(), func(o ir.Op) bool { return o.Kind() == ir.KindConcat })
	perm := func(m *match, p *pattern) []int { return opOf[ir.Transpose](m, p).Perm }
	return []*Rule{
		{Name: "unary.transpose", pattern: either(node[ir.Unary](left), node[ir.Cast](left)), build: func(m *match) *ir.Value {
			return m.transpose(m.emit(m.root.Op, m.get(x)), perm(m, left)...)
		}},
		{Name: "binary.transposes", pattern: binary2(left, right), build: func(m *match) *ir.Value {
			if !slices.Equal(perm(m, left), perm(m, right)) {
				return nil
			}
			return m.transpose(m.emit(m.root.Op, m.get(x), m.get(y)), perm(m, left)...)
		}},
		{Name: "binary.transpose_a", pattern: onLeft, build: func(m *match) *ir.Value {
			v := m.before(m.get(c), perm(m, left))
			if v == nil {
				return nil
			}
			return m.transpose(m.emit(m.root.Op, m.get(x), v), perm(m, left)...)
		}},
		{Name: "binary.transpose_b", pattern: onRight, build: func(m *match) *ir.Value {
			v := m.before(m.get(c), perm(m, right))
			if v == nil {
				return nil
			}
			return m.transpose(m.emit(m.root.Op, v, m.get(y)), perm(m, right)...)
		}},
		{Name: "reduce.transpose", pattern: reduced, build: func(m *match) *ir.Value {
			o := opOf[ir.Reduce](m, reduced)
			if !o.KeepDims {
				return nil
			}
			axes := make([]int, len(o.Axes))
			for i, a := range o.Axes {
				axes[i] = perm(m, left)[a]
			}
			slices.Sort(axes)
			o.Axes = axes
			return m.transpose(m.emit(o, m.get(x)), perm(m, left)...)
		}},
		{Name: "slice.transpose", pattern: cut, build: func(m *match) *ir.Value {
			o, p := opOf[ir.Slice](m, cut), perm(m, left)
			s := ir.Slice{Starts: make([]ir.Dim, len(p)), Sizes: make([]ir.Dim, len(p)), Steps: make([]int, len(p))}
			for i, k := range p {
				s.Starts[k], s.Sizes[k], s.Steps[k] = o.Starts[i], o.Sizes[i], o.Steps[i]
			}
			return m.transpose(m.emit(s, m.get(x)), p...)
		}},
		{Name: "concat.transposes", pattern: joined, build: func(m *match) *ir.Value {
			var p []int
			parts := make([]*ir.Value, len(m.root.Inputs))
			for i, v := range m.root.Inputs {
				if v.Def == nil {
					return nil
				}
				o, ok := v.Def.Op.(ir.Transpose)
				if !ok || p != nil && !slices.Equal(o.Perm, p) {
					return nil
				}
				p, parts[i] = o.Perm, v.Def.Inputs[0]
			}
			return m.transpose(m.emit(ir.Concat{Axis: p[m.root.Op.(ir.Concat).Axis]}, parts...), p...)
		}},
	}
}

// before returns a constant that varies along one axis at most as it must be combined with what perm transposes afterwards;
// nil for any other value, and for scalar factors, which go the other way.
func (m *match) before(v *ir.Value, perm []int) *ir.Value {
	s := v.Type.Shape
	if !v.IsConst() || len(s) > len(perm) {
		return nil
	}
	wide := slices.Repeat(ir.Shape{ir.N(1)}, len(perm))
	long := 0
	for i, d := range s {
		if !d.Is(1) {
			long++
		}
		wide[perm[len(perm)-len(s)+i]] = d
	}
	if long > 1 || long == 0 && m.root.Op == ir.Op(ir.Binary{Fn: ir.Mul}) {
		return nil
	}
	if long == 0 {
		return v
	}
	return m.reshape(v, wide)
}
