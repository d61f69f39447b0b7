package gpu

import (
	"fmt"
	"slices"

	"github.com/rlxc/rlxc/ir"
	"github.com/rlxc/rlxc/tensor"
)

// An Operand is a value of a bound graph as kernels see it. Backends embed it and add where the value is.
type Operand struct {
	DType   tensor.DType
	Shape   tensor.Shape
	Strides []int // in elements
	Width   int   // bytes an element
}

// RowMajor is an operand whose elements are row-major without gaps.
func RowMajor(d tensor.DType, shape ...int) Operand {
	return Operand{d, shape, tensor.Shape(shape).Strides(), d.Size()}
}

// Axes implements backend.Operand.
func (o *Operand) Axes() (shape tensor.Shape, strides []int) { return o.Shape, o.Strides }

// Elements is the number of elements.
func (o *Operand) Elements() int { return o.Shape.Elements() }

// Contiguous reports whether the elements are row-major without gaps.
func (o *Operand) Contiguous() bool {
	return ir.Layout{Shape: o.Shape, Strides: o.Strides}.Contiguous()
}

// Reshape makes the operand row-major, of another shape.
func (o *Operand) Reshape(shape ...int) { o.Shape, o.Strides = shape, tensor.Shape(shape).Strides() }

func (o *Operand) String() string { return fmt.Sprintf("%s%v", o.DType, o.Shape) }

// Across are the strides of a walk over a shape that stays at the start of an axis, along which indices choose.
func (o *Operand) Across(shape tensor.Shape, axis int) Operand {
	w := Operand{o.DType, shape, slices.Clone(o.Strides), o.Width}
	w.Strides[axis] = 0
	return w
}

// Reduced are the axes of an operand that a reduction leaves, and those that it takes.
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

// Repeat makes the result of a Tile and its operand broadcast: with an axis of repeats before each axis.
func Repeat(y, x *Operand) {
	var to, from tensor.Shape
	var steps []int
	for i, size := range x.Shape {
		to, from, steps = append(to, y.Shape[i]/size, size), append(from, 1, size), append(steps, 0, x.Strides[i])
	}
	y.Reshape(to...)
	x.Shape, x.Strides = from, steps
}

// split cuts an axis into blocks, which become an axis after it.
func (o *Operand) split(axis, block int) {
	o.Shape, o.Strides = slices.Insert(slices.Clone(o.Shape), axis+1, block),
		slices.Insert(slices.Clone(o.Strides), axis+1, o.Strides[axis])
	o.Shape[axis] /= block
	o.Strides[axis] *= block
}

// Base is the operand that a backend's operand embeds.
func (o *Operand) Base() *Operand { return o }

// ByScale makes the operands of a conversion between floats and quantised values broadcast: x and the result, and scale and zero point, of
// which there is one, one for each index of the axis, or one for each block along the axis where block is not 0.
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
