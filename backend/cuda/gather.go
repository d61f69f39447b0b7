package cuda

import (
	"github.com/rlxc/rlxc/internal/gpu"
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

// gatherEntry copies slices, by 16 bytes where they are such.
var gatherEntry = entry{
	Supports: gpu.Picks,
	Bind: func(b *binder, n *ir.Node, in, out []*operand) ([]*launch, error) {
		x, index, y, axis := in[0], in[1], out[0], n.Op.(ir.Gather).Axis
		inner := x.Shape[axis+1:].Elements() * x.Width // in bytes
		unit := x.Width
		if inner%16 == 0 && x.aligned(16) && y.aligned(16) {
			unit = 16
		}
		p := gatherParams{y: y.at, x: x.at, index: index.at, status: b.report(axis, x.Shape[axis]),
			total: int64(y.Elements() * y.Width / unit),
			inner: int64(inner / unit), count: int64(index.Elements()), size: int64(x.Shape[axis]), kind: kinds[index.DType],
			width: int32(unit)}
		return []*launch{perElement("gather", p, int(p.total))}, nil
	},
}

// gatherElementsEntry gathers single elements. Disentangled attention (DeBERTa) selects its relative positions by GatherElements.
var gatherElementsEntry = entry{
	Supports: gpu.Picks, Strided: target.AllStrides,
	Bind: func(b *binder, n *ir.Node, in, out []*operand) ([]*launch, error) {
		x, index, y, axis := in[0], in[1], out[0], n.Op.(ir.GatherElements).Axis
		walked := operand{Operand: x.Across(y.Shape, axis), at: x.at}
		nest, err := newNest(y.Shape, y, &walked, index)
		if err != nil {
			return nil, err
		}
		p := gatherElementsParams{y: nest.walks[0], x: nest.walks[1], index: nest.walks[2], status: b.report(axis, x.Shape[axis]),
			size: int64(x.Shape[axis]),
			step: int64(x.Strides[axis]), count: int32(y.Elements()), rank: nest.rank, dims: nest.size, width: int32(y.Width)}
		return []*launch{perElement("gather_elements", p, y.Elements())}, nil
	},
}

var gatherNDEntry = entry{
	Supports: tuples,
	Bind: func(b *binder, n *ir.Node, in, out []*operand) ([]*launch, error) {
		x, index, y, batch := in[0], in[1], out[0], n.Op.(ir.GatherND).BatchDims
		last := len(index.Shape) - 1
		p := gatherNDParams{y: y.at, x: x.at, total: int64(y.Elements()), inner: int64(x.Shape[batch+index.Shape[last]:].Elements()),
			tuples: int64(index.Shape[batch:last].Elements()), batch: int64(x.Shape[batch:].Elements()), width: int32(y.Width),
			tuple: b.newTuple(index, x.Shape, batch, 1)}
		return []*launch{perElement("gather_nd", p, y.Elements())}, nil
	},
}

// oneHotEntry compares every position along the new axis with the index there. One outside of it hits nothing.
var oneHotEntry = entry{
	Supports: gpu.PicksValues,
	Bind: func(b *binder, n *ir.Node, in, out []*operand) ([]*launch, error) {
		y, axis := out[0], n.Op.(ir.OneHot).Axis
		p := oneHotParams{y.at, in[0].at, in[1].at, int64(y.Elements()), int64(y.Shape[axis+1:].Elements()), int64(y.Shape[axis]),
			kinds[in[0].DType], int32(y.Width)}
		return []*launch{perElement("one_hot", p, y.Elements())}, nil
	},
}
