package cpu

import (
	"fmt"

	"github.com/rlxc/rlxc/ir"
	"github.com/rlxc/rlxc/tensor"
)

// cumSumEntry adds up along an axis. RoBERTa and models of its family count their positions by CumSum.
var cumSumEntry = entry{
	Supports: func(n *ir.Node) bool {
		switch n.Inputs[0].Type.DType {
		case tensor.I64, tensor.I32, tensor.F32, tensor.F64:
			return true
		}
		return false
	},
	InPlace: func(*ir.Node, int) bool { return true },
	Bind: func(b *binder, n *ir.Node, in, out []operand) (step, error) {
		op := n.Op.(ir.CumSum)
		switch in[0].dtype {
		case tensor.I32:
			return cumSumStep[int32, int32](op, &out[0], &in[0]), nil
		case tensor.F32:
			return cumSumStep[float32, float64](op, &out[0], &in[0]), nil
		case tensor.F64:
			return cumSumStep[float64, float64](op, &out[0], &in[0]), nil
		}
		return cumSumStep[int64, int64](op, &out[0], &in[0]), nil
	},
}

// cumSumStep adds up elements of T in S, which does not round where T would.
func cumSumStep[T, S number](op ir.CumSum, y, x *operand) step {
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
			var sum S
			for range size {
				v := s[at]
				if op.Exclusive {
					d[at] = T(sum)
				}
				sum += S(v)
				if !op.Exclusive {
					d[at] = T(sum)
				}
				at += by
			}
		}
	}}
}

// argReduceEntry finds where the largest or smallest element of each line is.
var argReduceEntry = entry{
	Supports: func(n *ir.Node) bool {
		d := n.Inputs[0].Type.DType
		return d == tensor.F32 || d == tensor.I64 || d == tensor.I32
	},
	Bind: func(b *binder, n *ir.Node, in, out []operand) (step, error) {
		if x := in[0]; x.shape[n.Op.(ir.ArgReduce).Axis] == 0 {
			return step{}, fmt.Errorf("axis %d of %v has no elements", n.Op.(ir.ArgReduce).Axis, x.shape)
		}
		switch in[0].dtype {
		case tensor.I64:
			return argReduceStep[int64](n.Op.(ir.ArgReduce), &out[0], &in[0]), nil
		case tensor.I32:
			return argReduceStep[int32](n.Op.(ir.ArgReduce), &out[0], &in[0]), nil
		}
		return argReduceStep[float32](n.Op.(ir.ArgReduce), &out[0], &in[0]), nil
	},
}

func argReduceStep[T number](op ir.ArgReduce, y, x *operand) step {
	dst, src := *y, *x
	size, inner := src.shape[op.Axis], src.shape[op.Axis+1:].Elements()
	lines := src.shape[:op.Axis].Elements() * inner
	parts, perPart := rowParts(lines, size)
	return step{parts: parts, run: func(m *machine, part, _ int) {
		d, s := elements[int64](m, &dst), elements[T](m, &src)
		for line := part * perPart; line < min((part+1)*perPart, lines); line++ {
			d[line] = argReduce(op, s[line/inner*size*inner+line%inner:], size, inner)
		}
	}}
}

// argReduce is the position of the best of size elements that are a distance apart.
func argReduce[T number](op ir.ArgReduce, s []T, size, distance int) int64 {
	best, at := s[0], 0
	for i := 1; i < size; i++ {
		v := s[i*distance]
		low, high := best, v
		if op.Min {
			low, high = v, best
		}
		if low < high || op.Last && low == high {
			best, at = v, i
		}
	}
	return int64(at)
}
