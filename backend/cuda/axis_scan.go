package cuda

import "github.com/rlxc/rlxc/ir"

// lineParams is Line in _gen/rows.cu.
type lineParams struct {
	x, y                                             address
	rows, step                                       int64
	size, kind, exclusive, reverse, smallest, latest int32
}

func newLine(x, y *operand, axis int) lineParams {
	return lineParams{x: x.at, y: y.at, rows: int64(x.Elements() / x.Shape[axis]), step: int64(x.Shape[axis+1:].Elements()),
		size: int32(x.Shape[axis]), kind: kinds[x.DType]}
}

func counted(n *ir.Node) bool { return isCounted(n.Inputs[0].Type.DType) }

var cumSumEntry = entry{
	Supports: counted,
	Bind: func(b *binder, n *ir.Node, in, out []*operand) ([]*launch, error) {
		op := n.Op.(ir.CumSum)
		p := newLine(in[0], out[0], op.Axis)
		p.exclusive, p.reverse = boolean(op.Exclusive), boolean(op.Reverse)
		return []*launch{newLaunch("cumsum", p, line(ceil(int(p.rows), 128)), 128, 0)}, nil
	},
}

var argReduceEntry = entry{
	Supports: counted,
	Bind: func(b *binder, n *ir.Node, in, out []*operand) ([]*launch, error) {
		op := n.Op.(ir.ArgReduce)
		p := newLine(in[0], out[0], op.Axis)
		p.smallest, p.latest = boolean(op.Min), boolean(op.Last)
		return []*launch{newLaunch("argmax", p, line(ceil(int(p.rows), 128)), 128, 0)}, nil
	},
}
