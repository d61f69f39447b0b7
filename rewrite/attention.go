package rewrite

import (
	"math"
	"slices"

	"github.com/rlxc/rlxc/ir"
	"github.com/rlxc/rlxc/tensor"
)

// attentionRules find softmax(Scale·q·kᵀ + mask)·v. The rules of products went before: scales are in Alpha, wherever the
// exporter put them, and q and k have whole rows, kᵀ by TransB. The heads' axis comes second here and third in
// ir.Attention: the transposes that say so meet those of the exporter and cancel.
func attentionRules() []*Rule {
	q, k, v := value(), value(), value()
	mask, keep, drop, fill := value(), value(), value(), scalar()
	c1, c2 := scalar(), scalar()

	scores := linear(matmul(q, k, nil, nil))
	capped := binary(ir.Mul, unary(ir.Tanh, binary(ir.Mul, scores, c1)), c2)
	raw := cast(either(capped, scores))
	added := either(raw, binary(ir.Add, raw, mask))
	masked := either(added, node[ir.Where](keep, added, fill), node[ir.Where](drop, fill, added))
	probs := with(node[ir.Softmax](cast(masked)), func(o ir.Softmax) bool { return !o.Log }).
		when("a softmax over the keys", func(_ *match, p *ir.Value) bool {
			return p.Def.Op.(ir.Softmax).Axis == len(p.Type.Shape)-1
		})
	isNaN := unary(ir.IsNaN, probs)
	guarded := node[ir.Where](isNaN, number(0), probs)
	zeroed, post := node[ir.Where](keep, probs, number(0)), node[ir.Where](drop, number(0), probs)
	m1, m2 := value(), value()
	twoMasks := binary(ir.Add, binary(ir.Add, raw, m1), m2)
	out := linear(matmul(cast(either(guarded, zeroed, post, probs)), v, nil, nil))

	grouped := node[ir.Attention](q, k, v, optional(mask))
	factor := scalar()
	scaled := either(node[ir.Attention](binary(ir.Mul, q, factor), k, v, optional(mask)), node[ir.Attention](q, binary(ir.Mul, k, factor), v, optional(mask)))
	return []*Rule{
		{Name: "attention.scale", pattern: scaled, build: func(m *match) *ir.Value {
			o := m.root.Op.(ir.Attention)
			o.Scale *= float32(m.number(factor))
			return m.emit(o, m.get(q), m.get(k), m.get(v), m.get(mask))
		}},
		{Name: "attention.groups", pattern: grouped, build: func(m *match) *ir.Value {
			keys, values := m.ungrouped(m.get(k)), m.ungrouped(m.get(v))
			if keys == nil || values == nil || !keys.Type.Shape[2].Equal(values.Type.Shape[2]) {
				return nil
			}
			return m.emit(m.root.Op, m.get(q), keys, values, m.get(mask))
		}},
		// A bias of relative positions and a mask are added first: mostly once for all layers.
		{Name: "attention.masks", pattern: twoMasks, build: func(m *match) *ir.Value {
			if scores := m.get(scores); scores.Def.Inputs[ir.MatMulB].IsConst() || len(scores.Def.Inputs[ir.MatMulB].Type.Shape) < 3 {
				return nil
			}
			return m.emit(ir.Binary{Fn: ir.Add}, m.get(raw), m.emit(ir.Binary{Fn: ir.Add}, m.get(m1), m.get(m2)))
		}},
		{Name: "attention", pattern: out, near: 3, build: func(m *match) *ir.Value {
			s, p := opOf[ir.MatMul](m, scores), opOf[ir.MatMul](m, out)
			shape := m.get(scores).Type.Shape
			if !m.get(masked).Type.Shape.Equal(shape) {
				return m.refuse("the mask stretches the scores from %v to %v", shape, m.get(masked).Type.Shape)
			}
			if p.Scale() != 1 {
				return m.refuse("the result is scaled")
			}
			rank := len(shape)
			if rank != 3 && rank != 4 {
				return m.refuse("the scores have %d axes", rank)
			}
			for _, x := range []*ir.Value{m.get(k), m.get(v)} {
				if !x.Type.Shape[:rank-2].Equal(shape[:rank-2]) || !m.get(q).Type.Shape[:rank-2].Equal(shape[:rank-2]) {
					return m.refuse("heads broadcast: %v beside scores %v", x.Type, shape)
				}
			}
			o := ir.Attention{Scale: s.Scale(), NaNGuard: m.has(guarded)}
			if m.has(capped) {
				a, b := m.number(c1), m.number(c2)
				if !near(a*b, 1, tensor.F32) {
					return m.refuse("a tanh of %g·x times %g is no soft cap", a, b)
				}
				o.Softcap = float32(b)
			}
			x := attentionMask{m: m, shape: shape, add: m.get(mask), dtype: m.get(q).Type.DType, excludes: m.has(zeroed) || m.has(post)}
			x.keep, x.drop = m.get(keep), m.get(drop)
			if x.keep != nil || x.drop != nil {
				x.fill = m.number(fill)
			}
			if x.add != nil && x.add.Type.DType != x.dtype { // its lowest number would not survive a cast
				return m.refuse("the mask is %s beside %s", x.add.Type.DType, x.dtype)
			}
			operand, ok := x.operand()
			if !ok {
				return nil
			}
			o.NaNGuard = o.NaNGuard || x.excludes
			y := m.emit(o, m.heads(m.get(q), false), m.heads(m.get(k), !s.TransB), m.heads(m.get(v), p.TransB), operand)
			if rank == 3 {
				return m.reshape(y, m.root.Outputs[0].Type.Shape)
			}
			return m.transpose(y, 0, 2, 1, 3)
		}},
	}
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

// heads gives x [B,H,S,D], or [B,H,D,S] when turned, as [B,S,H,D]; three axes have one head.
func (m *match) heads(x *ir.Value, turned bool) *ir.Value {
	if s := x.Type.Shape; len(s) == 3 {
		x = m.reshape(x, ir.Shape{s[0], ir.N(1), s[1], s[2]})
	}
	if turned {
		return m.transpose(x, 0, 3, 1, 2)
	}
	return m.transpose(x, 0, 2, 1, 3)
}

// attentionMask is what was done to the scores before the softmax: add was added, then fill was put where keep is false or
// drop is true. With excludes the probabilities there were set to 0 after the softmax.
type attentionMask struct {
	m               *match
	shape           ir.Shape
	dtype           tensor.DType
	add, keep, drop *ir.Value
	fill            float64
	excludes        bool
}

// finiteFill is the weakest fill that a mask may have for the key to count as gone: exp(fill − max) is 0 in float32 for
// every score above fill + 104, and a row that is masked whole is an average, the same as with any other such fill.
const finiteFill = -1e4

// operand gives the mask as ir.Attention takes it.
func (x *attentionMask) operand() (*ir.Value, bool) {
	m := x.m
	if x.keep == nil && x.drop == nil {
		if x.excludes {
			m.refuse("a mask behind the softmax only")
			return nil, false
		}
		return x.shaped(x.add), true
	}
	if x.fill > finiteFill {
		m.refuse("masked scores become %g, which is no mask", x.fill)
		return nil, false
	}
	keep := x.keep
	if keep == nil {
		keep = m.emit(ir.Unary{Fn: ir.Not}, x.drop)
	}
	gone := math.IsInf(x.fill, -1) || x.excludes
	if gone && x.add == nil {
		return x.shaped(keep), true
	}
	other, rest := x.add, math.Inf(-1)
	if other == nil {
		other = m.e.g.NewConst("", scalarOf(x.dtype, 0))
	}
	if !gone {
		rest = lowest(x.dtype)
	}
	return x.shaped(m.emit(ir.Where{}, keep, other, m.e.g.NewConst("", scalarOf(x.dtype, rest)))), true
}

// shaped gives a mask of fewer axes those of the scores, four in the end.
func (x *attentionMask) shaped(v *ir.Value) *ir.Value {
	if v == nil {
		return nil
	}
	if len(x.shape) == 3 { // one head
		s := v.Type.Shape
		for len(s) < 3 {
			s = append(ir.Shape{ir.N(1)}, s...)
		}
		return x.m.reshape(v, ir.Shape{s[0], ir.N(1), s[1], s[2]})
	}
	return v
}

// lowest is the lowest finite number of a type.
func lowest(d tensor.DType) float64 {
	if d == tensor.F16 {
		return -65504
	}
	if d == tensor.F64 {
		return -math.MaxFloat64
	}
	return -math.MaxFloat32
}

func scalarOf(d tensor.DType, x float64) *tensor.Tensor {
	t := tensor.New(d)
	t.SetFloat64(0, x)
	return t
}
