package rewrite

import (
	"slices"

	"github.com/rlxc/rlxc/internal/target"
	"github.com/rlxc/rlxc/ir"
	"github.com/rlxc/rlxc/tensor"
)

// appendRule gathers a cache from the old one and what is new, for a target without a kernel for that.
func appendRule() *Rule {
	pattern := node[ir.Append]().rest()
	return &Rule{Name: "append.gather", pattern: pattern, build: func(m *match) *ir.Value {
		if m.e.t != nil && m.e.t.Where(m.root) == target.OnKernel {
			return nil
		}
		op, x, cache, y := opOf[ir.Append](m, pattern), m.root.Inputs[ir.AppendNew], ir.Operand(m.root.Inputs, ir.AppendCache),
			m.root.Outputs[0].Type
		added, cached := x.Type.Shape[op.Axis], ir.N(0)
		if cache != nil {
			cached = cache.Type.Shape[op.Axis]
			x = m.emit(ir.Concat{Axis: op.Axis}, cache, x)
		}
		along := func(v *ir.Value, axis int, n ir.Dim) *ir.Value { // a vector
			s := ir.Dims(slices.Repeat([]int{1}, len(y.Shape))...)
			s[axis] = n
			return m.reshape(v, s)
		}
		number := func(n int64) *ir.Value { return m.e.constant("", tensor.Scalar(n)) }
		size := func(d ir.Dim) *ir.Value {
			return m.emit(ir.DimsOp{Dims: []ir.Dim{d}, Scalar: true, DType: tensor.I64})
		}
		binary := func(fn ir.BinaryFn, a, b *ir.Value) *ir.Value { return m.emit(ir.Binary{Fn: fn}, a, b) }
		// Position t of the result holds the old position t up to start, and the new position t − start from there up to end.
		length := along(m.root.Inputs[ir.AppendLengths], op.Batch, y.Shape[op.Batch])
		start := binary(ir.MaxFn, binary(ir.Sub, length, size(added)), number(0))
		end := binary(ir.Add, start, size(added))
		t := along(m.emit(ir.Range{Step: ir.N(1), Len: op.Size, DType: tensor.I64}), op.Axis, op.Size)
		old, filled := binary(ir.Less, t, start), binary(ir.Less, t, end)
		if op.Keep {
			unfilled := m.emit(ir.Unary{Fn: ir.Not}, filled)
			old = binary(ir.Or, old, unfilled)
			filled = binary(ir.Less, t, binary(ir.MaxFn, end, size(cached)))
		}
		from := m.emit(ir.Where{}, old, t, binary(ir.Add, binary(ir.Sub, t, start), size(cached)))
		from = binary(ir.MinFn, from, size(cached.Add(added).Sub(ir.N(1))))
		// Lengths that a sequence cannot have are outside of every axis.
		fits := binary(ir.MinFn, binary(ir.Sub, length, number(1)), binary(ir.Sub, size(op.Size), length))
		fits = binary(ir.MinFn, fits, binary(ir.Sub, size(cached), start))
		from = m.emit(ir.Where{}, binary(ir.Less, fits, number(0)), number(ir.NoIndex), from)
		gathered := m.emit(ir.GatherElements{Axis: op.Axis}, x, m.expand(from, y.Shape))
		return m.emit(ir.Where{}, filled, gathered, m.e.constant("", tensor.New(y.DType)))
	}}
}
