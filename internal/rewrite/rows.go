package rewrite

import (
	"slices"

	"github.com/rlxc/rlxc/ir"
)

// rowRules compute only the rows that are read: a slice of rows, such as the first token that a pooler or a classifier
// takes, moves in front of what computes each row separately. Before the last layer's attention it stops at the queries;
// keys and values are needed whole.
func rowRules() []*Rule {
	a, b, c := value(), value(), value()
	sliceOf := func(p *pattern) *pattern {
		s := node[ir.Slice](p)
		return s.when("whole rows", func(_ *match, v *ir.Value) bool {
			o, from := v.Def.Op.(ir.Slice), v.Def.Inputs[0].Type.Shape
			last := len(from) - 1
			return last > 0 && takesAll(o, last, from[last])
		})
	}
	each, two := either(node[ir.Unary](a), node[ir.Cast](a)), binary2(a, b)
	norm := node[ir.LayerNorm](a, optional(b), optional(c), none())
	linear := byWeight(matmul(a, b, optional(c), nil))
	joined := node[ir.Reshape](a)
	mask := value()
	attention := node[ir.Attention](a, b, c, optional(mask))
	return []*Rule{
		{Name: "rows.unary", pattern: sliceOf(each), build: func(m *match) *ir.Value {
			return m.emit(m.get(each).Def.Op, m.emit(m.root.Op, m.get(a)))
		}},
		{Name: "rows.binary", pattern: sliceOf(two), build: func(m *match) *ir.Value {
			x, y := m.rows(m.get(a), m.get(two)), m.rows(m.get(b), m.get(two))
			if x == nil || y == nil {
				return nil
			}
			return m.emit(m.get(two).Def.Op, x, y)
		}},
		{Name: "rows.layernorm", pattern: sliceOf(norm), build: func(m *match) *ir.Value {
			o, s := opOf[ir.LayerNorm](m, norm), m.root.Op.(ir.Slice)
			from := m.get(a).Type.Shape
			for i := len(from) - o.Axes; i < len(from); i++ {
				if !takesAll(s, i, from[i]) {
					return nil
				}
			}
			if o.Sum {
				return nil
			}
			return m.emit(o, m.emit(s, m.get(a)), m.get(b), m.get(c))
		}},
		{Name: "rows.matmul", pattern: sliceOf(linear), build: func(m *match) *ir.Value {
			s := m.root.Op.(ir.Slice)
			s.Sizes = append(slices.Clone(s.Sizes[:len(s.Sizes)-1]), last(m.get(a).Type.Shape))
			return m.emit(m.get(linear).Def.Op, m.emit(s, m.get(a)), m.get(b), m.get(c))
		}},
		{Name: "rows.reshape", pattern: sliceOf(joined), build: func(m *match) *ir.Value {
			s, from := m.root.Op.(ir.Slice), m.get(a).Type.Shape
			to := m.get(joined).Type.Shape
			same, ok := remainingAxes(from, to)
			if !ok {
				return nil
			}
			o := ir.Slice{Sizes: slices.Clone(from)}
			for range from {
				o.Starts, o.Steps = append(o.Starts, ir.Dim{}), append(o.Steps, 1)
			}
			for i, k := range same {
				switch {
				case k >= 0:
					o.Starts[k], o.Sizes[k], o.Steps[k] = s.Starts[i], s.Sizes[i], s.Steps[i]
				case !takesAll(s, i, to[i]):
					return nil // what the reshape joins or splits is read whole
				}
			}
			return m.reshape(m.emit(o, m.get(a)), s.Sizes)
		}},
		{Name: "rows.attention", pattern: sliceOf(attention), build: func(m *match) *ir.Value {
			o, s := opOf[ir.Attention](m, attention), m.root.Op.(ir.Slice)
			from := m.get(attention).Type.Shape
			if o.Causal || o.Window > 0 || !takesAll(s, 0, from[0]) || !takesAll(s, 2, from[2]) {
				return nil
			}
			if v := m.get(mask); v != nil && len(v.Type.Shape) > 1 && !v.Type.Shape[len(v.Type.Shape)-2].Is(1) {
				return m.refuse("the mask differs from query to query")
			}
			s.Sizes = append(slices.Clone(s.Sizes[:3]), last(m.get(a).Type.Shape))
			return m.emit(o, m.emit(s, m.get(a)), m.get(b), m.get(c), m.get(mask))
		}},
	}
}

// takesAll reports whether a slice takes all d elements of an axis in their order.
func takesAll(o ir.Slice, axis int, d ir.Dim) bool {
	return o.Starts[axis].Is(0) && o.Sizes[axis].Equal(d) && o.Steps[axis] == 1
}

// remainingAxes returns, for a reshape that only joins or only splits neighbouring axes, the axis of from that each axis of to is, −1
// for the others.
func remainingAxes(from, to ir.Shape) (axes []int, ok bool) {
	axes = slices.Repeat([]int{-1}, len(to))
	if groups, ok := merged(from, to); ok {
		for i, g := range groups {
			if len(g) == 1 {
				axes[i] = g[0]
			}
		}
		return axes, true
	}
	groups, ok := merged(to, from)
	for k, g := range groups {
		if len(g) == 1 {
			axes[g[0]] = k
		}
	}
	return axes, ok
}

// rows slices an operand of a broadcasting op as the root slices its result; axes that it does not have, or of which it
// has one element for all, stay. It returns nil where that is not known.
func (m *match) rows(v, result *ir.Value) *ir.Value {
	s, from, own := m.root.Op.(ir.Slice), result.Type.Shape, v.Type.Shape
	skip := len(from) - len(own)
	o := ir.Slice{Sizes: slices.Clone(own)}
	whole := true
	for i, d := range own {
		o.Starts, o.Steps = append(o.Starts, ir.Dim{}), append(o.Steps, 1)
		switch {
		case takesAll(s, skip+i, from[skip+i]) || d.Is(1):
		case !d.Equal(from[skip+i]):
			return nil
		default:
			o.Starts[i], o.Sizes[i], o.Steps[i] = s.Starts[skip+i], s.Sizes[skip+i], s.Steps[skip+i]
			whole = false
		}
	}
	if whole {
		return v
	}
	return m.emit(o, v)
}
