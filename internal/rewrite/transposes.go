package rewrite

import (
	"slices"

	"github.com/rlxc/rlxc/internal/target"
	"github.com/rlxc/rlxc/ir"
)

// transposeRules move transposes after the ops that do not care, as sinkRules do with reshapes: a convolution leaves its
// channels last and the next one wants them there, so what is between two of them meets and cancels.
func transposeRules() []*Rule {
	x, c := value(), value()
	left := node[ir.Transpose](x)
	onLeft, onRight := binary2(left, c), binary2(c, left)
	reduced, cut, repeated := node[ir.Reduce](left), node[ir.Slice](left), node[ir.Expand](left)
	padded := node[ir.Pad](left, optional(c))
	scale, zero := value(), value()
	stored := either(node[ir.Dequantize](left, scale, optional(zero)), node[ir.Quantize](left, scale, optional(zero)))
	softmax := with(node[ir.Softmax](c), func(o ir.Softmax) bool { return !o.Log })
	gain, bias := value(), value()
	norm := node[ir.LayerNorm](left, optional(gain), optional(bias), none())
	joined := with(anyNode(), func(o ir.Op) bool { return o.Kind() == ir.KindConcat })
	perm := func(m *match, p *pattern) []int { return opOf[ir.Transpose](m, p).Perm }
	return []*Rule{
		{Name: "unary.transpose", pattern: either(node[ir.Unary](left), node[ir.Cast](left)), build: func(m *match) *ir.Value {
			return m.transpose(m.emit(m.root.Op, m.get(x)), perm(m, left)...)
		}},
		{Name: "quantize.transpose", pattern: stored, build: func(m *match) *ir.Value {
			p := perm(m, left)
			if len(m.get(scale).Type.Shape) > 0 || !channelsFirst(p) {
				return nil // heads stay where attention looks for them; so do scales along an axis
			}
			return m.transpose(m.emit(m.root.Op, m.get(x), m.get(scale), m.get(zero)), p...)
		}},
		{Name: "dynamic_quantize.transpose", pattern: node[ir.DynamicQuantize](left), build: func(m *match) *ir.Value {
			q := m.emit(m.root.Op, m.get(x))
			for i, old := range m.root.Outputs[1:] {
				m.replace(old, q.Def.Outputs[1+i])
			}
			return m.transpose(q, perm(m, left)...)
		}},
		{Name: "binary.transpose_a", pattern: onLeft, build: func(m *match) *ir.Value {
			v := m.operand(m.get(c), perm(m, left))
			if v == nil {
				return nil
			}
			return m.transpose(m.emit(m.root.Op, m.get(x), v), perm(m, left)...)
		}},
		{Name: "binary.transpose_b", pattern: onRight, build: func(m *match) *ir.Value {
			v := m.operand(m.get(c), perm(m, left))
			if v == nil {
				return nil
			}
			return m.transpose(m.emit(m.root.Op, v, m.get(x)), perm(m, left)...)
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
		{Name: "pad.transpose", pattern: padded, build: func(m *match) *ir.Value {
			o, p := opOf[ir.Pad](m, padded), perm(m, left)
			pad := ir.Pad{Mode: o.Mode, Before: make([]ir.Dim, len(p)), After: make([]ir.Dim, len(p))}
			for i, k := range p {
				pad.Before[k], pad.After[k] = o.Before[i], o.After[i]
			}
			return m.transpose(m.emit(pad, m.get(x), m.get(c)), p...)
		}},
		{Name: "expand.transpose", pattern: repeated, build: func(m *match) *ir.Value {
			to, p := opOf[ir.Expand](m, repeated).Shape, perm(m, left)
			if len(to) != len(p) {
				return nil
			}
			shape := make(ir.Shape, len(p))
			for i, k := range p {
				shape[k] = to[i]
			}
			return m.transpose(m.emit(ir.Expand{Shape: shape}, m.get(x)), p...)
		}},
		{Name: "layernorm.transpose", pattern: norm, build: func(m *match) *ir.Value {
			o, p := opOf[ir.LayerNorm](m, norm), perm(m, left)
			for i := len(p) - o.Axes; i < len(p); i++ {
				if p[i] != i {
					return nil
				}
			}
			if o.Sum {
				return nil
			}
			return m.transpose(m.emit(o, m.get(x), m.get(gain), m.get(bias)), p...)
		}},
		{Name: "softmax.axis", pattern: softmax, build: func(m *match) *ir.Value {
			axis, n := opOf[ir.Softmax](m, softmax).Axis, len(m.get(c).Type.Shape)
			if axis == n-1 || m.e.t != nil && m.e.t.Where(m.root) == target.OnKernel {
				return nil
			}
			var there []int // the axis comes last
			back := make([]int, n)
			for i := range n {
				if i != axis {
					back[i] = len(there)
					there = append(there, i)
				}
			}
			back[axis] = n - 1
			return m.transpose(m.emit(ir.Softmax{Axis: n - 1}, m.transpose(m.get(c), append(there, axis)...)), back...)
		}},
		{Name: "concat.transposes", pattern: joined, build: func(m *match) *ir.Value {
			first := slices.IndexFunc(m.root.Inputs, func(v *ir.Value) bool { return v.Def != nil && v.Def.Op.Kind() == ir.KindTranspose })
			if first < 0 {
				return nil
			}
			p := m.root.Inputs[first].Def.Op.(ir.Transpose).Perm
			parts := make([]*ir.Value, len(m.root.Inputs))
			for i, v := range m.root.Inputs {
				if parts[i] = m.untransposed(v, p); parts[i] == nil {
					return nil
				}
			}
			return m.transpose(m.emit(ir.Concat{Axis: p[m.root.Op.(ir.Concat).Axis]}, parts...), p...)
		}},
	}
}

// channelsFirst reports whether a transpose moves the last axis of an image in front of its spatial axes.
func channelsFirst(perm []int) bool {
	n := len(perm)
	return n >= 4 && perm[1] == n-1 && slices.IsSorted(append(perm[:1:1], perm[2:]...))
}

// operand returns v as it must be combined with what perm transposes afterwards, or nil.
func (m *match) operand(v *ir.Value, perm []int) *ir.Value {
	if u := m.untransposed(v, perm); u != nil {
		return u
	}
	return m.before(v, perm)
}

// before returns an operand as it must be combined with what perm transposes afterwards: one whose axes longer than 1 keep their
// order, such as what varies along one axis at most; nil for any other value, and for known scalar factors but those of images, which go
// the other way.
func (m *match) before(v *ir.Value, perm []int) *ir.Value {
	s := v.Type.Shape
	if len(s) > len(perm) {
		return nil
	}
	wide := slices.Repeat(ir.Shape{ir.N(1)}, len(perm))
	last, ordered := -1, true
	for i, d := range s {
		to := perm[len(perm)-len(s)+i]
		if !d.Is(1) {
			last, ordered = max(last, to), ordered && to > last
		}
		wide[to] = d
	}
	switch {
	case !ordered || last < 0 && v.IsConst() && m.root.Op == ir.Op(ir.Binary{Fn: ir.Mul}) && !channelsFirst(perm):
		return nil
	case last < 0:
		return v
	}
	return m.reshape(v, wide)
}

// untransposed returns the value of which v, of as many axes as perm, is the transpose; nil if there is none. v may join axes afterwards,
// as an image does that was made larger by repeating its pixels, or split them, as one does that was a row of pixels.
func (m *match) untransposed(v *ir.Value, perm []int) *ir.Value {
	if v.Def == nil || len(v.Type.Shape) != len(perm) {
		return nil
	}
	switch o := v.Def.Op.(type) {
	case ir.Transpose:
		if slices.Equal(o.Perm, perm) {
			return v.Def.Inputs[0]
		}
	case ir.Reshape:
		inner := v.Def.Inputs[0]
		if inner.Def == nil {
			return nil
		}
		if t, ok := inner.Def.Op.(ir.Transpose); ok && regrouped(t.Perm, inner.Type.Shape, perm, v.Type.Shape) {
			shape := make(ir.Shape, len(perm))
			for i, p := range perm {
				shape[p] = v.Type.Shape[i]
			}
			return m.reshape(inner.Def.Inputs[0], shape)
		}
	}
	return nil
}

// regrouped reports whether a transpose by inner, whose result has shape from, and a reshape to shape to that joins neighbouring axes or
// splits them are a reshape and a transpose by outer.
func regrouped(inner []int, from ir.Shape, outer []int, to ir.Shape) bool {
	few, many := inner, outer // permutations of the joined axes, and of the axes into which they are split
	groups, ok := merged(to, from)
	if !ok {
		few, many = outer, inner
		groups, ok = merged(from, to)
	}
	if !ok {
		return false
	}
	next := 0
	for axis := range few { // before the transposes
		for _, a := range groups[slices.Index(few, axis)] {
			if many[a] != next {
				return false
			}
			next++
		}
	}
	return true
}
