package ir

import (
	"reflect"
	"strings"
)

// opFields says which fields of an op's struct mean what. Those of embedded structs are among them.
type opFields struct {
	params []param
	dims   [][]int // the indices of fields that hold sizes; most ops have none
}

// A param is a printed field of an op's struct.
type param struct {
	index []int
	name  string
}

// described has the fields of every op's struct.
var described = map[reflect.Type]opFields{}

func fieldsOf(op Op) opFields { return described[reflect.TypeOf(op)] }

// describe looks at an op's struct once. Exported fields print as parameters: the field's name in lower case, unless the tag
// `ir:"…"` sets another. `ir:"name"` follows from the op's name, and `ir:"-"` does not print.
func describe(op Op) {
	t := reflect.TypeOf(op)
	if t.Kind() != reflect.Struct {
		panic("ir: ops are structs: " + t.String())
	}
	var f opFields
	for _, field := range reflect.VisibleFields(t) {
		if field.Anonymous || !field.IsExported() {
			continue
		}
		switch name := field.Tag.Get("ir"); name {
		case "name", "-":
		case "":
			f.params = append(f.params, param{field.Index, strings.ToLower(field.Name)})
		default:
			f.params = append(f.params, param{field.Index, name})
		}
		switch field.Type {
		case reflect.TypeFor[Dim](), reflect.TypeFor[[]Dim](), reflect.TypeFor[Shape](), reflect.TypeFor[[]Type]():
			f.dims = append(f.dims, field.Index)
		}
	}
	described[t] = f
}

// withTypes is an op with the trait Typed whose results have these types; they are in its field Types.
func withTypes(op Op, types []Type) Op {
	v := reflect.New(reflect.TypeOf(op)).Elem()
	v.Set(reflect.ValueOf(op))
	v.FieldByName("Types").Set(reflect.ValueOf(types))
	return v.Interface().(Op)
}
