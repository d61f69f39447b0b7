package ir

import (
	"fmt"
	"reflect"
)

var (
	table      [NumKinds]Def             // the rows of all ops, by kind
	lastKind   = KindCustom              // the last one that has a row
	prototypes = map[string]Op{}         // op without parameters for each printed name
	opaque     = map[reflect.Type]Kind{} // the kinds of the types that hold Opaque
)

// An ONNX operator without an op in the IR embeds Opaque. T is the type of the operator itself, which gets a kind when it is registered.
type Opaque[T any] struct{}

func (Opaque[T]) Kind() Kind { return opaque[reflect.TypeFor[T]()] }

// Define is the row of an opaque operator; no fact can be left out. An operator with a field Types has the trait Typed.
func Define(name string, op Op, minIn, maxIn int, flow Flow, flops FlopsRule, rows RowsRule) Def {
	traits := KeepsCustom | IsOpaque
	if _, ok := reflect.TypeOf(op).FieldByName("Types"); ok {
		traits |= Typed
	}
	return Def{name, op, minIn, maxIn, traits, flow, flops, rows}
}

// Register adds rows to the table of ops. Package initialisers call it; a name or type that comes twice is a mistake that panics.
func Register(rows ...Def) {
	for _, d := range rows {
		k := d.Op.Kind()
		if k == KindInvalid {
			if lastKind++; lastKind == NumKinds {
				panic("ir: more ops than NumKinds")
			}
			k = lastKind
			opaque[reflect.TypeOf(d.Op)] = k
		}
		if table[k].Op != nil || d.Op.Kind() != k {
			panic(fmt.Sprintf("ir: op %s is registered twice, or its kind is another's", d.Name))
		}
		describe(d.Op)
		names := map[string]Op{d.Name: d.Op}
		if n, ok := d.Op.(namer); ok {
			names = n.named()
		}
		for name, op := range names {
			if prototypes[name] != nil {
				panic("ir: duplicate op " + name)
			}
			prototypes[name] = op
		}
		table[k] = d
	}
}

// A Preparer is an op that computes tables from its parameters. Graphs hold what Prepare returns.
type Preparer interface {
	Op
	Prepare() (Op, error)
}

// Defs lists the rows of all ops by kind: those of the IR, then the registered ones.
func Defs() []Def { return table[KindInvalid+1 : lastKind+1] }
