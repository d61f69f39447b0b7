package rewrite

import (
	"math"
	"slices"

	"github.com/rlxc/rlxc/ir"
	"github.com/rlxc/rlxc/tensor"
)

// causalRules find masks that only compare positions, for which attention has a flag: with it, the mask of all pairs of
// queries and keys is never made.
func causalRules() []*Rule {
	q, k, v, mask := value(), value(), value(), value()
	masked := with(node[ir.Attention](q, k, v, mask), func(o ir.Attention) bool { return !o.Causal && o.Window == 0 })
	causal := func(name string, changes Change, assumes string, gone fills) *Rule {
		return &Rule{Name: name, changes: changes, assumes: assumes, pattern: masked, build: func(m *match) *ir.Value {
			keep, fill := exclusion(m.get(mask), gone)
			if keep == nil {
				return nil
			}
			S, T := m.get(q).Type.Shape[1], m.get(k).Type.Shape[1]
			o := m.root.Op.(ir.Attention)
			b, rest := bandOf(conjuncts(keep), S, T)
			switch {
			case !b.causal && b.window == 0:
				return nil
			case !b.past.Is(0) && !b.past.Equal(T.Sub(S)):
				return m.refuse("position %v of the keys is that of the first query, neither 0 nor %v", b.past, T.Sub(S))
			}
			o.Causal, o.Window, o.Offset = b.causal, b.window, !b.past.Is(0)
			// Where a query sees no key, a finite fill computes an average over all of them.
			sees := len(rest) == 0 && (b.window == 0 || ir.LessEqual(S, T) == ir.Yes)
			if !sees && !math.IsInf(fill, -1) {
				return m.refuse("a query may have no unmasked key, and masked scores are %g", fill)
			}
			if len(rest) == 0 {
				return m.emit(o, m.get(q), m.get(k), m.get(v))
			}
			all := rest[0]
			for _, c := range rest[1:] {
				all = m.emit(ir.Binary{Fn: ir.And}, all, c)
			}
			return m.emit(o, m.get(q), m.get(k), m.get(v), all)
		}}
	}
	return []*Rule{
		causal("attention.causal", Rounding, "", lowestFills),
		causal("attention.weak_causal", Meaning, weakMasks, weakFills),
	}
}

// exclusion returns, for a mask of attention, the bools that keep keys, and the number that is added for all others; nil for
// a mask that adds other numbers.
func exclusion(mask *ir.Value, gone fills) (keep *ir.Value, fill float64) {
	if mask.Type.DType == tensor.Bool {
		return mask, math.Inf(-1)
	}
	if mask.Def == nil || mask.Def.Op.Kind() != ir.KindWhere {
		return nil, 0
	}
	zero, ok1 := numberOf(mask.Def.Inputs[1])
	fill, ok2 := numberOf(mask.Def.Inputs[2])
	if !ok1 || !ok2 || zero != 0 || !gone(mask.Type.DType, fill) {
		return nil, 0
	}
	return mask.Def.Inputs[0], fill
}

// conjuncts returns the operands of a tree of And, and at most maxChase of them.
func conjuncts(v *ir.Value) []*ir.Value {
	all := []*ir.Value{v}
	for i := 0; i < len(all); {
		n := all[i].Def
		if n == nil || n.Op != ir.Op(ir.Binary{Fn: ir.And}) || len(all) == maxChase {
			i++
			continue
		}
		all[i] = n.Inputs[0]
		all = append(all, n.Inputs[1])
	}
	return all
}

// A band says which keys a query sees by their positions alone: with causal none after it, with window > 0 none so far
// away or further; past is the position of the first query among the keys.
type band struct {
	causal bool
	window int
	past   ir.Dim
}

// bandOf divides bools that broadcast to [B,H,S,T] into those that say a band, and the rest.
func bandOf(all []*ir.Value, S, T ir.Dim) (b band, rest []*ir.Value) {
	var bounds []*ir.Value
	for _, v := range all {
		if v.Def != nil && v.Def.Op == ir.Op(ir.Binary{Fn: ir.Or}) {
			if slices.ContainsFunc(v.Def.Inputs, func(x *ir.Value) bool { n, ok := numberOf(x); return ok && n == 1 }) {
				continue // true everywhere
			}
			v = widerOf(v, S, T)
		}
		bounds = append(bounds, v)
	}
	return boundsOf(bounds, S, T)
}

