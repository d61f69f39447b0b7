package main

import (
	"fmt"
	"slices"
	"unicode/utf8"

	"github.com/parquet-go/parquet-go"
	"github.com/parquet-go/parquet-go/format"
)

// nested is one row of a Parquet column that is no single value: a list, a struct or a map. Element i holds the values of the column's
// leaf i with their levels, at least one.
type nested [][]parquet.Value

func (v nested) bytes() (n int) {
	for _, leaf := range v {
		for _, value := range leaf {
			n += nestedBytes(value)
		}
	}
	return n
}

// nestedBytes estimates the memory of a value of a nested column, in bytes.
func nestedBytes(v parquet.Value) int {
	const value = 24
	if v.Kind() == parquet.ByteArray {
		return value + len(v.ByteArray())
	}
	return value
}

// single reports whether a column holds at most one value in each row.
func single(n parquet.Node) bool { return n.Leaf() && !n.Repeated() }

// leaves counts the leaf columns of a node.
func leaves(n parquet.Node) (count int) {
	if n.Leaf() {
		return 1
	}
	for _, f := range n.Fields() {
		count += leaves(f)
	}
	return count
}

func isMap(n parquet.Node) bool {
	l := n.Type().LogicalType()
	if l == nil || len(n.Fields()) != 1 || n.Fields()[0].Leaf() || len(n.Fields()[0].Fields()) != 2 {
		return false
	}
	_, ok := l.Value.(*format.MapType)
	return ok
}

// listElement returns the node of the elements of a list. The group LIST has a repeated group, whose only field is the element. In files
// of old writers what is repeated is the element.
func listElement(n parquet.Node) (element parquet.Node, ok bool) {
	if n.Repeated() {
		return parquet.Required(n), true
	}
	if n.Leaf() || len(n.Fields()) != 1 || !n.Fields()[0].Repeated() {
		return nil, false
	}
	if l := n.Type().LogicalType(); l == nil {
		return nil, false
	} else if _, ok := l.Value.(*format.ListType); !ok {
		return nil, false
	}
	repeated := n.Fields()[0]
	if !repeated.Leaf() && len(repeated.Fields()) == 1 {
		return repeated.Fields()[0], true
	}
	return parquet.Required(repeated), true
}

// A copiedGroup is a group with the type of another one, such as LIST.
type copiedGroup struct {
	listedGroup
	of parquet.Type
}

func (g *copiedGroup) Type() parquet.Type { return g.of }

// copiedNode returns a column of the type of n without its encoding and compression. The column may be null, or is repeated.
func copiedNode(n parquet.Node) parquet.Node {
	if n.Repeated() {
		return parquet.Repeated(copiedType(n))
	}
	return parquet.Optional(copiedType(n))
}

// copiedType returns the type of a node as a required node.
func copiedType(n parquet.Node) parquet.Node {
	if n.Leaf() {
		return parquet.Leaf(n.Type())
	}
	g := &copiedGroup{of: n.Type()}
	for _, f := range n.Fields() {
		inner := copiedType(f)
		switch {
		case f.Optional():
			inner = parquet.Optional(inner)
		case f.Repeated():
			inner = parquet.Repeated(inner)
		}
		g.fields = append(g.fields, &namedField{inner, f.Name()})
	}
	return g
}

// raised returns the values for a column that copiedNode has made of n. A required column has one more definition level there, because it
// may be null.
func (v nested) raised(n parquet.Node) nested {
	if !n.Required() {
		return v
	}
	out := make(nested, len(v))
	for i, leaf := range v {
		for _, value := range leaf {
			out[i] = append(out[i], value.Level(value.RepetitionLevel(), value.DefinitionLevel()+1, value.Column()))
		}
	}
	return out
}

// jsonOf returns a value that encoding/json writes; a map is a list of keys and values. v holds the values of one instance of n, whose
// parents have the levels repetition and definition.
func (v nested) jsonOf(n parquet.Node, repetition, definition int) (any, error) {
	first := v[0][0]
	switch {
	case n.Optional():
		if first.DefinitionLevel() <= definition {
			return nil, nil
		}
		definition++
	case n.Repeated():
		return v.jsonList(parquet.Required(n), repetition, definition)
	}
	if n.Leaf() {
		if !textual(n) {
			return plainValue(n, first)
		}
		text := string(first.ByteArray())
		if !utf8.ValidString(text) {
			return nil, fmt.Errorf("JSON lines cannot hold %q, which is not valid UTF-8", text)
		}
		return text, nil
	}
	fields := n.Fields()
	if element, ok := listElement(n); ok {
		return v.jsonList(element, repetition, definition)
	}
	if isMap(n) {
		return v.jsonList(parquet.Required(fields[0]), repetition, definition)
	}
	out := map[string]any{}
	for _, f := range fields {
		count := leaves(f)
		value, err := v[:count].jsonOf(f, repetition, definition)
		if err != nil {
			return nil, err
		}
		out[f.Name()], v = value, v[count:]
	}
	return out, nil
}

// jsonList returns the elements of a list, each of which is an instance of a node.
func (v nested) jsonList(element parquet.Node, repetition, definition int) (any, error) {
	out := []any{}
	if v[0][0].DefinitionLevel() <= definition {
		return out, nil
	}
	repetition, definition = repetition+1, definition+1
	rest := slices.Clone(v)
	for len(rest[0]) > 0 {
		one := make(nested, len(rest))
		for i, leaf := range rest {
			if len(leaf) == 0 {
				return nil, fmt.Errorf("columns of a list have different lengths")
			}
			end := slices.IndexFunc(leaf[1:], func(v parquet.Value) bool { return v.RepetitionLevel() <= repetition }) + 1
			if end == 0 {
				end = len(leaf)
			}
			one[i], rest[i] = leaf[:end], leaf[end:]
		}
		value, err := one.jsonOf(element, repetition, definition)
		if err != nil {
			return nil, err
		}
		out = append(out, value)
	}
	return out, nil
}
