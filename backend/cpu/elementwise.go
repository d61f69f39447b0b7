package cpu

import (
	"fmt"

	"github.com/rlxc/rlxc/backend/cpu/kernel"
	"github.com/rlxc/rlxc/internal/target"
	"github.com/rlxc/rlxc/ir"
	"github.com/rlxc/rlxc/tensor"
)

// withoutKernel are the functions of reals that have no kernel, but a Go loop that computes in float64.
var withoutKernel = [ir.NumUnary]bool{
	ir.Log: true, ir.Sin: true, ir.Cos: true, ir.Tan: true, ir.Asin: true, ir.Acos: true, ir.Atan: true,
	ir.Sinh: true, ir.Cosh: true, ir.Asinh: true, ir.Acosh: true, ir.Atanh: true,
}

// unaryKernels are the kernels of functions of float32; kernel.NoUnary where there is none.
var unaryKernels = func() (kernels [ir.NumUnary]kernel.UnaryOp) {
	for fn := ir.NoUnary + 1; fn < ir.NumUnary; fn++ {
		op, ok := kernel.Of(fn)
		if real := (ir.Unary{Fn: fn}).Real() != nil; real == withoutKernel[fn] == ok {
			panic(fmt.Sprintf("cpu: %s needs a kernel, or an entry in withoutKernel", fn))
		}
		kernels[fn] = op
	}
	return kernels
}()

// unaryKernel is the kernel of a function of float32.
func unaryKernel(o ir.Unary) (kernel.Unary, bool) {
	op := unaryKernels[o.Fn]
	defined := o.Fn != ir.Celu || o.Alpha > 0
	return kernel.Unary{Op: op, Alpha: o.Alpha, Beta: o.Beta}, op != kernel.NoUnary && defined
}

var unaryEntry = entry{
	Supports: func(n *ir.Node) bool {
		o, d := n.Op.(ir.Unary), n.Inputs[0].Type.DType
		_, ok := unaryKernel(o)
		return ok && d == tensor.F32 || unaryLoop(o, d) != nil
	},
	Shares:  always,
	Strided: target.AllStrides,
	InPlace: sameWidth,
	Bind: func(b *binder, n *ir.Node, in, out []operand) (step, error) {
		x, y := in[0], out[0]
		o := n.Op.(ir.Unary)
		op, ok := unaryKernel(o)
		if !ok || x.dtype != tensor.F32 {
			return unaryLoop(o, x.dtype).step(&y, &x), nil
		}
		set, loops := b.d.set, newNest(y.shape, &y, &x)
		return step{parts: loops.parts(), run: func(m *machine, part, _ int) {
			dst, src := y.f32(m), x.f32(m)
			loops.blocks(part, func(rows, cols int, at [maxOperands]int) {
				d, s := dst[at[0]:], src[at[1]:]
				if loops.col(1) == 1 {
					set.UnaryRows(op, d, loops.row(0), s, loops.row(1), rows, cols)
					return
				}
				for r := range rows { // strided: bring the row together first
					row := d[r*loops.row(0):][:cols]
					for c := range row {
						row[c] = s[r*loops.row(1)+c*loops.col(1)]
					}
					set.Unary(op, row, row)
				}
			})
		}}, nil
	},
}

// sameWidth allows in-place results whose elements are as wide as the operand's.
func sameWidth(n *ir.Node, i int) bool {
	return n.Inputs[i].Type.DType.Bits() == n.Outputs[0].Type.DType.Bits()
}

// binaryKernels says which kernel computes a function of two float32.
var binaryKernels = map[ir.BinaryFn]kernel.BinaryOp{
	ir.Add: kernel.Add, ir.Sub: kernel.Sub, ir.Mul: kernel.Mul, ir.Div: kernel.Div, ir.MinFn: kernel.Min, ir.MaxFn: kernel.Max,
	ir.PRelu: kernel.PRelu,
}

// maxBytes is the larger of two bytes.
func maxBytes(set *kernel.Set, y, a, b *operand) step {
	dst, left, right, loops := *y, *a, *b, newNest(y.shape, y, a, b)
	isSigned := a.dtype == tensor.I8
	return step{parts: loops.parts(), run: func(m *machine, part, _ int) {
		d, s, t := dst.bytes(m), left.bytes(m), right.bytes(m)
		loops.blocks(part, func(rows, cols int, at [maxOperands]int) {
			for r := range rows {
				to, p, q := d[at[0]+r*loops.row(0):][:cols], s[at[1]+r*loops.row(1):], t[at[2]+r*loops.row(2):]
				if loops.col(1) == 1 && loops.col(2) == 1 {
					set.MaxBytes(to, p, q, isSigned)
					continue
				}
				for c := range to {
					set.MaxBytes(to[c:][:1], p[c*loops.col(1):], q[c*loops.col(2):], isSigned)
				}
			}
		})
	}}
}

// isMaxOfBytes reports whether a function of operands of type d has maxBytes.
func isMaxOfBytes(fn ir.BinaryFn, d tensor.DType) bool { return fn == ir.MaxFn && is8Bit(d) }

