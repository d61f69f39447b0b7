package rewrite

import (
	"slices"

	"github.com/rlxc/rlxc/ir"
)

// sinkRules move reshapes after the ops that do not care, where they meet other reshapes and vanish, so that they are not
// between the ops that fuse.
func sinkRules() []*Rule { return slices.Concat(sinkElements(), sinkRows(), sinkMatrices()) }

// asRoot returns v, computed without the reshape, in the shape of the root.
func (m *match) asRoot(v *ir.Value) *ir.Value { return m.reshape(v, m.root.Outputs[0].Type.Shape) }

// sinkElements are the rules of ops that look at elements.
func sinkElements() []*Rule {
	x, y, c := value(), value(), value()
	left, right := node[ir.Reshape](x), node[ir.Reshape](y)
	inA, inB := binary2(left, y), binary2(y, left)
	back := node[ir.Reshape](either(inA, inB))
	return []*Rule{
		{Name: "unary.reshape", pattern: either(node[ir.Unary](left), node[ir.Cast](left)), build: func(m *match) *ir.Value {
			return m.asRoot(m.emit(m.root.Op, m.get(x)))
		}},
		{Name: "binary.reshapes", pattern: binary2(left, right), build: func(m *match) *ir.Value {
			if !m.get(x).Type.Shape.Equal(m.get(y).Type.Shape) || !m.get(left).Type.Shape.Equal(m.get(right).Type.Shape) {
				return nil
			}
			return m.asRoot(m.emit(m.root.Op, m.get(x), m.get(y)))
		}},
		{Name: "binary.reshape_a", pattern: binary2(left, c), build: func(m *match) *ir.Value {
			v := m.beneath(m.get(x), m.get(c), m.get(left))
			if v == nil {
				return nil
			}
			return m.asRoot(m.emit(m.root.Op, m.get(x), v))
		}},
		{Name: "binary.reshape_b", pattern: binary2(c, right), build: func(m *match) *ir.Value {
			v := m.beneath(m.get(y), m.get(c), m.get(right))
			if v == nil {
				return nil
			}
			return m.asRoot(m.emit(m.root.Op, v, m.get(y)))
		}},
		{Name: "reshape.binary", pattern: back, build: func(m *match) *ir.Value {
			to := m.get(back).Type.Shape // the op needed another shape only for its other operand
			if !m.get(x).Type.Shape.Equal(to) || !m.get(y).Type.Shape.Equal(m.get(left).Type.Shape) {
				return nil
			}
			other := m.reshape(m.get(y), to)
			if m.has(inA) {
				return m.emit(m.get(inA).Def.Op, m.get(x), other)
			}
			return m.emit(m.get(inB).Def.Op, other, m.get(x))
		}},
	}
}

// beneath returns v for a binary op of x where the root has one of x's reshape and v; nil where it would be another. A number is the same,
// and so is a vector along a last axis that the reshape does not touch. A constant that varies only along axes that x's reshape does not
// join may follow a transpose, which has to meet the next one. Scalar factors go the other way, towards Alpha of a product.
func (m *match) beneath(x, v, reshaped *ir.Value) *ir.Value {
	from, to, s := x.Type.Shape, reshaped.Type.Shape, v.Type.Shape
	number, isNumber := numberOf(v)
	switch {
	case isNumber && m.root.Op == ir.Op(ir.Binary{Fn: ir.Mul}):
		return nil
	case isNumber && number == number && len(s) == 0:
		return v
	case len(s) == 1 && len(from) > 0 && len(to) > 0 && last(from).Equal(last(to)) && s[0].Equal(last(to)):
		return v
	}
	groups, joins := merged(from, to)
	if !joins || v.Const == nil || len(s) > len(to) || x.Def == nil || x.Def.Op.Kind() != ir.KindTranspose {
		return nil
	}
	var shape ir.Shape
	for i, d := range s {
		group := groups[len(to)-len(s)+i]
		switch {
		case len(group) != 1 && !d.Is(1):
			return nil
		case len(group) == 0: // an axis that the reshape adds
			continue
		}
		shape = append(append(shape, d), slices.Repeat(ir.Shape{ir.N(1)}, len(group)-1)...)
	}
	return m.reshape(v, shape)
}

