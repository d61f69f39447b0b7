package cpu

import (
	"fmt"

	"github.com/rlxc/rlxc/internal/backend"
	"github.com/rlxc/rlxc/internal/target"
	"github.com/rlxc/rlxc/ir"
	"github.com/rlxc/rlxc/tensor"
)

// gatherElementsEntry gathers single elements. Disentangled attention (DeBERTa) selects its relative positions by GatherElements.
var gatherElementsEntry = entry{
	Supports: func(n *ir.Node) bool {
		d, i := n.Inputs[0].Type.DType, n.Inputs[1].Type.DType
		return (d.Size() == 4 || d.Size() == 8) && (i == tensor.I64 || i == tensor.I32)
	},
	Strided: target.AllStrides,
	Bind: func(b *binder, n *ir.Node, in, out []operand) (step, error) {
		x, index, y := in[0], in[1], out[0]
		switch {
		case x.width == 4 && index.dtype == tensor.I32:
			return gatherElementsStep[uint32, int32](n, &y, &x, &index), nil
		case x.width == 4:
			return gatherElementsStep[uint32, int64](n, &y, &x, &index), nil
		case index.dtype == tensor.I32:
			return gatherElementsStep[uint64, int32](n, &y, &x, &index), nil
		}
		return gatherElementsStep[uint64, int64](n, &y, &x, &index), nil
	},
}

func gatherElementsStep[T tensor.Element, I int32 | int64](n *ir.Node, y, x, index *operand) step {
	dst, src, idx := *y, *x, *index
	axis := n.Op.(ir.GatherElements).Axis
	size, step1 := src.shape[axis], src.strides[axis]
	// Along the axis the index chooses; along the others the operand is walked in step with the result.
	walked := src
	walked.shape = dst.shape
	walked.strides = append([]int{}, src.strides...)
	walked.strides[axis] = 0
	loops := newNest(dst.shape, &dst, &walked, &idx)
	return step{parts: loops.parts(), run: func(m *machine, part, _ int) {
		d, s, ids := elements[T](m, &dst), elements[T](m, &src), elements[I](m, &idx)
		loops.blocks(part, func(rows, cols int, at [maxOperands]int) {
			for r := range rows {
				o, p, q := at[0]+r*loops.row(0), at[1]+r*loops.row(1), at[2]+r*loops.row(2)
				for c := range cols {
					i := int(ids[q+c*loops.col(2)])
					if i < 0 {
						i += size
					}
					if i < 0 || i >= size {
						m.fail(backend.OutOfRange(int64(ids[q+c*loops.col(2)]), axis, size))
						return
					}
					d[o+c*loops.col(0)] = s[p+c*loops.col(1)+i*step1]
				}
			}
		})
	}}
}

var gatherEntry = entry{
	Supports: func(n *ir.Node) bool {
		return n.Inputs[0].Type.DType.Size() > 0 && target.IsIndex(n.Inputs[1].Type.DType)
	},
	AnyAddress: func(_ *ir.Node, i int) bool { return i == 0 },
	Bind: func(b *binder, n *ir.Node, in, out []operand) (step, error) {
		if in[1].dtype == tensor.I32 {
			return gatherStep[int32](n, &out[0], &in[0], &in[1]), nil
		}
		return gatherStep[int64](n, &out[0], &in[0], &in[1]), nil
	},
}

// gatherStep copies slices of x, which are runs of bytes, by index; single words as such.
func gatherStep[I int32 | int64](n *ir.Node, y, x, index *operand) step {
	dst, src, idx := *y, *x, *index
	axis := n.Op.(ir.Gather).Axis
	size := src.shape[axis]
	inner := src.shape[axis+1:].Elements() * src.width // bytes of a slice
	outer, count := src.shape[:axis].Elements(), idx.len()
	perPart := max(1, partElements*4/max(inner, 1))
	rows := outer * count
	if inner == 0 {
		rows = 0
	}
	words := inner == 4 && src.width == 4
	return step{parts: ceilDiv(rows, perPart), run: func(m *machine, part, _ int) {
		ids := elements[I](m, &idx)
		var d, s []byte
		var dw, sw []uint32
		if words {
			dw, sw = elements[uint32](m, &dst), elements[uint32](m, &src)
		} else {
			d, s = dst.bytes(m), src.bytes(m)
		}
		for r, end := part*perPart, min((part+1)*perPart, rows); r < end; {
			line, first := ids[r%count:], r/count*size
			for _, id := range line[:min(len(line), end-r)] {
				i := int(id)
				if i < 0 {
					i += size
				}
				if i < 0 || i >= size {
					m.fail(backend.OutOfRange(int64(id), axis, size))
					return
				}
				if words {
					dw[r] = sw[first+i]
				} else {
					copy(d[r*inner:][:inner], s[(first+i)*inner:])
				}
				r++
			}
		}
	}}
}

