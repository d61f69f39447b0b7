package wgpu

import (
	"fmt"

	"github.com/rlxc/rlxc/internal/gpu"
	"github.com/rlxc/rlxc/internal/target"
	"github.com/rlxc/rlxc/ir"
)

var copyEntry = entry{
	Supports: gpu.Moves,
	Strided:  target.AllStrides,
	Bind: func(b *binder, n *ir.Node, in, out []*operand) ([]launch, error) {
		return []launch{move(out[0], in[0])}, nil
	},
}

// move copies elements of any type between any strides; elements narrower than a word need a contiguous result.
func move(y, x *operand) launch {
	e, _ := raw(y.Width)
	return eachAs("move", y, []*operand{x}, func(*operand) element { return e }, expression{wgsl: "$1"})
}

var concatEntry = entry{
	Supports: gpu.Moves,
	Strided:  target.AllStrides,
	Bind: func(b *binder, n *ir.Node, in, out []*operand) ([]launch, error) {
		axis, at := n.Op.(ir.Concat).Axis, 0
		if out[0].Width < 4 { // pieces would share words
			return []launch{concatenate(out[0], in, axis)}, nil
		}
		var launches []launch
		for i := range in {
			piece := *out[0] // the part of the result that the operand fills
			piece.Shape = in[i].Shape
			piece.off += at * piece.Strides[axis] * piece.Width
			at += in[i].Shape[axis]
			if piece.Elements() == 0 {
				continue
			}
			l := move(&piece, in[i])
			if from, to, ok := b.p.Lengthens(n, i); ok && i == 0 {
				l.shader.grown = []int{from, to}
			}
			launches = append(launches, l)
		}
		return launches, nil
	},
}

// concatenate is the launch that writes the concatenation of xs along an axis to y, which is row-major.
func concatenate(y *operand, xs []*operand, axis int) launch {
	e, _ := raw(y.Width)
	return produce("concat", y, e, func(s *shader, i string) (value, to string) {
		inner, size := s.u(y.Shape[axis+1:].Elements()), s.u(y.Shape[axis])
		s.put("let column = %s %% %s;\nlet row = %s / %s / %s;", i, inner, i, inner, size)
		s.put("var position = %s / %s %% %s;\nvar value = %s();", i, inner, size, e.wgsl)
		for _, x := range xs {
			if x.Elements() == 0 {
				continue
			}
			n := s.u(x.Shape[axis]) // positions before the first or after the last are above it
			s.put("if (position < %s) {\nlet j = (row * %s + position) * %s + column;\nvar at = %s;", n, n, inner, s.u(x.first()))
			newNest(x.Shape, x).walk(s, "j", "at")
			s.put("value = %s;\n}\nposition -= %s;", e.load(s.bind(x.memory), "at"), n)
		}
		return "value", s.u(y.first()) + " + " + i
	})
}

// pieces is the number of bindings that a constant takes.
func (o *operand) pieces() int {
	if o.weight == nil {
		return 1
	}
	return len(o.weight.pieces)
}

// whole reports whether the bindings of a constant can be distinguished by row: it is one, or no view.
func (b *binder) whole(v *ir.Value, o *operand) bool {
	return o.pieces() == 1 || b.p.Layout(v).Root == v
}

// tileEntry repeats: with an axis of repeats before each of its axes, the operand broadcasts to the result.
var tileEntry = entry{
	Supports: gpu.Moves,
	Strided:  target.AllStrides,
	Bind: func(b *binder, n *ir.Node, in, out []*operand) ([]launch, error) {
		x, y := *in[0], *out[0]
		gpu.Repeat(&y.Operand, &x.Operand)
		return []launch{move(&y, &x)}, nil
	},
}

var triluEntry = entry{
	Supports: gpu.Moves,
	Bind: func(b *binder, n *ir.Node, in, out []*operand) ([]launch, error) {
		x, y, op := in[0], out[0], n.Op.(ir.Trilu)
		rows, cols := y.Shape[len(y.Shape)-2], y.Shape[len(y.Shape)-1]
		compare := "<="
		if op.Upper {
			compare = ">="
		}
		e, _ := raw(y.Width)
		return []launch{produce("trilu", y, e, func(s *shader, i string) (value, to string) {
			width := s.u(cols)
			s.put("let diagonal = i32(%s %% %s) - i32(%s / %s %% %s);", i, width, i, width, s.u(rows))
			s.put("let there = %s;", e.load(s.bind(x.memory), s.u(x.first())+" + "+i))
			return fmt.Sprintf("select(%s(), there, diagonal %s bitcast<i32>(%s))", e.wgsl, compare, s.u(op.K)), s.u(y.first()) + " + " + i
		})}, nil
	},
}

// paddings give, by mode, the position in an axis of which lo to hi is left that index i reads. A constant is read elsewhere.
var paddings = map[ir.PadMode]string{
	ir.PadConstant: "i",
	ir.PadEdge:     "clamp(i, lo, hi - 1)",
	ir.PadWrap:     "lo + mod_(i - lo, hi - lo)",
	ir.PadReflect:  "lo + mirror_(i - lo, hi - lo)",
}

var padEntry = entry{
	Supports: gpu.Moves,
	Strided:  gpu.First,
	Bind: func(b *binder, n *ir.Node, in, out []*operand) ([]launch, error) {
		op, x, y := n.Op.(ir.Pad), in[0], out[0]
		e, _ := raw(y.Width)
		return []launch{produce("pad_"+op.Mode.String(), y, e, func(s *shader, i string) (value, to string) {
			s.use("mirror_", "mod_")
			s.put("var rest = %s;\nvar index = 0;\nvar inside = true;", i)
			for k := len(y.Shape) - 1; k >= 0; k-- {
				before, after := op.Before[k].Int(), op.After[k].Int()
				size := s.u(y.Shape[k])
				s.put("{ let lo = bitcast<i32>(%s);\nlet hi = bitcast<i32>(%s);", s.u(max(0, -before)), s.u(x.Shape[k]-max(0, -after)))
				s.put("let i = i32(rest %% %s) - bitcast<i32>(%s);\nrest /= %s;\nlet j = %s;", size, s.u(before), size, paddings[op.Mode])
				s.put("inside = inside && j >= lo && j < hi;\nindex += j * bitcast<i32>(%s); }", s.u(x.Strides[k]))
			}
			value = e.wgsl + "()"
			if n.HasOperand(1) {
				value = e.load(s.bind(in[1].memory), s.u(in[1].first()))
			}
			s.put("var value = %s;", value)
			s.put("if (inside) { let at = u32(index) + %s;\nvalue = %s; }", s.u(x.first()), e.load(s.bind(x.memory), "at"))
			return "value", s.u(y.first()) + " + " + i
		})}, nil
	},
}
