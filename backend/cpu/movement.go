package cpu

import (
	"fmt"
	"slices"

	"github.com/rlxc/rlxc/backend/cpu/kernel"
	"github.com/rlxc/rlxc/internal/target"
	"github.com/rlxc/rlxc/ir"
	"github.com/rlxc/rlxc/tensor"
)

var copyEntry = entry{
	Supports: func(n *ir.Node) bool { return n.Inputs[0].Type.DType.Size() > 0 },
	Strided:  target.AllStrides,
	Bind: func(b *binder, n *ir.Node, in, out []operand) (step, error) {
		return copyStep(b.d.set, &out[0], &in[0])
	},
}

// copyStep copies elements of any type between any strides.
func copyStep(set *kernel.Set, y, x *operand) (step, error) {
	m, err := movesOf(y)
	if err != nil {
		return step{}, err
	}
	return m.copy(set, y, x), nil
}

// moves are the steps that move elements of one width, whatever they are.
type moves struct {
	copy   func(set *kernel.Set, y, x *operand) step
	mirror func(op ir.Pad, y, x *operand) step
}

var movesByWidth = map[int]moves{1: {moveStep[uint8], mirrored[uint8]}, 2: {moveStep[uint16], mirrored[uint16]},
	4: {moveStep[uint32], mirrored[uint32]}, 8: {moveStep[uint64], mirrored[uint64]}, 16: {moveStep[complex128], mirrored[complex128]}}

func movesOf(y *operand) (moves, error) {
	m, ok := movesByWidth[y.width]
	if !ok {
		return m, fmt.Errorf("no copy of %s", y.dtype)
	}
	return m, nil
}

func moveStep[T tensor.Element](set *kernel.Set, y, x *operand) step {
	dst, src, loops := *y, *x, newNest(y.shape, y, x)
	if n := len(loops.Shape); n > 1 && loops.col(0) == 1 && loops.row(1) == 1 && min(loops.Shape[n-2], loops.Shape[n-1]) >= transposedRows {
		toRow, fromCol := loops.row(0), loops.col(1)
		if dst.width == 4 {
			return transposeStep(loops, func(m *machine, to, from, rows, cols int) {
				set.Transpose(elements[float32](m, &dst)[to:], toRow, elements[float32](m, &src)[from:], fromCol, rows, cols)
			})
		}
		return transposeStep(loops, func(m *machine, to, from, rows, cols int) {
			transpose(elements[T](m, &dst)[to:], toRow, elements[T](m, &src)[from:], fromCol, rows, cols)
		})
	}
	col, from := loops.col(0), loops.col(1)
	return step{parts: loops.parts(), run: func(m *machine, part, _ int) {
		d, s := elements[T](m, &dst), elements[T](m, &src)
		toRow, fromRow := loops.row(0), loops.row(1)
		loops.blocks(part, func(rows, cols int, at [maxOperands]int) {
			switch o, p := at[0], at[1]; {
			case col == 1 && from == 1 && cols > 1:
				for r := range rows {
					copy(d[o+r*toRow:][:cols], s[p+r*fromRow:][:cols])
				}
			case rows > cols: // the longer loop inside
				for c := range cols {
					o, p := o+c*col, p+c*from
					for range rows {
						d[o] = s[p]
						o, p = o+toRow, p+fromRow
					}
				}
			default:
				for r := range rows {
					o, p := o+r*toRow, p+r*fromRow
					for range cols {
						d[o] = s[p]
						o, p = o+col, p+from
					}
				}
			}
		})
	}}
}

// A matrix is transposed in tiles of transposedRows × transposedCols of the result: each line of the cache is filled, and read, at once.
// Rows are few because they are powers of two apart.
const (
	transposedRows = 8
	transposedCols = 16
)

// transposeStep copies matrices whose rows are along the last axis but one of the operand. A part is some columns of one, which transpose
// copies from and to offsets.
func transposeStep(loops *nest, transpose func(m *machine, to, from, rows, cols int)) step {
	n := len(loops.Shape)
	rows, cols := loops.Shape[n-2], loops.Shape[n-1]
	perPart := ceilDiv(max(1, partElements/rows), transposedCols) * transposedCols
	blocks := ceilDiv(cols, perPart)
	return step{parts: loops.rows / rows * blocks, run: func(m *machine, part, _ int) {
		to, from, rest := 0, 0, part/blocks
		for axis := n - 3; axis >= 0; axis-- {
			at := rest % loops.Shape[axis]
			rest /= loops.Shape[axis]
			to, from = to+at*loops.Strides[0][axis], from+at*loops.Strides[1][axis]
		}
		lo := part % blocks * perPart
		transpose(m, to+lo, from+lo*loops.col(1), rows, min(perPart, cols-lo))
	}}
}

