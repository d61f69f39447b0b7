package cpu

import (
	"fmt"

	"github.com/rlxc/rlxc/ir"
	"github.com/rlxc/rlxc/target"
	"github.com/rlxc/rlxc/tensor"
)

// cumSumRow is what RoBERTa's relatives count their positions with.
var cumSumRow = row{
	Row: target.Row{
		Runs: target.OnKernel,
		Supports: func(n *ir.Node) bool {
			d := n.Inputs[0].Type.DType
			return d == tensor.I64 || d == tensor.I32
		},
		InPlace: func(*ir.Node, int) bool { return true },
	},
	bind: func(b *binder, n *ir.Node) (step, error) {
		in, out := b.operands(n)
		if in[0].dtype == tensor.I32 {
			return cumSumStep[int32](n.Op.(ir.CumSum), &out[0], &in[0]), nil
		}
		return cumSumStep[int64](n.Op.(ir.CumSum), &out[0], &in[0]), nil
	},
}

func cumSumStep[T number](op ir.CumSum, y, x *operand) step {
	dst, src := *y, *x
	size, inner := src.shape[op.Axis], src.shape[op.Axis+1:].Elements()
	lines := src.shape[:op.Axis].Elements() * inner
	parts, perPart := rowParts(lines, size)
	return step{parts: parts, run: func(m *machine, part, _ int) {
		d, s := elements[T](m, &dst), elements[T](m, &src)
		for line := part * perPart; line < min((part+1)*perPart, lines); line++ {
			at, by := line/inner*size*inner+line%inner, inner
			if op.Reverse {
				at, by = at+(size-1)*inner, -inner
			}
			var sum T
			for range size {
				v := s[at]
				if op.Exclusive {
					d[at] = sum
				}
				sum += v
				if !op.Exclusive {
					d[at] = sum
				}
				at += by
			}
		}
	}}
}

// argReduceRow finds where the largest or smallest element of each line is.
var argReduceRow = row{
	Row: target.Row{
		Runs:     target.OnKernel,
		Supports: func(n *ir.Node) bool { return n.Inputs[0].Type.DType == tensor.F32 },
	},
	bind: func(b *binder, n *ir.Node) (step, error) {
		in, out := b.operands(n)
		op, x, y := n.Op.(ir.ArgReduce), in[0], out[0]
		size, inner := x.shape[op.Axis], x.shape[op.Axis+1:].Elements()
		if size == 0 {
			return step{}, fmt.Errorf("axis %d of %v has no elements", op.Axis, x.shape)
		}
		lines := x.shape[:op.Axis].Elements() * inner
		parts, perPart := rowParts(lines, size)
		return step{parts: parts, run: func(m *machine, part, _ int) {
			d, s := elements[int64](m, &y), x.f32(m)
			for line := part * perPart; line < min((part+1)*perPart, lines); line++ {
				d[line] = argReduce(op, s[line/inner*size*inner+line%inner:], size, inner)
			}
		}}, nil
	},
}

// argReduce is the place of the best of size elements that lie a distance apart.
func argReduce(op ir.ArgReduce, s []float32, size, distance int) int64 {
	best, at := s[0], 0
	for i := 1; i < size; i++ {
		v := s[i*distance]
		low, high := best, v
		if op.Min {
			low, high = v, best
		}
		if low < high || op.Last && !(high < low) {
			best, at = v, i
		}
	}
	return int64(at)
}
