package wgpu

import (
	"github.com/rlxc/rlxc/ir"
	"github.com/rlxc/rlxc/target"
)

var copyRow = row{
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
		return []launch{move(&out[0], &in[0])}, nil
	},
}

// move copies elements of any type between any strides; elements narrower than a word need a contiguous result.
func move(y, x *operand) launch {
	e, _ := raw(y.width)
	return each("move", y, e, []*operand{x}, []element{e}, expression{text: "$1"})
}

var concatRow = row{
	Row: target.Row{
		Runs:     target.OnKernel,
		Supports: func(n *ir.Node) bool { return moves(n.Outputs[0].Type.DType) },
		Strided:  target.AllStrides,
	},
	bind: func(b *binder, n *ir.Node) ([]launch, error) {
		in, out, err := b.operands(n)
		if err != nil {
			return nil, err
		}
		axis, at := n.Op.(ir.Concat).Axis, 0
		if out[0].width < 4 { // pieces would share words
			return []launch{concatenate(&out[0], in, axis)}, nil
		}
		var launches []launch
		for i := range in {
			piece := out[0] // the part of the result that the operand fills
			piece.shape = in[i].shape
			piece.off += at * piece.strides[axis] * piece.width
			at += in[i].shape[axis]
			if piece.elements() > 0 {
				launches = append(launches, move(&piece, &in[i]))
			}
		}
		return launches, nil
	},
}

// concatenate is the launch that computes y, row-major, as what stands in xs along an axis.
func concatenate(y *operand, xs []operand, axis int) launch {
	e, _ := raw(y.width)
	return produce("concat", y, e, func(s *shader, i string) (value, to string) {
		inner, size := s.u(y.shape[axis+1:].Elements()), s.u(y.shape[axis])
		s.put("let column = %s %% %s;\nlet row = %s / %s / %s;", i, inner, i, inner, size)
		s.put("var place = %s / %s %% %s;\nvar value = %s();", i, inner, size, e.wgsl)
		for k := range xs {
			x := &xs[k]
			if x.elements() == 0 {
				continue
			}
			n := s.u(x.shape[axis]) // places before the first or after the last are above it
			s.put("if (place < %s) {\nlet j = (row * %s + place) * %s + column;\nvar at = %s;", n, n, inner, s.u(x.first()))
			newNest(x.shape, x).walk(s, "j", "at")
			s.put("value = %s;\n}\nplace -= %s;", e.load(s.bind(x.memory), "at"), n)
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

// whole reports whether the bindings of a constant can be told apart by row: it is one, or no view.
func (b *binder) whole(v *ir.Value, o *operand) bool {
	return o.pieces() == 1 || b.layout(v).Root == v
}
