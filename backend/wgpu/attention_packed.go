package wgpu

import (
	"fmt"
	"math"

	"github.com/rlxc/rlxc/ir"
	"github.com/rlxc/rlxc/tensor"
)

// restrict limits attention to pairs within one sequence of list, which ir.Pack returns. The queries of a workgroup may belong to several
// sequences. It visits the keys of all of them, span. Query r sees those from lo[r] to hi[r].
func (a *attention) restrict(list, positions *operand) {
	a.packed, a.positions, a.op.NaNGuard = true, positions, true
	field := a.sequenceOf(list)
	a.share("ends", "vec2<u32>", attentionSide)
	a.declare("var<workgroup> range: vec2<u32>;\n")
	a.put("var lo = vec4<u32>();\nvar hi = vec4<u32>();\nvar sequence = vec4<u32>();\nvar own = vec2<u32>(%s, 0u);", a.length)
	a.put("for (var r = 0u; r < 4u; r++) {\nlet own_sequence = sequence_of(s0 + ty * 4u + r);\nif (own_sequence != %s) {", noSequence)
	if a.mask != nil && a.maskStrides()[0] != 0 {
		a.put("sequence[r] = own_sequence;")
	}
	a.put("lo[r] = %s;\nhi[r] = min(%s, %s);\nif (lo[r] < hi[r]) { own = vec2<u32>(min(own.x, lo[r]), max(own.y, hi[r])); }\n}\n}",
		field("own_sequence", 2), field("own_sequence", 3), a.length)
	a.put("if (tx == 0u) { ends[ty] = own; }\nworkgroupBarrier();")
	a.put("if (lid == 0u) {\nfor (var i = 1u; i < %du; i++) { own = vec2<u32>(min(own.x, ends[i].x), max(own.y, ends[i].y)); }\nrange = "+
		"own;\n}",
		attentionSide)
	a.put("let span = workgroupUniformLoad(&range);")
	if positions != nil {
		at := a.positionOf()
		for r := range 4 {
			a.put("let here%d = %s;", r, at(fmt.Sprintf("min(s0 + ty * 4u + %du, %s - 1u)", r, a.length)))
		}
	}
}

// positionOf returns the expression of the position of a key, below 2³¹.
func (a *attention) positionOf() func(key string) string {
	first := a.u(a.positions.first())
	return func(key string) string {
		return fmt.Sprintf("bitcast<i32>(%s)", a.wordAt(a.positions.memory, fmt.Sprintf("(%s + %s) * 2u", first, key)))
	}
}

// relative declares the function that looks up what scores by relative position add: those of a token are indexed by its position and
// another. It returns nil where there are none. Pairs that see each other alone may be looked up, since the index is checked.
func (a *attention) relative(b *binder, scores, index *operand) func(token, own, other string) string {
	if scores == nil {
		return nil
	}
	name := fmt.Sprintf("relative%d", len(a.params))
	a.function(name+"(head: u32, token: u32, own: u32, other: u32) -> f32", func() {
		last := a.u(index.Shape[0] - 1)
		a.index("i", index, fmt.Sprintf("min(own, %s) * %s + min(other, %s)", last, a.u(index.Shape[1]), last))
		b.inRange(a.shader, "i", 3, scores.Shape[3], "return 0.0;")
		a.put("return %s;", a.floatAt(scores.memory, fmt.Sprintf("%s + head * %s + token * %s + u32(i) * %s",
			a.u(scores.first()), a.u(scores.Strides[1]), a.u(scores.Strides[2]), a.u(scores.Strides[3]))))
	})
	return func(token, own, other string) string {
		return fmt.Sprintf("%s(head, %s, u32(%s), u32(%s))", name, token, own, other)
	}
}

// sumSequencesEntry pools the tokens of each sequence. An invocation pools one column of a sequence, in order. Neighbouring invocations
// read neighbouring columns.
var sumSequencesEntry = entry{
	Supports: func(n *ir.Node) bool { return n.Inputs[0].Type.DType == tensor.F32 },
	Bind: func(b *binder, n *ir.Node, in, out []*operand) ([]launch, error) {
		x, list, y := in[0], in[1], out[0]
		e := elements[tensor.F32]
		return []launch{produce("sum_sequences", y, e, func(s *shader, i string) (value, to string) {
			width := s.u(y.Shape[1:].Elements())
			field := func(k int) string {
				return s.wordAt(list.memory, fmt.Sprintf("%s + %s / %s * %du + %du", s.u(list.first()), i, width, ir.SequenceFields, k))
			}
			two, start := sumOf.two, float32(0)
			if n.Op.(ir.SumSequences).Largest {
				two, start = maxOf.two, float32(math.Inf(-1))
			}
			s.use(two.needs...)
			s.put("var all = %s;\nlet end = min(%s, %s);", s.f(start), field(1), s.u(x.Shape[1]))
			s.put("for (var token = %s; token < end; token++) {", field(0))
			s.put("all = %s;\n}", two.of("all", e.load(s.bind(x.memory), fmt.Sprintf("%s + token * %s + %s %% %s", s.u(x.first()), width, i,
				width))))
			return "all", s.u(y.first()) + " + " + i
		})}, nil
	},
}
