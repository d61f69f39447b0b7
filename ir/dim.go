package ir

import (
	"cmp"
	"slices"
	"strconv"
	"strings"
)

// A Dim is the size of a tensor along one axis: an integer expression over named symbols ("batch", "seq"). It is kept in a normal form, a
// sum of integer multiples of products of atoms. An atom is a symbol, or an operation that a sum of products cannot express. Two Dims
// that are equal by the laws of a commutative ring have the same normal form and the same String. The zero value is the size 0. Symbols
// represent sizes and are never negative. Arithmetic saturates, so that a size never wraps around.
type Dim struct {
	k     int64
	terms []term // sorted by key, no zero coefficients, no empty products
}

type term struct {
	coef  int64
	atoms []*atom // sorted by key
	key   string  // keys of all atoms, joined
}

func newTerm(coef int64, atoms []*atom) term {
	if len(atoms) == 1 {
		return term{coef, atoms, atoms[0].key}
	}
	keys := make([]string, len(atoms))
	for i, a := range atoms {
		keys[i] = a.key
	}
	return term{coef, atoms, strings.Join(keys, "*")}
}

type atom struct {
	op   atomOp
	sym  string
	args []Dim
	key  string
}

type atomOp uint8

const (
	opSymbol   atomOp = iota
	opFloorDiv        // args[0] / args[1], rounded down
	opMin
	opMax
	opBroadcast // the size that all args broadcast to: the one that is not 1
)

var atomOpNames = [...]string{opFloorDiv: "div", opMin: "min", opMax: "max", opBroadcast: "bcast"}

// N is the constant n.
func N(n int) Dim { return Dim{k: int64(n)} }

// Sym is the symbol of that name.
func Sym(name string) Dim {
	return ofAtom(&atom{op: opSymbol, sym: name, key: symbolText(name)})
}

func ofAtom(a *atom) Dim {
	if len(a.key) > maxKey || slices.ContainsFunc(a.args, Dim.lost) {
		return lostDim
	}
	return Dim{terms: []term{newTerm(1, []*atom{a})}}
}

// What an expression may grow to, by hostile models: each operation can square it. Beyond, it is lostDim, and so is what is
// computed from it; NewNode refuses nodes with results of such a size.
const (
	maxTerms = 1024
	maxAtoms = 256      // atoms of a product
	maxArgs  = 64       // arguments of a min, max or broadcast, which are compared in pairs
	maxKey   = 8 << 10  // bytes of an atom's text
	maxText  = 64 << 10 // bytes of all atoms as text
)

const lostName = "(too complex)"

var lostDim = Dim{terms: []term{newTerm(1, []*atom{{op: opSymbol, sym: lostName, key: strconv.Quote(lostName)}})}}

func (d Dim) lost() bool {
	for _, t := range d.terms {
		for _, a := range t.atoms {
			if a.op == opSymbol && a.sym == lostName {
				return true
			}
		}
	}
	return false
}

// symbolText writes a symbol as the parser reads it: bare when it is an identifier, quoted otherwise.
func symbolText(name string) string {
	for i, r := range name {
		letter := r == '_' || r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z'
		if !letter && (i == 0 || r != '.' && (r < '0' || r > '9')) {
			return strconv.Quote(name)
		}
	}
	if name == "" {
		return `""`
	}
	return name
}

// Const returns the number when the Dim has no symbols.
func (d Dim) Const() (int, bool) { return int(d.k), len(d.terms) == 0 }

// Int is Const for a Dim that must be a number, as every one is in a bound graph; it panics otherwise.
func (d Dim) Int() int {
	if len(d.terms) != 0 {
		panic("ir: " + d.String() + " is not bound")
	}
	return int(d.k)
}

// Is reports whether the Dim is the constant n.
func (d Dim) Is(n int) bool { return len(d.terms) == 0 && d.k == int64(n) }

// Symbol returns the name when the Dim is a single bare symbol.
func (d Dim) Symbol() (string, bool) {
	if d.k == 0 && len(d.terms) == 1 && d.terms[0].coef == 1 && len(d.terms[0].atoms) == 1 && d.terms[0].atoms[0].op == opSymbol {
		return d.terms[0].atoms[0].sym, true
	}
	return "", false
}

// single returns the atom of a Dim that is nothing else.
func (d Dim) single() (*atom, bool) {
	if d.k == 0 && len(d.terms) == 1 && d.terms[0].coef == 1 && len(d.terms[0].atoms) == 1 {
		return d.terms[0].atoms[0], true
	}
	return nil, false
}

// all is the terms with the constant as a term without atoms.
func (d Dim) all() []term {
	if d.k == 0 {
		return d.terms
	}
	return append(slices.Clone(d.terms), term{coef: d.k})
}

// normal sorts terms, and merges those of equal atoms.
func normal(k int64, terms []term) Dim {
	slices.SortStableFunc(terms, func(a, b term) int { return cmp.Compare(a.key, b.key) })
	return merged(k, terms, nil)
}

// merged is the sum of two sorted lists of terms. It merges what has equal atoms, and drops what cancels.
func merged(k int64, a, b []term) Dim {
	terms := make([]term, 0, len(a)+len(b))
	for len(a)+len(b) > 0 {
		if len(a) == 0 || len(b) > 0 && b[0].key < a[0].key {
			a, b = b, a
		}
		if n := len(terms); n > 0 && terms[n-1].key == a[0].key {
			terms[n-1].coef = addSizes(terms[n-1].coef, a[0].coef)
		} else {
			terms = append(terms, a[0])
		}
		a = a[1:]
	}
	terms = slices.DeleteFunc(terms, func(t term) bool { return t.coef == 0 })
	if len(terms) == 0 {
		terms = nil
	}
	d, text := Dim{k, terms}, 0
	for _, t := range terms {
		for _, a := range t.atoms {
			text += len(a.key)
		}
	}
	if len(terms) > maxTerms || text > maxText || len(terms) > 1 && d.lost() {
		return lostDim
	}
	return d
}

// Equal reports whether two Dims have the same normal form.
func (d Dim) Equal(e Dim) bool {
	if d.k != e.k || len(d.terms) != len(e.terms) {
		return false
	}
	for i, t := range d.terms {
		u := e.terms[i]
		if t.coef != u.coef || len(t.atoms) != len(u.atoms) {
			return false
		}
		for j, a := range t.atoms {
			if a.key != u.atoms[j].key {
				return false
			}
		}
	}
	return true
}

// call writes an operation, the key of its atom.
func call(op atomOp, args ...Dim) string {
	s := make([]string, len(args))
	for i, a := range args {
		s[i] = a.String()
	}
	return atomOpNames[op] + "(" + strings.Join(s, ",") + ")"
}

// String prints the normal form, such as "2*batch*seq+1".
func (d Dim) String() string {
	if len(d.terms) == 0 {
		return strconv.FormatInt(d.k, 10)
	}
	var b strings.Builder
	for _, t := range d.terms {
		switch {
		case t.coef == 1:
			if b.Len() > 0 {
				b.WriteByte('+')
			}
		case t.coef == -1:
			b.WriteByte('-')
		default:
			if b.Len() > 0 && t.coef > 0 {
				b.WriteByte('+')
			}
			b.WriteString(strconv.FormatInt(t.coef, 10))
			b.WriteByte('*')
		}
		b.WriteString(t.key)
	}
	if d.k > 0 {
		b.WriteByte('+')
	}
	if d.k != 0 {
		b.WriteString(strconv.FormatInt(d.k, 10))
	}
	return b.String()
}
