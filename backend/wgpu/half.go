package wgpu

import (
	"slices"

	"github.com/rlxc/rlxc/internal/target"
	"github.com/rlxc/rlxc/ir"
	"github.com/rlxc/rlxc/tensor"
)

// Kernels that go element by element read and write 16-bit floats as they are.

// withHalf makes the entry of a float32 kernel one that takes 16-bit floats as well.
func withHalf(inner entry) entry {
	kernel := inner.Kernel().WithHalf()
	arranges := func(b *binder, n *ir.Node, i int) bool {
		return target.HasHalf(n) || inner.Arranges != nil && inner.Arranges(b, n, i)
	}
	return entry{Supports: kernel.Supports, Strided: kernel.Strided, InPlace: kernel.InPlace, Scratch: kernel.Scratch, Pieces: inner.Pieces,
		Arranges: arranges, Bind: func(b *binder, n *ir.Node, in, out []*operand) ([]launch, error) {
			if !target.HasHalf(n) {
				return inner.Bind(b, n, in, out)
			}
			return bindHalf(b, n, &inner)
		}}
}

// bindHalf binds the node as it would be in float32, between conversions.
func bindHalf(b *binder, n *ir.Node, inner *entry) ([]launch, error) {
	values, all := target.HalfValues(n), b.scratch
	first := len(all) - len(values)
	b.wide = map[int]operand{}
	var before, after []launch
	for i, v := range values {
		narrow, err := b.Resolve(v, false)
		if err != nil {
			return nil, err
		}
		x := b.scratchOperand(first + i)
		x.Shape, x.Strides = narrow.Shape, narrow.Shape.Strides()
		b.wide[v.ID] = *x
		if slices.Contains(n.Outputs, v) {
			after = append(after, convert(narrow, x))
		} else {
			before = append(before, convert(x, narrow))
		}
	}
	b.scratch = all[:first]
	launches, err := inner.Launches(b, target.Widened(n))
	b.wide, b.scratch = nil, all
	return slices.Concat(before, launches, after), err
}

// convert copies between types that are computed with alike.
func convert(y, x *operand) launch {
	return each("convert", y, []*operand{x}, expression{wgsl: "$1"})
}

// floats is a constant of floats as float32.
func floats(t *tensor.Tensor) *tensor.Tensor {
	if !target.IsHalf(t.DType()) {
		return t
	}
	t = t.Aligned()
	y := tensor.New(tensor.F32, t.Shape()...)
	values := tensor.Of[float32](y)
	for i := range values {
		values[i] = float32(t.Float64(i))
	}
	return y
}
