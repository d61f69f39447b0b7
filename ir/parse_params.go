package ir

import (
	"encoding"
	"fmt"
	"reflect"
	"slices"
	"strings"
)

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
		if op := prototypes[name]; op != nil && !op.Kind().Has(Typed) {
			return op
		}
		if !strings.Contains(name, ".") {
			p.failAt(at, "there is no op %q", name)
		}
	}
	types := make([]Type, len(results))
	for i, r := range results {
		if !r.typed {
			p.failAt(r.at, "%%%d needs a type: the sizes of what %s returns depend on data", r.id, name)
		}
		types[i] = r.typ
	}
	if op := prototypes[name]; op != nil && !isCustom {
		return withTypes(op, types)
	}
	return Custom{Name: name, Types: types}
}

// params reads "axis=1, keepdims=true}" into a copy of op.
func (p *parser) params(op Op) Op {
	v := reflect.New(reflect.TypeOf(op)).Elem()
	v.Set(reflect.ValueOf(op))
	fields := fieldsOf(op).params
	for !p.skip("}") {
		at := p.tok.at
		name := p.take(word, "a parameter's name")
		i := slices.IndexFunc(fields, func(f param) bool { return f.name == name })
		if i < 0 {
			p.failAt(at, "%s has no parameter %s", OpName(op), name)
		}
		p.expect("=")
		p.param(v.FieldByIndex(fields[i].index))
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
		if _, isLink := LinkResidual(op); !isLink && !op.Kind().Has(View) {
			p.failAt(at, "%s is neither a view nor a product", OpName(op))
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
