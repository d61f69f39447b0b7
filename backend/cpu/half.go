package cpu

import (
	"math"
	"slices"

	"github.com/x448/float16"

	"github.com/rlxc/rlxc/backend/cpu/kernel"
	"github.com/rlxc/rlxc/internal/target"
	"github.com/rlxc/rlxc/ir"
	"github.com/rlxc/rlxc/tensor"
)

// Weights of 16-bit floats stay so in memory; see matmul_pack.go.

// withHalf makes the entry of a float32 kernel one that takes 16-bit floats as well.
func withHalf(e entry) entry {
	inner, k := e.Bind, e.kernel().WithHalf()
	e.Supports, e.Strided, e.InPlace, e.StridedResult = k.Supports, k.Strided, k.InPlace, k.StridedResult
	e.Scratch, e.Shares = k.Scratch, k.Shares
	e.Bind = func(b *binder, n *ir.Node, in, out []operand) (step, error) {
		if !target.HasHalf(n) {
			return inner(b, n, in, out)
		}
		return bindHalf(b, n, inner)
	}
	return e
}

// bindHalf binds a kernel between steps that widen and narrow.
func bindHalf(b *binder, n *ir.Node, inner bindFunc) (step, error) {
	return bindHalfRows(b, n, 0, 0, inner)
}

// bindHalfRows is bindHalf for rows [lo, hi) of a product whose values of 16 bits are row-major; for all of any node if hi is 0.
func bindHalfRows(b *binder, n *ir.Node, lo, hi int, inner bindFunc) (step, error) {
	values := target.HalfValues(n)
	first := len(b.scratch) - len(values)
	own := *b
	own.scratch = b.scratch[:first]
	own.wide = map[int]operand{}
	var before, after []step
	for i, v := range values {
		from, to := b.operand(v), b.scratchBytes(first+i)
		if hi > 0 && hasRows(n, v) {
			cols := from.shape[len(from.shape)-1]
			from.shape, from.strides = tensor.Shape{from.shape.Elements() / cols, cols}, []int{cols, 1}
			from = from.cut(0, lo, hi-lo)
		}
		to.dtype, to.width, to.shape = tensor.F32, 4, from.shape
		to.strides, to.span = from.shape.Strides(), from.shape.Elements()
		own.wide[v.ID] = to
		if slices.Contains(n.Outputs, v) {
			after = append(after, narrowStep(b.d.set, from, to))
		} else {
			before = append(before, widenStep(b.d.set, to, from))
		}
	}
	for _, v := range n.Inputs {
		if v == nil || v.Const == nil || !target.IsHalf(v.Type.DType) {
			continue
		}
		o := b.operand(v)
		o.location, o.dtype, o.width = locationOf(widenConst(b.d.set, v.Const).Bytes()), tensor.F32, 4
		if l := ir.LayoutIn(b.p.Layouts, v); l != nil && l.Root.ID == v.ID {
			o.off = 4 * l.Offset
		}
		own.wide[v.ID] = o
	}
	widened := target.Widened(n)
	if hi > 0 {
		widened = rowsOfProduct(widened, hi-lo)
	}
	in, out := own.operands(widened)
	st, err := inner(&own, widened, in, out)
	if err != nil || st.run == nil {
		return st, err
	}
	phases := []step{}
	if len(before) > 0 {
		phases = append(phases, oneAfterAnother(before))
	}
	for phase := &st; phase != nil; phase = phase.then {
		phases = append(phases, *phase)
	}
	if len(after) > 0 {
		phases = append(phases, oneAfterAnother(after))
	}
	return inPhases(phases...), nil
}

// toFloats and fromFloats convert by the type of the narrow side.
func toFloats(set *kernel.Set, d tensor.DType, dst []float32, src []uint16) {
	if d == tensor.F16 {
		set.FromF16(dst, src)
	} else {
		set.FromBF16(dst, src)
	}
}

// toFloat converts one number.
func toFloat(d tensor.DType, bits uint16) float32 {
	if d == tensor.F16 {
		return float16.Frombits(bits).Float32()
	}
	return math.Float32frombits(uint32(bits) << 16)
}

func fromFloats(set *kernel.Set, d tensor.DType, dst []uint16, src []float32) {
	if d == tensor.F16 {
		set.ToF16(dst, src)
	} else {
		set.ToBF16(dst, src)
	}
}

func widenConst(set *kernel.Set, t *tensor.Tensor) *tensor.Tensor {
	y := tensor.New(tensor.F32, t.Shape()...)
	toFloats(set, t.DType(), tensor.Of[float32](y), tensor.Of[uint16](t.Aligned()))
	return y
}

// widenStep brings a 16-bit tensor of any strides to row-major float32.
func widenStep(set *kernel.Set, to, from operand) step {
	loops := newNest(to.shape, &to, &from)
	return step{parts: loops.parts(), run: func(m *machine, part, _ int) {
		dst, src := to.f32(m), elements[uint16](m, &from)
		loops.blocks(part, func(rows, cols int, at [maxOperands]int) {
			for r := range rows {
				d, s := dst[at[0]+r*loops.row(0):], src[at[1]+r*loops.row(1):]
				if loops.col(1) == 1 {
					toFloats(set, from.dtype, d[:cols], s[:cols])
					continue
				}
				for i := range cols {
					d[i] = toFloat(from.dtype, s[i*loops.col(1)])
				}
			}
		})
	}}
}

// narrowStep rounds a row-major result.
func narrowStep(set *kernel.Set, to, from operand) step {
	parts, cut := spread(to.len())
	return step{parts: parts, run: func(m *machine, part, _ int) {
		lo, hi := cut(part)
		fromFloats(set, to.dtype, elements[uint16](m, &to)[lo:hi], from.f32(m)[lo:hi])
	}}
}

// hasRows reports whether v has the rows of the product n: operand A, residual and result do, and a bias does not.
func hasRows(n *ir.Node, v *ir.Value) bool {
	return v == n.Inputs[ir.MatMulA] || v == ir.Operand(n.Inputs, ir.MatMulResidual) || v == n.Outputs[0]
}

// rowsOfProduct returns a product of that many rows. Its values are copies, of the same IDs.
func rowsOfProduct(n *ir.Node, rows int) *ir.Node {
	part := &ir.Node{Op: n.Op, Origins: n.Origins}
	for _, list := range []struct {
		from []*ir.Value
		to   *[]*ir.Value
	}{{n.Inputs, &part.Inputs}, {n.Outputs, &part.Outputs}} {
		for _, v := range list.from {
			if v != nil && hasRows(n, v) {
				c := *v
				c.Type.Shape = ir.Shape{ir.N(rows), v.Type.Shape[len(v.Type.Shape)-1]}
				v = &c
			}
			*list.to = append(*list.to, v)
		}
	}
	return part
}
