package ir

import (
	"slices"

	"github.com/rlxc/rlxc/tensor"
)

// A Layout is where the elements of a value of a bound graph are: in the memory of Root, from element Offset on, with a stride in
// elements for each axis of Shape. A value that is not a view is its own root, row-major from 0.
type Layout struct {
	Root    *Value
	Offset  int
	Shape   tensor.Shape
	Strides []int
}

// OwnLayout is the layout of a value that has separate memory.
func OwnLayout(v *Value) Layout {
	shape := v.Type.Sizes()
	return Layout{Root: v, Shape: shape, Strides: shape.Strides()}
}

// LayoutIn returns the layout that a table by value ID has for a value. It returns nil for constants without a layout in the table, which
// may have IDs beyond it. Such constants are row-major.
func LayoutIn(table []Layout, v *Value) *Layout {
	if v.ID >= len(table) || table[v.ID].Root == nil {
		return nil
	}
	return &table[v.ID]
}

// Contiguous reports whether the elements are row-major without gaps. Strides of axes of size 1 do not matter.
func (l Layout) Contiguous() bool {
	want := 1
	for i := len(l.Shape) - 1; i >= 0; i-- {
		if l.Shape[i] != 1 && l.Strides[i] != want {
			return l.Shape.Elements() == 0
		}
		want *= l.Shape[i]
	}
	return true
}

// Span is the number of elements from the first to the last that the layout touches. Strides must not be negative, and kernels never get
// views with negative strides.
func (l Layout) Span() int {
	n := 1
	for i, d := range l.Shape {
		if d == 0 {
			return 0
		}
		n += (d - 1) * l.Strides[i]
	}
	return n
}

// ViewLayout returns the layout of a View op's result in its operand's memory. It returns false if the operand's strides do not allow the
// view, so that the operand must be copied first. The node must be bound.
func ViewLayout(n *Node, in Layout) (Layout, bool) {
	from, to := in.Shape, n.Outputs[0].Type.Sizes()
	out := Layout{Root: in.Root, Offset: in.Offset, Shape: to}
	switch op := n.Op.(type) {
	case Reshape:
		st, ok := reshapeStrides(from, in.Strides, to)
		out.Strides = st
		return out, ok
	case Transpose:
		out.Strides = make([]int, len(op.Perm))
		for i, p := range op.Perm {
			out.Strides[i] = in.Strides[p]
		}
		return out, true
	case Slice:
		out.Strides = slices.Clone(in.Strides)
		for i := range to {
			if op.Steps[i] < 0 {
				return Layout{}, false
			}
			if to[i] > 0 {
				out.Offset += op.Starts[i].Int() * in.Strides[i]
			}
			out.Strides[i] *= op.Steps[i]
		}
		return out, true
	case Expand:
		off := len(to) - len(from)
		out.Strides = make([]int, len(to))
		for i, d := range from {
			if d == to[off+i] && d != 1 {
				out.Strides[off+i] = in.Strides[i]
			}
		}
		return out, true
	}
	return Layout{}, false
}

// reshapeStrides finds strides under which a strided tensor can be seen in another shape: axes are grouped so that each
// group of the old shape has the size of a group of the new one, and every old group must be evenly strided (the rule of
// numpy's no-copy reshape).
func reshapeStrides(from tensor.Shape, strides []int, to tensor.Shape) ([]int, bool) {
	out := make([]int, len(to))
	if from.Elements() == 0 {
		return to.Strides(), true
	}
	var old, oldStrides []int // without axes of size 1
	for i, d := range from {
		if d != 1 {
			old, oldStrides = append(old, d), append(oldStrides, strides[i])
		}
	}
	i, j := 0, 0
	for i < len(old) && j < len(to) {
		i0, j0 := i, j
		a, b := old[i], to[j]
		i, j = i+1, j+1
		for a != b {
			if a < b {
				a *= old[i]
				i++
			} else {
				b *= to[j]
				j++
			}
		}
		for k := i0; k < i-1; k++ {
			if oldStrides[k] != old[k+1]*oldStrides[k+1] {
				return nil, false
			}
		}
		st := oldStrides[i-1]
		for k := j - 1; k >= j0; k-- {
			out[k] = st
			st *= to[k]
		}
	}
	for ; j < len(to); j++ { // trailing axes of size 1
		out[j] = 1
	}
	return out, true
}
