package wgpu

import (
	"fmt"

	"github.com/rlxc/rlxc/ir"
	"github.com/rlxc/rlxc/target"
	"github.com/rlxc/rlxc/tensor"
)

var copyRow = row{
	Row: target.Row{
		Runs:    target.OnKernel,
		Claims:  func(n *ir.Node) bool { return moves(n.Inputs[0].Type.DType) },
		Strided: allStrides,
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
		Runs: target.OnKernel,
		// Pieces of narrower elements would share words.
		Claims:  func(n *ir.Node) bool { return n.Outputs[0].Type.DType.Size() >= 4 && moves(n.Outputs[0].Type.DType) },
		Strided: allStrides,
	},
	bind: func(b *binder, n *ir.Node) ([]launch, error) {
		in, out, err := b.operands(n)
		if err != nil {
			return nil, err
		}
		axis, at := n.Op.(ir.Concat).Axis, 0
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

var gatherRow = row{
	Row: target.Row{
		Runs: target.OnKernel,
		Claims: func(n *ir.Node) bool {
			d, x := n.Inputs[1].Type.DType, n.Inputs[0].Type
			inner := x.Shape[n.Op.(ir.Gather).Axis+1:].Elements().Mul(ir.N(x.DType.Size()))
			bytes, known := inner.Const()
			return moves(x.DType) && (x.DType.Size() >= 4 || known && bytes%4 == 0) && (d == tensor.I64 || d == tensor.I32)
		},
	},
	pieces: func(i int) bool { return i == 0 },
	bind: func(b *binder, n *ir.Node) ([]launch, error) {
		in, out, err := b.operands(n)
		if err != nil {
			return nil, err
		}
		x, index, y, axis := &in[0], &in[1], &out[0], n.Op.(ir.Gather).Axis
		if !b.whole(n.Inputs[0], x) || x.pieces() > 1 && axis != 0 || x.off%4 != 0 {
			return nil, errOnHost
		}
		s := newShader("gather", "u32", groupSize)
		inner, total := x.shape[axis+1:].Elements()*x.width/4, y.elements()*x.width/4 // in words
		width, count := s.u(inner), s.u(index.elements())
		s.put("let t = %s * %du + lid;", linear, groupSize)
		s.put("if (t >= %s) { return; }", s.u(total))
		s.put("let row = t / %s;\nlet j = row %% %s;", width, count)
		narrow := s.index("i", index, "j")
		b.inRange(s, "i", narrow, axis, x.shape[axis], "return;")
		s.put("var value = 0u;")
		s.row(x, fmt.Sprintf("((row / %s) * %s + u32(i))", count, s.u(x.shape[axis])), width)("value", fmt.Sprintf("t %% %s", width))
		s.put("%s[%s + t] = value;", s.bind(y.memory), s.u(y.off/4))
		return []launch{{s, spread(ceil(total, groupSize))}}, nil
	},
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
