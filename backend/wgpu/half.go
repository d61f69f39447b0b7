package wgpu

import (
	"slices"

	"github.com/rlxc/rlxc/ir"
	"github.com/rlxc/rlxc/tensor"
)

// 16-bit floats are computed with in float32. Kernels that go element by element read and write them as they are; the
// others have their operands widened to scratch memory by a launch before theirs, and their results narrowed by one behind,
// which rounds once an operation.

func isHalf(d tensor.DType) bool { return d == tensor.F16 || d == tensor.BF16 }

// wide is the type that kernels compute in.
func wide(d tensor.DType) tensor.DType {
	if isHalf(d) {
		return tensor.F32
	}
	return d
}

// hasHalf reports whether an operand or result of n is a 16-bit float.
func hasHalf(n *ir.Node) bool {
	return slices.ContainsFunc(slices.Concat(n.Inputs, n.Outputs), func(v *ir.Value) bool { return v != nil && isHalf(v.Type.DType) })
}

// widened is n as it would be in float32. Its values are copies, of the same IDs.
func widened(n *ir.Node) *ir.Node {
	if !hasHalf(n) {
		return n
	}
	all := func(list []*ir.Value) []*ir.Value {
		out := make([]*ir.Value, len(list))
		for i, v := range list {
			if v != nil {
				c := *v
				c.Type.DType = wide(c.Type.DType)
				out[i] = &c
			}
		}
		return out
	}
	return &ir.Node{Op: n.Op, Inputs: all(n.Inputs), Outputs: all(n.Outputs), Origins: n.Origins}
}

// withHalf makes the row of a float32 kernel one that takes 16-bit floats as well.
func withHalf(r row) row {
	inner := r
	r.Claims = func(n *ir.Node) bool { return inner.Claims == nil || inner.Claims(widened(n)) }
	if inner.Strided != nil {
		r.Strided = func(n *ir.Node, i int, strides []int) bool {
			return isHalf(n.Inputs[i].Type.DType) || inner.Strided(widened(n), i, strides)
		}
	}
	r.InPlace = func(n *ir.Node, i int) bool {
		if hasHalf(n) {
			return isHalf(n.Outputs[0].Type.DType) // written when all is done
		}
		return inner.InPlace != nil && inner.InPlace(n, i)
	}
	r.Scratch = func(n *ir.Node) []int64 {
		var sizes []int64
		if inner.Scratch != nil {
			sizes = inner.Scratch(widened(n))
		}
		for _, v := range halfValues(n) {
			sizes = append(sizes, int64(4*v.Type.Sizes().Elements()))
		}
		return sizes
	}
	r.bind = func(b *binder, n *ir.Node) ([]launch, error) {
		if !hasHalf(n) {
			return inner.bind(b, n)
		}
		return bindHalf(b, n, &inner)
	}
	return r
}

// halfValues are the values of a node that go through scratch memory: what is not constant, each once.
func halfValues(n *ir.Node) (list []*ir.Value) {
	for _, v := range slices.Concat(n.Inputs, n.Outputs) {
		if v != nil && !v.IsConst() && isHalf(v.Type.DType) && !slices.Contains(list, v) {
			list = append(list, v)
		}
	}
	return list
}

func bindHalf(b *binder, n *ir.Node, inner *row) ([]launch, error) {
	values, all := halfValues(n), b.scratch
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
	launches, err := inner.bind(b, widened(n))
	b.wide, b.scratch = nil, all
	return slices.Concat(before, launches, after), err
}

// convert copies between types that are computed with alike.
func convert(y, x *operand) launch {
	return each("convert", y, elements[y.dtype], []*operand{x}, []element{elements[x.dtype]}, expression{text: "$1"})
}

// floats is a constant of floats as float32.
func floats(t *tensor.Tensor) *tensor.Tensor {
	if !isHalf(t.DType()) {
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
