package rewrite

import (
	"slices"

	"github.com/rlxc/rlxc/ir"
)

// sinkRules move reshapes behind the ops that do not care, where they meet other reshapes and vanish, and so do not stand
// between the ops that fuse.
func sinkRules() []*Rule {
	x, y, c := value(), value(), value()
	left, right := node[ir.Reshape](x), node[ir.Reshape](y)
	onRight := binary2(c, right)
	onLeft, both := binary2(left, c), binary2(left, right)
	norm := node[ir.LayerNorm](left, optional(c), optional(y), none())
	softmax := node[ir.Softmax](left)
	heads := node[ir.MatMul](left, right)
	transposed := node[ir.Transpose](left)
	inA, inB := binary2(left, y), binary2(y, left)
	back := node[ir.Reshape](either(inA, inB))

	behind := func(m *match, v *ir.Value) *ir.Value { return m.reshape(v, m.root.Outputs[0].Type.Shape) }
	// vector sinks a reshape below a binary op with an operand that only varies along an untouched last axis. Scalar
	// factors go the other way, towards Alpha of a product.
	vector := func(swap bool, r *pattern) func(m *match) *ir.Value {
		return func(m *match) *ir.Value {
			v, from, to := m.get(c), m.root.Inputs[0], m.get(r).Type.Shape
			if swap {
				from = m.root.Inputs[1]
			}
			from = from.Def.Inputs[0]
			s := v.Type.Shape
			number, isNumber := numberOf(v)
			switch {
			case isNumber && m.root.Op == ir.Op(ir.Binary{Fn: ir.Mul}):
				return nil
			case isNumber && number == number && len(s) == 0:
			case len(s) != 1 || len(from.Type.Shape) == 0 || len(to) == 0 || !last(from.Type.Shape).Equal(last(to)) || !s[0].Equal(last(to)):
				return nil
			}
			if swap {
				return behind(m, m.emit(m.root.Op, v, from))
			}
			return behind(m, m.emit(m.root.Op, from, v))
		}
	}
	return []*Rule{
		{Name: "unary.reshape", pattern: either(node[ir.Unary](left), node[ir.Cast](left)), build: func(m *match) *ir.Value {
			return behind(m, m.emit(m.root.Op, m.get(x)))
		}},
		{Name: "binary.reshapes", pattern: both, build: func(m *match) *ir.Value {
			if !m.get(x).Type.Shape.Equal(m.get(y).Type.Shape) || !m.get(left).Type.Shape.Equal(m.get(right).Type.Shape) {
				return nil
			}
			return behind(m, m.emit(m.root.Op, m.get(x), m.get(y)))
		}},
		{Name: "binary.reshape_a", pattern: onLeft, build: vector(false, left)},
		{Name: "binary.reshape_b", pattern: onRight, build: vector(true, right)},
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
		{Name: "layernorm.reshape", pattern: norm, build: func(m *match) *ir.Value {
			o := opOf[ir.LayerNorm](m, norm)
			from, to := m.get(x).Type.Shape, m.get(left).Type.Shape
			if o.Sum || len(from) <= o.Axes || !from[len(from)-o.Axes:].Equal(to[len(to)-o.Axes:]) {
				return nil
			}
			return behind(m, m.emit(o, m.get(x), m.get(c), m.get(y)))
		}},
		{Name: "softmax.reshape", pattern: softmax, build: func(m *match) *ir.Value {
			o := opOf[ir.Softmax](m, softmax)
			from, to := m.get(x).Type.Shape, m.get(left).Type.Shape
			if o.Axis != len(to)-1 || len(from) == 0 || !last(from).Equal(last(to)) {
				return nil
			}
			o.Axis = len(from) - 1
			return behind(m, m.emit(o, m.get(x)))
		}},
		{Name: "matmul.batches", pattern: heads, build: func(m *match) *ir.Value {
			a, b := m.get(x).Type.Shape, m.get(y).Type.Shape
			if len(a) != len(b) || len(a) < 3 || !a[:len(a)-2].Equal(b[:len(b)-2]) || len(m.get(right).Type.Shape) < 3 ||
				!keepsLast(a, m.get(left).Type.Shape, 2) || !keepsLast(b, m.get(right).Type.Shape, 2) {
				return nil
			}
			return behind(m, m.emit(m.root.Op, m.get(x), m.get(y)))
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
			return behind(m, m.transpose(m.get(x), perm...))
		}},
	}
}

func last[S ~[]ir.Dim](s S) ir.Dim { return s[len(s)-1] }

func keepsLast(a, b ir.Shape, n int) bool {
	return len(a) >= n && len(b) >= n && a[len(a)-n:].Equal(b[len(b)-n:])
}

// binary2 is any binary op with these operands in this order.
func binary2(a, b *pattern) *pattern { return node[ir.Binary](a, b) }

// merged gives, for a reshape that only joins neighbouring axes, the axes of from that each axis of to joins.
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

// take gives size elements of an axis.
func (m *match) take(v *ir.Value, axis int, start, size ir.Dim) *ir.Value {
	s := v.Type.Shape
	o := ir.Slice{Starts: make([]ir.Dim, len(s)), Sizes: slices.Clone(s), Steps: slices.Repeat([]int{1}, len(s))}
	o.Starts[axis], o.Sizes[axis] = start, size
	return m.emit(o, v)
}
