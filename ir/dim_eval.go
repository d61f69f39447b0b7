package ir

import (
	"fmt"
	"math"
)

// A Binding assigns numbers to symbols.
type Binding map[string]int

// Eval replaces symbols by numbers. It fails for a symbol without a number, for an overflow, and for sizes that do not broadcast.
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

// noSize is the error of a symbol without a number. Who asks whether a size is known yet does not read it.
type noSize string

// Error implements error.
func (n noSize) Error() string { return fmt.Sprintf("dimension %s has no size", string(n)) }

func (a *atom) eval(b Binding) (int64, error) {
	if a.op == opSymbol {
		v, ok := b[a.sym]
		if !ok {
			return 0, noSize(a.sym)
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

// Subst replaces symbols by Dims. Symbols that the map lacks stay.
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
