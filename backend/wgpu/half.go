package wgpu

import (
	"slices"

	"github.com/rlxc/rlxc/internal/target"
	"github.com/rlxc/rlxc/ir"
	"github.com/rlxc/rlxc/tensor"
)

// Kernels that go element by element read and write 16-bit floats as they are.

// withHalf makes the row of a float32 kernel one that takes 16-bit floats as well.
func withHalf(r row) row {
	inner := r
	r.Row = r.WithHalf()
	r.bind = func(b *binder, n *ir.Node) ([]launch, error) {
		if !target.HasHalf(n) {
			return inner.bind(b, n)
		}
		return bindHalf(b, n, &inner)
	}
	return r
}

func bindHalf(b *binder, n *ir.Node, inner *row) ([]launch, error) {
	values, all := target.HalfValues(n), b.scratch
	first := len(all) - len(values)
	b.wide = map[int]operand{}
	var before, after []launch
	for i, v := range values {
		narrow, err := b.resolve(v)
		if err != nil {
			return nil, err
		}
		x := b.scratchOperand(first + i)
		x.shape, x.strides = narrow.shape, narrow.shape.Strides()
		b.wide[v.ID] = x
		if slices.Contains(n.Outputs, v) {
			after = append(after, convert(&narrow, &x))
		} else {
			before = append(before, convert(&x, &narrow))
		}
	}
	b.scratch = all[:first]
	launches, err := inner.bind(b, target.Widened(n))
	b.wide, b.scratch = nil, all
	return slices.Concat(before, launches, after), err
}

// convert copies between types that are computed with alike.
func convert(y, x *operand) launch {
	return each("convert", y, elements[y.dtype], []*operand{x}, []element{elements[x.dtype]}, expression{text: "$1"})
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
