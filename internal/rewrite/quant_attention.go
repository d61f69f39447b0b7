package rewrite

import (
	"github.com/rlxc/rlxc/ir"
	"github.com/rlxc/rlxc/tensor"
)

// quantAttentionRules find attention between quantised products. They run when the second product has taken the rounding of its
// result.
func quantAttentionRules() []*Rule {
	q, k, v, mask := value(), value(), value(), value()
	qZero, kZero, vZero, probZero := value(), value(), value(), value()
	qScale, kScale, vScale, probScale := value(), value(), value(), value()
	roundScale, roundZero, probBy, probFrom, yScale, yZero := value(), value(), value(), value(), value(), value()

	scores := node[ir.QMatMul](q, k, optional(qZero), optional(kZero), qScale, kScale)
	added := either(binary(ir.Add, scores, mask), scores)
	rounded := node[ir.Quantize](added, roundScale, optional(roundZero))
	again := node[ir.Dequantize](rounded).rest()
	softmax := node[ir.Softmax](either(again, added)).when("a softmax over the keys", func(_ *match, p *ir.Value) bool {
		o := p.Def.Op.(ir.Softmax)
		return !o.Log && o.Axis == len(p.Type.Shape)-1
	})
	probs := node[ir.Quantize](softmax, probBy, optional(probFrom))
	out := node[ir.QMatMul](probs, v, optional(probZero), optional(vZero), probScale, vScale, none(), none(), optional(yScale),
		optional(yZero))
	return []*Rule{{Name: "qattention", changes: Rounding, pattern: out, near: 3, build: func(m *match) *ir.Value {
		first, second := opOf[ir.QMatMul](m, scores), opOf[ir.QMatMul](m, out)
		shape := m.get(scores).Type.Shape
		if !m.get(softmax).Type.Shape.Equal(shape) {
			return m.refuse("the mask broadcasts the scores to %v", shape)
		}
		for _, x := range []*pattern{q, k, v} {
			if s := m.get(x).Type.Shape; !s[:len(s)-2].Equal(shape[:2]) {
				return m.refuse("heads broadcast: %v beside scores %v", s, shape)
			}
		}
		for _, x := range []*pattern{qScale, kScale, vScale, roundScale, probBy} {
			if s := m.get(x); s != nil && (len(s.Type.Shape) != 0 || s.Type.DType != tensor.F32) {
				return m.refuse("a scale is not one number")
			}
		}
		if first.Act != ir.NoUnary || second.Act != ir.NoUnary {
			return m.refuse("an activation")
		}
		same := func(n *ir.Value, scale, zero *pattern) bool {
			return sameScalar(at(n, 1), m.get(scale)) && sameScalar(at(n, 2), m.get(zero))
		}
		if m.has(again) && !same(m.get(again), roundScale, roundZero) || !same(m.get(probs), probScale, probZero) {
			return m.refuse("its quantised values are read with another scale than they were written with")
		}
		quantized := func(p *pattern) *ir.Value {
			if scale := m.get(p); scale == nil || m.get(roundZero) != nil {
				return m.get(roundZero)
			}
			return m.e.constant("", tensor.New(m.get(rounded).Type.DType))
		}
		for _, p := range []*pattern{rounded, probs} {
			if x := m.get(p); x != nil && !is8Bit(x.Type.DType) {
				return m.refuse("quantised values of %s", x.Type.DType)
			}
		}
		y := m.emit(ir.QAttention{}, m.heads(m.get(q), false), m.heads(m.get(k), !first.TransB), m.heads(m.get(v), second.TransB),
			m.get(mask),
			m.get(qScale), m.get(qZero), m.get(kScale), m.get(kZero), m.get(vScale), m.get(vZero), m.get(roundScale), quantized(roundScale),
			m.get(probScale), m.get(probZero), m.get(yScale), m.get(yZero))
		return m.transpose(y, 0, 2, 1, 3)
	}}}
}
