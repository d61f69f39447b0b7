package rewrite

import (
	"slices"

	"github.com/rlxc/rlxc/ir"
	"github.com/rlxc/rlxc/tensor"
)

// rotaryRules find rotary position embeddings written out (RoPE, arXiv 2104.09864): x·cos + rotate(x)·sin, where rotate
// swaps the halves of each head and negates the second.
func rotaryRules() []*Rule {
	x, cos, sin := value(), value(), value()
	low, high := node[ir.Slice](x), node[ir.Slice](x)
	rotated := node[ir.Concat](unary(ir.Neg, high), low)
	return []*Rule{{Name: "rotary", changes: Rounding, near: 5, pattern: sum(product(x, cos), product(rotated, sin)),
		build: func(m *match) *ir.Value {
			s := m.get(x).Type.Shape
			if len(s) != 4 || opOf[ir.Concat](m, rotated).Axis != 3 {
				return m.refuse("heads are not the last of four axes: %v", s)
			}
			size, ok := last(s).Const()
			if !ok || size%2 != 0 || !isHalf(m.get(low), 0, size/2) || !isHalf(m.get(high), size/2, size/2) {
				return m.refuse("the rotated parts are not halves")
			}
			c, axis := m.angles(m.get(cos), s)
			d, other := m.angles(m.get(sin), s)
			if c == nil || d == nil || axis != other {
				return m.refuse("the angles are not the same for both halves and all heads: %v", m.get(cos).Type)
			}
			if axis == 2 {
				return m.emit(ir.Rotary{}, m.get(x), c, d)
			}
			return m.transpose(m.emit(ir.Rotary{}, m.transpose(m.get(x), 0, 2, 1, 3), c, d), 0, 2, 1, 3)
		}}}
}

// isHalf reports whether v takes n elements of the last axis, from at on, and all of the others.
func isHalf(v *ir.Value, at, n int) bool {
	o, from := v.Def.Op.(ir.Slice), v.Def.Inputs[0].Type.Shape
	for i := range from[:len(from)-1] {
		if !o.Starts[i].Is(0) || !o.Sizes[i].Equal(from[i]) || o.Steps[i] != 1 {
			return false
		}
	}
	return last(o.Starts).Is(at) && last(o.Sizes).Is(n) && o.Steps[len(o.Steps)-1] == 1
}

// angles returns the cosines or sines of x as ir.Rotary takes them, [B or 1, S, R/2], and the axis of x that holds the heads;
// nil where heads or halves have separate angles.
func (m *match) angles(v *ir.Value, x ir.Shape) (half *ir.Value, heads int) {
	s := v.Type.Shape
	for len(s) < 4 {
		s = append(ir.Shape{ir.N(1)}, s...)
	}
	switch {
	case len(s) != 4 || !last(s).Equal(last(x)):
		return nil, 0
	case s[1].Is(1) && s[2].Equal(x[2]):
		heads = 1
	case s[2].Is(1) && s[1].Equal(x[1]):
		heads = 2
	default:
		return nil, 0
	}
	if half = m.half(v, maxChase); half == nil {
		return nil, 0
	}
	return m.reshape(half, ir.Shape{s[0], s[3-heads], last(half.Type.Shape)}), heads
}

// half returns h where v is h beside itself along the last axis, computed again without the second half.
func (m *match) half(v *ir.Value, depth int) *ir.Value {
	if depth == 0 || len(v.Type.Shape) == 0 {
		return nil
	}
	if v.Const != nil {
		return m.halfConst(v)
	}
	n := v.Def
	if n == nil {
		return nil
	}
	lastAxis := len(v.Type.Shape) - 1
	first := func() *ir.Value { return m.half(n.Inputs[0], depth-1) }
	switch op := n.Op.(type) {
	case ir.Concat:
		if op.Axis == lastAxis && len(n.Inputs) == 2 && n.Inputs[0] == n.Inputs[1] {
			return n.Inputs[0]
		}
	case ir.Unary, ir.Cast:
		if h := first(); h != nil {
			return m.emit(op, h)
		}
	case ir.Binary: // such as the scaling of long contexts
		if _, ok := numberOf(n.Inputs[1]); ok {
			if h := first(); h != nil {
				return m.emit(op, h, n.Inputs[1])
			}
		}
	case ir.Gather: // rows of a table of all positions
		if t := n.Inputs[0].Type.Shape; op.Axis == 0 && len(t) == 2 {
			if h := first(); h != nil {
				return m.emit(op, h, n.Inputs[1])
			}
		}
	case ir.Slice:
		if o := op; last(o.Starts).Is(0) && last(o.Sizes).Equal(last(n.Inputs[0].Type.Shape)) && o.Steps[lastAxis] == 1 {
			if h := first(); h != nil {
				o.Sizes = append(slices.Clone(o.Sizes[:lastAxis]), last(h.Type.Shape))
				return m.emit(o, h)
			}
		}
	case ir.Reshape:
		if from := n.Inputs[0].Type.Shape; len(from) > 0 && last(from).Equal(last(op.Shape)) {
			if h := first(); h != nil {
				return m.reshape(h, append(slices.Clone(op.Shape[:lastAxis]), last(h.Type.Shape)))
			}
		}
	}
	return nil
}

func (m *match) halfConst(v *ir.Value) *ir.Value {
	t := v.Const
	s := t.Shape().Clone()
	row := s[len(s)-1] * t.DType().Size()
	if row == 0 || s[len(s)-1]%2 != 0 || t.Len() > maxFold {
		return nil
	}
	s[len(s)-1] /= 2
	h := tensor.New(t.DType(), s...)
	for at := 0; at < len(t.Bytes()); at += row {
		a, b := t.Bytes()[at:at+row/2], t.Bytes()[at+row/2:at+row]
		if string(a) != string(b) {
			return nil
		}
		copy(h.Bytes()[at/2:], a)
	}
	return m.e.constant("", h)
}
