package ir

import "github.com/rlxc/rlxc/tensor"

// A Trace says which values of a bound graph depend on which symbols, and what its nodes come from, so that they can be bound to other
// numbers where they are.
type Trace struct {
	// Folded are the nodes whose results Bind has made constants and that depend on the symbols, in order.
	Folded []*Node

	refolds bool
	symbols map[string]Symbols
	sources map[*Node]*Node    // by bound node: what was bound
	moved   map[*Value]Symbols // on which its sizes, content as a constant, or offset in another's memory depend
}

// Symbols is a set of a trace's symbols.
type Symbols uint64

// maxSymbols is how many symbols are distinguished. Those beyond count as one with the last.
const maxSymbols = 64

// BindTraced is Bind for a graph whose symbols may have other numbers later. If refolds is set, Refold recomputes what was folded;
// otherwise only results of ops without operands become constants where they depend on the symbols.
func (g *Graph) BindTraced(b Binding, fold, refolds bool, symbols []string) (*Graph, *Trace, error) {
	trace := &Trace{refolds: refolds, symbols: make(map[string]Symbols, len(symbols)), sources: make(map[*Node]*Node, len(g.Nodes)),
		moved: map[*Value]Symbols{}}
	for i, name := range symbols {
		trace.symbols[name] = 1 << min(i, maxSymbols-1)
	}
	bound, err := g.bind(b, fold, trace)
	return bound, trace, err
}

// Changed are the symbols that have other numbers in one binding than in another.
func (t *Trace) Changed(from, to Binding) (s Symbols) {
	for name, bit := range t.symbols {
		if was, ok := from[name]; !ok || was != to[name] {
			s |= bit
		}
	}
	return s
}

// input takes a bound input down.
func (t *Trace) input(bound, source *Value) {
	if t != nil {
		t.moved[bound] = t.in(nil, source.Type)
	}
}

// Moved returns the symbols that a bound value depends on.
func (t *Trace) Moved(v *Value) Symbols { return t.moved[v] }

// Shift marks a value that stands for another.
func (t *Trace) Shift(v, from *Value) {
	if t != nil {
		t.moved[v] = t.moved[from]
	}
}

// note takes a bound node down.
func (t *Trace) note(bound, source *Node, folded bool) {
	if t == nil {
		return
	}
	t.sources[bound] = source
	moves := t.Moves(bound)
	if moves == 0 {
		return
	}
	t.Move(bound)
	if folded {
		t.Folded = append(t.Folded, bound)
		for _, v := range bound.Outputs {
			t.moved[v] = moves
		}
	}
}

// keeps reports whether a node stays a node although Bind could compute its results.
func (t *Trace) keeps(bound, source *Node) bool {
	if t == nil || t.refolds || len(bound.Inputs) == 0 {
		return false
	}
	t.sources[bound] = source
	return t.Moves(bound) != 0
}

// Replace takes down that a node does the work of a bound one.
func (t *Trace) Replace(bound, by *Node) {
	if t != nil {
		t.sources[by] = t.sources[bound]
	}
}

// Source returns the node of the symbolic graph that a bound node was made of; nil if there is none.
func (t *Trace) Source(bound *Node) *Node { return t.sources[bound] }

// Moves returns the symbols that a node depends on.
func (t *Trace) Moves(n *Node) (s Symbols) {
	for _, v := range n.Inputs {
		if v != nil {
			s |= t.moved[v]
		}
	}
	if source := t.sources[n]; source != nil {
		s |= t.in(source.Op)
		for _, v := range source.Outputs {
			s |= t.in(nil, v.Type)
		}
	}
	return s
}

// InOp returns the symbols in the fields of the op of which a bound node was made.
func (t *Trace) InOp(n *Node) Symbols {
	if source := t.sources[n]; source != nil {
		return t.in(source.Op)
	}
	return 0
}

// Move marks the results of a node that depends on the symbols.
func (t *Trace) Move(n *Node) {
	view, source := n.Op.Kind().Has(View) || n.Op.Kind() == KindCopy || n.Op.Kind() == KindMaterialize, t.sources[n]
	for i, v := range n.Outputs {
		if view || source == nil {
			t.moved[v] = t.Moves(n)
		} else {
			t.moved[v] = t.in(nil, source.Outputs[i].Type)
		}
	}
}

// Follow marks a value whose offset and strides depend on the types and the layouts of other values.
func (t *Trace) Follow(v *Value, by ...*Value) {
	for _, w := range by {
		if w != nil {
			t.moved[v] |= t.moved[w]
		}
	}
}

// in returns the symbols in the sizes of an op's fields, if there is one, and of types.
func (t *Trace) in(op Op, types ...Type) (s Symbols) {
	for name := range mentioned(op, types) {
		s |= t.symbols[name]
	}
	return s
}

// Mentions reports whether the sizes in an op's fields, if there is one, or in types depend on some symbols.
func Mentions(symbols map[string]bool, op Op, types ...Type) bool {
	for name := range mentioned(op, types) {
		if symbols[name] {
			return true
		}
	}
	return false
}

func mentioned(op Op, types []Type) map[string]bool {
	set := map[string]bool{}
	look := func(d Dim) (Dim, error) {
		d.Symbols(set)
		return d, nil
	}
	if op != nil {
		MapDims(op, look)
	}
	for _, x := range types {
		MapType(x, look)
	}
	return set
}

// Snapshot is a copy of a bound node, of values with the same IDs, which does not change with it.
func (n *Node) Snapshot() *Node {
	c := *n
	values := func(list []*Value) []*Value {
		copied := make([]*Value, len(list))
		for i, v := range list {
			if v != nil {
				x := *v
				copied[i] = &x
			}
		}
		return copied
	}
	c.Inputs, c.Outputs = values(n.Inputs), values(n.Outputs)
	return &c
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

// Refold computes the results of a folded node again, after Rebind. It reports whether Bind would fold the node.
func (n *Node) Refold() (bool, error) {
	res, err := n.folded()
	if err != nil {
		return false, n.Fail(err)
	}
	for i, t := range res {
		n.Outputs[i].Const = t
	}
	return res != nil, nil
}

// folded computes the results of a bound node whose operands are all constants, if they are small.
func (n *Node) folded() ([]*tensor.Tensor, error) {
	in := make([]*tensor.Tensor, len(n.Inputs))
	for i, v := range n.Inputs {
		if v != nil {
			if v.Const == nil || v.Const.Len() > bindFold {
				return nil, nil
			}
			in[i] = v.Const.Aligned()
		}
	}
	for _, v := range n.Outputs {
		if v.Type.Kind != TensorType || v.Type.Elements() > bindFold {
			return nil, nil
		}
	}
	return EvalOp(nil, n.Op, in)
}
