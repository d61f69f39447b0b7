package gpu

import (
	"fmt"
	"slices"

	"github.com/rlxc/rlxc/ir"
	"github.com/rlxc/rlxc/tensor"
)

// An Operand is the type and the layout of a value of a bound graph. Backends embed it and add the value's memory.
type Operand struct {
	DType   tensor.DType
	Shape   tensor.Shape
	Strides []int // distance between neighbours along each axis, in elements
	Width   int   // bytes of an element
}

// RowMajor returns an operand whose elements are row-major without gaps.
func RowMajor(d tensor.DType, shape ...int) Operand {
	return Operand{d, shape, tensor.Shape(shape).Strides(), d.Size()}
}

// Axes implements backend.Operand.
func (o *Operand) Axes() (shape tensor.Shape, strides []int) { return o.Shape, o.Strides }

// Elements returns the number of elements.
func (o *Operand) Elements() int { return o.Shape.Elements() }

// Contiguous reports whether the elements are row-major without gaps.
func (o *Operand) Contiguous() bool {
	return ir.Layout{Shape: o.Shape, Strides: o.Strides}.Contiguous()
}

// Reshape sets the shape, and row-major strides for it.
func (o *Operand) Reshape(shape ...int) { o.Shape, o.Strides = shape, tensor.Shape(shape).Strides() }

func (o *Operand) String() string { return fmt.Sprintf("%s%v", o.DType, o.Shape) }

// Across returns the operand with another shape and stride 0 along an axis, so that a kernel that adds index·stride itself can walk the
// shape.
func (o *Operand) Across(shape tensor.Shape, axis int) Operand {
	w := Operand{o.DType, shape, slices.Clone(o.Strides), o.Width}
	w.Strides[axis] = 0
	return w
}

// Reduced splits the axes of an operand into those that a reduction keeps and those that it reduces.
func (o *Operand) Reduced(axes []int) (left, taken Operand) {
	left.DType, taken.DType = o.DType, o.DType
	for i, size := range o.Shape {
		to := &left
		if slices.Contains(axes, i) {
			to = &taken
		}
		to.Shape, to.Strides = append(to.Shape, size), append(to.Strides, o.Strides[i])
	}
	return left, taken
}

// Repeat changes the result y and the operand x of a Tile so that x broadcasts to y. It inserts an axis of repeats before each axis: for x
// [2,3] and y [4,3], x becomes [1,2,1,3] and y [2,2,1,3].
func Repeat(y, x *Operand) {
	var to, from tensor.Shape
	var steps []int
	for i, size := range x.Shape {
		to, from, steps = append(to, y.Shape[i]/size, size), append(from, 1, size), append(steps, 0, x.Strides[i])
	}
	y.Reshape(to...)
	x.Shape, x.Strides = from, steps
}

// split replaces an axis of size n by two axes of sizes n/block and block.
func (o *Operand) split(axis, block int) {
	o.Shape, o.Strides = slices.Insert(slices.Clone(o.Shape), axis+1, block),
		slices.Insert(slices.Clone(o.Strides), axis+1, o.Strides[axis])
	o.Shape[axis] /= block
	o.Strides[axis] *= block
}

// Base returns the operand that a backend's operand embeds.
func (o *Operand) Base() *Operand { return o }

// ByScale changes the operands of a conversion between floats and quantised values so that they broadcast. in is x, the scale and an
// optional zero point. The scale is a scalar, or has an element for each index of the axis, or one for each block along the axis if block
// is not 0.
func ByScale[O any, P interface {
	*O
	Base() *Operand
}](axis, block int, in []P, y P) error {
	x := in[0].Base()
	if len(in[1].Base().Shape) == 0 { // one for all
		block = 0
	}
	rank := len(x.Shape)
	if block > 0 {
		if x.Shape[axis]%block != 0 {
			return ErrOnHost
		}
		x.split(axis, block)
		y.Base().split(axis, block)
	}
	for _, p := range in[1:] {
		if p == nil {
			continue
		}
		switch o := p.Base(); {
		case block > 0:
			o.split(axis, 1)
		case len(o.Shape) == 1:
			wide, steps := slices.Repeat([]int{1}, rank), make([]int, rank)
			wide[axis], steps[axis] = o.Shape[0], o.Strides[0]
			o.Shape, o.Strides = wide, steps
		}
	}
	return nil
}
