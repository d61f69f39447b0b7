package rewrite

import (
	"math"

	"github.com/rlxc/rlxc/ir"
	"github.com/rlxc/rlxc/tensor"
)

// causalRules find the masks that only compare positions, which attention has as a flag: with it the mask of all pairs of
// queries and keys is never made.
func causalRules() []*Rule {
	q, k, v, mask := value(), value(), value(), value()
	masked := with(node[ir.Attention](q, k, v, mask), func(o ir.Attention) bool { return !o.Causal && o.Window == 0 })
	return []*Rule{
		{Name: "attention.causal", pattern: masked, build: func(m *match) *ir.Value {
			keep, fill := exclusion(m.get(mask))
			if keep == nil {
				return nil
			}
			S, T := m.get(q).Type.Shape[1], m.get(k).Type.Shape[1]
			var rest []*ir.Value
			o := m.root.Op.(ir.Attention)
			for _, c := range conjuncts(keep) {
				past, ok := behind(c, S, T)
				switch {
				case !ok || o.Causal:
					rest = append(rest, c)
				case past.Is(0):
					o.Causal = true
				case past.Equal(T.Sub(S)):
					o.Causal, o.Offset = true, true
				default:
					return nil
				}
			}
			if !o.Causal {
				return nil
			}
			if len(rest) == 0 { // the first key remains to every query, beside which a finite fill counts for nothing
				return m.emit(o, m.get(q), m.get(k), m.get(v))
			}
			if !math.IsInf(fill, -1) {
				return m.refuse("queries that see no key get an average over all of them: the mask is %g", fill)
			}
			all := rest[0]
			for _, c := range rest[1:] {
				all = m.emit(ir.Binary{Fn: ir.And}, all, c)
			}
			return m.emit(o, m.get(q), m.get(k), m.get(v), all)
		}},
	}
}

// exclusion gives, for a mask of attention, the bools that keep keys, and the number that is added for all others; nil for
// a mask that adds other numbers.
func exclusion(mask *ir.Value) (keep *ir.Value, fill float64) {
	if mask.Type.DType == tensor.Bool {
		return mask, math.Inf(-1)
	}
	if mask.Def == nil || mask.Def.Op.Kind() != ir.KindWhere {
		return nil, 0
	}
	zero, ok1 := numberOf(mask.Def.Inputs[1])
	fill, ok2 := numberOf(mask.Def.Inputs[2])
	if !ok1 || !ok2 || zero != 0 || fill > finiteFill {
		return nil, 0
	}
	return mask.Def.Inputs[0], fill
}

// conjuncts are the operands of a tree of And.
func conjuncts(v *ir.Value) []*ir.Value {
	if v.Def != nil && v.Def.Op == ir.Op(ir.Binary{Fn: ir.And}) {
		return append(conjuncts(v.Def.Inputs[0]), conjuncts(v.Def.Inputs[1])...)
	}
	return []*ir.Value{v}
}

// behind reports whether v, which broadcasts to [B,H,S,T], holds where key t lies at most past behind query s: t ≤ s + past.
func behind(v *ir.Value, S, T ir.Dim) (past ir.Dim, ok bool) {
	s := v.Type.Shape
	if v.Def == nil || len(s) < 2 || !s[len(s)-1].Equal(T) || !s[len(s)-2].Equal(S) {
		return past, false
	}
	d, ok := comparison(v.Def)
	if !ok {
		return past, false
	}
	query, key := len(s)-2, len(s)-1
	for i, step := range d.at {
		if i < query && !step.Is(0) {
			return past, false
		}
	}
	if !d.at[key].Is(1) || !d.at[query].Is(-1) {
		return past, false
	}
	past = d.off.Mul(ir.N(-1))
	return past, ir.LessEqual(ir.N(0), past) == ir.Yes
}