// transpose writes d[r·toRow + c] = s[c·fromCol + r].
func transpose[T tensor.Element](d []T, toRow int, s []T, fromCol, rows, cols int) {
	for c0 := 0; c0 < cols; c0 += transposedCols {
		for r0 := 0; r0 < rows; r0 += transposedRows {
			for r := r0; r < min(r0+transposedRows, rows); r++ {
				p := c0*fromCol + r
				for i := range d[r*toRow+c0:][:min(transposedCols, cols-c0)] {
					d[r*toRow+c0+i] = s[p]
					p += fromCol
				}
			}
		}
	}
}

var concatEntry = entry{
	Supports: func(n *ir.Node) bool { return n.Outputs[0].Type.DType.Size() > 0 },
	Strided:  target.AllStrides,
	Bind: func(b *binder, n *ir.Node, in, out []operand) (step, error) {
		axis, at := n.Op.(ir.Concat).Axis, 0
		var steps []step
		for i, x := range in {
			piece := out[0].cut(axis, at, x.shape[axis]) // the part of the result that x fills
			at += x.shape[axis]
			if x.location == piece.location && slices.Equal(x.strides, piece.strides) {
				continue // its step has written it there
			}
			st, err := copyStep(b.d.set, &piece, &x)
			if err != nil {
				return step{}, err
			}
			if i == 0 && x.outside && out[0].outside {
				st = grows(st, out[0].base, x.base)
			}
			steps = append(steps, st)
		}
		return oneAfterAnother(steps), nil
	},
}

// grows is a copy from the start of one device tensor to that of another: nothing where they are the same.
func grows(st step, to, from int) step {
	return step{parts: min(st.parts, 1), run: func(m *machine, _, worker int) {
		if m.bases[to] != m.bases[from] {
			for part := range st.parts {
				st.run(m, part, worker)
			}
		}
	}}
}

// triluEntry keeps a triangle of each matrix.
var triluEntry = entry{
	Supports: func(n *ir.Node) bool { return n.Inputs[0].Type.DType.Size() > 0 },
	InPlace:  func(*ir.Node, int) bool { return true },
	Bind: func(b *binder, n *ir.Node, in, out []operand) (step, error) {
		op, x, y := n.Op.(ir.Trilu), in[0], out[0]
		last := len(x.shape) - 1
		height, width := x.shape[last-1], x.shape[last]
		rows, size, diagonal := x.shape[:last].Elements(), width*x.width, max(-height, min(op.K, width))
		parts, perPart := rowParts(rows, size)
		return step{parts: parts, run: func(m *machine, part, _ int) {
			d, s := y.bytes(m), x.bytes(m)
			for row := part * perPart; row < min((part+1)*perPart, rows); row++ {
				// The diagonal is before element at of the row, in the upper triangle, and after it in the lower one.
				at := row%height + diagonal
				if !op.Upper {
					at++
				}
				at = max(0, min(at, width)) * x.width
				to, from := d[row*size:][:size], s[row*size:][:size]
				if op.Upper {
					clear(to[:at])
					copy(to[at:], from[at:])
				} else {
					copy(to[:at], from[:at])
					clear(to[at:])
				}
			}
		}}, nil
	},
}