var binaryEntry = entry{
	Supports: func(n *ir.Node) bool {
		fn, d := n.Op.(ir.Binary).Fn, n.Inputs[0].Type.DType
		if _, ok := binaryKernels[fn]; ok && d == tensor.F32 {
			return true
		}
		return isMaxOfBytes(fn, d) || binaryLoop(fn, d, n.Inputs[1].Type.DType) != nil
	},
	Shares:  always,
	Strided: target.AllStrides,
	InPlace: sameWidth,
	Bind: func(b *binder, n *ir.Node, in, out []operand) (step, error) {
		fn := n.Op.(ir.Binary).Fn
		op, ok := binaryKernels[fn]
		if isMaxOfBytes(fn, in[0].dtype) {
			return maxBytes(b.d.set, &out[0], &in[0], &in[1]), nil
		}
		if !ok || in[0].dtype != tensor.F32 {
			return binaryLoop(fn, in[0].dtype, in[1].dtype).step(&out[0], &in[0], &in[1]), nil
		}
		x, z, y := in[0], in[1], out[0]
		set, loops := b.d.set, newNest(y.shape, &y, &x, &z)
		return step{parts: loops.parts(), run: func(m *machine, part, worker int) {
			dst, s, t := y.f32(m), x.f32(m), z.f32(m)
			loops.blocks(part, func(rows, cols int, at [maxOperands]int) {
				if c, e := loops.col(1), loops.col(2); c <= 1 && e <= 1 {
					set.BinaryRows(op, dst[at[0]:], loops.row(0),
						kernel.Rows{Data: s[at[1]:], Row: loops.row(1), Col: c},
						kernel.Rows{Data: t[at[2]:], Row: loops.row(2), Col: e}, rows, cols)
					return
				}
				for r := range rows { // strided: one element at a time through the same kernel would be slow
					o, p, q := at[0]+r*loops.row(0), at[1]+r*loops.row(1), at[2]+r*loops.row(2)
					scalarRow(fn, dst[o:][:cols], s[p:], loops.col(1), t[q:], loops.col(2))
				}
			})
		}}, nil
	},
}

// scalarRow computes a row of strided operands.
func scalarRow(fn ir.BinaryFn, dst, a []float32, ac int, b []float32, bc int) {
	switch fn {
	case ir.Add:
		for c := range dst {
			dst[c] = a[c*ac] + b[c*bc]
		}
	case ir.Sub:
		for c := range dst {
			dst[c] = a[c*ac] - b[c*bc]
		}
	case ir.Mul:
		for c := range dst {
			dst[c] = a[c*ac] * b[c*bc]
		}
	case ir.Div:
		for c := range dst {
			dst[c] = a[c*ac] / b[c*bc]
		}
	case ir.MinFn:
		for c := range dst {
			dst[c] = min(a[c*ac], b[c*bc])
		}
	case ir.MaxFn:
		for c := range dst {
			dst[c] = max(a[c*ac], b[c*bc])
		}
	case ir.PRelu:
		for c := range dst {
			v, slope := a[c*ac], b[c*bc] // both before the result, which may be written over the slope
			if v < 0 {
				v *= slope
			}
			dst[c] = v
		}
	}
}

var whereEntry = entry{
	Supports: func(n *ir.Node) bool {
		w := n.Outputs[0].Type.DType.Size()
		return w == 1 || w == 2 || w == 4 || w == 8
	},
	Shares:  always,
	Strided: target.AllStrides,
	InPlace: func(n *ir.Node, i int) bool { return i > 0 },
	Bind: func(b *binder, n *ir.Node, in, out []operand) (step, error) {
		switch out[0].width {
		case 1:
			return whereStep[uint8](&out[0], &in[0], &in[1], &in[2]), nil
		case 2:
			return whereStep[uint16](&out[0], &in[0], &in[1], &in[2]), nil
		case 4:
			return whereStep[uint32](&out[0], &in[0], &in[1], &in[2]), nil
		}
		return whereStep[uint64](&out[0], &in[0], &in[1], &in[2]), nil
	},
}

func whereStep[T tensor.Element](y, cond, a, b *operand) step {
	dst, test, yes, no, loops := *y, *cond, *a, *b, newNest(y.shape, y, cond, a, b)
	return step{parts: loops.parts(), run: func(m *machine, part, _ int) {
		d, c, s, t := elements[T](m, &dst), elements[bool](m, &test), elements[T](m, &yes), elements[T](m, &no)
		loops.blocks(part, func(rows, cols int, at [maxOperands]int) {
			for r := range rows {
				o, p, q, u := at[0]+r*loops.row(0), at[1]+r*loops.row(1), at[2]+r*loops.row(2), at[3]+r*loops.row(3)
				if loops.col(1) == 0 && loops.col(0) == 1 { // one condition for the row
					from, first, stride := s, q, loops.col(2)
					if !c[p] {
						from, first, stride = t, u, loops.col(3)
					}
					switch stride {
					case 0:
						fill(d[o:o+cols], from[first])
						continue
					case 1:
						copy(d[o:o+cols], from[first:first+cols])
						continue
					}
				}
				for k := range cols {
					if c[p+k*loops.col(1)] {
						d[o+k] = s[q+k*loops.col(2)]
					} else {
						d[o+k] = t[u+k*loops.col(3)]
					}
				}
			}
		})
	}}
}

var castEntry = entry{
	Supports: func(n *ir.Node) bool {
		return casts[[2]tensor.DType{n.Inputs[0].Type.DType, n.Op.(ir.Cast).To}] != nil
	},
	Strided: target.AllStrides,
	Bind: func(b *binder, n *ir.Node, in, out []operand) (step, error) {
		return casts[[2]tensor.DType{in[0].dtype, out[0].dtype}].step(&out[0], &in[0]), nil
	},
}
