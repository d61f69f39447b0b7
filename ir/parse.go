package ir

import (
	"encoding"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"github.com/rlxc/rlxc/tensor"
)

// Limits of a text, which may come from anywhere.
const (
	maxTextID   = 1 << 24
	maxTextData = 1 << 28 // elements of all constants together
)

// Parse reads the text that Graph.String prints. The types of results may be left out, but for those of custom ops. What
// it accepts is not verified: see Verify. Errors name line and column.
func Parse(text string) (g *Graph, err error) { return Decode(text, nil) }

// Decode reads what Graph.Encode prints. section gives the content of a constant by its number: a tensor of type t, or, where
// layout is not empty, the data of a weight in that packed layout.
func Decode(text string, section func(number int, t Type, layout string) (*tensor.Tensor, error)) (g *Graph, err error) {
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
	taken   map[int]bool   // IDs of all values, in scope or not
	lastID  int
	graphs  []*Graph
	data    int // elements of constants so far
	section func(number int, t Type, layout string) (*tensor.Tensor, error)
}

func (p *parser) graph(depth int) *Graph {
	if depth > maxDepth {
		p.fail("graphs nest more than %d deep", maxDepth)
	}
	p.expect("graph")
	g := NewGraph(p.take(quoted, "the graph's name"))
	p.graphs = append(p.graphs, g)
	outer := maps.Clone(p.visible)
	p.listOf("(", ")", func() {
		id, name, at := p.defined()
		p.expect(":")
		g.Inputs = append(g.Inputs, p.place(&Value{Name: name, Type: p.typ(0)}, id, at))
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
		p.visible = outer // constants stand in the outermost graph, so nothing of a region is seen outside
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

// place gives a new value its number.
func (p *parser) place(v *Value, id, at int) *Value {
	if p.taken[id] {
		p.failAt(at, "%%%d is defined twice", id)
	}
	p.taken[id], p.visible[id] = true, v
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
	if p.skip("packed") {
		v := &Value{Name: name, Type: t, Packed: &Packed{Layout: p.take(quoted, "the layout")}}
		if p.is("section") {
			v.Packed.Data = p.stored(t, at, v.Packed.Layout)
		}
		p.place(v, id, at)
		return
	}
	if p.is("section") {
		p.place(g.NewConst(name, p.stored(t, at, "")), id, at)
		return
	}
	v := g.NewConst(name, p.content(t, at, uint64(id)))
	p.place(v, id, at)
}

// stored reads "section 3" and asks for the content.
func (p *parser) stored(t Type, at int, layout string) *tensor.Tensor {
	p.expect("section")
	n := p.int64()
	if p.section == nil {
		p.failAt(at, "there are no sections beside this text")
	}
	x, err := p.section(int(n), t, layout)
	if err != nil {
		p.failAt(at, "section %d: %w", n, err)
	}
	return x
}

// content reads "[1, 2]" or "data" as a tensor of that type.
func (p *parser) content(t Type, at int, seed uint64) *tensor.Tensor {
	shape, ok := t.Static()
	if !ok || !t.DType.Valid() {
		p.failAt(at, "a constant of %v", t)
	}
	n, err := shape.CheckElements(t.DType)
	if err != nil {
		p.failAt(at, "%w", err)
	}
	if p.data += n; p.data > maxTextData {
		p.failAt(at, "the constants have more than %d elements", maxTextData)
	}
	if p.skip("data") {
		return pseudoRandom(t.DType, shape, seed)
	}
	x := tensor.New(t.DType, shape...)
	i := 0
	p.listOf("[", "]", func() {
		if i == n {
			p.fail("more than %d elements for %v", n, t)
		}
		p.element(x, i)
		i++
	})
	if i != n {
		p.failAt(at, "%d elements for %v", i, t)
	}
	return x
}

func (p *parser) element(x *tensor.Tensor, i int) {
	switch d := x.DType(); {
	case d == tensor.String:
		x.Strings()[i] = p.take(quoted, "a string")
	case d == tensor.Bool:
		if p.skip("true") {
			x.SetInt64(i, 1)
		} else {
			p.expect("false")
		}
	case d == tensor.F64:
		x.SetFloat64(i, p.float(64))
	case d.IsFloat():
		x.SetFloat64(i, p.float(32))
	case d == tensor.U64:
		at := p.tok.at
		u, err := strconv.ParseUint(p.take(number, "a number"), 10, 64)
		if err != nil {
			p.failAt(at, "a whole number expected: %v", err)
		}
		x.SetInt64(i, int64(u))
	case d.IsComplex():
		p.fail("complex constants are written as data")
	default:
		at := p.tok.at
		n := p.int64()
		if x.SetInt64(i, n); x.Int64(i) != n {
			p.failAt(at, "%d does not fit %s", n, d)
		}
	}
}

// pseudoRandom fills a constant that was printed as data: floats in [−1, 1), whole numbers 0 and 1, the same for the same
// seed. The generator is splitmix64 (Steele et al., 2014).
func pseudoRandom(d tensor.DType, shape tensor.Shape, seed uint64) *tensor.Tensor {
	x := tensor.New(d, shape...)
	if d.IsComplex() {
		return x
	}
	for i := range x.Len() {
		z := (seed<<32 + uint64(i) + 1) * 0x9e3779b97f4a7c15
		z = (z ^ z>>30) * 0xbf58476d1ce4e5b9
		z = (z ^ z>>27) * 0x94d049bb133111eb
		z ^= z >> 31
		switch {
		case d == tensor.String:
			x.Strings()[i] = strconv.FormatUint(z&1, 10)
		case d.IsFloat():
			x.SetFloat64(i, float64(int64(z)>>11)/(1<<52))
		case d.IsUnsigned() || d == tensor.Bool || d.Bits() >= 8:
			x.SetInt64(i, int64(z&1))
		}
	}
	return x
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
		t.Shape = append(t.Shape, p.dim(0))
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
		p.place(v, r.id, r.at)
	}
	if p.skip("do") {
		p.expect("{")
		for !p.skip("}") {
			n.Regions = append(n.Regions, p.graph(depth+1))
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

// op reads an op's name. A quoted one, or one with a dot that no op prints under, is a custom op's, whose result types
// must be written.
func (p *parser) op(results []result) Op {
	at := p.tok.at
	isCustom := p.tok.kind == quoted
	var name string
	if isCustom {
		name = p.take(quoted, "")
	} else {
		name = p.take(word, "the name of an op")
		if op := prototypes[name]; op != nil {
			return op
		}
		if !strings.Contains(name, ".") {
			p.failAt(at, "there is no op %q", name)
		}
	}
	types := make([]Type, len(results))
	for i, r := range results {
		if !r.typed {
			p.failAt(r.at, "%%%d needs a type: %s is a custom op", r.id, name)
		}
		types[i] = r.typ
	}
	return Custom{Name: name, Types: types}
}

// params reads "axis=1, keepdims=true}" into a copy of op.
func (p *parser) params(op Op) Op {
	v := reflect.New(reflect.TypeOf(op)).Elem()
	v.Set(reflect.ValueOf(op))
	fields := params[op.Kind()]
	for !p.skip("}") {
		at := p.tok.at
		name := p.take(word, "a parameter's name")
		i := slices.IndexFunc(fields, func(f param) bool { return f.name == name })
		if i < 0 {
			p.failAt(at, "%s has no parameter %s", OpName(op), name)
		}
		p.expect("=")
		p.param(v.Field(fields[i].index))
		if !p.is("}") {
			p.expect(",")
		}
	}
	return v.Interface().(Op)
}

func (p *parser) param(v reflect.Value) {
	at := p.tok.at
	switch x := v.Addr().Interface().(type) {
	case *Dim:
		*x = p.dim(0)
		return
	case *Attrs:
		*x = p.attrs()
		return
	case *Expr:
		*x = p.expr()
		return
	case *Op:
		op := p.op(nil)
		if !op.Kind().Has(View) {
			p.failAt(at, "%s is not a view", OpName(op))
		}
		p.expect("{")
		*x = p.params(op)
		return
	case encoding.TextUnmarshaler:
		text := p.tok.text
		if p.tok.kind != word && p.tok.kind != quoted {
			p.fail("a word expected, not %v", p.tok)
		}
		p.next()
		if err := x.UnmarshalText([]byte(text)); err != nil {
			p.failAt(at, "%w", err)
		}
		return
	}
	switch v.Kind() {
	case reflect.Slice:
		list := reflect.MakeSlice(v.Type(), 0, 4)
		p.listOf("[", "]", func() {
			e := reflect.New(v.Type().Elem()).Elem()
			p.param(e)
			list = reflect.Append(list, e)
		})
		v.Set(list)
	case reflect.Bool:
		if p.skip("true") {
			v.SetBool(true)
		} else {
			p.expect("false")
			v.SetBool(false)
		}
	case reflect.Int, reflect.Int64:
		v.SetInt(p.int64())
	case reflect.Float32, reflect.Float64:
		v.SetFloat(p.float(v.Type().Bits()))
	case reflect.String:
		v.SetString(p.take(quoted, "a string"))
	default:
		panic(fmt.Sprintf("ir: a parameter of type %v has no text form", v.Type()))
	}
}

func (p *parser) attrs() (out Attrs) {
	p.listOf("{", "}", func() {
		a := Attr{Name: p.tok.text}
		if p.tok.kind != word && p.tok.kind != quoted {
			p.fail("an attribute's name expected, not %v", p.tok)
		}
		p.next()
		p.expect("=")
		at := p.tok.at
		switch sort := p.take(word, "an attribute's sort"); sort {
		case "int":
			a.Value = p.int64()
		case "float":
			a.Value = float32(p.float(32))
		case "string":
			a.Value = p.take(quoted, "a string")
		case "ints":
			a.Value = collect(p, p.int64)
		case "floats":
			a.Value = collect(p, func() float32 { return float32(p.float(32)) })
		case "strings":
			a.Value = collect(p, func() string { return p.take(quoted, "a string") })
		case "tensor":
			t := p.typ(0)
			a.Value = p.content(t, at, uint64(at))
		default:
			p.failAt(at, "an attribute's value cannot be %s", sort)
		}
		out = append(out, a)
	})
	return out
}

func collect[T any](p *parser, item func() T) []T {
	out := []T{}
	p.listOf("[", "]", func() { out = append(out, item()) })
	return out
}

// ParseParams reads what Params prints into a copy of op.
func ParseParams(op Op, text string) (out Op, err error) {
	p := &parser{lexer: lexer{src: text + "}"}}
	defer p.recover(&err)
	p.next()
	return p.params(op), nil
}
