package ir

import (
	"slices"

	"github.com/rlxc/rlxc/tensor"
)

// A Trace says which values of a bound graph depend on some symbols, and what its nodes come from, so that they can be bound to other
// numbers where they stand.
type Trace struct {
	// Folded are the nodes whose results Bind has made constants and that depend on the symbols, in order.
	Folded []*Node

	symbols map[string]bool
	sources map[*Node]*Node // by bound node: what was bound
	moved   map[*Value]bool // the values whose sizes, content as a constant, or place in another's memory depend on the symbols
}

// BindTraced is Bind for a graph in which some symbols may have other numbers later. Of what depends on them only results of ops without
// operands become constants.
func (g *Graph) BindTraced(b Binding, fold bool, symbols map[string]bool) (*Graph, *Trace, error) {
	trace := &Trace{symbols: symbols, sources: make(map[*Node]*Node, len(g.Nodes)), moved: map[*Value]bool{}}
	bound, err := g.bind(b, fold, trace)
	return bound, trace, err
}

// input takes a bound input down.
func (t *Trace) input(bound, source *Value) {
	if t != nil && Mentions(t.symbols, nil, source.Type) {
		t.moved[bound] = true
	}
}

// Moved reports whether a bound value depends on the symbols.
func (t *Trace) Moved(v *Value) bool { return t.moved[v] }

// Shift marks a value that stands for another.
func (t *Trace) Shift(v, from *Value) {
	if t != nil && t.moved[from] {
		t.moved[v] = true
	}
}

// note takes a bound node down.
func (t *Trace) note(bound, source *Node, folded bool) {
	if t == nil {
		return
	}
	t.sources[bound] = source
	if !t.Moves(bound) {
		return
	}
	t.Move(bound)
	if folded {
		t.Folded = append(t.Folded, bound)
		for _, v := range bound.Outputs {
			t.moved[v] = true
		}
	}
}

// keeps reports whether a node stays a node although Bind could compute its results.
func (t *Trace) keeps(bound, source *Node) bool {
	if t == nil {
		return false
	}
	t.sources[bound] = source
	return t.Moves(bound)
}

// Replace takes down that a node does the work of a bound one.
func (t *Trace) Replace(bound, by *Node) {
	if t != nil {
		t.sources[by] = t.sources[bound]
	}
}

// Source returns the node of the symbolic graph that a bound node was made of; nil if there is none.
func (t *Trace) Source(bound *Node) *Node { return t.sources[bound] }

// Moves reports whether a node depends on the symbols.
func (t *Trace) Moves(n *Node) bool {
	if slices.ContainsFunc(n.Inputs, func(v *Value) bool { return v != nil && t.moved[v] }) {
		return true
	}
	source := t.sources[n]
	return source != nil && Mentions(t.symbols, source.Op, typesOf(source.Outputs)...)
}

// Move marks the results of a node that depends on the symbols.
func (t *Trace) Move(n *Node) {
	view, source := n.Op.Kind().Has(View) || n.Op.Kind() == KindCopy || n.Op.Kind() == KindMaterialize, t.sources[n]
	for i, v := range n.Outputs {
		if view || source == nil || Mentions(t.symbols, nil, source.Outputs[i].Type) {
			t.moved[v] = true
		}
	}
}

func typesOf(vs []*Value) []Type {
	types := make([]Type, len(vs))
	for i, v := range vs {
		types[i] = v.Type
	}
	return types
}

// Mentions reports whether the sizes in an op's fields, if there is one, or in types depend on some symbols.
func Mentions(symbols map[string]bool, op Op, types ...Type) bool {
	set := map[string]bool{}
	look := func(d Dim) (Dim, error) {
		d.Symbols(set)
		return d, nil
	}
	if op != nil {
		MapDims(op, look)
	}
	for _, t := range types {
		MapType(t, look)
	}
	for name := range set {
		if symbols[name] {
			return true
		}
	}
	return false
}

// Rebind gives a bound node other numbers, after its operands: op is what it does by now.
func (n *Node) Rebind(op Op) error {
	n.Op = op
	types, err := Infer(n)
	if err != nil {
		return n.Fail(err)
	}
	for i, v := range n.Outputs {
		v.Type = types[i]
	}
	return nil
}

// Refold computes the results of a folded node again, after Rebind.
func (n *Node) Refold() error {
	in := make([]*tensor.Tensor, len(n.Inputs))
	for i, v := range n.Inputs {
		if v != nil {
			in[i] = v.Const.Aligned()
		}
	}
	res, err := EvalOp(nil, n.Op, in)
	if err != nil {
		return n.Fail(err)
	}
	for i, v := range n.Outputs {
		v.Const = res[i]
	}
	return nil
}