// widerOf returns the operand of an Or of two bands that holds the other one; or the Or where neither does.
func widerOf(v *ir.Value, S, T ir.Dim) *ir.Value {
	for i, wide := range v.Def.Inputs {
		a, rest := boundsOf([]*ir.Value{wide}, S, T)
		b, others := boundsOf(conjuncts(v.Def.Inputs[1-i]), S, T)
		if len(rest)+len(others) == 0 && a.past.Equal(b.past) && (!a.causal || b.causal) &&
			(a.window == 0 || 0 < b.window && b.window <= a.window) {
			return wide
		}
	}
	return v
}

// boundsOf is bandOf of what has no Or.
func boundsOf(all []*ir.Value, S, T ir.Dim) (b band, rest []*ir.Value) {
	var near []*ir.Value // bounds in front: only part of a band that is causal
	for _, v := range all {
		if past, ok := distance(v, S, T, 1); ok && !b.causal && b.window == 0 {
			b.causal, b.past = true, past
		} else if _, ok := distance(v, S, T, -1); ok {
			near = append(near, v)
		} else if w, past, ok := bothSides(v, S, T); ok && !b.causal && b.window == 0 {
			b.window, b.past = w, past
		} else {
			rest = append(rest, v)
		}
	}
	for _, v := range near {
		bound, _ := distance(v, S, T, -1) // s + bound ≤ t: of s + past only window − 1 back
		w, ok := b.past.Add(ir.N(1)).Sub(bound).Const()
		if ok && b.causal && b.window == 0 && w > 0 {
			b.window = w
		} else {
			rest = append(rest, v)
		}
	}
	if ir.LessEqual(ir.N(0), b.past) != ir.Yes {
		return band{}, all
	}
	return b, rest
}

// distance returns d where v compares the position t of a key with s of a query: t ≤ s + d for sign 1, t ≥ s + d for −1.
func distance(v *ir.Value, S, T ir.Dim, sign int) (d ir.Dim, ok bool) {
	if v.Def == nil {
		return d, false
	}
	a, ok := comparison(v.Def)
	if !ok || !a.counts(v.Type.Shape, S, T, sign) {
		return d, false
	}
	return a.off.Mul(ir.N(-sign)), true
}

// bothSides returns the window of v, which compares the distance |t − s − past| with a number.
func bothSides(v *ir.Value, S, T ir.Dim) (window int, past ir.Dim, ok bool) {
	if v.Def == nil {
		return 0, past, false
	}
	o, ok := v.Def.Op.(ir.Binary)
	if !ok || o.Fn != ir.Less && o.Fn != ir.LessOrEqual {
		return 0, past, false
	}
	abs := v.Def.Inputs[0]
	limit, ok := numberOf(v.Def.Inputs[1])
	if !ok || abs.Def == nil || abs.Def.Op != ir.Op(ir.Unary{Fn: ir.Abs}) {
		return 0, past, false
	}
	if window = int(limit); o.Fn == ir.LessOrEqual {
		window++
	}
	a, ok := affineOf(abs.Def.Inputs[0])
	for _, sign := range []int{1, -1} {
		if ok && window > 0 && a.counts(abs.Type.Shape, S, T, sign) {
			return window, a.off.Mul(ir.N(-sign)), true
		}
	}
	return 0, past, false
}

// counts reports whether a, of a shape that broadcasts to [B,H,S,T], is sign·(t − s) and a constant.
func (a affine) counts(s ir.Shape, S, T ir.Dim, sign int) bool {
	query, key := len(s)-2, len(s)-1
	if query < 0 || !s[key].Equal(T) || !s[query].Equal(S) {
		return false
	}
	for i, step := range a.at {
		if i < query && !step.Is(0) {
			return false
		}
	}
	return a.at[key].Is(sign) && a.at[query].Is(-sign)
}
