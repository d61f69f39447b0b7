package cpu

import (
	"math"

	"github.com/rlxc/rlxc/backend/cpu/kernel"
	"github.com/rlxc/rlxc/ir"
	"github.com/rlxc/rlxc/tensor"
)

var softmaxEntry = entry{
	Supports: func(n *ir.Node) bool {
		t, op := n.Inputs[0].Type, n.Op.(ir.Softmax)
		return t.DType == tensor.F32 && op.Axis == len(t.Shape)-1
	},
	InPlace: func(*ir.Node, int) bool { return true },
	Shares:  always,
	Bind: func(b *binder, n *ir.Node, in, out []operand) (step, error) {
		x, y := in[0], out[0]
		cols := x.shape[len(x.shape)-1]
		rows := x.shape[:len(x.shape)-1].Elements()
		parts, perPart := rowParts(rows, cols)
		set := b.d.set
		if n.Op.(ir.Softmax).Log {
			return step{parts: parts, run: func(m *machine, part, _ int) {
				d, s := y.f32(m), x.f32(m)
				for row := part * perPart; row < min((part+1)*perPart, rows); row++ {
					logSoftmax(set, d[row*cols:][:cols], s[row*cols:][:cols])
				}
			}}, nil
		}
		return step{parts: parts, run: func(m *machine, part, _ int) {
			lo, hi := part*perPart, min((part+1)*perPart, rows)
			set.Softmax(y.f32(m)[lo*cols:], cols, x.f32(m)[lo*cols:], cols, hi-lo, cols)
		}}, nil
	},
}

// logSoftmax computes y[i] = x[i] − max(x) − log Σ exp(x[k] − max(x)).
func logSoftmax(set *kernel.Set, y, x []float32) {
	var most [1]float32
	set.ReduceRows(kernel.ReduceMax, most[:], x, 0, 1, len(x))
	set.BinaryRows(kernel.Sub, y, 0, kernel.Rows{Data: x, Col: 1}, kernel.Rows{Data: most[:]}, 1, len(x))
	sum := 0.0
	for _, v := range y {
		sum += math.Exp(float64(v))
	}
	most[0] = float32(math.Log(sum))
	set.BinaryRows(kernel.Sub, y, 0, kernel.Rows{Data: y, Col: 1}, kernel.Rows{Data: most[:]}, 1, len(x))
}

// reduceKernels says which kernel combines the elements of a row.
var reduceKernels = map[ir.Reduction]kernel.ReduceOp{
	ir.Sum: kernel.ReduceSum, ir.Mean: kernel.ReduceSum, ir.SumSquare: kernel.ReduceSumSquares, ir.L2: kernel.ReduceSumSquares,
	ir.MaxOf: kernel.ReduceMax, ir.MinOf: kernel.ReduceMin,
}

// reducesRows reports whether a reduction has a kernel: of neighbouring axes of float32.
func reducesRows(op ir.Reduce, d tensor.DType) bool {
	if _, ok := reduceKernels[op.Fn]; !ok || d != tensor.F32 || len(op.Axes) == 0 {
		return false
	}
	return op.Axes[len(op.Axes)-1]-op.Axes[0] == len(op.Axes)-1
}

var reduceEntry = entry{
	Supports: func(n *ir.Node) bool {
		op, d := n.Op.(ir.Reduce), n.Inputs[0].Type.DType
		return reducesRows(op, d) || hasReduceLoop(op, d)
	},
	Bind: func(b *binder, n *ir.Node, in, out []operand) (step, error) {
		op := n.Op.(ir.Reduce)
		x, y := in[0], out[0]
		if !reducesRows(op, x.dtype) {
			if x.len() == 0 {
				return bindHost(b, n, in, out)
			}
			return *reduceLoops[x.dtype](op, &x, &y), nil
		}
		outer, inner := op.Axes[0], op.Axes[0]+len(op.Axes)
		if x.shape[inner:].Elements() != 1 {
			return reduceColumns(b.d.set, op.Fn, x, y, x.shape[:outer].Elements(), x.shape[outer:inner].Elements(),
				x.shape[inner:].Elements()), nil
		}
		rows, cols := x.shape[:outer].Elements(), x.shape[outer:].Elements()
		parts, perPart := rowParts(rows, max(cols, 1))
		set, fn := b.d.set, reduceKernels[op.Fn]
		return step{parts: parts, run: func(m *machine, part, _ int) {
			lo, hi := part*perPart, min((part+1)*perPart, rows)
			dst := y.f32(m)[lo:hi]
			if cols == 0 {
				set.ReduceRows(fn, dst, nil, 0, hi-lo, 0)
			} else {
				set.ReduceRows(fn, dst, x.f32(m)[lo*cols:], cols, hi-lo, cols)
			}
			finish(set, op.Fn, dst, cols)
		}}, nil
	},
}

// finish turns sums over elements elements each into the results of a reduction, such as means.
func finish(set *kernel.Set, fn ir.Reduction, y []float32, elements int) {
	switch fn {
	case ir.Mean:
		for i := range y {
			y[i] /= float32(elements)
		}
	case ir.L2:
		set.Unary(kernel.Unary{Op: kernel.Sqrt}, y, y)
	}
}

// reduceColumns reduces each of that many matrices, one after the other in x, to its columns.
func reduceColumns(set *kernel.Set, fn ir.Reduction, x, y operand, matrices, rows, cols int) step {
	const line = 16                            // results on a line of the cache
	each := max(64, partElements/max(rows, 1)) // columns of a part
	if matrices == 1 && cols <= each && rows*cols > partElements {
		each = ceilDiv(cols/2, line) * line
	}
	parts := ceilDiv(cols, each)
	return step{parts: matrices * parts, run: func(m *machine, part, _ int) {
		matrix, lo := part/parts, part%parts*each
		dst := y.f32(m)[matrix*cols+lo:][:min(each, cols-lo)]
		var src []float32
		if rows > 0 {
			src = x.f32(m)[matrix*rows*cols+lo:]
		}
		set.ReduceColumns(reduceKernels[fn], dst, src, cols, rows, len(dst))
		finish(set, fn, dst, rows)
	}}
}
