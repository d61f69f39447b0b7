package ir

import (
	"encoding"
	"fmt"
	"reflect"
	"strconv"
	"strings"

	"github.com/rlxc/rlxc/tensor"
)

// String prints the graph as text that Parse reads back:
//
//	graph "bert" (%0 "input_ids": i64[batch,seq]) {
//	  const %1 "emb.weight": f32[1000,64] = data
//	  const %2: i64[1] = [0]
//	  %3 "x": f32[batch,seq,64] = gather(%1, %0) {axis=0} from "/embeddings/Gather"
//	  return %3 as "last_hidden_state"
//	}
//
// An absent operand is _. Constants print their elements when they are few; large ones print as data, which Parse fills
// with separate numbers. Parameters that are zero are left out.
func (g *Graph) String() string {
	p := printer{}
	p.graph(g, true)
	return p.String()
}

// Encode is String with the contents of large and packed constants elsewhere: section is reported each such value, in order,
// and returns the number by which Decode asks for its content.
func (g *Graph) Encode(section func(v *Value) int) string {
	p := printer{section: section}
	p.graph(g, true)
	return p.String()
}

// String prints the node as the graph does, without its subgraphs.
func (n *Node) String() string {
	p := printer{}
	p.node(n)
	return p.String()
}

// maxInline is the number of elements up to which a constant prints them. Constants whose content is followed as sizes
// print all of it, since types depend on it.
const maxInline = 16

type printer struct {
	strings.Builder
	indent  string
	section func(v *Value) int // nil: contents are left out
}

func (p *printer) printf(format string, args ...any) { fmt.Fprintf(p, format, args...) }

func (p *printer) graph(g *Graph, withConsts bool) {
	p.printf("%sgraph %q (", p.indent, g.Name)
	for i, v := range g.Inputs {
		if i > 0 {
			p.WriteString(", ")
		}
		p.define(v)
		if v.Default != nil {
			def := (&Graph{}).NewConst(v.Name, v.Default)
			p.printf(" = %v ", def.Type)
			p.stored(def)
		}
	}
	p.WriteString(") {\n")
	outer := p.indent
	p.indent += "  "
	if withConsts { // a subgraph's constants are in the outermost graph
		for _, v := range g.Consts() {
			p.WriteString(p.indent)
			p.constant(v)
			p.WriteByte('\n')
		}
	}
	for _, n := range g.Nodes {
		p.WriteString(p.indent)
		p.node(n)
		p.subgraphs(n)
		p.WriteByte('\n')
	}
	p.printf("%sreturn", p.indent)
	for i, v := range g.Outputs {
		if i > 0 {
			p.WriteByte(',')
		}
		p.WriteByte(' ')
		p.ref(v)
		if i < len(g.OutputNames) && g.OutputNames[i] != "" {
			p.printf(" as %q", g.OutputNames[i])
		}
	}
	p.indent = outer
	p.printf("\n%s}\n", p.indent)
}

func (p *printer) subgraphs(n *Node) {
	if len(n.Subgraphs) == 0 {
		return
	}
	p.WriteString(" do {\n")
	outer := p.indent
	p.indent += "  "
	for _, r := range n.Subgraphs {
		p.graph(r, false)
	}
	p.indent = outer
	p.WriteString(p.indent + "}")
}

func (p *printer) ref(v *Value) {
	if v == nil {
		p.WriteByte('_')
		return
	}
	p.printf("%%%d", v.ID)
}

func (p *printer) define(v *Value) {
	p.ref(v)
	if v.Name != "" {
		p.printf(" %q", v.Name)
	}
	p.printf(": %v", v.Type)
}

func (p *printer) constant(v *Value) {
	p.WriteString("const ")
	p.define(v)
	p.WriteString(" = ")
	p.stored(v)
}

// stored prints the content of a constant, or the section that holds it.
func (p *printer) stored(v *Value) {
	switch {
	case v.Const == nil && p.section == nil:
		p.printf("packed %q", v.Packed.Layout.String())
	case v.Const == nil:
		p.printf("packed %q section %d", v.Packed.Layout.String(), p.section(v))
	case p.section == nil || inlined(v.Const):
		p.content(v.Const, inlined(v.Const))
	default:
		p.printf("section %d", p.section(v))
	}
}

func inlined(t *tensor.Tensor) bool {
	return t.Len() <= maxInline && !t.DType().IsComplex() || constDims(t) != nil
}

// content prints the elements, where all of them are wanted or they are few.
func (p *printer) content(t *tensor.Tensor, all bool) {
	if !all && !inlined(t) {
		p.WriteString("data")
		return
	}
	p.WriteByte('[')
	for i := range t.Len() {
		if i > 0 {
			p.WriteString(", ")
		}
		p.WriteString(elementText(t, i))
	}
	p.WriteByte(']')
}

func elementText(t *tensor.Tensor, i int) string {
	switch d := t.DType(); {
	case d == tensor.String:
		return strconv.Quote(t.Strings()[i])
	case d == tensor.Bool:
		return strconv.FormatBool(t.Int64(i) != 0)
	case d == tensor.F64:
		return floatText(t.Float64(i), 64)
	case d.IsFloat():
		return floatText(t.Float64(i), 32)
	case d == tensor.U64:
		return strconv.FormatUint(uint64(t.Int64(i)), 10)
	}
	return strconv.FormatInt(t.Int64(i), 10)
}

