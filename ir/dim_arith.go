package ir

import (
	"cmp"
	"fmt"
	"math"
	"slices"
)

// Add is d + e.
func (d Dim) Add(e Dim) Dim {
	if len(d.terms)+len(e.terms) == 0 {
		return Dim{k: addSizes(d.k, e.k)}
	}
	return merged(addSizes(d.k, e.k), d.terms, e.terms)
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
			if len(t.atoms)+len(u.atoms) > maxAtoms {
				return lostDim
			}
			atoms := slices.Concat(t.atoms, u.atoms)
			slices.SortFunc(atoms, func(a, b *atom) int { return cmp.Compare(a.key, b.key) })
			terms = append(terms, newTerm(satMul(t.coef, u.coef), atoms))
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

// Div is d / e rounded down. Division by the constant 0 is 0, so that a hostile shape cannot stop the compiler.
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
// that a chain of strided windows counts its positions in one: half of half of n, rounded up both times, is div(n+3,4).
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
		return whole // of which 0 ≤ rest < c is not part
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
			q = q.Add(Dim{terms: []term{newTerm(t.coef/den[0].coef, atoms)}})
		}
	}
	return q, true
}

// Min is the smallest of its arguments, Max the largest.
func Min(ds ...Dim) Dim { return fold(opMin, ds) }

// Max is the largest of its arguments.
func Max(ds ...Dim) Dim { return fold(opMax, ds) }

// An arg is an argument of a min, max or broadcast that is being built. text is its text, and from the index of the operand that has it.
type arg struct {
	Dim
	text string
	from int
}

// fold builds a min, max or broadcast: flattened, constants merged, duplicates dropped, sorted.
func fold(op atomOp, ds []Dim) Dim {
	var args []arg
	var consts []int64
	text := 0
	add := func(d Dim, from int) {
		args = append(args, arg{d, d.String(), from})
		text += len(args[len(args)-1].text)
	}
	for i, d := range ds {
		list := []Dim{d}
		if a, ok := d.single(); ok && a.op == op {
			list = a.args
		}
		for _, x := range list {
			if k, ok := x.Const(); ok {
				consts = append(consts, int64(k))
			} else {
				add(x, i)
			}
		}
	}
	if len(args) > maxArgs || text > maxKey {
		return lostDim
	}
	if len(consts) > 0 {
		switch op {
		case opMin:
			add(Dim{k: slices.Min(consts)}, len(ds))
		case opMax:
			add(Dim{k: slices.Max(consts)}, len(ds))
		}
	}
	slices.SortFunc(args, func(a, b arg) int { return cmp.Compare(a.text, b.text) })
	args = slices.CompactFunc(args, func(a, b arg) bool { return a.Equal(b.Dim) })
	if op != opBroadcast {
		args = dominated(op, args)
	}
	if len(args) == 1 {
		return args[0].Dim
	}
	list := make([]Dim, len(args))
	for i, a := range args {
		list[i] = a.Dim
	}
	return ofAtom(&atom{op: op, args: list, key: call(op, list...)})
}

// dominated drops arguments that another one makes irrelevant; of two that are always equal, one stays. Those of one operation are not
// compared: it compared them itself.
func dominated(op atomOp, args []arg) []arg {
	for i := 0; i < len(args); i++ {
		a := args[i]
		if slices.ContainsFunc(args, func(b arg) bool {
			low, high := a.Dim, b.Dim
			if op == opMin {
				low, high = high, low
			}
			return a.from != b.from && LessEqual(low, high) == Yes
		}) {
			args = slices.Delete(args, i, i+1)
			i--
		}
	}
	return args
}

// A broadcastError is two sizes that differ where neither is 1.
type broadcastError struct{ a, b int }

func (e *broadcastError) Error() string {
	return fmt.Sprintf("sizes %d and %d do not broadcast", e.a, e.b)
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
		return Dim{}, &broadcastError{ka, kb}
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
