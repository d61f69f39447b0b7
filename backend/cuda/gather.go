package cuda

import (
	"slices"

	"github.com/rlxc/rlxc/internal/target"
	"github.com/rlxc/rlxc/ir"
)

// The parameters of the kernels in _gen/index.cu that pick elements, in their order.
type (
	gatherParams struct {
		y, x, index, status       address
		total, inner, count, size int64
		kind, width               int32
	}
	gatherElementsParams struct {
		y, x, index walk
		status      address
		size, step  int64
		count, rank int32
		dims        [maxRank]int32
		width, _    int32
	}
	oneHotParams struct {
		y, index, values    address
		total, inner, depth int64
		kind, width         int32
	}
)

// picks reports whether operand 0 of n has elements that can be moved and operand 1 is indices.
func picks(n *ir.Node) bool {
	return moves(n.Inputs[0].Type.DType) && target.IsIndex(n.Inputs[1].Type.DType)
}

// gatherRow copies slices, by 16 bytes where they are such.
var gatherRow = row{
	Row: target.Row{Runs: target.OnKernel, Supports: picks},
	bind: func(b *binder, n *ir.Node) ([]*launch, error) {
		in, out, err := b.operands(n)
		if err != nil {
			return nil, err
		}
		x, index, y, axis := in[0], in[1], out[0], n.Op.(ir.Gather).Axis
		inner := x.shape[axis+1:].Elements() * x.width // in bytes
		unit := x.width
		if inner%16 == 0 && x.aligned(16) && y.aligned(16) {
			unit = 16
		}
		p := gatherParams{y: y.at, x: x.at, index: index.at, status: b.report(axis, x.shape[axis]),
			total: int64(y.elements() * y.width / unit),
			inner: int64(inner / unit), count: int64(index.elements()), size: int64(x.shape[axis]), kind: kinds[index.dtype],
			width: int32(unit)}
		return []*launch{newLaunch("gather", p, spread(ceil(int(p.total), groupSize)), groupSize, 0)}, nil
	},
}

// gatherElementsRow is what disentangled attention (DeBERTa) picks its relative positions with.
var gatherElementsRow = row{
	Row: target.Row{Runs: target.OnKernel, Supports: picks, Strided: target.AllStrides},
	bind: func(b *binder, n *ir.Node) ([]*launch, error) {
		in, out, err := b.operands(n)
		if err != nil {
			return nil, err
		}
		x, index, y, axis := in[0], in[1], out[0], n.Op.(ir.GatherElements).Axis
		walked := *x
		walked.shape, walked.strides = y.shape, slices.Clone(x.strides)
		walked.strides[axis] = 0
		nest, err := newNest(y.shape, y, &walked, index)
		if err != nil {
			return nil, err
		}
		p := gatherElementsParams{y: nest.walks[0], x: nest.walks[1], index: nest.walks[2], status: b.report(axis, x.shape[axis]),
			size: int64(x.shape[axis]),
			step: int64(x.strides[axis]), count: int32(y.elements()), rank: nest.rank, dims: nest.size, width: int32(y.width)}
		return []*launch{newLaunch("gather_elements", p, spread(ceil(y.elements(), groupSize)), groupSize, 0)}, nil
	},
}

var gatherNDRow = row{
	Row: target.Row{Runs: target.OnKernel, Supports: tuples},
	bind: func(b *binder, n *ir.Node) ([]*launch, error) {
		in, out, err := b.operands(n)
		if err != nil {
			return nil, err
		}
		x, index, y, batch := in[0], in[1], out[0], n.Op.(ir.GatherND).BatchDims
		last := len(index.shape) - 1
		p := gatherNDParams{y: y.at, x: x.at, total: int64(y.elements()), inner: int64(x.shape[batch+index.shape[last]:].Elements()),
			tuples: int64(index.shape[batch:last].Elements()), batch: int64(x.shape[batch:].Elements()), width: int32(y.width),
			tuple: b.newTuple(index, x.shape, batch, 1)}
		return []*launch{newLaunch("gather_nd", p, spread(ceil(y.elements(), groupSize)), groupSize, 0)}, nil
	},
}

// oneHotRow compares every place along the new axis with the index there. One outside of it hits nothing.
var oneHotRow = row{
	Row: target.Row{
		Runs: target.OnKernel,
		Supports: func(n *ir.Node) bool {
			return target.IsIndex(n.Inputs[0].Type.DType) && moves(n.Inputs[1].Type.DType)
		},
	},
	bind: func(b *binder, n *ir.Node) ([]*launch, error) {
		in, out, err := b.operands(n)
		if err != nil {
			return nil, err
		}
		y, axis := out[0], n.Op.(ir.OneHot).Axis
		p := oneHotParams{y.at, in[0].at, in[1].at, int64(y.elements()), int64(y.shape[axis+1:].Elements()), int64(y.shape[axis]),
			kinds[in[0].dtype], int32(y.width)}
		return []*launch{newLaunch("one_hot", p, spread(ceil(y.elements(), groupSize)), groupSize, 0)}, nil
	},
}
