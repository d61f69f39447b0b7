package ir

import (
	"cmp"
	"fmt"
	"math"
	"math/bits"
	"slices"
	"strconv"
	"strings"
)

// A Dim is the size of a tensor along one axis: an integer expression over named symbols ("batch", "seq"), kept in a
// normal form, a sum of integer multiples of products of atoms. An atom is a symbol or one of the operations that a sum
// of products cannot express. Two Dims that are equal for every value of the symbols by the laws of a commutative ring
// have the same normal form and the same String. The zero value is the size 0. Symbols stand for sizes: they are never
// negative. Arithmetic saturates: no size of a model wraps around to a small one.
type Dim struct {
	k     int64
	terms []term // sorted by key, no zero coefficients, no empty products
}

type term struct {
	coef  int64
	atoms []*atom // sorted by key
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
	return Dim{terms: []term{{1, []*atom{a}}}}
}

// What an expression may grow to, by hostile models: each operation can square it. Beyond, it is lostDim, and so is what is
// computed from it; NewNode refuses nodes with results of such a size.
const (
	maxTerms = 1024
	maxKey   = 8 << 10  // bytes of an atom's text
	maxText  = 64 << 10 // bytes of all atoms' texts
)

const lostName = "(too complex)"

var lostDim = Dim{terms: []term{{1, []*atom{{op: opSymbol, sym: lostName, key: strconv.Quote(lostName)}}}}}

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

// Const gives the number when the Dim has no symbols.
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

// Symbol gives the name when the Dim is a single bare symbol.
func (d Dim) Symbol() (string, bool) {
	if d.k == 0 && len(d.terms) == 1 && d.terms[0].coef == 1 && len(d.terms[0].atoms) == 1 && d.terms[0].atoms[0].op == opSymbol {
		return d.terms[0].atoms[0].sym, true
	}
	return "", false
}

func (t term) key() string {
	switch len(t.atoms) {
	case 1:
		return t.atoms[0].key
	}
	keys := make([]string, len(t.atoms))
	for i, a := range t.atoms {
		keys[i] = a.key
	}
	return strings.Join(keys, "*")
}

