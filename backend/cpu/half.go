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
	return ofHalf(e, func(b *binder, n *ir.Node) (step, error) { return bindHalf(b, n, e.Bind) })
}

// ofHalf makes the entry of a float32 kernel one that takes 16-bit floats as well, whose steps for them bind makes.
func ofHalf(e entry, bind func(b *binder, n *ir.Node) (step, error)) entry {
	inner, k := e.Bind, e.kernel().WithHalf()
	e.Supports, e.Strided, e.InPlace, e.StridedResult = k.Supports, k.Strided, k.InPlace, k.StridedResult
	e.Scratch, e.Shares = k.Scratch, k.Shares
	e.Bind = func(b *binder, n *ir.Node, in, out []operand) (step, error) {
		if !target.HasHalf(n) {
			return inner(b, n, in, out)
		}
		return bind(b, n)
	}
	return e
}

// halfByTiles is withHalf for a kernel that computes 16-bit floats by tiles of axisCuts. leading returns the number of leading axes along
// which nothing depends on its neighbours.
func (d *processor) halfByTiles(e entry, leading func(n *ir.Node) int) entry {
	return byTiles(withHalf(e), func(n *ir.Node) []cut {
		if !target.HasHalf(n) {
			return nil
		}
		return d.axisCuts(n, leading(n))
	})
}

// outer is the number of axes but the last.
func outer(n *ir.Node) int { return len(n.Outputs[0].Type.Shape) - 1 }

// bindHalf binds a kernel between steps that widen and narrow.
func bindHalf(b *binder, n *ir.Node, inner bindFunc) (step, error) {
	values := target.HalfValues(n)
	own, before, after := widenValues(b, n, values)
	widened := target.Widened(n)
	in, out := own.operands(widened)
	st, err := inner(own, widened, in, out)
	if err != nil || st.run == nil {
		return st, err
	}
	return inPhases(slices.Concat(before, phasesOf(st), after)...), nil
}

// widenValues returns a binder for which values of a node are float32 in scratch memory, as are its constants, and the phases that widen
// operands and narrow results. The last scratch buffers are those of the values.
func widenValues(b *binder, n *ir.Node, values []*ir.Value) (own *binder, before, after []step) {
	first := len(b.scratch) - len(values)
	copied := *b
	own = &copied
	own.scratch, own.instead = b.scratch[:first], slices.Clip(b.instead)
	for i, v := range values {
		from, to := b.operand(v), b.scratchBytes(first+i)
		to.dtype, to.width, to.shape = tensor.F32, 4, from.shape
		to.strides, to.span = from.shape.Strides(), from.shape.Elements()
		own.instead = append(own.instead, substitute{v.ID, to})
		if slices.Contains(n.Outputs, v) {
			after = append(after, convertStep(b.d.set, from, to))
		} else {
			before = append(before, convertStep(b.d.set, to, from))
		}
	}
	for _, v := range n.Inputs {
		if v == nil || v.Const == nil || !target.IsHalf(v.Type.DType) {
			continue
		}
		o := b.operand(v)
		off := 2 * o.off // an element of float32 has twice the bytes
		o.location, o.dtype, o.width = locationOf(b.widenConst(v.Const).Bytes()), tensor.F32, 4
		o.off = off
		own.instead = append(own.instead, substitute{v.ID, o})
	}
	if len(before) > 0 {
		before = []step{oneAfterAnother(before)}
	}
	if len(after) > 0 {
		after = []step{oneAfterAnother(after)}
	}
	return own, before, after
}

// widenConst returns a constant of 16-bit floats as float32. The tiles of a step share it.
func (b *binder) widenConst(t *tensor.Tensor) *tensor.Tensor {
	if wide := b.widened[t]; wide != nil {
		return wide
	}
	wide := widenConst(b.d.set, t)
	if b.widened != nil {
		b.widened[t] = wide
	}
	return wide
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

// convertStep writes a tensor of 16-bit floats as float32, or rounds float32 to 16 bits. Both may have any strides.
func convertStep(set *kernel.Set, to, from operand) step {
	loops, widens := newNest(to.shape, &to, &from), to.dtype == tensor.F32
	return step{parts: loops.parts(), run: func(m *machine, part, _ int) {
		loops.blocks(part, func(rows, cols int, at [maxOperands]int) {
			if widens {
				convertRows(elements[float32](m, &to)[at[0]:], elements[uint16](m, &from)[at[1]:], loops, rows, cols,
					func(dst []float32, src []uint16) { toFloats(set, from.dtype, dst, src) })
			} else {
				convertRows(elements[uint16](m, &to)[at[0]:], elements[float32](m, &from)[at[1]:], loops, rows, cols,
					func(dst []uint16, src []float32) { fromFloats(set, to.dtype, dst, src) })
			}
		})
	}}
}

// convertRows converts rows of a block of a loop nest over the result and the operand.
func convertRows[T, F tensor.Element](dst []T, src []F, loops *nest, rows, cols int, convert func(dst []T, src []F)) {
	for r := range rows {
		d, s := dst[r*loops.row(0):], src[r*loops.row(1):]
		if loops.col(0) == 1 && loops.col(1) == 1 {
			convert(d[:cols], s[:cols])
			continue
		}
		for i := range cols {
			convert(d[i*loops.col(0):][:1], s[i*loops.col(1):][:1])
		}
	}
}