// padEntry writes a constant, or elements of the operand itself, around a copy.
var padEntry = entry{
	Supports: func(n *ir.Node) bool {
		return n.Outputs[0].Type.DType.Size() > 0 && (n.Op.(ir.Pad).Mode == ir.PadConstant || len(n.Outputs[0].Type.Shape) > 0)
	},
	Strided: target.AllStrides,
	Bind: func(b *binder, n *ir.Node, in, out []operand) (step, error) {
		x, y, op := in[0], out[0], n.Op.(ir.Pad)
		if op.Mode != ir.PadConstant {
			m, err := movesOf(&y)
			if err != nil {
				return step{}, err
			}
			return m.mirror(op, &y, &x), nil
		}
		value := operand{dtype: y.dtype, width: y.width, span: 1, location: locationOf(make([]byte, 16))}
		if n.HasOperand(1) {
			value = in[1]
		}
		var steps []step
		add := func(dst, src operand) error {
			st, err := copyStep(b.d.set, &dst, &src)
			steps = append(steps, st)
			return err
		}
		for axis, size := range y.shape { // what is before and after along an axis, between what is along those in front
			before, after := max(op.Before[axis].Int(), 0), max(op.After[axis].Int(), 0)
			if err := add(y.cut(axis, 0, before), value); err != nil {
				return step{}, err
			}
			if err := add(y.cut(axis, size-after, after), value); err != nil {
				return step{}, err
			}
			y = y.cut(axis, before, size-before-after)
			x = x.cut(axis, max(-op.Before[axis].Int(), 0), y.shape[axis])
		}
		if err := add(y, x); err != nil {
			return step{}, err
		}
		return oneAfterAnother(steps), nil
	},
}

// mirrored pads with elements of the operand itself.
func mirrored[T tensor.Element](op ir.Pad, y, x *operand) step {
	dst, src := *y, *x
	last := len(dst.shape) - 1
	cols, rows := dst.shape[last], dst.shape[:last].Elements()
	from := func(axis, i int) int { // the offset in x of index i along an axis
		return op.Source(i, src.shape[axis], op.Before[axis].Int(), op.After[axis].Int()) * src.strides[axis]
	}
	lo := max(op.Before[last].Int(), 0) // the run that x has as it is
	hi := cols - max(op.After[last].Int(), 0)
	next := src.strides[last]
	parts, perPart := rowParts(rows, cols)
	return step{parts: parts, run: func(m *machine, part, _ int) {
		d, s := elements[T](m, &dst), elements[T](m, &src)
		for row := part * perPart; row < min((part+1)*perPart, rows); row++ {
			at, rest := 0, row
			for axis := last - 1; axis >= 0; axis-- {
				at += from(axis, rest%dst.shape[axis])
				rest /= dst.shape[axis]
			}
			line := d[row*cols:][:cols]
			for i := range lo {
				line[i] = s[at+from(last, i)]
			}
			if lo < hi {
				if run := s[at+from(last, lo):]; next == 1 {
					copy(line[lo:hi], run)
				} else {
					for i := range line[lo:hi] {
						line[lo+i] = run[i*next]
					}
				}
			}
			for i := hi; i < cols; i++ {
				line[i] = s[at+from(last, i)]
			}
		}
	}}
}

// tileEntry copies its operand to all repetitions at once: an axis that repeats is two axes, and the operand has stride 0 on one of them.
var tileEntry = entry{
	Supports: func(n *ir.Node) bool { return n.Inputs[0].Type.DType.Size() > 0 },
	Strided:  target.AllStrides,
	Bind: func(b *binder, n *ir.Node, in, out []operand) (step, error) {
		x, y := in[0], out[0]
		var shape tensor.Shape
		var from, to []int
		for i, repeats := range n.Op.(ir.Tile).Repeats {
			shape = append(shape, repeats.Int(), x.shape[i])
			from = append(from, 0, x.strides[i])
			to = append(to, x.shape[i]*y.strides[i], y.strides[i])
		}
		x.shape, x.strides, y.shape, y.strides = shape, from, shape, to
		return copyStep(b.d.set, &y, &x)
	},
}

var rangeEntry = entry{
	Supports: func(n *ir.Node) bool {
		d := n.Op.(ir.Range).DType
		return d == tensor.I64 || d == tensor.I32
	},
	Bind: func(b *binder, n *ir.Node, in, out []operand) (step, error) {
		op, y := n.Op.(ir.Range), b.operand(n.Outputs[0])
		if op.DType == tensor.I32 {
			return rangeStep[int32](op, &y), nil
		}
		return rangeStep[int64](op, &y), nil
	},
}

func rangeStep[T number](op ir.Range, y *operand) step {
	dst, start, by := *y, int64(op.Start.Int()), int64(op.Step.Int())
	return step{parts: 1, run: func(m *machine, _, _ int) {
		next := start
		for i, d := 0, elements[T](m, &dst); i < len(d); i++ {
			d[i] = T(next)
			next += by
		}
	}}
}
