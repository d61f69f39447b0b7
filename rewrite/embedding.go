package rewrite

import (
	"github.com/rlxc/rlxc/ir"
)

// embeddingRules join the gathers from embedding tables, their sum and its norm.
func embeddingRules() []*Rule {
	scale, bias := value(), value()
	x := either(node[ir.Binary]().rest(), node[ir.Gather]().rest())
	norm := with(node[ir.LayerNorm](x, optional(scale), optional(bias), none()), func(o ir.LayerNorm) bool { return !o.Sum && o.Axes == 1 })
	return []*Rule{{Name: "embedding", pattern: norm, build: func(m *match) *ir.Value {
		e := embedding{m: m}
		if !e.term(m.get(x)) || len(e.gathers) == 0 {
			return nil
		}
		o := opOf[ir.LayerNorm](m, norm)
		if m.include(e.nodes...); !m.safe() {
			return nil
		}
		in := []*ir.Value{m.get(scale), m.get(bias)}
		for _, g := range e.gathers {
			in = append(in, g.Inputs...)
		}
		for _, t := range e.fixed {
			in = append(in, t, nil)
		}
		return m.emit(ir.Embedding{Eps: o.Eps, RMS: o.RMS}, in...)
	}}}
}

// embedding collects the terms of a sum of table rows.
type embedding struct {
	m       *match
	nodes   []*ir.Node  // all that the sum is made of
	gathers []*ir.Node  // rows by index
	fixed   []*ir.Value // tables read by position, or of one row
}

// term takes v apart; false where it is no sum of table rows.
func (e *embedding) term(v *ir.Value) bool {
	if v.Const != nil {
		return e.table(v)
	}
	n := v.Def
	if n == nil {
		return false
	}
	switch op := n.Op.(type) {
	case ir.Binary:
		e.nodes = append(e.nodes, n)
		return op.Fn == ir.Add && e.term(n.Inputs[0]) && e.term(n.Inputs[1])
	case ir.Gather:
		if op.Axis != 0 || n.Inputs[0].Const == nil || len(n.Inputs[0].Type.Shape) != 2 {
			return false
		}
		e.nodes, e.gathers = append(e.nodes, n), append(e.gathers, n)
		return true
	case ir.Reshape, ir.Slice:
		return e.table(v)
	}
	return false
}

// table takes rows that stand for the positions, [1,S,H] or [S,H] out of a constant table, or for all, [H].
func (e *embedding) table(v *ir.Value) bool {
	s := v.Type.Shape
	for len(s) > 2 && s[0].Is(1) {
		s = s[1:]
	}
	if len(s) == 1 {
		s = ir.Shape{ir.N(1), s[0]}
	}
	if len(s) != 2 {
		return false
	}
	if n := v.Def; n != nil {
		if n.Op.Kind() == ir.KindReshape {
			e.nodes, v = append(e.nodes, n), n.Inputs[0]
		}
		if n = v.Def; n == nil || n.Op.Kind() != ir.KindSlice || n.Inputs[0].Const == nil || len(n.Inputs[0].Type.Shape) != 2 {
			return false
		}
		e.nodes = append(e.nodes, n)
		o := n.Op.(ir.Slice)
		if !o.Starts[1].Is(0) || !o.Sizes[1].Equal(n.Inputs[0].Type.Shape[1]) || o.Steps[0] != 1 || o.Steps[1] != 1 {
			return false
		}
		if v.Type.Shape[0].Is(1) {
			e.fixed = append(e.fixed, v) // one row for all
			return true
		}
		v = n.Inputs[0]
		if !o.Starts[0].Is(0) {
			v = e.m.take(v, 0, o.Starts[0], v.Type.Shape[0].Sub(o.Starts[0]))
		}
		e.fixed = append(e.fixed, v)
		return true
	}
	e.fixed = append(e.fixed, e.m.reshape(v, s))
	return true
}
