package wgpu

import (
	"github.com/rlxc/rlxc/ir"
	"github.com/rlxc/rlxc/target"
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
