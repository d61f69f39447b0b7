package rewrite

import (
	"math"
	"slices"

	"github.com/rlxc/rlxc/ir"
	"github.com/rlxc/rlxc/tensor"
)

// A batch normalisation after a convolution or a product is a factor and a sum for each channel, a scale and a shift that a network
// learned one of each for all: they go into weights and bias, if those are known.

// perColumn returns v as one number for each column of the root, or nil. Axes of size 1 in front of a constant do not count.
func (m *match) perColumn(v *ir.Value) *ir.Value {
	s := v.Type.Shape
	for len(s) > 1 && s[0].Is(1) && v.IsConst() {
		s = s[1:]
	}
	if !columnwise(s, m.root) {
		return nil
	}
	return m.reshape(v, s)
}

// columnNumbers is a copy of the numbers of a constant in float32, one for each column of the root; nil for every other value.
func (m *match) columnNumbers(v *ir.Value) []float32 {
	columns, known := last(m.root.Outputs[0].Type.Shape).Const()
	if one := numbersIn(v); len(one) == 1 && known && len(v.Type.Shape) <= len(m.root.Outputs[0].Type.Shape) {
		return slices.Repeat(one, columns)
	}
	return numbersIn(m.perColumn(v))
}

// numbersIn is a copy of the numbers of a constant in float32, nil for every other value.
func numbersIn(v *ir.Value) []float32 {
	if v == nil || v.Const == nil || v.Type.DType != tensor.F32 {
		return nil
	}
	return slices.Clone(tensor.Of[float32](v.Const.Aligned()))
}

// columnRules take factors and sums of columns into the weights and the bias of linear, a product of x and w without activation or
// residual. run is how many elements of the weights, one after the other, are of one column.
func columnRules(name string, linear, x, w, bias *pattern, run func(m *match) int) []*Rule {
	c := value()
	// offsets is the bias, zeros if there is none, and nil if it is not known.
	offsets := func(m *match, columns int) []float32 {
		if b := m.get(bias); b != nil {
			return numbersIn(b)
		}
		return make([]float32, columns)
	}
	scale := func(m *match) *ir.Value {
		factors, weights := m.columnNumbers(m.get(c)), numbersIn(m.get(w))
		offset := offsets(m, len(factors))
		if factors == nil || weights == nil || offset == nil {
			return nil
		}
		each := run(m)
		for i := range weights {
			if weights[i] *= factors[i/each%len(factors)]; math.IsInf(float64(weights[i]), 0) {
				return m.refuse("weights beyond float32")
			}
		}
		in := []*ir.Value{m.get(x), m.e.g.NewConst(m.get(w).Name, tensor.FromSlice(weights, m.get(w).Const.Shape()...))}
		if m.get(bias) != nil {
			for i, f := range factors {
				offset[i] *= f
			}
			in = append(in, m.e.g.NewConst("", tensor.FromSlice(offset)))
		}
		return m.emit(m.get(linear).Def.Op, in...)
	}
	shift := func(sign float32) func(m *match) *ir.Value {
		return func(m *match) *ir.Value {
			terms := m.columnNumbers(m.get(c))
			offset := offsets(m, len(terms))
			if terms == nil || offset == nil {
				return nil
			}
			for i, t := range terms {
				offset[i] += sign * t
			}
			return m.emit(m.get(linear).Def.Op, m.get(x), m.get(w), m.e.g.NewConst("", tensor.FromSlice(offset)))
		}
	}
	return []*Rule{
		{Name: name + ".scale", changes: Rounding, pattern: binary(ir.Mul, linear, c), build: scale},
		{Name: name + ".shift", changes: Rounding, pattern: binary(ir.Add, linear, c), build: shift(1)},
		{Name: name + ".unshift", changes: Rounding, pattern: binary(ir.Sub, linear, c), build: shift(-1)},
	}
}
