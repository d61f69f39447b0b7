package wgpu

import (
	"fmt"

	"github.com/rlxc/rlxc/ir"
	"github.com/rlxc/rlxc/target"
	"github.com/rlxc/rlxc/tensor"
)

// tileRow repeats: with an axis of repeats before each of its axes, the operand broadcasts to the result.
var tileRow = row{
	Row: target.Row{
		Runs:     target.OnKernel,
		Supports: func(n *ir.Node) bool { return moves(n.Inputs[0].Type.DType) },
		Strided:  target.AllStrides,
	},
	bind: func(b *binder, n *ir.Node) ([]launch, error) {
		in, out, err := b.operands(n)
		if err != nil {
			return nil, err
		}
		x, y := in[0], out[0]
		x.shape, x.strides, y.shape = nil, nil, nil
		for i, d := range in[0].shape {
			r := out[0].shape[i] / d
			x.shape, x.strides = append(x.shape, 1, d), append(x.strides, 0, in[0].strides[i])
			y.shape = append(y.shape, r, d)
		}
		y.strides = y.shape.Strides()
		return []launch{move(&y, &x)}, nil
	},
}

var triluRow = row{
	Row: target.Row{Runs: target.OnKernel, Supports: func(n *ir.Node) bool { return moves(n.Inputs[0].Type.DType) }},
	bind: func(b *binder, n *ir.Node) ([]launch, error) {
		in, out, err := b.operands(n)
		if err != nil {
			return nil, err
		}
		x, y, op := &in[0], &out[0], n.Op.(ir.Trilu)
		rows, cols := y.shape[len(y.shape)-2], y.shape[len(y.shape)-1]
		compare := "<="
		if op.Upper {
			compare = ">="
		}
		e, _ := raw(y.width)
		return []launch{produce("trilu", y, e, func(s *shader, i string) (value, to string) {
			width := s.u(cols)
			s.put("let diagonal = i32(%s %% %s) - i32(%s / %s %% %s);", i, width, i, width, s.u(rows))
			s.put("let there = %s;", e.load(s.bind(x.memory), s.u(x.first())+" + "+i))
			return fmt.Sprintf("select(%s(), there, diagonal %s bitcast<i32>(%s))", e.wgsl, compare, s.u(op.K)), s.u(y.first()) + " + " + i
		})}, nil
	},
}

// paddings give, by mode, the place in an axis of which lo to hi is left that shows at place i; a constant shows elsewhere.
var paddings = map[ir.PadMode]string{
	ir.PadConstant: "i",
	ir.PadEdge:     "clamp(i, lo, hi - 1)",
	ir.PadWrap:     "lo + mod_(i - lo, hi - lo)",
	ir.PadReflect:  "lo + mirror_(i - lo, hi - lo)",
}

var padRow = row{
	Row: target.Row{
		Runs:     target.OnKernel,
		Supports: func(n *ir.Node) bool { return moves(n.Inputs[0].Type.DType) },
		Strided:  func(_ *ir.Node, i int, _ []int) bool { return i == 0 },
	},
	bind: func(b *binder, n *ir.Node) ([]launch, error) {
		in, out, err := b.operands(n)
		if err != nil {
			return nil, err
		}
		op, x, y := n.Op.(ir.Pad), &in[0], &out[0]
		e, _ := raw(y.width)
		return []launch{produce("pad_"+op.Mode.String(), y, e, func(s *shader, i string) (value, to string) {
			s.use("mirror_", "mod_")
			s.put("var rest = %s;\nvar place = 0;\nvar inside = true;", i)
			for k := len(y.shape) - 1; k >= 0; k-- {
				before, after := op.Before[k].Int(), op.After[k].Int()
				size := s.u(y.shape[k])
				s.put("{ let lo = bitcast<i32>(%s);\nlet hi = bitcast<i32>(%s);", s.u(max(0, -before)), s.u(x.shape[k]-max(0, -after)))
				s.put("let i = i32(rest %% %s) - bitcast<i32>(%s);\nrest /= %s;\nlet j = %s;", size, s.u(before), size, paddings[op.Mode])
				s.put("inside = inside && j >= lo && j < hi;\nplace += j * bitcast<i32>(%s); }", s.u(x.strides[k]))
			}
			value = e.wgsl + "()"
			if n.HasOperand(1) {
				value = e.load(s.bind(in[1].memory), s.u(in[1].first()))
			}
			s.put("var value = %s;", value)
			s.put("if (inside) { let at = u32(place) + %s;\nvalue = %s; }", s.u(x.first()), e.load(s.bind(x.memory), "at"))
			return "value", s.u(y.first()) + " + " + i
		})}, nil
	},
}

// rotaryRow turns pairs of a head's elements.
var rotaryRow = row{
	Row: target.Row{
		Runs:     target.OnKernel,
		Supports: func(n *ir.Node) bool { return n.Inputs[0].Type.DType == tensor.F32 },
		Strided:  func(_ *ir.Node, i int, _ []int) bool { return i == 0 },
	},
	bind: func(b *binder, n *ir.Node) ([]launch, error) {
		in, out, err := b.operands(n)
		if err != nil {
			return nil, err
		}
		x, cos, sin, y := &in[0], &in[1], &in[2], &out[0]
		pair := "let lower = e < half;\nlet j = e % half;\nlet other = select(e - half, e + half, lower);"
		if n.Op.(ir.Rotary).Interleaved {
			pair = "let lower = e % 2u == 0u;\nlet j = e / 2u;\nlet other = e ^ 1u;"
		}
		f := elements[tensor.F32]
		return []launch{produce("rotary", y, f, func(s *shader, i string) (value, to string) {
			size, heads, length := s.u(x.shape[3]), s.u(x.shape[2]), s.u(x.shape[1])
			s.put("let half = %s;\nlet e = %s %% %s;\nlet position = %s / %s / %s;", s.u(cos.shape[2]), i, size, i, size, heads)
			s.put("let head = %s + position / %s * %s + position %% %s * %s + %s / %s %% %s * %s;", s.u(x.first()), length, s.u(x.strides[0]),
				length, s.u(x.strides[1]), i, size, heads, s.u(x.strides[2]))
			step := s.u(x.strides[3])
			load := func(o *operand, at string) string { return f.load(s.bind(o.memory), at) }
			s.put("var value = %s;\nif (e < 2u * half) {\n%s", load(x, "head + e * "+step), pair)
			s.put("let angle = position %% %s * half + j;\nlet turned = %s * %s;", s.u(cos.shape[0]*cos.shape[1]),
				load(sin, s.u(sin.first())+" + angle"), load(x, "head + other * "+step))
			s.put("value = %s * value + select(turned, -turned, lower);\n}", load(cos, s.u(cos.first())+" + angle"))
			return "value", s.u(y.first()) + " + " + i
		})}, nil
	},
}