// sinkRows are the rules of ops that look at rows.
func sinkRows() []*Rule {
	x, c, y := value(), value(), value()
	left := node[ir.Reshape](x)
	norm := node[ir.LayerNorm](left, optional(c), optional(y), none())
	softmax := node[ir.Softmax](left)
	return []*Rule{
		{Name: "layernorm.reshape", pattern: norm, build: func(m *match) *ir.Value {
			o := opOf[ir.LayerNorm](m, norm)
			from, to := m.get(x).Type.Shape, m.get(left).Type.Shape
			if o.Sum || len(from) <= o.Axes || !from[len(from)-o.Axes:].Equal(to[len(to)-o.Axes:]) {
				return nil
			}
			return m.asRoot(m.emit(o, m.get(x), m.get(c), m.get(y)))
		}},
		{Name: "softmax.reshape", pattern: softmax, build: func(m *match) *ir.Value {
			o := opOf[ir.Softmax](m, softmax)
			from, to := m.get(x).Type.Shape, m.get(left).Type.Shape
			if o.Axis != len(to)-1 || len(from) == 0 || !last(from).Equal(last(to)) {
				return nil
			}
			o.Axis = len(from) - 1
			return m.asRoot(m.emit(o, m.get(x)))
		}},
	}
}

// sinkMatrices are the rules of ops that look at two axes or more.
func sinkMatrices() []*Rule {
	x, y := value(), value()
	left, right := node[ir.Reshape](x), node[ir.Reshape](y)
	transposed := node[ir.Transpose](left)
	return []*Rule{
		{Name: "matmul.batches", pattern: node[ir.MatMul](left, right), build: func(m *match) *ir.Value {
			a, b := m.get(x).Type.Shape, m.get(y).Type.Shape
			if len(a) != len(b) || len(a) < 3 || !a[:len(a)-2].Equal(b[:len(b)-2]) || len(m.get(right).Type.Shape) < 3 ||
				!keepsLast(a, m.get(left).Type.Shape, 2) || !keepsLast(b, m.get(right).Type.Shape, 2) {
				return nil
			}
			return m.asRoot(m.emit(m.root.Op, m.get(x), m.get(y)))
		}},
		{Name: "transpose.merged", pattern: transposed, build: func(m *match) *ir.Value {
			groups, ok := merged(m.get(x).Type.Shape, m.get(left).Type.Shape)
			if !ok {
				return nil
			}
			var perm []int
			for _, p := range opOf[ir.Transpose](m, transposed).Perm {
				perm = append(perm, groups[p]...)
			}
			return m.asRoot(m.transpose(m.get(x), perm...))
		}},
	}
}

func last[S ~[]ir.Dim](s S) ir.Dim { return s[len(s)-1] }

func keepsLast(a, b ir.Shape, n int) bool {
	return len(a) >= n && len(b) >= n && a[len(a)-n:].Equal(b[len(b)-n:])
}

// binary2 is any binary op with these operands in this order.
func binary2(a, b *pattern) *pattern { return node[ir.Binary](a, b) }

// merged returns, for a reshape that only joins neighbouring axes, the axes of from that each axis of to joins.
func merged(from, to ir.Shape) (groups [][]int, ok bool) {
	i := 0
	for _, d := range to {
		size, group := ir.N(1), []int{}
		for i < len(from) && (len(group) == 0 || !size.Equal(d)) {
			size = size.Mul(from[i])
			group = append(group, i)
			i++
		}
		if !size.Equal(d) {
			return nil, false
		}
		groups = append(groups, group)
	}
	for ; i < len(from); i++ {
		if !from[i].Is(1) || len(groups) == 0 {
			return nil, false
		}
		groups[len(groups)-1] = append(groups[len(groups)-1], i)
	}
	return groups, true
}

// take returns size elements of an axis.
func (m *match) take(v *ir.Value, axis int, start, size ir.Dim) *ir.Value {
	s := v.Type.Shape
	o := ir.Slice{Starts: make([]ir.Dim, len(s)), Sizes: slices.Clone(s), Steps: slices.Repeat([]int{1}, len(s))}
	o.Starts[axis], o.Sizes[axis] = start, size
	return m.emit(o, v)
}
