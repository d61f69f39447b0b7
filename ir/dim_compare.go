package ir

import (
	"math"
)

// Tri is the answer to a question about sizes that are not known yet.
type Tri uint8

// The answers: Unknown becomes a guard that Bind checks.
const (
	Unknown Tri = iota
	No
	Yes
)

// Same reports whether two sizes are equal for every value of the symbols (Yes), for none (No), or for some (Unknown).
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

// LessEqual reports whether a ≤ b.
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

// stretches answers whether an axis of size d broadcasts to one of size to: whether it is 1 or equal to it.
func stretches(d, to Dim) Tri {
	one, same := Same(d, N(1)), Same(d, to)
	switch {
	case one == Yes || same == Yes:
		return Yes
	case one == No && same == No:
		return No
	}
	return Unknown
}

// bounds returns an interval that holds the value, with MinInt64 and MaxInt64 for no bound.
func (d Dim) bounds() (lo, hi int64) { return d.Within(math.MaxInt64) }

// Within is an interval that holds the value where no symbol is larger than most. MinInt64 and MaxInt64 are no bounds.
func (d Dim) Within(most int64) (lo, hi int64) {
	lo, hi = d.k, d.k
	for _, t := range d.terms {
		tlo, thi := int64(1), int64(1)
		for _, a := range t.atoms {
			alo, ahi := a.within(most)
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

func (a *atom) within(most int64) (lo, hi int64) {
	if a.op == opSymbol {
		return 0, most
	}
	lo, hi = a.args[0].Within(most)
	for _, x := range a.args[1:] {
		l, h := x.Within(most)
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