// gatherNDEntry copies slices at index tuples.
var gatherNDEntry = entry{
	Supports: func(n *ir.Node) bool {
		return n.Inputs[0].Type.DType.Size() > 0 && target.IsIndex(n.Inputs[1].Type.DType)
	},
	Bind: func(b *binder, n *ir.Node, in, out []operand) (step, error) {
		if in[1].dtype == tensor.I32 {
			return gatherNDStep[int32](n, &out[0], &in[0], &in[1]), nil
		}
		return gatherNDStep[int64](n, &out[0], &in[0], &in[1]), nil
	},
}

func gatherNDStep[I int32 | int64](n *ir.Node, y, x, index *operand) step {
	dst, src, idx := *y, *x, *index
	batch := n.Op.(ir.GatherND).BatchDims
	axes := idx.shape[len(idx.shape)-1]
	inner := src.shape[batch+axes:].Elements() * src.width // bytes of a slice
	count := idx.shape[batch : len(idx.shape)-1].Elements()
	each := src.shape[batch:].Elements() * src.width // bytes of what the tuples of one batch address
	tuples := newTuples(src.shape[batch:], batch, axes)
	number := idx.shape[:batch].Elements() * count
	perPart := max(1, partElements*4/max(inner, 64))
	return step{parts: ceilDiv(number, perPart), run: func(m *machine, part, _ int) {
		ids, d, s := elements[I](m, &idx), dst.bytes(m), src.bytes(m)
		for t := part * perPart; t < min((part+1)*perPart, number); t++ {
			at, err := tupleStart(&tuples, ids[t*axes:][:axes], t)
			if err != nil {
				m.fail(err)
				return
			}
			copy(d[t*inner:][:inner], s[t/count*each+at*src.width:])
		}
	}}
}

// tuples are index tuples that address the first axes of a shape.
type tuples struct {
	shape, strides []int
	first          int // axis of the operand for the first number of a tuple
}

func newTuples(shape tensor.Shape, first, axes int) tuples {
	return tuples{shape: shape[:axes], strides: shape.Strides()[:axes], first: first}
}

// tupleStart returns the first element of the slice that an index tuple names.
func tupleStart[I int32 | int64](p *tuples, tuple []I, number int) (at int, err error) {
	for axis, size := range p.shape {
		i := int(tuple[axis])
		if i < 0 {
			i += size
		}
		if i < 0 || i >= size {
			return 0, fmt.Errorf("tuple %d: %w", number, backend.OutOfRange(int64(tuple[axis]), p.first+axis, size))
		}
		at += i * p.strides[axis]
	}
	return at, nil
}

// indexReaders read an index as ir.OneHot does.
var indexReaders = map[tensor.DType]func(m *machine, o *operand, i int) int64{
	tensor.I64: readIndex[int64], tensor.I32: readIndex[int32], tensor.U8: readIndex[uint8], tensor.F32: readIndex[float32],
	tensor.F64: readIndex[float64],
}

func readIndex[T number](m *machine, o *operand, i int) int64 { return int64(elements[T](m, o)[i]) }

var oneHotEntry = entry{
	Supports: func(n *ir.Node) bool {
		return indexReaders[n.Inputs[0].Type.DType] != nil && n.Inputs[1].Type.DType.Size() > 0
	},
	Bind: func(b *binder, n *ir.Node, in, out []operand) (step, error) {
		op, index, values, y := n.Op.(ir.OneHot), in[0], in[1], out[0]
		read, depth, inner, width := indexReaders[index.dtype], y.shape[op.Axis], y.shape[op.Axis+1:].Elements(), y.width
		blocks := y.shape[:op.Axis].Elements()
		parts, perPart := rowParts(blocks, depth*inner)
		return step{parts: parts, run: func(m *machine, part, _ int) {
			off, on := values.bytes(m)[:width], values.bytes(m)[width:][:width]
			for block := part * perPart; block < min((part+1)*perPart, blocks); block++ {
				d := y.bytes(m)[block*depth*inner*width:][:depth*inner*width]
				repeat(d, off, depth*inner)
				for i := range inner {
					at := read(m, &index, block*inner+i)
					if at < 0 {
						at += int64(depth)
					}
					if at >= 0 && at < int64(depth) {
						copy(d[(int(at)*inner+i)*width:], on)
					}
				}
			}
		}}, nil
	},
}
