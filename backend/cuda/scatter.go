package cuda

import (
	"github.com/rlxc/rlxc/internal/gpu"
	"github.com/rlxc/rlxc/ir"
	"github.com/rlxc/rlxc/tensor"
)

// The parameters of the kernels in _gen/index.cu for tuples of indices and for scattering, in their order.
type (
	tupleParams struct {
		index, status address
		kind, count   int32
		size, step    [maxRank]int64
	}
	gatherNDParams struct {
		y, x                        address
		total, inner, tuples, batch int64
		width, _                    int32
		tuple                       tupleParams
	}
	scatterParams struct {
		y, x, updates               address
		last, slice, next           address
		total, inner, slices, count int64
		width, _                    int32
		tuple                       tupleParams
		to, index                   walk
		size, step                  int64
		rank                        int32
		dims                        [maxRank]int32
		combine, kind, _            int32
	}
)

// combines are the numbers of reductions in the kernels (Combine).
var combines = map[ir.Reduction]int32{ir.Sum: 1, ir.Prod: 2, ir.MaxOf: 3, ir.MinOf: 4}

// newTuple is tuples of indices into axes of x from first on; steps are in units of that many elements.
func (b *binder) newTuple(index *operand, shape tensor.Shape, first, unit int) tupleParams {
	count := index.Shape[len(index.Shape)-1]
	t := tupleParams{index: index.at, kind: kinds[index.DType], count: int32(count)}
	for k := range count {
		at := b.report(first+k, shape[first+k])
		if k == 0 {
			t.status = at
		}
		t.size[k], t.step[k] = int64(shape[first+k]), int64(shape[first+k+1:].Elements()/unit)
	}
	return t
}

// tuples reports whether kernels support the type of the indices of n and the length of its index tuples.
func tuples(n *ir.Node) bool { return gpu.Picks(n) && len(n.Inputs[0].Type.Shape) <= maxRank }

// scatterEntry scatters slices. The second kernel notes for every slice of the result the last update that goes there, or the first of
// those that are combined.
var scatterEntry = entry{
	Supports: func(n *ir.Node) bool {
		return tuples(n) && (gpu.ScatterReduction(n.Op) == ir.NoReduction || counted(n))
	},
	InPlace: gpu.Writes(0),
	Scratch: gpu.ScatterScratch,
	Bind: func(b *binder, n *ir.Node, in, out []*operand) ([]*launch, error) {
		x, index, updates, y, size := in[0], in[1], in[2], out[0], gpu.ScatterInner(n)
		p := scatterParams{y: y.at, x: x.at, updates: updates.at, last: b.scratchAt(0), total: int64(y.Elements()), inner: int64(size),
			slices: int64(y.Elements() / size), count: int64(updates.Elements() / size), width: int32(y.Width),
			combine: combines[gpu.ScatterReduction(n.Op)], kind: kinds[y.DType]}
		if max(p.count, p.slices) > 1<<31-1 {
			return nil, errOnHost
		}
		kernel := "scatter_nd"
		if op, ok := n.Op.(ir.ScatterElements); ok {
			walked := operand{Operand: y.Across(index.Shape, op.Axis)}
			nest, err := newNest(index.Shape, &walked, index)
			if err != nil {
				return nil, err
			}
			kernel, p.to, p.index, p.rank, p.dims = "scatter_elements", nest.walks[0], nest.walks[1], nest.rank, nest.size
			p.size, p.step, p.tuple.status = int64(y.Shape[op.Axis]), int64(y.Strides[op.Axis]), b.report(op.Axis, y.Shape[op.Axis])
		} else {
			p.tuple = b.newTuple(index, y.Shape, 0, size)
		}
		if p.combine != 0 {
			p.slice, p.next = b.scratchAt(1), b.scratchAt(2)
		}
		launches := []*launch{perElement("scatter_clear", p, int(p.slices)), perElement(kernel, p, int(p.count))}
		if p.combine == 0 {
			return append(launches, perElement("scattered", p, y.Elements())), nil
		}
		return append(launches, perElement("scatter_next", p, int(p.count)), perElement("combined", p, y.Elements())), nil
	},
}

// unpackEntry scatters the values of tokens, by 16 bytes where they are such, into zeros.
var unpackEntry = entry{
	Supports: gpu.Picks,
	Scratch:  gpu.UnpackScratch,
	Bind: func(b *binder, n *ir.Node, in, out []*operand) ([]*launch, error) {
		x, index, y := in[ir.UnpackX], in[ir.UnpackFlatIndices], out[0]
		slices, tokens := y.Shape[:2].Elements(), index.Elements()
		size, unit := y.Elements()/slices*y.Width, y.Width
		if size%16 == 0 && x.aligned(16) && y.aligned(16) {
			unit = 16
		}
		p := scatterParams{y: y.at, updates: x.at, last: b.scratchAt(0), total: int64(slices * size / unit), inner: int64(size / unit),
			slices: int64(slices), count: int64(tokens), width: int32(unit),
			tuple: tupleParams{index: index.at, status: b.report(0, slices), kind: kinds[index.DType]}}
		return []*launch{perElement("scatter_clear", p, slices), perElement("unpack", p, tokens),
			perElement("scattered", p, int(p.total))}, nil
	},
}
