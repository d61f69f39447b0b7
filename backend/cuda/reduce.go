package cuda

import (
	"github.com/rlxc/rlxc/internal/target"
	"github.com/rlxc/rlxc/ir"
)

// reduceParams is Reduce in _gen/rows.cu.
type reduceParams struct {
	x, y                   address
	count, inner, fn, kind int32
	rank, innerRank        int32
	size, innerSize        [maxRank]int32
	stride, innerStride    [maxRank]int64
}

var reduceEntry = entry{
	Supports: func(n *ir.Node) bool {
		d, fn := n.Inputs[0].Type.DType, n.Op.(ir.Reduce).Fn
		switch fn {
		case ir.Sum, ir.MaxOf, ir.MinOf, ir.Prod, ir.Mean:
			return isCounted(d)
		}
		return isFloat(d)
	},
	Strided: target.AllStrides,
	Bind: func(b *binder, n *ir.Node, in, out []*operand) ([]*launch, error) {
		op, x, y := n.Op.(ir.Reduce), in[0], out[0]
		left, taken := x.Reduced(op.Axes)
		outer, err := newNest(left.Shape, &operand{Operand: left})
		if err != nil {
			return nil, err
		}
		inner, err := newNest(taken.Shape, &operand{Operand: taken})
		if err != nil {
			return nil, err
		}
		p := reduceParams{x: x.at, y: y.at, count: int32(y.Elements()), inner: int32(taken.Elements()), fn: int32(op.Fn),
			kind: kinds[x.DType],
			rank: outer.rank, innerRank: inner.rank, size: outer.size, innerSize: inner.size, stride: outer.walks[0].stride,
			innerStride: inner.walks[0].stride}
		return []*launch{newLaunch("reduce", p, line(ceil(y.Elements(), 4)), 128, 0)}, nil
	},
}

// softmaxParams is Softmax in _gen/rows.cu.
type softmaxParams struct {
	x, y               address
	rows, step         int64
	size, kind, log, _ int32
}

var softmaxEntry = entry{
	Supports: func(n *ir.Node) bool { return isFloat(n.Inputs[0].Type.DType) },
	InPlace:  func(*ir.Node, int) bool { return true }, // a lane reads and writes separate positions,
	Bind: func(b *binder, n *ir.Node, in, out []*operand) ([]*launch, error) {
		x, op := in[0], n.Op.(ir.Softmax)
		p := softmaxParams{x: x.at, y: out[0].at, rows: int64(x.Elements() / x.Shape[op.Axis]),
			step: int64(x.Shape[op.Axis+1:].Elements()), size: int32(x.Shape[op.Axis]),
			kind: kinds[x.DType], log: boolean(op.Log)}
		return []*launch{newLaunch("softmax", p, line(ceil(int(p.rows), 4)), 128, 0)}, nil
	},
}
