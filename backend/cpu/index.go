package cpu

import (
	"github.com/rlxc/rlxc/backend"
	"github.com/rlxc/rlxc/ir"
	"github.com/rlxc/rlxc/target"
	"github.com/rlxc/rlxc/tensor"
)

// gatherElementsRow is what disentangled attention (DeBERTa) picks its relative positions with.
var gatherElementsRow = row{
	Row: target.Row{
		Runs: target.OnKernel,
		Supports: func(n *ir.Node) bool {
			d, i := n.Inputs[0].Type.DType, n.Inputs[1].Type.DType
			return (d.Size() == 4 || d.Size() == 8) && (i == tensor.I64 || i == tensor.I32)
		},
		Strided: target.AllStrides,
	},
	bind: func(b *binder, n *ir.Node) (step, error) {
		in, out := b.operands(n)
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
		loops.blocks(part, func(rows int, at [maxOperands]int) {
			for r := range rows {
				o, p, q := at[0]+r*loops.row(0), at[1]+r*loops.row(1), at[2]+r*loops.row(2)
				for c := range loops.cols {
					i := int(ids[q+c*loops.col(2)])
					if i < 0 {
						i += size
					}
					if i < 0 || i >= size {
						m.fail(n, backend.OutOfRange(int64(ids[q+c*loops.col(2)]), axis, size))
						return
					}
					d[o+c*loops.col(0)] = s[p+c*loops.col(1)+i*step1]
				}
			}
		})
	}}
}

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

// rotaryRow turns query and key by their positions (ModernBERT and other encoders of its kind).
var rotaryRow = row{
	Row: target.Row{
		Runs:     target.OnKernel,
		Supports: func(n *ir.Node) bool { return n.Inputs[0].Type.DType == tensor.F32 },
		Strided: func(n *ir.Node, i int, strides []int) bool {
			return strides[len(strides)-1] == 1
		},
	},
	bind: func(b *binder, n *ir.Node) (step, error) {
		in, out := b.operands(n)
		x, cos, sin, y := in[0], in[1], in[2], out[0]
		interleaved := n.Op.(ir.Rotary).Interleaved
		heads, size := x.shape[2], x.shape[3]
		half := cos.shape[2]
		rows := x.shape[0] * x.shape[1]
		parts, perPart := rowParts(rows, heads*size)
		// at returns the offset of a (batch, position) row; a batch of 1 serves all.
		at := func(o *operand, r int) int {
			batch, pos := r/x.shape[1], r%x.shape[1]
			if o.shape[0] == 1 {
				batch = 0
			}
			return batch*o.strides[0] + pos*o.strides[1]
		}
		return step{parts: parts, run: func(m *machine, part, _ int) {
			s, c, w, d := x.f32(m), cos.f32(m), sin.f32(m), y.f32(m)
			for r := part * perPart; r < min((part+1)*perPart, rows); r++ {
				cosines, sines := c[at(&cos, r):][:half], w[at(&sin, r):][:half]
				for h := range heads {
					from, to := s[at(&x, r)+h*x.strides[2]:][:size], d[at(&y, r)+h*y.strides[2]:][:size]
					for i := range half {
						p, q := i, i+half
						if interleaved {
							p, q = 2*i, 2*i+1
						}
						a, b := from[p], from[q]
						to[p], to[q] = a*cosines[i]-b*sines[i], b*cosines[i]+a*sines[i]
					}
					copy(to[2*half:], from[2*half:])
				}
			}
		}}, nil
	},
}
