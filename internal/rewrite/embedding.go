package rewrite

import (
	"slices"

	"github.com/rlxc/rlxc/ir"
	"github.com/rlxc/rlxc/tensor"
)

// embeddingRules join the gathers from embedding tables, their sum and its norm.
func embeddingRules() []*Rule {
	scale, bias := value(), value()
	x := either(node[ir.Binary]().rest(), node[ir.Gather]().rest(), node[ir.Dequantize]().rest())
	norm := with(node[ir.LayerNorm](x, optional(scale), optional(bias), none()), func(o ir.LayerNorm) bool { return !o.Sum && o.Axes == 1 })
	return []*Rule{{Name: "embedding", changes: Rounding, pattern: norm, build: func(m *match) *ir.Value {
		e := embedding{m: m}
		if !e.term(m.get(x), nil) || len(e.gathered) == 0 {
			return nil
		}
		for _, t := range e.gathered {
			if !t.index.Type.Shape.Equal(e.gathered[0].index.Type.Shape) {
				return nil // one of them may be stretched
			}
		}
		width := e.gathered[0].table.Type.Shape[1]
		for _, v := range []*ir.Value{m.get(scale), m.get(bias)} {
			if v != nil && (len(v.Type.Shape) != 1 || ir.Same(v.Type.Shape[0], width) != ir.Yes) {
				return nil // it may be stretched
			}
		}
		o := opOf[ir.LayerNorm](m, norm)
		if m.include(e.nodes...); !m.safe() {
			return nil
		}
		in := []*ir.Value{m.get(scale), m.get(bias)}
		tables := append(e.gathered, e.fixed...)
		if !slices.ContainsFunc(tables, func(t tableRows) bool { return t.scale != nil }) {
			for _, t := range tables {
				in = append(in, t.table, t.index)
			}
			return m.emit(ir.Embedding{Eps: o.Eps, RMS: o.RMS}, in...)
		}
		for _, t := range tables {
			in = append(in, t.table, t.index, t.scale, t.zero)
		}
		return m.emit(ir.QEmbedding{Eps: o.Eps, RMS: o.RMS}, in...)
	}}}
}

// tableRows are rows of a table: by index, or by position, or one for all. A quantised table has a scale.
type tableRows struct{ table, index, scale, zero *ir.Value }

// embedding collects the terms of a sum of table rows.
type embedding struct {
	m        *match
	nodes    []*ir.Node  // nodes that compute the sum
	gathered []tableRows // rows that an index selects
	fixed    []tableRows // other rows
}

// term takes v apart; false where it is not a sum of table rows. The rows are quantised where q dequantises them.
func (e *embedding) term(v *ir.Value, q *ir.Node) bool {
	if v.Const != nil {
		return e.table(v, q)
	}
	n := v.Def
	if n == nil {
		return false
	}
	switch op := n.Op.(type) {
	case ir.Binary:
		e.nodes = append(e.nodes, n)
		return q == nil && op.Fn == ir.Add && e.term(n.Inputs[0], nil) && e.term(n.Inputs[1], nil)
	case ir.Dequantize:
		e.nodes = append(e.nodes, n)
		return q == nil && op.To == tensor.F32 && is8Bit(n.Inputs[0].Type.DType) && op.Block == 0 &&
			(len(n.Inputs[1].Type.Shape) == 0 || op.Axis == len(v.Type.Shape)-1) && e.term(n.Inputs[0], n)
	case ir.Gather:
		if op.Axis != 0 || n.Inputs[0].Const == nil || len(n.Inputs[0].Type.Shape) != 2 {
			return false
		}
		e.nodes = append(e.nodes, n)
		e.gathered = append(e.gathered, e.rows(n.Inputs[0], n.Inputs[1], q))
		return true
	case ir.Reshape, ir.Slice:
		return e.table(v, q)
	}
	return false
}

// rows are those of a table, dequantised by q, if any.
func (e *embedding) rows(table, index *ir.Value, q *ir.Node) tableRows {
	if q == nil {
		return tableRows{table: table, index: index}
	}
	return tableRows{table, index, q.Inputs[1], ir.Operand(q.Inputs, 2)}
}

// table takes rows that stand for the positions, [1,S,H] or [S,H] out of a constant table, or for all, [H].
func (e *embedding) table(v *ir.Value, q *ir.Node) bool {
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
		if !takesAll(o, 1, n.Inputs[0].Type.Shape[1]) || o.Steps[0] != 1 {
			return false
		}
		if v.Type.Shape[0].Is(1) {
			e.fixed = append(e.fixed, e.rows(v, nil, q)) // one row for all
			return true
		}
		v = n.Inputs[0]
		if !o.Starts[0].Is(0) {
			v = e.m.take(v, 0, o.Starts[0], v.Type.Shape[0].Sub(o.Starts[0]))
		}
		e.fixed = append(e.fixed, e.rows(v, nil, q))
		return true
	}
	e.fixed = append(e.fixed, e.rows(e.m.reshape(v, s), nil, q))
	return true
}
