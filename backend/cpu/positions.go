package cpu

import (
	"github.com/rlxc/rlxc/ir"
	"github.com/rlxc/rlxc/target"
	"github.com/rlxc/rlxc/tensor"
)

// Triangles of matrices, and vectors that are hot at one place: results whose elements follow from their positions.

var triluRow = row{
	Row: target.Row{
		Runs:     target.OnKernel,
		Supports: func(n *ir.Node) bool { return n.Inputs[0].Type.DType.Size() > 0 },
		InPlace:  func(*ir.Node, int) bool { return true },
	},
	bind: func(b *binder, n *ir.Node) (step, error) {
		in, out := b.operands(n)
		op, x, y := n.Op.(ir.Trilu), in[0], out[0]
		last := len(x.shape) - 1
		height, width := x.shape[last-1], x.shape[last]
		rows, size, diagonal := x.shape[:last].Elements(), width*x.width, max(-height, min(op.K, width))
		parts, perPart := rowParts(rows, size)
		return step{parts: parts, run: func(m *machine, part, _ int) {
			d, s := y.bytes(m), x.bytes(m)
			for row := part * perPart; row < min((part+1)*perPart, rows); row++ {
				// The diagonal is before element at of the row, in the upper triangle, and behind it in the lower one.
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

// places read an index as ir.OneHot does.
var places = map[tensor.DType]func(m *machine, o *operand, i int) int64{
	tensor.I64: placeIn[int64], tensor.I32: placeIn[int32], tensor.U8: placeIn[uint8], tensor.F32: placeIn[float32], tensor.F64: placeIn[float64],
}

func placeIn[T number](m *machine, o *operand, i int) int64 { return int64(elements[T](m, o)[i]) }

var oneHotRow = row{
	Row: target.Row{
		Runs: target.OnKernel,
		Supports: func(n *ir.Node) bool {
			return places[n.Inputs[0].Type.DType] != nil && n.Inputs[1].Type.DType.Size() > 0
		},
	},
	bind: func(b *binder, n *ir.Node) (step, error) {
		in, out := b.operands(n)
		op, index, values, y := n.Op.(ir.OneHot), in[0], in[1], out[0]
		place, depth, inner, width := places[index.dtype], y.shape[op.Axis], y.shape[op.Axis+1:].Elements(), y.width
		blocks := y.shape[:op.Axis].Elements()
		parts, perPart := rowParts(blocks, depth*inner)
		return step{parts: parts, run: func(m *machine, part, _ int) {
			off, on := values.bytes(m)[:width], values.bytes(m)[width:][:width]
			for block := part * perPart; block < min((part+1)*perPart, blocks); block++ {
				d := y.bytes(m)[block*depth*inner*width:][:depth*inner*width]
				repeat(d, off, depth*inner)
				for i := range inner {
					at := place(m, &index, block*inner+i)
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
