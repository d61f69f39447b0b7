package ir

import (
	"fmt"
	"slices"

	"github.com/rlxc/rlxc/tensor"
)

// Pad adds Before[i] and After[i] elements around axis i. Negative numbers remove elements, before any are added. Operand 1 is the scalar
// that PadConstant writes (absent: zero). PadReflect mirrors at the first and last element, which are not repeated, as often as needed.
// PadWrap continues as if the axis were a ring.
type Pad struct {
	Mode          PadMode
	Before, After []Dim
}

func (Pad) Kind() Kind { return KindPad }

// Infer adds the sizes. An empty axis cannot be padded with its own elements.
func (o Pad) Infer(in []*Value) ([]Type, error) {
	t := in[0].Type
	if len(o.Before) != len(t.Shape) || len(o.After) != len(t.Shape) {
		return nil, fmt.Errorf("padding of %d and %d axes for rank %d", len(o.Before), len(o.After), len(t.Shape))
	}
	if v := Operand(in, 1); v != nil && (v.Type.DType != t.DType || Same(v.Type.Shape.Elements(), N(1)) == No) {
		return nil, fmt.Errorf("padding value %v for %v", v.Type, t)
	}
	s := make(Shape, len(t.Shape))
	for i, d := range t.Shape {
		rest := d.Add(Min(o.Before[i], N(0))).Add(Min(o.After[i], N(0)))
		s[i] = d.Add(o.Before[i]).Add(o.After[i])
		if LessEqual(N(0), rest) == No {
			return nil, fmt.Errorf("axis %d: padding %v and %v takes more than the %v elements away", i, o.Before[i], o.After[i], d)
		}
		if o.Mode != PadConstant && rest.Is(0) && LessEqual(s[i], N(0)) == No {
			return nil, fmt.Errorf("axis %d has no element to pad with (%s)", i, o.Mode)
		}
		if o.Mode == PadReflect && LessEqual(Max(o.Before[i], o.After[i]), Max(rest.Sub(N(1)), N(0))) == No {
			return nil, fmt.Errorf("axis %d: padding %v and %v mirrors more than the %v elements have beside them", i, o.Before[i],
				o.After[i], rest)
		}
	}
	return []Type{TensorOf(t.DType, s...)}, nil
}

func (o Pad) Eval(env *Env, in []*tensor.Tensor) ([]*tensor.Tensor, error) {
	x, value := in[0], Operand(in, 1)
	y := env.Output(o, in)
	source := make([][]int, x.Rank()) // for each axis: the position in x that each position in the result has, or −1
	for i, n := range x.Shape() {
		source[i] = o.source(env, n, o.Before[i].Int(), o.After[i].Int())
	}
	strides := x.Shape().Strides()
	EachIndex(env, y.Shape(), func(i int, idx []int) {
		from := 0
		for k, c := range idx {
			if source[k][c] < 0 {
				if value != nil {
					copyElement(y, i, value, 0)
				}
				return
			}
			from += source[k][c] * strides[k]
		}
		copyElement(y, i, x, from)
	})
	return []*tensor.Tensor{y}, nil
}

// source lists the positions that one padded axis of size n has.
func (o Pad) source(env *Env, n, before, after int) []int {
	out := Make[int](env, n+before+after)
	for i := range out {
		out[i] = o.Source(i, n, before, after)
	}
	return out
}

// Source returns the position in the operand of position i of a padded axis of size n, or −1 for the padding value.
func (o Pad) Source(i, n, before, after int) int {
	lo, hi := max(0, -before), n-max(0, -after) // what is left of the operand
	if i -= before; i >= lo && i < hi {
		return i
	}
	switch m := hi - lo; o.Mode {
	case PadEdge:
		return min(max(i, lo), hi-1)
	case PadWrap:
		return lo + int(modFloorInt(int64(i-lo), int64(m)))
	case PadReflect:
		if m == 1 {
			return lo
		}
		p := int(modFloorInt(int64(i-lo), int64(2*(m-1))))
		return lo + min(p, 2*(m-1)-p)
	}
	return -1
}

// EachIndex calls f for every flat index of the shape, in order, with its coordinates, which f must not keep.
func EachIndex(env *Env, shape tensor.Shape, f func(i int, idx []int)) {
	idx := make([]int, len(shape))
	for i := range env.Range(shape.Elements()) {
		f(i, idx)
		for k := len(shape) - 1; k >= 0; k-- {
			if idx[k]++; idx[k] < shape[k] {
				break
			}
			idx[k] = 0
		}
	}
}

// Tile repeats its operand Repeats[i] times along axis i.
type Tile struct{ Repeats []Dim }

func (Tile) Kind() Kind { return KindTile }

// Infer multiplies the sizes.
func (o Tile) Infer(in []*Value) ([]Type, error) {
	t := in[0].Type
	if len(o.Repeats) != len(t.Shape) {
		return nil, fmt.Errorf("%d repeats for rank %d", len(o.Repeats), len(t.Shape))
	}
	s := make(Shape, len(t.Shape))
	for i, d := range t.Shape {
		if LessEqual(N(0), o.Repeats[i]) == No {
			return nil, fmt.Errorf("axis %d repeats %v times", i, o.Repeats[i])
		}
		s[i] = d.Mul(o.Repeats[i])
	}
	return []Type{TensorOf(t.DType, s...)}, nil
}

func (o Tile) Eval(env *Env, in []*tensor.Tensor) ([]*tensor.Tensor, error) {
	x, y := in[0], env.Output(o, in)
	strides := x.Shape().Strides()
	EachIndex(env, y.Shape(), func(i int, idx []int) {
		from := 0
		for k, c := range idx {
			from += c % x.Shape()[k] * strides[k]
		}
		copyElement(y, i, x, from)
	})
	return []*tensor.Tensor{y}, nil
}

func (o Tile) Content(in []*Value) []Dim {
	if in[0].Dims == nil || len(o.Repeats) > 1 {
		return nil
	}
	if len(o.Repeats) == 0 {
		return in[0].Dims
	}
	n, ok := o.Repeats[0].Const()
	if !ok || n < 0 || n > maxDims {
		return nil
	}
	return slices.Repeat(in[0].Dims, n)
}

// Trilu returns the triangle of each matrix (the last two axes) on and above the K-th diagonal when Upper, on and below it otherwise. The
// other elements become 0.
type Trilu struct {
	Upper bool
	K     int
}

func (Trilu) Kind() Kind { return KindTrilu }

// Infer keeps the type.
func (Trilu) Infer(in []*Value) ([]Type, error) {
	if t := in[0].Type; len(t.Shape) < 2 {
		return nil, fmt.Errorf("trilu of %v needs at least two axes", t)
	}
	return []Type{in[0].Type}, nil
}

func (o Trilu) Eval(env *Env, in []*tensor.Tensor) ([]*tensor.Tensor, error) {
	x := in[0]
	y := env.New(x.DType(), x.Shape()...)
	r := x.Rank()
	EachIndex(env, x.Shape(), func(i int, idx []int) {
		diagonal := idx[r-1] - idx[r-2]
		if o.Upper && diagonal >= o.K || !o.Upper && diagonal <= o.K {
			copyElement(y, i, x, i)
		}
	})
	return []*tensor.Tensor{y}, nil
}
