package ir

import (
	"strconv"

	"github.com/rlxc/rlxc/internal/packed"
	"github.com/rlxc/rlxc/tensor"
)

// Limits of a text, which may come from anywhere.
const (
	maxTextID   = 1 << 24
	maxTextData = 1 << 26 // elements of all constants that are written as data
)

// Parse reads the text that Graph.String prints. The types of results may be left out, but for those of custom ops. What
// it accepts is not verified: see Verify. Errors name line and column.
func Parse(text string) (g *Graph, err error) { return Decode(text, nil) }

// Decode reads what Graph.Encode prints. section returns the content of a constant by its number: a tensor of type t, or, where
// layout is not its zero value, the data of a weight in that packed layout.
func Decode(text string, section func(number int, t Type, layout packed.Layout) (*tensor.Tensor, error)) (g *Graph, err error) {
	p := &parser{lexer: lexer{src: text}, visible: map[int]*Value{}, taken: map[int]bool{}, section: section}
	defer p.recover(&err)
	p.next()
	g = p.graph(0)
	if p.tok.kind != endOfText {
		p.fail("the end expected after the graph, not %v", p.tok)
	}
	return g, nil
}

type parser struct {
	lexer
	visible map[int]*Value // values in scope
	order   []int          // IDs of visible, in the order of their definitions
	taken   map[int]bool   // IDs of all values, in scope or not
	lastID  int
	graphs  []*Graph
	data    int // elements of constants written as data so far
	section func(number int, t Type, layout packed.Layout) (*tensor.Tensor, error)
}

func (p *parser) graph(depth int) *Graph {
	if depth > maxDepth {
		p.fail("graphs nest more than %d deep", maxDepth)
	}
	p.expect("graph")
	g := NewGraph(p.take(quoted, "the graph's name"))
	p.graphs = append(p.graphs, g)
	begin := len(p.order)
	p.listOf("(", ")", func() {
		id, name, at := p.defined()
		p.expect(":")
		v := p.number(&Value{Name: name, Type: p.typ(0)}, id, at)
		if p.skip("=") {
			v.Default = p.plain(p.typ(0), at, id)
		}
		g.Inputs = append(g.Inputs, v)
	})
	p.expect("{")
	for !p.is("return") {
		if p.skip("const") {
			p.constant(g)
		} else {
			p.node(g, depth)
		}
	}
	p.next()
	named := false
	for !p.is("}") {
		if len(g.Outputs) > 0 {
			p.expect(",")
		}
		v := p.operand()
		if v == nil {
			p.fail("a graph cannot return _")
		}
		name := ""
		if p.skip("as") {
			name, named = p.take(quoted, "the output's name"), true
		}
		g.Outputs, g.OutputNames = append(g.Outputs, v), append(g.OutputNames, name)
	}
	p.next()
	if !named {
		g.OutputNames = nil
	}
	if depth == 0 {
		for _, x := range p.graphs {
			x.nextID = p.lastID
		}
	} else {
		for _, id := range p.order[begin:] { // constants are in the outermost graph, so nothing of a subgraph is seen outside
			delete(p.visible, id)
		}
		p.order = p.order[:begin]
	}
	return g
}

// id reads "%12".
func (p *parser) id() (id, at int) {
	at = p.tok.at
	p.expect("%")
	n, err := strconv.Atoi(p.take(number, "the value's number"))
	if err != nil || n >= maxTextID {
		p.failAt(at, "a value's number is below %d", maxTextID)
	}
	return n, at
}

// defined reads `%12 "name"`.
func (p *parser) defined() (id int, name string, at int) {
	id, at = p.id()
	if p.tok.kind == quoted {
		name = p.take(quoted, "")
	}
	return id, name, at
}

// number numbers a new value.
func (p *parser) number(v *Value, id, at int) *Value {
	if p.taken[id] {
		p.failAt(at, "%%%d is defined twice", id)
	}
	p.taken[id], p.visible[id] = true, v
	p.order = append(p.order, id)
	p.lastID = max(p.lastID, id+1)
	v.ID = id
	return v
}

