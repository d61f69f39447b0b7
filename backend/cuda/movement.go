package cuda

import (
	"github.com/rlxc/rlxc/internal/gpu"
	"github.com/rlxc/rlxc/internal/target"
	"github.com/rlxc/rlxc/ir"
)

// moveParams is Move in _gen/each.cu.
type moveParams struct {
	count, rank int32
	size        [maxRank]int32
	y, x        walk
}

// move copies elements of any type between any strides. It copies 16 bytes at a time if both sides are contiguous and aligned.
func move(y, x *operand) (*launch, error) {
	nest, err := newNest(y.Shape, y, x)
	if err != nil {
		return nil, err
	}
	width, count := y.Width, y.Elements()
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
	return perElement("move", p, count), nil
}

var copyEntry = entry{
	Supports: gpu.Moves,
	Strided:  target.AllStrides,
	Bind: func(b *binder, n *ir.Node, in, out []*operand) ([]*launch, error) {
		x, err := move(out[0], in[0])
		return []*launch{x}, err
	},
}

var concatEntry = entry{
	Supports: gpu.Moves,
	Strided:  target.AllStrides,
	Bind: func(b *binder, n *ir.Node, in, out []*operand) ([]*launch, error) {
		axis, at := n.Op.(ir.Concat).Axis, 0
		var launches []*launch
		for i, x := range in {
			piece := *out[0] // the part of the result that the operand fills
			piece.Shape = x.Shape
			piece.at += address(at * piece.Strides[axis] * piece.Width)
			at += x.Shape[axis]
			if piece.Elements() == 0 {
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

// tileEntry repeats: with an axis of repeats before each of its axes, the operand broadcasts to the result.
var tileEntry = entry{
	Supports: copyEntry.Supports,
	Strided:  target.AllStrides,
	Bind: func(b *binder, n *ir.Node, in, out []*operand) ([]*launch, error) {
		x, y := *in[0], *out[0]
		gpu.Repeat(&y.Operand, &x.Operand)
		l, err := move(&y, &x)
		return []*launch{l}, err
	},
}

// The parameters of the kernels in _gen/index.cu that move elements, in their order.
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

var padEntry = entry{
	Supports: func(n *ir.Node) bool { return gpu.Moves(n) && len(n.Inputs[0].Type.Shape) <= maxRank },
	Strided:  gpu.First,
	Bind: func(b *binder, n *ir.Node, in, out []*operand) ([]*launch, error) {
		op, x, y := n.Op.(ir.Pad), in[0], out[0]
		if y.Elements() > 1<<31-1 {
			return nil, errOnHost
		}
		p := padParams{y: y.at, x: x.at, value: ir.Operand(in, 1).pointer(), count: int32(y.Elements()),
			rank: int32(len(y.Shape)), mode: int32(op.Mode), width: int32(y.Width)}
		for k := range y.Shape {
			p.size[k], p.from[k], p.stride[k] = int32(y.Shape[k]), int32(x.Shape[k]), int64(x.Strides[k])
			p.before[k], p.after[k] = int32(op.Before[k].Int()), int32(op.After[k].Int())
		}
		return []*launch{perElement("pad", p, y.Elements())}, nil
	},
}

var triluEntry = entry{
	Supports: gpu.Moves,
	Bind: func(b *binder, n *ir.Node, in, out []*operand) ([]*launch, error) {
		y, op := out[0], n.Op.(ir.Trilu)
		p := triluParams{y.at, in[0].at, int64(y.Elements()), int64(y.Shape[len(y.Shape)-2]), int64(y.Shape[len(y.Shape)-1]),
			int64(op.K), boolean(op.Upper), int32(y.Width)}
		return []*launch{perElement("trilu", p, y.Elements())}, nil
	},
}
