package rewrite

import (
	"slices"

	"github.com/rlxc/rlxc/ir"
	"github.com/rlxc/rlxc/tensor"
)

// attentionRules find softmax(Scale·q·kᵀ + mask)·v. The rules for products have run before. So scales are in Alpha, wherever the exporter
// put them, rows of q and k are contiguous, and kᵀ is expressed by TransB. The axis of heads is the second one here and the third in
// ir.Attention. The rules insert transposes, which cancel with those of the exporter.
func attentionRules() []*Rule {
	q, k, v, mask := value(), value(), value(), value()
	grouped := node[ir.Attention](q, k, v, optional(mask))
	factor, m1, m2 := scalar(), noScores(), noScores()
	scaled := either(node[ir.Attention](binary(ir.Mul, q, factor), k, v, optional(mask)),
		node[ir.Attention](q, binary(ir.Mul, k, factor), v, optional(mask)))
	x := value()
	left := node[ir.Reshape](x)
	transposed := node[ir.Transpose](left)
	p, weak := newAttentionPattern(lowestFills), newAttentionPattern(weakFills)
	return []*Rule{
		{Name: "attention.scale", changes: Rounding, pattern: scaled, build: func(m *match) *ir.Value {
			o, ok := m.root.Op.(ir.Attention), false
			if o.Scale, ok = m.parameter(float64(o.Scale) * m.number(factor)); !ok {
				return nil
			}
			return m.emit(o, m.get(q), m.get(k), m.get(v), m.get(mask))
		}},
		{Name: "attention.groups", pattern: grouped, build: func(m *match) *ir.Value {
			keys, values := m.ungrouped(m.get(k)), m.ungrouped(m.get(v))
			if keys == nil || values == nil || !keys.Type.Shape[2].Equal(values.Type.Shape[2]) {
				return nil
			}
			return m.emit(m.root.Op, m.get(q), keys, values, m.get(mask))
		}},
		// Heads that are not repeated any more are left with the axis along which they were.
		{Name: "transpose.ones", pattern: transposed, build: func(m *match) *ir.Value {
			of, ok := inserted(m.get(x).Type.Shape, m.get(left).Type.Shape)
			if !ok {
				return nil
			}
			var perm []int
			for _, p := range opOf[ir.Transpose](m, transposed).Perm {
				if of[p] >= 0 {
					perm = append(perm, of[p])
				}
			}
			return m.asRoot(m.transpose(m.get(x), perm...))
		}},
		// A bias of relative positions and a mask are added first: mostly once for all layers.
		{Name: "attention.masks", changes: Rounding, pattern: binary(ir.Add, binary(ir.Add, p.raw, m1), m2),
			build: func(m *match) *ir.Value {
				if k := m.get(p.scores).Def.Inputs[ir.MatMulB]; k.IsConst() || len(k.Type.Shape) < 3 {
					return nil
				}
				return m.emit(ir.Binary{Fn: ir.Add}, m.get(p.raw), m.emit(ir.Binary{Fn: ir.Add}, m.get(m1), m.get(m2)))
			}},
		{Name: "attention", changes: Rounding, pattern: p.out, near: 3, build: p.build},
		{Name: "attention.weak_mask", changes: Meaning, assumes: weakMasks, pattern: weak.out, build: weak.build},
	}
}

// An attentionPattern matches attention in an exporter's form. Its fields are the parts that the builder reads.
type attentionPattern struct {
	q, k, v *pattern

	scores *pattern // Scale·q·kᵀ
	capped *pattern // c2·tanh(c1·scores)
	c1, c2 *pattern
	raw    *pattern // capped or scores

	mask             *pattern // what is added to them
	keep, drop, fill *pattern // what is put where
	masked           *pattern // raw with all of it

	guarded      *pattern // probabilities, 0 where they are NaN
	zeroed, post *pattern // probabilities, 0 but where keep is true, or where drop is
	out          *pattern

	gone fills
}

// noScores is any value that is not a product of two activations, nor a sum that holds one. A sum of scores and of other scores
// may be seen from either side, and would go back and forth.
func noScores() *pattern {
	return value().when("no scores", func(_ *match, v *ir.Value) bool {
		fuel := maxChase
		return !holdsScores(v, &fuel)
	})
}

func holdsScores(v *ir.Value, fuel *int) bool {
	if *fuel--; v.Def == nil {
		return false
	}
	switch op := v.Def.Op.(type) {
	case ir.MatMul:
		return true
	case ir.Cast, ir.Unary:
		return *fuel < 0 || holdsScores(v.Def.Inputs[0], fuel)
	case ir.Binary:
		return (op.Fn == ir.Add || op.Fn == ir.Mul) &&
			(*fuel < 0 || holdsScores(v.Def.Inputs[0], fuel) || holdsScores(v.Def.Inputs[1], fuel))
	}
	return false
}

func newAttentionPattern(gone fills) *attentionPattern {
	p := &attentionPattern{gone: gone, q: value(), k: value(), v: value(), mask: value(), keep: value(), drop: value(), fill: scalar(),
		c1: scalar(), c2: scalar()}
	p.scores = linear(matmul(p.q, p.k, nil, nil))
	p.capped = binary(ir.Mul, unary(ir.Tanh, binary(ir.Mul, p.scores, p.c1)), p.c2)
	p.raw = cast(either(p.capped, p.scores))
	added := either(p.raw, binary(ir.Add, p.raw, p.mask))
	p.masked = either(added, node[ir.Where](p.keep, added, p.fill), node[ir.Where](p.drop, p.fill, added))
	probs := with(node[ir.Softmax](cast(p.masked)), func(o ir.Softmax) bool { return !o.Log }).
		when("a softmax over the keys", func(_ *match, p *ir.Value) bool {
			return p.Def.Op.(ir.Softmax).Axis == len(p.Type.Shape)-1
		})
	p.guarded = node[ir.Where](unary(ir.IsNaN, probs), number(0), probs)
	p.zeroed, p.post = node[ir.Where](p.keep, probs, number(0)), node[ir.Where](p.drop, number(0), probs)
	p.out = linear(matmul(cast(either(p.guarded, p.zeroed, p.post, probs)), p.v, nil, nil))
	return p
}

