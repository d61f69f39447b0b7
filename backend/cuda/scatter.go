package cuda

import (
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

// newTuple is tuples of indices into axes of x from first on; steps are in units of so many elements.
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

// tuples reports whether n has indices that kernels take, and tuples that they have room for.
func tuples(n *ir.Node) bool {
	return picks(n) && len(n.Inputs[0].Type.Shape) <= maxRank
}

// scatterEntry is the row of an op that scatters slices of inner elements. mark fills in what the kernel of this name needs, which notes for
// every slice of the result the last update that goes there, or the first of those that are combined.
func scatterEntry(reduction func(ir.Op) ir.Reduction, inner func(n *ir.Node) int, kernel string,
	mark func(b *binder, n *ir.Node, p *scatterParams, index, y *operand) error) entry {
	return entry{
		Supports: func(n *ir.Node) bool {
			return tuples(n) && (reduction(n.Op) == ir.NoReduction || counted(n))
		},
		InPlace: func(_ *ir.Node, i int) bool { return i == 0 },
		Scratch: func(n *ir.Node) []int64 {
			words := func(v *ir.Value) int64 { return int64(4 * v.Type.Sizes().Elements() / max(inner(n), 1)) }
			last, updates := words(n.Outputs[0]), words(n.Inputs[2])
			if reduction(n.Op) == ir.NoReduction {
				return []int64{last}
			}
			return []int64{last, updates, updates}
		},
		Bind: func(b *binder, n *ir.Node, in, out []*operand) ([]*launch, error) {
			x, index, updates, y, size := in[0], in[1], in[2], out[0], inner(n)
			p := scatterParams{y: y.at, x: x.at, updates: updates.at, last: b.scratchAt(0), total: int64(y.Elements()), inner: int64(size),
				slices: int64(y.Elements() / size), count: int64(updates.Elements() / size), width: int32(y.Width),
				combine: combines[reduction(n.Op)], kind: kinds[y.DType]}
			if max(p.count, p.slices) > 1<<31-1 {
				return nil, errOnHost
			}
			if err := mark(b, n, &p, index, y); err != nil {
				return nil, err
			}
			per := func(name string, n int64) *launch {
				return newLaunch(name, p, spread(ceil(int(n), groupSize)), groupSize, 0)
			}
			if p.combine == 0 {
				return []*launch{per("scatter_clear", p.slices), per(kernel, p.count), per("scattered", p.total)}, nil
			}
			p.slice, p.next = b.scratchAt(1), b.scratchAt(2)
			return []*launch{per("scatter_clear", p.slices), per(kernel, p.count), per("scatter_next", p.count),
				per("combined", p.total)}, nil
		},
	}
}

var scatterElementsEntry = scatterEntry(
	func(op ir.Op) ir.Reduction { return op.(ir.ScatterElements).Reduce },
	func(*ir.Node) int { return 1 },
	"scatter_elements",
	func(b *binder, n *ir.Node, p *scatterParams, index, y *operand) error {
		axis := n.Op.(ir.ScatterElements).Axis
		walked := operand{Operand: y.Across(index.Shape, axis)}
		nest, err := newNest(index.Shape, &walked, index)
		if err != nil {
			return err
		}
		p.to, p.index, p.rank, p.dims = nest.walks[0], nest.walks[1], nest.rank, nest.size
		p.size, p.step, p.tuple.status = int64(y.Shape[axis]), int64(y.Strides[axis]), b.report(axis, y.Shape[axis])
		return nil
	})

var scatterNDEntry = scatterEntry(
	func(op ir.Op) ir.Reduction { return op.(ir.ScatterND).Reduce },
	func(n *ir.Node) int {
		index := n.Inputs[1].Type.Sizes()
		return n.Inputs[0].Type.Sizes()[index[len(index)-1]:].Elements()
	},
	"scatter_nd",
	func(b *binder, n *ir.Node, p *scatterParams, index, y *operand) error {
		p.tuple = b.newTuple(index, y.Shape, 0, int(p.inner))
		return nil
	})
