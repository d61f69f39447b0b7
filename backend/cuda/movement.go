package cuda

import (
	"slices"

	"github.com/rlxc/rlxc/internal/target"
	"github.com/rlxc/rlxc/ir"
)

// moveParams is Move in _gen/each.cu.
type moveParams struct {
	count, rank int32
	size        [maxRank]int32
	y, x        walk
}

// move copies elements of any type between any strides; runs of 16 bytes, where there are such on both sides, at a time.
func move(y, x *operand) (*launch, error) {
	nest, err := newNest(y.shape, y, x)
	if err != nil {
		return nil, err
	}
	width, count := y.width, y.elements()
	to, from, last := &nest.walks[0], &nest.walks[1], int(nest.rank)-1
	if last >= 0 && to.stride[last] == 1 && from.stride[last] == 1 && y.aligned(16) && x.aligned(16) {
		per, whole := 16/width, true
		for k := range last {
			whole = whole && to.stride[k]%int64(per) == 0 && from.stride[k]%int64(per) == 0
		}
		if whole && nest.size[last]%int32(per) == 0 {
			nest.size[last] /= int32(per)
			for k := range last {
				to.stride[k] /= int64(per)
				from.stride[k] /= int64(per)
			}
			width, count = 16, count/per
		}
	}
	to.kind, from.kind = int32(width), int32(width)
	p := moveParams{int32(count), nest.rank, nest.size, *to, *from}
	return newLaunch("move", p, spread(ceil(count, groupSize)), groupSize, 0), nil
}

var copyRow = row{
	Row: target.Row{
		Runs:     target.OnKernel,
		Supports: func(n *ir.Node) bool { return moves(n.Inputs[0].Type.DType) },
		Strided:  target.AllStrides,
	},
	bind: func(b *binder, n *ir.Node) ([]*launch, error) {
		in, out, err := b.operands(n)
		if err != nil {
			return nil, err
		}
		x, err := move(out[0], in[0])
		return []*launch{x}, err
	},
}

var concatRow = row{
	Row: target.Row{
		Runs:     target.OnKernel,
		Supports: func(n *ir.Node) bool { return moves(n.Outputs[0].Type.DType) },
		Strided:  target.AllStrides,
	},
	bind: func(b *binder, n *ir.Node) ([]*launch, error) {
		in, out, err := b.operands(n)
		if err != nil {
			return nil, err
		}
		axis, at := n.Op.(ir.Concat).Axis, 0
		var launches []*launch
		for i, x := range in {
			piece := *out[0] // the part of the result that the operand fills
			piece.shape = x.shape
			piece.at += address(at * piece.strides[axis] * piece.width)
			at += x.shape[axis]
			if piece.elements() == 0 {
				continue
			}
			l, err := move(&piece, x)
			if err != nil {
				return nil, err
			}
			if from, to, ok := b.p.Lengthens(n, i); ok && i == 0 {
				l.grown = []int{from, to}
			}
			launches = append(launches, l)
		}
		return launches, nil
	},
}

// tileRow repeats: with an axis of repeats before each of its axes, the operand broadcasts to the result.
var tileRow = row{
	Row: copyRow.Row,
	bind: func(b *binder, n *ir.Node) ([]*launch, error) {
		in, out, err := b.operands(n)
		if err != nil {
			return nil, err
		}
		x, y := *in[0], *out[0]
		x.shape, x.strides, y.shape = nil, nil, nil
		for i, d := range in[0].shape {
			x.shape, x.strides = append(x.shape, 1, d), append(x.strides, 0, in[0].strides[i])
			y.shape = append(y.shape, out[0].shape[i]/d, d)
		}
		y.strides = slices.Clone(y.shape.Strides())
		l, err := move(&y, &x)
		return []*launch{l}, err
	},
}

// The parameters of the kernels in _gen/index.cu that place elements, in their order.
type (
	padParams struct {
		y, x, value               address
		count, rank, mode, width  int32
		size, from, before, after [maxRank]int32
		stride                    [maxRank]int64
	}
	triluParams struct {
		y, x                 address
		total, rows, cols, k int64
		upper, width         int32
	}
)

var padRow = row{
	Row: target.Row{
		Runs:     target.OnKernel,
		Supports: func(n *ir.Node) bool { return moves(n.Inputs[0].Type.DType) && len(n.Inputs[0].Type.Shape) <= maxRank },
		Strided:  func(_ *ir.Node, i int, _ []int) bool { return i == 0 },
	},
	bind: func(b *binder, n *ir.Node) ([]*launch, error) {
		in, out, err := b.operands(n)
		if err != nil {
			return nil, err
		}
		op, x, y := n.Op.(ir.Pad), in[0], out[0]
		if y.elements() > 1<<31-1 {
			return nil, errOnHost
		}
		p := padParams{y: y.at, x: x.at, value: option(in, 1).pointer(), count: int32(y.elements()),
			rank: int32(len(y.shape)), mode: int32(op.Mode), width: int32(y.width)}
		for k := range y.shape {
			p.size[k], p.from[k], p.stride[k] = int32(y.shape[k]), int32(x.shape[k]), int64(x.strides[k])
			p.before[k], p.after[k] = int32(op.Before[k].Int()), int32(op.After[k].Int())
		}
		return []*launch{newLaunch("pad", p, spread(ceil(y.elements(), groupSize)), groupSize, 0)}, nil
	},
}

var triluRow = row{
	Row: target.Row{Runs: target.OnKernel, Supports: func(n *ir.Node) bool { return moves(n.Inputs[0].Type.DType) }},
	bind: func(b *binder, n *ir.Node) ([]*launch, error) {
		in, out, err := b.operands(n)
		if err != nil {
			return nil, err
		}
		y, op := out[0], n.Op.(ir.Trilu)
		p := triluParams{y.at, in[0].at, int64(y.elements()), int64(y.shape[len(y.shape)-2]), int64(y.shape[len(y.shape)-1]),
			int64(op.K), boolean(op.Upper), int32(y.width)}
		return []*launch{newLaunch("trilu", p, spread(ceil(y.elements(), groupSize)), groupSize, 0)}, nil
	},
}
