package ir

import (
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
)

// registered has the rows of ops that other packages bring.
var registered = map[reflect.Type]*Def{}

// Define is a row for Register; no fact can be left out.
func Define(name string, op Op, minIn, maxIn int, flops FlopsRule, rows RowsRule) Def {
	return Def{name, op, minIn, maxIn, 0, flops, rows}
}

// Register adds the rows of ops that are kept as the model has them, of KindKept and KindDynamic. The types of what an op of
// KindDynamic returns stand in its field Types and are not inferred again. Package initialisers call it; a name or type that
// stands twice is a mistake that panics.
func Register(rows ...Def) {
	for _, d := range rows {
		t, k := reflect.TypeOf(d.Op), d.Op.Kind()
		if k != KindKept && k != KindDynamic {
			panic(fmt.Sprintf("ir: %s is of kind %s", d.Name, k))
		}
		if prototypes[d.Name] != nil || registered[t] != nil {
			panic("ir: duplicate op " + d.Name)
		}
		describe(d.Op)
		if _, ok := t.FieldByName("Types"); ok != k.Has(Dynamic) {
			panic("ir: " + d.Name + ": ops with a field Types are those of KindDynamic")
		}
		prototypes[d.Name], registered[t] = d.Op, &d
	}
}

// A Preparer is an op that computes tables from its parameters. Graphs hold what Prepare returns.
type Preparer interface {
	Op
	Prepare() (Op, error)
}

// Rows lists the rows of all ops, those of the IR in the order of their kinds and then the registered ones by name.
func Rows() []*Def {
	var rows []*Def
	for k := range table {
		if table[k].Op != nil {
			rows = append(rows, &table[k])
		}
	}
	others := slices.Collect(maps.Values(registered))
	slices.SortFunc(others, func(a, b *Def) int { return strings.Compare(a.Name, b.Name) })
	return append(rows, others...)
}