func (p *parser) operand() *Value {
	if p.skip("_") {
		return nil
	}
	id, at := p.id()
	v := p.visible[id]
	if v == nil {
		p.failAt(at, "%%%d is not defined here", id)
	}
	return v
}

func (p *parser) constant(g *Graph) {
	id, name, at := p.defined()
	p.expect(":")
	t := p.typ(0)
	p.expect("=")
	if _, fixed := t.Static(); !fixed {
		p.failAt(at, "a constant of %v", t)
	}
	if p.skip("packed") {
		layout, err := packed.Parse(p.take(quoted, "the layout"))
		if err != nil {
			p.failAt(at, "%w", err)
		}
		v := &Value{Name: name, Type: t, Packed: &Packed{Layout: layout}}
		if p.is("section") || p.section != nil {
			v.Packed.Data = p.stored(t, at, v.Packed.Layout)
		}
		p.number(v, id, at)
		return
	}
	p.number(g.NewConst(name, p.plain(t, at, id)), id, at)
}

// plain reads the content of a constant that is not packed. What "data" stands for follows from id.
func (p *parser) plain(t Type, at, id int) *tensor.Tensor {
	if p.is("section") {
		return p.stored(t, at, packed.Layout{})
	}
	return p.content(t, at, uint64(id))
}

// result is one name on the left of a node's "=".
type result struct {
	id    int
	name  string
	at    int
	typ   Type
	typed bool
}

func (p *parser) node(g *Graph, depth int) {
	var results []result
	for !p.is("=") {
		if len(results) > 0 {
			p.expect(",")
		}
		var r result
		r.id, r.name, r.at = p.defined()
		if r.typed = p.skip(":"); r.typed {
			r.typ = p.typ(0)
		}
		results = append(results, r)
	}
	p.next()
	at := p.tok.at
	op := p.op(results)
	var in []*Value
	p.listOf("(", ")", func() { in = append(in, p.operand()) })
	if p.skip("{") {
		op = p.params(op)
	}
	n, err := g.NewNode(op, in, p.origins()...)
	if err != nil {
		p.failAt(at, "%w", err)
	}
	if len(n.Outputs) != len(results) {
		p.failAt(at, "%s has %d results, not %d", OpName(op), len(n.Outputs), len(results))
	}
	for i, r := range results {
		v := n.Outputs[i]
		if r.typed && !r.typ.Equal(v.Type) {
			p.failAt(r.at, "%%%d is %v, not %v", r.id, v.Type, r.typ)
		}
		v.Name = r.name
		p.number(v, r.id, r.at)
	}
	if p.skip("do") {
		p.expect("{")
		for !p.skip("}") {
			n.Subgraphs = append(n.Subgraphs, p.graph(depth+1))
		}
	}
	g.Nodes = append(g.Nodes, n)
}

func (p *parser) origins() (names []string) {
	if !p.skip("from") {
		return nil
	}
	for {
		names = append(names, p.take(quoted, "a node's name"))
		if !p.skip(",") {
			return names
		}
	}
}

func (p *parser) dtype() tensor.DType {
	at := p.tok.at
	d, err := tensor.ParseDType(p.take(word, "an element type"))
	if err != nil {
		p.failAt(at, "%w", err)
	}
	return d
}

func (p *parser) typ(depth int) Type {
	if depth > maxDepth {
		p.fail("types nest more than %d deep", maxDepth)
	}
	switch {
	case p.skip("seq"):
		return p.wrapped(SequenceType, depth)
	case p.skip("opt"):
		return p.wrapped(OptionalType, depth)
	}
	t := Type{DType: p.dtype()}
	p.expect("[")
	if p.skip("*") {
		p.expect("]")
		t.Unranked = true
		return t
	}
	t.Shape = Shape{}
	for !p.skip("]") {
		at := p.tok.at
		d := p.dim(0)
		if n, ok := d.Const(); ok && n < 0 {
			p.failAt(at, "an axis has size %d", n)
		}
		t.Shape = append(t.Shape, d)
		if !p.is("]") {
			p.expect(",")
		}
	}
	return t
}

func (p *parser) wrapped(kind TypeKind, depth int) Type {
	p.expect("<")
	e := p.typ(depth + 1)
	p.expect(">")
	return Type{Kind: kind, Elem: &e}
}