// floatText is the shortest decimal that reads back as x, with "inf", "-inf" and "nan".
func floatText(x float64, bits int) string {
	return strings.ToLower(strings.TrimPrefix(strconv.FormatFloat(x, 'g', -1, bits), "+"))
}

func (p *printer) node(n *Node) {
	for i, v := range n.Outputs {
		if i > 0 {
			p.WriteString(", ")
		}
		p.define(v)
	}
	p.printf(" = %s(", opNameText(n.Op))
	for i, v := range n.Inputs {
		if i > 0 {
			p.WriteString(", ")
		}
		p.ref(v)
	}
	p.WriteByte(')')
	if s := paramsText(n.Op, p.section != nil); s != "" {
		p.printf(" {%s}", s)
	}
	for i, o := range n.Origins {
		if i == 0 {
			p.WriteString(" from ")
		} else {
			p.WriteString(", ")
		}
		p.WriteString(strconv.Quote(o))
	}
}

// opNameText quotes the name of a custom op that Parse could take for something else.
func opNameText(op Op) string {
	name := OpName(op)
	if _, custom := op.(Custom); custom && !(isWord(name) && strings.Contains(name, ".") && prototypes[name] == nil) {
		return strconv.Quote(name)
	}
	return name
}

// Params prints an op's parameters as the IR does between braces: "axis=1, keepdims=true".
func Params(op Op) string { return paramsText(op, false) }

// paramsText is Params; all of a tensor's elements are printed where that is asked for, however many they are.
func paramsText(op Op, all bool) string {
	v := reflect.ValueOf(op)
	var parts []string
	for _, f := range fieldsOf(op).params {
		if s := paramText(v.FieldByIndex(f.index), all); s != "" {
			parts = append(parts, f.name+"="+s)
		}
	}
	return strings.Join(parts, ", ")
}

// paramText prints a field; an empty text means that it is zero.
func paramText(v reflect.Value, all bool) string {
	switch x := v.Interface().(type) {
	case Dim:
		if x.Is(0) {
			return ""
		}
		return x.String()
	case Attrs:
		return attrsText(x, all)
	case Expr:
		if len(x) == 0 {
			return ""
		}
		return x.text()
	case Op:
		return opNameText(x) + " {" + paramsText(x, all) + "}"
	}
	switch {
	case v.IsZero() || v.Kind() == reflect.Slice && v.Len() == 0:
		return ""
	case v.Kind() == reflect.Slice:
		parts := make([]string, v.Len())
		for i := range parts {
			if parts[i] = paramText(v.Index(i), all); parts[i] == "" {
				parts[i] = zeroText(v.Index(i))
			}
		}
		return "[" + strings.Join(parts, ",") + "]"
	}
	return scalarText(v)
}

// zeroText prints an element of a list, which cannot be left out.
func zeroText(v reflect.Value) string {
	if d, ok := v.Interface().(Dim); ok {
		return d.String()
	}
	return scalarText(v)
}

func scalarText(v reflect.Value) string {
	if m, ok := v.Interface().(encoding.TextMarshaler); ok {
		b, err := m.MarshalText()
		if err != nil {
			return strconv.Quote(err.Error())
		}
		if s := string(b); isWord(s) {
			return s
		}
		return strconv.Quote(string(b))
	}
	switch v.Kind() {
	case reflect.Float32:
		return floatText(v.Float(), 32)
	case reflect.Float64:
		return floatText(v.Float(), 64)
	case reflect.String:
		return strconv.Quote(v.String())
	}
	return fmt.Sprint(v.Interface())
}

// attrsText prints a custom operator's parameters, each with its sort, since an empty list or a whole float would not
// report it.
func attrsText(attrs Attrs, all bool) string {
	if len(attrs) == 0 {
		return ""
	}
	parts := make([]string, len(attrs))
	for i, a := range attrs {
		var sort, text string
		switch x := a.Value.(type) {
		case int64:
			sort, text = "int", strconv.FormatInt(x, 10)
		case float32:
			sort, text = "float", floatText(float64(x), 32)
		case string:
			sort, text = "string", strconv.Quote(x)
		case []int64:
			sort, text = "ints", list(x, func(v int64) string { return strconv.FormatInt(v, 10) })
		case []float32:
			sort, text = "floats", list(x, func(v float32) string { return floatText(float64(v), 32) })
		case []string:
			sort, text = "strings", list(x, strconv.Quote)
		case *tensor.Tensor:
			if x.DType().IsComplex() {
				sort, text = "unprintable", strconv.Quote("complex tensor")
				break
			}
			var c printer
			c.content(x, all)
			sort, text = "tensor "+TensorOf(x.DType(), Dims(x.Shape()...)...).String(), c.String()
		default:
			sort, text = "unprintable", strconv.Quote(fmt.Sprintf("%T", x))
		}
		parts[i] = symbolText(a.Name) + "=" + sort + " " + text
	}
	return "{" + strings.Join(parts, ", ") + "}"
}

func list[T any](xs []T, text func(T) string) string {
	parts := make([]string, len(xs))
	for i, x := range xs {
		parts[i] = text(x)
	}
	return "[" + strings.Join(parts, ", ") + "]"
}

// isWord reports whether the parser reads s as one bare word.
func isWord(s string) bool { return s != "" && symbolText(s) == s }
