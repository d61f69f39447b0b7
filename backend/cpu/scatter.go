package cpu

import (
	"slices"

	"github.com/rlxc/rlxc/backend/cpu/kernel"
	"github.com/rlxc/rlxc/internal/backend"
	"github.com/rlxc/rlxc/internal/target"
	"github.com/rlxc/rlxc/ir"
	"github.com/rlxc/rlxc/tensor"
)

// A scatter copies its operand, unless the result overwrites the operand, and then writes the updates.

// claimsScatter reports whether there is a loop for the types of a scatter's indices and elements.
func claimsScatter(n *ir.Node, fn ir.Reduction) bool {
	d := n.Inputs[0].Type.DType
	if !target.IsIndex(n.Inputs[1].Type.DType) {
		return false
	}
	if fn == ir.NoReduction {
		return d.Size() > 0 && d.Size() <= 8
	}
	return d == tensor.F32 || d == tensor.F64 || d == tensor.I32 || d == tensor.I64
}

// scattered is the copy of the operand, then the updates.
func scattered(set *kernel.Set, y, x *operand, updates step) (step, error) {
	if x.location == y.location {
		return updates, nil
	}
	first, err := copyStep(set, y, x)
	return inPhases(first, updates), err
}

// combined is what a reduction makes of what is there and an update.
func combined[T number](fn ir.Reduction) func(a, b T) T {
	switch fn {
	case ir.Sum:
		return func(a, b T) T { return a + b }
	case ir.Prod:
		return func(a, b T) T { return a * b }
	case ir.MaxOf:
		return func(a, b T) T { return max(a, b) }
	case ir.MinOf:
		return func(a, b T) T { return min(a, b) }
	}
	return nil
}

var scatterElementsEntry = entry{
	Supports: func(n *ir.Node) bool { return claimsScatter(n, n.Op.(ir.ScatterElements).Reduce) },
	Strided:  func(_ *ir.Node, i int, _ []int) bool { return i > 0 },
	InPlace:  func(_ *ir.Node, i int) bool { return i == 0 },
	Bind: func(b *binder, n *ir.Node, in, out []operand) (step, error) {
		return bindScatter(b, n, n.Op.(ir.ScatterElements).Reduce, in, out)
	},
}

var scatterNDEntry = entry{
	Supports: func(n *ir.Node) bool { return claimsScatter(n, n.Op.(ir.ScatterND).Reduce) },
	InPlace:  func(_ *ir.Node, i int) bool { return i == 0 },
	Bind: func(b *binder, n *ir.Node, in, out []operand) (step, error) {
		return bindScatter(b, n, n.Op.(ir.ScatterND).Reduce, in, out)
	},
}

func bindScatter(b *binder, n *ir.Node, fn ir.Reduction, in, out []operand) (step, error) {
	bind := scatterOf[int64]
	if in[1].dtype == tensor.I32 {
		bind = scatterOf[int32]
	}
	return scattered(b.d.set, &out[0], &in[0], bind(n, fn, &out[0], &in[1], &in[2]))
}

// scatterOf is the step of updates by the type of their elements, or without a reduction by its width.
func scatterOf[I int32 | int64](n *ir.Node, fn ir.Reduction, y, index, updates *operand) step {
	if fn == ir.NoReduction {
		switch y.width {
		case 1:
			return scatterStep[uint8, I](n, y, index, updates, nil)
		case 2:
			return scatterStep[uint16, I](n, y, index, updates, nil)
		case 4:
			return scatterStep[uint32, I](n, y, index, updates, nil)
		}
		return scatterStep[uint64, I](n, y, index, updates, nil)
	}
	switch y.dtype {
	case tensor.F32:
		return scatterStep[float32, I](n, y, index, updates, combined[float32](fn))
	case tensor.F64:
		return scatterStep[float64, I](n, y, index, updates, combined[float64](fn))
	case tensor.I32:
		return scatterStep[int32, I](n, y, index, updates, combined[int32](fn))
	}
	return scatterStep[int64, I](n, y, index, updates, combined[int64](fn))
}

func scatterStep[T tensor.Element, I int32 | int64](n *ir.Node, y, index, updates *operand, combine func(a, b T) T) step {
	if o, ok := n.Op.(ir.ScatterElements); ok {
		return scatterLines[T, I](n, o.Axis, y, index, updates, combine)
	}
	return scatterSlices[T, I](n, y, index, updates, combine)
}

// scatterLines puts single elements. Those of one line along the axis may meet, and stay in their order: they are one part's.
func scatterLines[T tensor.Element, I int32 | int64](n *ir.Node, axis int, y, index, updates *operand, combine func(a, b T) T) step {
	dst, idx, upd := *y, *index, *updates
	size, next := dst.shape[axis], dst.strides[axis]
	last := func(o operand) operand { // with the axis last
		o.shape, o.strides = moved(o.shape, axis), moved(o.strides, axis)
		return o
	}
	walked := last(dst) // as the indices are, which choose along the axis
	placed, from := last(idx), last(upd)
	walked.shape = placed.shape
	walked.strides[len(walked.strides)-1] = 0
	loops := newNest(placed.shape, &walked, &placed, &from).wholeRows()
	return step{parts: loops.parts(), run: func(m *machine, part, _ int) {
		d, ids, s := elements[T](m, &dst), elements[I](m, &idx), elements[T](m, &upd)
		loops.blocks(part, func(rows, cols int, at [maxOperands]int) {
			for r := range rows {
				o, p, q := at[0]+r*loops.row(0), at[1]+r*loops.row(1), at[2]+r*loops.row(2)
				for range cols {
					i := int(ids[p])
					if i < 0 {
						i += size
					}
					if i < 0 || i >= size {
						m.fail(backend.OutOfRange(int64(ids[p]), axis, size))
						return
					}
					if to := o + i*next; combine == nil {
						d[to] = s[q]
					} else {
						d[to] = combine(d[to], s[q])
					}
					o, p, q = o+loops.col(0), p+loops.col(1), q+loops.col(2)
				}
			}
		})
	}}
}

// moved is a list by axis with one axis moved to the end.
func moved[S ~[]int](list S, axis int) S {
	return append(slices.Delete(slices.Clone(list), axis, axis+1), list[axis])
}

// scatterSlices puts slices. Slices may meet, so that each part puts a piece of every one, in their order.
func scatterSlices[T tensor.Element, I int32 | int64](n *ir.Node, y, index, updates *operand, combine func(a, b T) T) step {
	dst, idx, upd := *y, *index, *updates
	axes := idx.shape[len(idx.shape)-1]
	inner, count := dst.shape[axes:].Elements(), idx.shape[:len(idx.shape)-1].Elements()
	tuples := newTuples(dst.shape, 0, axes)
	const line = cacheLine // elements: parts share no cache line
	piece := ceilDiv(max(line, partElements/max(count, 1)), line) * line
	return step{parts: ceilDiv(inner, piece), run: func(m *machine, part, _ int) {
		d, ids, s := elements[T](m, &dst), elements[I](m, &idx), elements[T](m, &upd)
		lo, hi := part*piece, min((part+1)*piece, inner)
		for t := range count {
			at, err := tupleStart(&tuples, ids[t*axes:][:axes], t)
			if err != nil {
				m.fail(err)
				return
			}
			if into, from := d[at+lo:at+hi], s[t*inner+lo:t*inner+hi]; combine == nil {
				copy(into, from)
			} else {
				for i, v := range from {
					into[i] = combine(into[i], v)
				}
			}
		}
	}}
}
