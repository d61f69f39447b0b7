package wgpu

import (
	"github.com/rlxc/rlxc/internal/gpu"
	"github.com/rlxc/rlxc/ir"
	"github.com/rlxc/rlxc/tensor"
)

// rotaryEntry rotates pairs of a head's elements.
var rotaryEntry = entry{
	Supports: func(n *ir.Node) bool { return n.Inputs[0].Type.DType == tensor.F32 },
	Strided:  gpu.First,
	Bind: func(b *binder, n *ir.Node, in, out []*operand) ([]launch, error) {
		x, cos, sin, y := in[0], in[1], in[2], out[0]
		pair := "let lower = e < half;\nlet j = e % half;\nlet other = select(e - half, e + half, lower);"
		if n.Op.(ir.Rotary).Interleaved {
			pair = "let lower = e % 2u == 0u;\nlet j = e / 2u;\nlet other = e ^ 1u;"
		}
		f := elements[tensor.F32]
		return []launch{produce("rotary", y, f, func(s *shader, i string) (value, to string) {
			size, heads, length := s.u(x.Shape[3]), s.u(x.Shape[2]), s.u(x.Shape[1])
			s.put("let half = %s;\nlet e = %s %% %s;\nlet position = %s / %s / %s;", s.u(cos.Shape[2]), i, size, i, size, heads)
			s.put("let head = %s + position / %s * %s + position %% %s * %s + %s / %s %% %s * %s;", s.u(x.first()), length,
				s.u(x.Strides[0]),
				length, s.u(x.Strides[1]), i, size, heads, s.u(x.Strides[2]))
			step := s.u(x.Strides[3])
			load := func(o *operand, at string) string { return f.load(s.bind(o.memory), at) }
			s.put("var value = %s;\nif (e < 2u * half) {\n%s", load(x, "head + e * "+step), pair)
			s.put("let angle = position %% %s * half + j;\nlet rotated = %s * %s;", s.u(cos.Shape[0]*cos.Shape[1]),
				load(sin, s.u(sin.first())+" + angle"), load(x, "head + other * "+step))
			s.put("value = %s * value + select(rotated, -rotated, lower);\n}", load(cos, s.u(cos.first())+" + angle"))
			return "value", s.u(y.first()) + " + " + i
		})}, nil
	},
}
