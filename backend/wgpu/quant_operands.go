package wgpu

import (
	"fmt"

	"github.com/rlxc/rlxc/ir"
)

// packedSizes are the sizes of words and sums of right operands that a run computes.
func packedSizes(n *ir.Node) []int64 {
	a, b := n.Inputs[ir.QMatMulA].Type.Sizes(), n.Inputs[ir.QMatMulB].Type.Sizes()
	k := max(a[len(a)-1], 1)
	columns := b.Elements() / k
	return []int64{int64(columns * pad(k, 4)), int64(8 * columns)}
}

// packQuantized is the launch that arranges quantised values of a run, of [..,K,N] or transposed already, as binder.quantized
// does constant ones: an invocation goes along a column.
func packQuantized(op ir.QMatMul, in []*operand, words, sums *operand) (quantized, launch, error) {
	a, x, zero := in[ir.QMatMulA], in[ir.QMatMulB], in[ir.QMatMulBZero]
	last := len(x.Shape) - 1
	if last < 1 || last > 1 && (len(a.Shape) != last+1 || !a.Shape[:last-1].Equal(x.Shape[:last-1])) {
		return quantized{}, launch{}, errOnHost
	}
	c := quantized{n: x.Shape[last], k: x.Shape[last-1], words: words.memory, sums: sums.memory, first: words.off / 4,
		firstSum: sums.off / 4, lead: x.Shape[:last-1].Elements()}
	if op.TransB {
		c.n, c.k = c.k, c.n
	}
	s := newShader("pack", "u32", groupSize)
	n, k, width := s.u(c.n), s.u(c.k), s.u(ceil(c.k, 4))
	s.put("let t = %s * %du + lid;\nif (t >= %s) { return; }", linear, groupSize, s.u(c.lead*c.n))
	if op.TransB {
		s.put("let start = %s + t * %s;\nlet step = 1u;", s.u(x.first()), k)
	} else {
		s.put("let start = %s + t / %s * %s * %s + t %% %s;\nlet step = %s;", s.u(x.first()), n, n, k, n, n)
	}
	e := elements[x.DType]
	s.put("var sum = 0;\nfor (var w = 0u; w < %s; w++) {\nvar word = 0u;", width)
	s.put("for (var i = w * 4u; i < min(w * 4u + 4u, %s); i++) {\nlet v = i32(%s) - %d;", k, e.load(s.bind(x.memory), "start + i * step"),
		offset(x.DType))
	s.put("sum += v;\nword |= (bitcast<u32>(v) & 255u) << (i %% 4u * 8u);\n}")
	s.put("%s[%s + t * %s + w] = word;\n}", s.bind(words.memory), s.u(c.first), width)
	z := "0"
	if zero != nil {
		at := s.u(zero.first())
		if zero.Elements() > 1 {
			at += fmt.Sprintf(" + t %% %s", n)
		}
		z = fmt.Sprintf("i32(%s)", elements[zero.DType].load(s.bind(zero.memory), at))
	}
	s.put("let zero = %s - %d;\nlet to = %s + t / %s * 2u * %s + t %% %s;", z, offset(x.DType), s.u(c.firstSum), n, n, n)
	m := s.bind(sums.memory)
	s.put("%s[to] = bitcast<u32>(sum - i32(%s) * zero);\n%s[to + %s] = bitcast<u32>(zero);", m, k, m, n)
	return c, launch{s, spread(ceil(c.lead*c.n, groupSize))}, nil
}