// build makes the op.
func (p *attentionPattern) build(m *match) *ir.Value {
	s, out := opOf[ir.MatMul](m, p.scores), opOf[ir.MatMul](m, p.out)
	if !p.fits(m) {
		return nil
	}
	o := ir.Attention{Scale: s.Scale(), NaNGuard: m.has(p.guarded) || m.has(p.zeroed) || m.has(p.post)}
	if m.has(p.capped) {
		a, b := m.number(p.c1), m.number(p.c2)
		if !near(a*b, 1, tensor.F32) {
			return m.refuse("a tanh of %g·x times %g is not a soft cap", a, b)
		}
		var ok bool
		if o.Softcap, ok = m.parameter(b); !ok {
			return nil
		}
	}
	mask, ok := p.maskOf(m)
	if !ok {
		return nil
	}
	y := m.emit(o, m.heads(m.get(p.q), false), m.heads(m.get(p.k), !s.TransB), m.heads(m.get(p.v), out.TransB), mask)
	if len(m.get(p.scores).Type.Shape) == 3 {
		return m.reshape(y, m.root.Outputs[0].Type.Shape)
	}
	return m.transpose(y, 0, 2, 1, 3)
}

// fits reports whether the products are those of heads, side by side.
func (p *attentionPattern) fits(m *match) bool {
	shape := m.get(p.scores).Type.Shape
	rank := len(shape)
	switch {
	case !m.get(p.masked).Type.Shape.Equal(shape):
		m.refuse("the mask broadcasts the scores from %v to %v", shape, m.get(p.masked).Type.Shape)
		return false
	case opOf[ir.MatMul](m, p.out).Scale() != 1:
		m.refuse("the result is scaled")
		return false
	case rank != 3 && rank != 4:
		m.refuse("the scores have %d axes", rank)
		return false
	}
	for _, x := range []*ir.Value{m.get(p.k), m.get(p.v)} {
		if !x.Type.Shape[:rank-2].Equal(shape[:rank-2]) || !m.get(p.q).Type.Shape[:rank-2].Equal(shape[:rank-2]) {
			m.refuse("heads broadcast: %v beside scores %v", x.Type, shape)
			return false
		}
	}
	return true
}

// maskOf returns the mask as ir.Attention takes it.
func (p *attentionPattern) maskOf(m *match) (*ir.Value, bool) {
	x := attentionMask{m: m, shape: m.get(p.scores).Type.Shape, dtype: m.get(p.q).Type.DType,
		add: m.get(p.mask), keep: m.get(p.keep), drop: m.get(p.drop), excludes: m.has(p.zeroed) || m.has(p.post), gone: p.gone}
	if x.keep != nil && x.drop != nil { // one before the softmax and one after it: canonical forms of one mask share a value
		m.refuse("other keys are masked after the softmax than before it")
		return nil, false
	}
	if x.keep != nil || x.drop != nil {
		x.fill = m.number(p.fill)
	}
	if x.add != nil && x.add.Type.DType != x.dtype { // its lowest number would not survive a cast
		m.refuse("the mask is %s beside %s", x.add.Type.DType, x.dtype)
		return nil, false
	}
	return x.operand()
}

// ungrouped undoes the repetition of heads that several queries share: x [B,T,G·n,D], joined from [B,T,G,n,D] that was
// stretched from [B,T,G,1,D], becomes [B,T,G,D]; nil where x is nothing of the kind.
func (m *match) ungrouped(x *ir.Value) *ir.Value {
	if x.Def == nil || x.Def.Op.Kind() != ir.KindReshape {
		return nil
	}
	wide := x.Def.Inputs[0]
	if wide.Def == nil || wide.Def.Op.Kind() != ir.KindExpand {
		return nil
	}
	groups, ok := merged(wide.Type.Shape, x.Type.Shape)
	one := wide.Def.Inputs[0]
	s := one.Type.Shape
	if !ok || len(s) != 5 || len(wide.Type.Shape) != 5 || !slices.Equal(groups[2], []int{2, 3}) || !s[3].Is(1) {
		return nil
	}
	for _, i := range []int{0, 1, 2, 4} {
		if !s[i].Equal(wide.Type.Shape[i]) {
			return nil
		}
	}
	return m.reshape(one, ir.Shape{s[0], s[1], s[2], s[4]})
}

// inserted returns, for a reshape that only inserts axes of size 1, the axis of from that each axis of to is; below 0 for a new one.
func inserted(from, to ir.Shape) (of []int, ok bool) {
	i := 0
	for _, d := range to {
		switch {
		case i < len(from) && d.Equal(from[i]):
			of = append(of, i)
			i++
		case d.Is(1):
			of = append(of, -1)
		default:
			return nil, false
		}
	}
	return of, i == len(from) && len(to) > len(from)
}

// heads returns x [B,H,S,D], or [B,H,D,S] when transposed, as [B,S,H,D]; three axes have one head.
func (m *match) heads(x *ir.Value, transposed bool) *ir.Value {
	if s := x.Type.Shape; len(s) == 3 {
		x = m.reshape(x, ir.Shape{s[0], ir.N(1), s[1], s[2]})
	}
	if transposed {
		return m.transpose(x, 0, 3, 1, 2)
	}
	return m.transpose(x, 0, 2, 1, 3)
}