// normal sorts, merges and drops what cancels.
func normal(k int64, terms []term) Dim {
	if len(terms) > 1 {
		slices.SortStableFunc(terms, func(a, b term) int { return cmp.Compare(a.key(), b.key()) })
		out := terms[:0]
		for _, t := range terms {
			if n := len(out); n > 0 && out[n-1].key() == t.key() {
				out[n-1].coef = addSizes(out[n-1].coef, t.coef)
				continue
			}
			out = append(out, t)
		}
		terms = out
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

// Add is d + e.
func (d Dim) Add(e Dim) Dim {
	if len(d.terms)+len(e.terms) == 0 {
		return Dim{k: addSizes(d.k, e.k)}
	}
	return normal(addSizes(d.k, e.k), slices.Concat(d.terms, e.terms))
}

// Sub is d − e.
func (d Dim) Sub(e Dim) Dim {
	if e.k == math.MinInt64 { // which has no opposite
		return d.Add(Dim{k: math.MaxInt64}).Add(Dim{k: 1}).Add(Dim{terms: e.terms}.scale(-1))
	}
	return d.Add(e.scale(-1))
}

func (d Dim) scale(c int64) Dim {
	if c == 0 {
		return Dim{}
	}
	out := Dim{k: satMul(d.k, c), terms: slices.Clone(d.terms)}
	for i := range out.terms {
		out.terms[i].coef = satMul(out.terms[i].coef, c)
	}
	return out
}

// Mul is d · e.
func (d Dim) Mul(e Dim) Dim {
	if len(d.terms) == 0 {
		return e.scale(d.k)
	}
	if len(e.terms) == 0 {
		return d.scale(e.k)
	}
	left, right := d.all(), e.all()
	if len(left)*len(right) > maxTerms {
		return lostDim
	}
	var terms []term
	for _, t := range left {
		for _, u := range right {
			atoms := slices.Concat(t.atoms, u.atoms)
			slices.SortFunc(atoms, func(a, b *atom) int { return cmp.Compare(a.key, b.key) })
			terms = append(terms, term{satMul(t.coef, u.coef), atoms})
		}
	}
	var k int64
	terms = slices.DeleteFunc(terms, func(t term) bool {
		if len(t.atoms) == 0 {
			k = addSizes(k, t.coef)
			return true
		}
		return false
	})
	return normal(k, terms)
}

// all is the terms with the constant as a term without atoms.
func (d Dim) all() []term {
	if d.k == 0 {
		return d.terms
	}
	return append(slices.Clone(d.terms), term{coef: d.k})
}

// Div is d / e rounded down. Division by the constant 0 gives 0, so that a hostile shape cannot stop the compiler.
func (d Dim) Div(e Dim) Dim {
	if e.Is(1) {
		return d
	}
	if e.Is(0) {
		return Dim{}
	}
	if q, ok := d.divExact(e); ok {
		return q
	}
	if len(d.terms)+len(e.terms) == 0 {
		return Dim{k: floorDiv(d.k, e.k)}
	}
	if len(e.terms) == 0 && e.k > 1 {
		return d.divConst(e.k)
	}
	return quotient(d, e)
}

func quotient(d, e Dim) Dim {
	return ofAtom(&atom{op: opFloorDiv, args: []Dim{d, e}, key: call(opFloorDiv, d, e)})
}

// divConst divides by c > 1 and keeps under the division only what c does not divide. A division of a division is one, so
// that a chain of strided windows counts its places in one: half of half of n, rounded up both times, is div(n+3,4).
func (d Dim) divConst(c int64) Dim {
	whole, rest := Dim{k: floorDiv(d.k, c)}, Dim{k: d.k - c*floorDiv(d.k, c)}
	for _, t := range d.terms {
		one := Dim{terms: []term{t}}
		if t.coef%c == 0 {
			one.terms[0].coef /= c
			whole = whole.Add(one)
		} else {
			rest = rest.Add(one)
		}
	}
	if len(rest.terms) == 0 {
		return whole // of which 0 ≤ rest < c is no part
	}
	if a, ok := rest.Sub(Dim{k: rest.k}).single(); ok && a.op == opFloorDiv {
		if b, ok := a.args[1].Const(); ok && b > 0 && satMul(int64(b), c) < math.MaxInt32 {
			return whole.Add(quotient(a.args[0].Add(Dim{k: rest.k * int64(b)}), Dim{k: int64(b) * c}))
		}
	}
	return whole.Add(quotient(rest, Dim{k: c}))
}

// CeilDiv is d / e rounded up.
func (d Dim) CeilDiv(e Dim) Dim { return d.Add(e).Sub(N(1)).Div(e) }

// Mod is d − e·⌊d/e⌋.
func (d Dim) Mod(e Dim) Dim { return d.Sub(e.Mul(d.Div(e))) }

func floorDiv(a, b int64) int64 {
	q := a / b
	if a%b != 0 && (a < 0) != (b < 0) {
		q--
	}
	return q
}

// divExact divides when every term of d is a multiple of the single term that e must be.
func (d Dim) divExact(e Dim) (Dim, bool) {
	den := e.all()
	if len(den) != 1 || den[0].coef == 0 {
		return N(1), len(d.terms) > 0 && d.Equal(e)
	}
	var q Dim
	for _, t := range d.all() {
		if t.coef%den[0].coef != 0 {
			return Dim{}, false
		}
		atoms := slices.Clone(t.atoms)
		for _, a := range den[0].atoms {
			i := slices.IndexFunc(atoms, func(b *atom) bool { return b.key == a.key })
			if i < 0 {
				return Dim{}, false
			}
			atoms = slices.Delete(atoms, i, i+1)
		}
		if len(atoms) == 0 {
			q = q.Add(Dim{k: t.coef / den[0].coef})
		} else {
			q = q.Add(Dim{terms: []term{{t.coef / den[0].coef, atoms}}})
		}
	}
	return q, true
}

// Min is the smallest of its arguments, Max the largest.
func Min(ds ...Dim) Dim { return fold(opMin, ds) }

// Max is the largest of its arguments.
func Max(ds ...Dim) Dim { return fold(opMax, ds) }

// fold builds a min, max or broadcast: flattened, constants merged, duplicates dropped, sorted.
func fold(op atomOp, ds []Dim) Dim {
	var args []Dim
	var consts []int64
	var add func(d Dim)
	add = func(d Dim) {
		if k, ok := d.Const(); ok {
			consts = append(consts, int64(k))
			return
		}
		if a, ok := d.single(); ok && a.op == op {
			for _, x := range a.args {
				add(x)
			}
			return
		}
		args = append(args, d)
	}
	for _, d := range ds {
		add(d)
	}
	if len(consts) > 0 {
		switch op {
		case opMin:
			args = append(args, Dim{k: slices.Min(consts)})
		case opMax:
			args = append(args, Dim{k: slices.Max(consts)})
		}
	}
	slices.SortFunc(args, func(a, b Dim) int { return cmp.Compare(a.String(), b.String()) })
	args = slices.CompactFunc(args, Dim.Equal)
	if op != opBroadcast {
		args = dominated(op, args)
	}
	if len(args) == 1 {
		return args[0]
	}
	return ofAtom(&atom{op: op, args: args, key: call(op, args...)})
}

// dominated drops arguments that another one makes irrelevant.
func dominated(op atomOp, args []Dim) []Dim {
	keep := args[:0:0]
	for i, a := range args {
		drop := false
		for j, b := range args {
			if i == j {
				continue
			}
			le := LessEqual(a, b)
			if op == opMin {
				le = LessEqual(b, a)
			}
			if le == Yes {
				drop = true
				break
			}
		}
		if !drop {
			keep = append(keep, a)
		}
	}
	if len(keep) == 0 {
		return args[:1]
	}
	return keep
}

func (d Dim) single() (*atom, bool) {
	if d.k == 0 && len(d.terms) == 1 && d.terms[0].coef == 1 && len(d.terms[0].atoms) == 1 {
		return d.terms[0].atoms[0], true
	}
	return nil, false
}

// BroadcastDim is the size that two sizes broadcast to (NumPy's rule). When neither is known to be 1 and they are not
// known to be equal, the answer is left to Bind, which also reports sizes that do not broadcast.
func BroadcastDim(a, b Dim) (Dim, error) {
	switch {
	case a.Is(1):
		return b, nil
	case b.Is(1):
		return a, nil
	case a.Equal(b):
		return a, nil
	}
	ka, oka := a.Const()
	kb, okb := b.Const()
	switch {
	case oka && okb:
		return Dim{}, fmt.Errorf("sizes %d and %d do not broadcast", ka, kb)
	case oka:
		return a, nil // b is 1 or a: Bind's stride says which, and its guard refuses others
	case okb:
		return b, nil
	case cuts(b, a):
		return a, nil
	case cuts(a, b):
		return b, nil
	}
	return fold(opBroadcast, []Dim{a, b}), nil
}

// cuts reports whether m is the minimum of d and positive numbers, such as the rows that a table of 512 positions has for
// seq tokens. Wherever the two broadcast, the result is d: either nothing is cut off, or m is 1.
func cuts(m, d Dim) bool {
	a, ok := m.single()
	return ok && a.op == opMin && slices.ContainsFunc(a.args, d.Equal) &&
		!slices.ContainsFunc(a.args, func(x Dim) bool { return !x.Equal(d) && (len(x.terms) > 0 || x.k < 1) })
}

// Tri is the answer to a question about sizes that are not known yet.
type Tri uint8

// The answers: Unknown becomes a guard that Bind checks.
const (
	Unknown Tri = iota
	No
	Yes
)

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

// Same answers whether two sizes are equal for every value of the symbols (Yes), for none (No), or for some.
func Same(a, b Dim) Tri {
	if len(a.terms)+len(b.terms) == 0 { // without the difference, which may saturate
		if a.k == b.k {
			return Yes
		}
		return No
	}
	d := a.Sub(b)
	if len(d.terms) == 0 {
		if d.k == 0 {
			return Yes
		}
		return No
	}
	if lo, hi := d.bounds(); lo > 0 || hi < 0 {
		return No
	}
	return Unknown
}

// LessEqual answers whether a ≤ b.
func LessEqual(a, b Dim) Tri {
	if len(a.terms)+len(b.terms) == 0 {
		if a.k <= b.k {
			return Yes
		}
		return No
	}
	lo, hi := b.Sub(a).bounds()
	switch {
	case lo >= 0:
		return Yes
	case hi < 0:
		return No
	}
	return Unknown
}

// bounds gives an interval that holds the value, with MinInt64 and MaxInt64 for no bound.
func (d Dim) bounds() (lo, hi int64) {
	lo, hi = d.k, d.k
	for _, t := range d.terms {
		tlo, thi := int64(1), int64(1)
		for _, a := range t.atoms {
			alo, ahi := a.bounds()
			if len(t.atoms) == 1 {
				tlo, thi = alo, ahi
				break
			}
			if alo < 0 { // products of signed ranges are not worth the trouble
				tlo, thi = math.MinInt64, math.MaxInt64
				break
			}
			tlo, thi = satMul(tlo, alo), satMul(thi, ahi)
		}
		if t.coef < 0 {
			tlo, thi = thi, tlo
		}
		lo, hi = satAdd(lo, satMul(tlo, t.coef)), satAdd(hi, satMul(thi, t.coef))
	}
	return lo, hi
}

func (a *atom) bounds() (lo, hi int64) {
	if a.op == opSymbol {
		return 0, math.MaxInt64
	}
	lo, hi = a.args[0].bounds()
	for _, x := range a.args[1:] {
		l, h := x.bounds()
		switch a.op {
		case opFloorDiv:
			if l < 1 {
				return math.MinInt64, math.MaxInt64
			}
			if lo != math.MinInt64 {
				lo = min(floorDiv(lo, l), floorDiv(lo, h))
			}
			if hi != math.MaxInt64 {
				hi = max(floorDiv(hi, l), floorDiv(hi, h))
			}
			return lo, hi
		case opMin:
			lo, hi = min(lo, l), min(hi, h)
		case opMax:
			lo, hi = max(lo, l), max(hi, h)
		case opBroadcast:
			lo, hi = min(lo, l), max(hi, h)
		}
	}
	return lo, hi
}

func satMul(a, b int64) int64 {
	if a == 0 || b == 0 {
		return 0
	}
	neg := (a < 0) != (b < 0)
	h, l := bits.Mul64(absU(a), absU(b))
	if h != 0 || l > math.MaxInt64 {
		if neg {
			return math.MinInt64
		}
		return math.MaxInt64
	}
	return a * b
}

// addSizes is a + b, or the bound that it passes.
func addSizes(a, b int64) int64 {
	switch s := a + b; {
	case a > 0 && b > 0 && s < 0:
		return math.MaxInt64
	case a < 0 && b < 0 && s >= 0:
		return math.MinInt64
	default:
		return s
	}
}

func absU(a int64) uint64 {
	if a < 0 {
		return uint64(-a)
	}
	return uint64(a)
}

func satAdd(a, b int64) int64 {
	if a == math.MinInt64 || b == math.MinInt64 {
		return math.MinInt64
	}
	if a == math.MaxInt64 || b == math.MaxInt64 {
		return math.MaxInt64
	}
	return addSizes(a, b)
}

// A Binding gives numbers to symbols.
type Binding map[string]int

// Eval puts numbers to the symbols. A symbol without a number, an overflow, and sizes that do not broadcast are errors.
func (d Dim) Eval(b Binding) (int, error) {
	sum := d.k
	for _, t := range d.terms {
		p := t.coef
		for _, a := range t.atoms {
			v, err := a.eval(b)
			if err != nil {
				return 0, err
			}
			if p = satMul(p, v); p == math.MaxInt64 || p == math.MinInt64 {
				return 0, fmt.Errorf("size %s overflows", d)
			}
		}
		if sum = satAdd(sum, p); sum == math.MaxInt64 || sum == math.MinInt64 {
			return 0, fmt.Errorf("size %s overflows", d)
		}
	}
	return int(sum), nil
}

func (a *atom) eval(b Binding) (int64, error) {
	if a.op == opSymbol {
		v, ok := b[a.sym]
		if !ok {
			return 0, fmt.Errorf("dimension %s has no size", a.sym)
		}
		return int64(v), nil
	}
	var acc int64
	for i, x := range a.args {
		n, err := x.Eval(b)
		if err != nil {
			return 0, err
		}
		v := int64(n)
		switch {
		case i == 0:
			acc = v
		case a.op == opFloorDiv:
			if v == 0 {
				return 0, fmt.Errorf("size %s divides by zero", a.key)
			}
			acc = floorDiv(acc, v)
		case a.op == opMin:
			acc = min(acc, v)
		case a.op == opMax:
			acc = max(acc, v)
		case acc == 1:
			acc = v
		case v != 1 && v != acc:
			return 0, fmt.Errorf("sizes %d and %d do not broadcast (%s)", acc, v, a.key)
		}
	}
	return acc, nil
}

// Subst replaces symbols by Dims; symbols that the map lacks stay.
func (d Dim) Subst(m map[string]Dim) Dim {
	if len(d.terms) == 0 {
		return d
	}
	out := Dim{k: d.k}
	for _, t := range d.terms {
		p := Dim{k: t.coef}
		for _, a := range t.atoms {
			p = p.Mul(a.subst(m))
		}
		out = out.Add(p)
	}
	return out
}

func (a *atom) subst(m map[string]Dim) Dim {
	if a.op == opSymbol {
		if d, ok := m[a.sym]; ok {
			return d
		}
		return ofAtom(a)
	}
	args := make([]Dim, len(a.args))
	for i, x := range a.args {
		args[i] = x.Subst(m)
	}
	switch a.op {
	case opFloorDiv:
		return args[0].Div(args[1])
	case opBroadcast:
		d := args[0]
		for _, x := range args[1:] {
			if b, err := BroadcastDim(d, x); err == nil {
				d = b
			}
		}
		return d
	}
	return fold(a.op, args)
}

// Symbols adds the names of all symbols in d to set.
func (d Dim) Symbols(set map[string]bool) {
	for _, t := range d.terms {
		for _, a := range t.atoms {
			if a.op == opSymbol {
				set[a.sym] = true
			}
			for _, x := range a.args {
				x.Symbols(set)
			}
		}
	}
}

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
		b.WriteString(t.key())
	}
	if d.k > 0 {
		b.WriteByte('+')
	}
	if d.k != 0 {
		b.WriteString(strconv.FormatInt(d.k, 10))
	}
	return b.String()
}
