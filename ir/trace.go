package ir

import (
	"slices"

	"github.com/rlxc/rlxc/tensor"
)

// A Trace relates a bound graph to the symbolic graph from which it was bound, so that it can be bound to other numbers.
type Trace struct {
	// Folded are the nodes whose results Bind has made constants and that depend on the symbols, in the graph's order. They are in no
	// list of uses, and define no value.
	Folded []*Node

	refolds bool
	symbols map[string]Symbols
	sources map[*Node]*Node // symbolic node of each bound node, but of those that were made after Bind
	moved   map[*Value]bool // results of Folded
}

// Symbols is a set of a trace's symbols.
type Symbols uint64

// maxSymbols is how many symbols are distinguished. Those beyond count as one with the last.
const maxSymbols = 64

// BindTraced is Bind for a graph whose symbols may have other numbers later. If refolds is set, Refold recomputes what was folded;
// otherwise only results of ops without operands become constants where they depend on the symbols.
func (g *Graph) BindTraced(b Binding, fold, refolds bool, symbols []string) (*Graph, *Trace, error) {
	trace := &Trace{refolds: refolds, symbols: make(map[string]Symbols, len(symbols)), sources: make(map[*Node]*Node, len(g.Nodes)),
		moved: map[*Value]bool{}}
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

// Moves reports whether the content of a constant depends on the symbols.
func (t *Trace) Moves(constant *Value) bool { return t.moved[constant] }

// note records the source of a bound node. If folded, its results are constants.
func (t *Trace) note(bound, source *Node, folded bool) {
	if t == nil {
		return
	}
	t.sources[bound] = source
	if folded && t.depends(bound) {
		t.Folded = append(t.Folded, bound)
		for _, v := range bound.Outputs {
			t.moved[v] = true
		}
	}
}

// keeps reports whether a node stays a node although Bind could compute its results.
func (t *Trace) keeps(bound, source *Node) bool {
	if t == nil || t.refolds || len(bound.Inputs) == 0 {
		return false
	}
	t.sources[bound] = source
	return t.depends(bound)
}

// depends reports whether a node computes other results from constants if the symbols have other numbers.
func (t *Trace) depends(bound *Node) bool {
	return t.InOp(bound) != 0 || slices.ContainsFunc(bound.Inputs, func(v *Value) bool { return t.moved[v] })
}

// Replace records the symbolic op of a node that does the work of a bound one in another way.
func (t *Trace) Replace(by *Node, op Op) { t.sources[by] = &Node{Op: op} }

// Source returns the node of the symbolic graph from which a bound node was made; nil if there is none.
func (t *Trace) Source(bound *Node) *Node { return t.sources[bound] }

// InOp returns the symbols in the fields of the op from which a bound node was made.
func (t *Trace) InOp(n *Node) (s Symbols) {
	if source := t.sources[n]; source != nil {
		for name := range mentioned(source.Op, nil) {
			s |= t.symbols[name]
		}
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

// Copy copies a bound graph, whose sizes are numbers, so that package bind can give the copy other sizes. folded are nodes outside of the
// graph whose results are constants in it, as in Trace.Folded; copies are their copies, in order. Nodes and values of the copy have the IDs
// of the originals. Constants that are not results of folded are shared: they are not copied, and their Uses are nodes of g. The structure
// of the copy is fixed: Node.SetInput panics on its nodes. values holds the copy's values by ID, and nil for IDs that the copy does not
// have.
func (g *Graph) Copy(folded []*Node) (c *Graph, copies []*Node, values []*Value) {
	values = make([]*Value, g.nextID)
	operands, own, used := 0, len(g.Inputs), 0
	for _, v := range g.Inputs {
		used += len(v.Uses)
	}
	for _, list := range [2][]*Node{folded, g.Nodes} {
		for _, n := range list {
			operands, own = operands+len(n.Inputs), own+len(n.Outputs)
			for _, v := range n.Outputs {
				used += len(v.Uses)
			}
		}
	}
	store := make([]Value, 0, own) // never grows, so that pointers into it stay
	nodes, lists := make([]Node, len(folded)+len(g.Nodes)), make([]*Node, len(folded)+len(g.Nodes))
	pointers, uses := make([]*Value, 0, operands+own+len(g.Outputs)), make([]Use, 0, used)
	copied := func(list []*Value, def *Node) []*Value {
		from := len(pointers)
		for _, v := range list {
			store = append(store, *v)
			x := &store[len(store)-1]
			x.Def, values[v.ID] = def, x
			end := len(uses) + len(v.Uses)
			x.Uses, uses = uses[len(uses):len(uses):end], uses[:end]
			pointers = append(pointers, x)
		}
		return pointers[from:len(pointers):len(pointers)]
	}
	read := func(list []*Value, by *Node) []*Value {
		from := len(pointers)
		for i, v := range list {
			x := v
			if v != nil && values[v.ID] != nil {
				if x = values[v.ID]; by != nil && x != v {
					x.Uses = append(x.Uses, Use{by, i})
				}
			} else if v != nil {
				values[v.ID] = v // a constant
			}
			pointers = append(pointers, x)
		}
		return pointers[from:len(pointers):len(pointers)]
	}
	c = &Graph{Name: g.Name, OutputNames: g.OutputNames, Warnings: g.Warnings, nextID: g.nextID, Inputs: copied(g.Inputs, nil)}
	for i := range nodes {
		x := &nodes[i]
		if lists[i] = x; i < len(folded) {
			n := folded[i]
			*x = Node{Op: n.Op, Origins: n.Origins, Inputs: read(n.Inputs, nil), Outputs: copied(n.Outputs, nil)}
			continue
		}
		n := g.Nodes[i-len(folded)]
		*x = Node{Op: n.Op, Origins: n.Origins, Subgraphs: n.Subgraphs, Inputs: read(n.Inputs, x), Outputs: copied(n.Outputs, x)}
	}
	c.Nodes, c.Outputs = lists[len(folded):], read(g.Outputs, nil)
	return c, lists[:len(folded):len(folded)], values
}

// Refold computes the results of a folded node again, from its op and operands at other sizes. It reports whether Bind would fold the node.
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
