package cuda

import (
	"slices"

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

var reduceRow = row{
	Row: target.Row{
		Runs: target.OnKernel,
		Supports: func(n *ir.Node) bool {
			d, fn := n.Inputs[0].Type.DType, n.Op.(ir.Reduce).Fn
			switch fn {
			case ir.Sum, ir.MaxOf, ir.MinOf, ir.Prod, ir.Mean:
				return isCounted(d)
			}
			return isFloat(d)
		},
		Strided: target.AllStrides,
	},
	bind: func(b *binder, n *ir.Node) ([]*launch, error) {
		in, out, err := b.operands(n)
		if err != nil {
			return nil, err
		}
		op, x, y := n.Op.(ir.Reduce), in[0], out[0]
		var kept, gone operand
		for i, s := range x.shape {
			o := &kept
			if slices.Contains(op.Axes, i) {
				o = &gone
			}
			o.shape, o.strides = append(o.shape, s), append(o.strides, x.strides[i])
		}
		kept.dtype, gone.dtype = x.dtype, x.dtype
		outer, err := newNest(kept.shape, &kept)
		if err != nil {
			return nil, err
		}
		inner, err := newNest(gone.shape, &gone)
		if err != nil {
			return nil, err
		}
		p := reduceParams{x: x.at, y: y.at, count: int32(y.elements()), inner: int32(gone.shape.Elements()), fn: int32(op.Fn),
			kind: kinds[x.dtype],
			rank: outer.rank, innerRank: inner.rank, size: outer.size, innerSize: inner.size, stride: outer.walks[0].stride,
			innerStride: inner.walks[0].stride}
		return []*launch{newLaunch("reduce", p, line(ceil(y.elements(), 4)), 128, 0)}, nil
	},
}

// softmaxParams is Softmax in _gen/rows.cu.
type softmaxParams struct {
	x, y               address
	rows, step         int64
	size, kind, log, _ int32
}

var softmaxRow = row{
	Row: target.Row{
		Runs:     target.OnKernel,
		Supports: func(n *ir.Node) bool { return isFloat(n.Inputs[0].Type.DType) },
		InPlace:  func(*ir.Node, int) bool { return true }, // a lane reads and writes places of its own
	},
	bind: func(b *binder, n *ir.Node) ([]*launch, error) {
		in, out, err := b.operands(n)
		if err != nil {
			return nil, err
		}
		x, op := in[0], n.Op.(ir.Softmax)
		p := softmaxParams{x: x.at, y: out[0].at, rows: int64(x.elements() / x.shape[op.Axis]),
			step: int64(x.shape[op.Axis+1:].Elements()), size: int32(x.shape[op.Axis]),
			kind: kinds[x.dtype], log: boolean(op.Log)}
		return []*launch{newLaunch("softmax", p, line(ceil(int(p.rows), 4)), 128, 0)}, nil
	},
}
