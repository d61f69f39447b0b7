package target

import (
	"slices"

	"github.com/rlxc/rlxc/ir"
	"github.com/rlxc/rlxc/tensor"
)

// IsHalf reports whether d is a type of 16-bit floats.
func IsHalf(d tensor.DType) bool { return d == tensor.F16 || d == tensor.BF16 }

// Wide is the type that kernels compute in: 16-bit floats are computed with in float32.
func Wide(d tensor.DType) tensor.DType {
	if IsHalf(d) {
		return tensor.F32
	}
	return d
}

// HasHalf reports whether an operand or result of n is a 16-bit float.
func HasHalf(n *ir.Node) bool {
	isHalf := func(v *ir.Value) bool { return v != nil && IsHalf(v.Type.DType) }
	return slices.ContainsFunc(n.Inputs, isHalf) || slices.ContainsFunc(n.Outputs, isHalf)
}

// HalfValues are the 16-bit floats among the values of a node that are not constant, each once: those that go through
// scratch memory.
func HalfValues(n *ir.Node) (list []*ir.Value) {
	for _, values := range [][]*ir.Value{n.Inputs, n.Outputs} {
		for _, v := range values {
			if v != nil && !v.IsConst() && IsHalf(v.Type.DType) && !slices.Contains(list, v) {
				list = append(list, v)
			}
		}
	}
	return list
}

// Widened is n as it would be in float32. Its values are copies, of the same IDs.
func Widened(n *ir.Node) *ir.Node {
	if !HasHalf(n) {
		return n
	}
	all := func(list []*ir.Value) []*ir.Value {
		out := make([]*ir.Value, len(list))
		for i, v := range list {
			if v != nil {
				c := *v
				c.Type.DType = Wide(c.Type.DType)
				out[i] = &c
			}
		}
		return out
	}
	op := n.Op
	if c, ok := op.(ir.Cast); ok {
		c.To = Wide(c.To)
		op = c
	}
	return &ir.Node{Op: op, Inputs: all(n.Inputs), Outputs: all(n.Outputs), Origins: n.Origins}
}

// WithHalf makes the entry of a float32 kernel one of a kernel that takes 16-bit floats as well: they are widened to scratch
// memory before it, at the end of what it asks for itself in the order of HalfValues, and its results narrowed after it,
// which rounds once an operation.
func (r Kernel) WithHalf() Kernel {
	inner := r
	r.Supports = func(n *ir.Node) bool { return inner.Supports == nil || inner.Supports(Widened(n)) }
	if inner.Strided != nil {
		r.Strided = func(n *ir.Node, i int, strides []int) bool {
			return IsHalf(n.Inputs[i].Type.DType) || inner.Strided(Widened(n), i, strides)
		}
	}
	r.InPlace = func(n *ir.Node, i int) bool {
		if HasHalf(n) {
			return IsHalf(n.Outputs[0].Type.DType) // written when all is done
		}
		return inner.InPlace != nil && inner.InPlace(n, i)
	}
	if inner.StridedResult != nil {
		r.StridedResult = func(n *ir.Node, strides []int) bool { // narrowing is row-major
			return !HasHalf(n) && inner.StridedResult(n, strides)
		}
	}
	if inner.Shares != nil {
		r.Shares = func(n *ir.Node) bool { return !HasHalf(n) && inner.Shares(n) }
	}
	r.Scratch = func(n *ir.Node) []int64 {
		var sizes []int64
		if inner.Scratch != nil {
			sizes = inner.Scratch(Widened(n))
		}
		for _, v := range HalfValues(n) {
			sizes = append(sizes, int64(4*v.Type.Elements()))
		}
		return sizes
	}
	return r
}
