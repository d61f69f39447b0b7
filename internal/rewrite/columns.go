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

// scaled is a weight times a factor for each column, of which run elements are one after the other; nil if neither it is known nor its
// scales.
func (m *match) scaled(w *ir.Value, factors []float32, run int) *ir.Value {
	numbers := numbersIn(w)
	if numbers == nil && isDequantized(w) && run == 1 {
		return m.rescaled(w, factors)
	}
	if numbers == nil {
		return nil
	}
	for i := range numbers {
		if numbers[i] *= factors[i/run%len(factors)]; math.IsInf(float64(numbers[i]), 0) {
			return m.refuse("weights beyond float32")
		}
	}
	return m.e.constant(w.Name, tensor.FromSlice(numbers, w.Const.Shape()...))
}

// rescaled is scaled of quantized values that have one scale, or one for each column, the last axis.
func (m *match) rescaled(w *ir.Value, factors []float32) *ir.Value {
	o, scales, zero := w.Def.Op.(ir.Dequantize), numbersIn(at(w, 1)), at(w, 2)
	if len(scales) == 1 && len(at(w, 1).Type.Shape) == 0 {
		scales = slices.Repeat(scales, len(factors))
		if zero != nil && zero.Const != nil {
			all := tensor.New(zero.Type.DType, len(factors))
			for i := range factors {
				all.SetInt64(i, zero.Const.Int64(0))
			}
			zero = m.e.constant(zero.Name, all)
		}
	} else if o.Block != 0 || o.Axis != len(w.Type.Shape)-1 {
		return nil
	}
	if len(scales) != len(factors) || !at(w, 0).Type.DType.IsInt() || zero != nil && zero.Const == nil {
		return nil
	}
	for i, f := range factors {
		if scales[i] *= f; math.IsInf(float64(scales[i]), 0) {
			return m.refuse("scales beyond float32")
		}
	}
	o.Axis = len(w.Type.Shape) - 1
	return m.emit(o, at(w, 0), m.e.constant(at(w, 1).Name, tensor.FromSlice(scales)), zero)
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
		factors := m.columnNumbers(m.get(c))
		offset := offsets(m, len(factors))
		far := func(f float32) bool { return f != 0 && !m.modest(float64(f)) }
		if factors == nil || offset == nil || slices.ContainsFunc(factors, far) {
			return nil
		}
		weights := m.scaled(m.get(w), factors, run(m))
		if weights == nil {
			return nil
		}
		in := []*ir.Value{m.get(x), weights}
		if m.get(bias) != nil {
			for i, f := range factors {
				offset[i] *= f
			}
			in = append(in, m.e.constant("", tensor.FromSlice(offset)))
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
			return m.emit(m.get(linear).Def.Op, m.get(x), m.get(w), m.e.constant("", tensor.FromSlice(offset)))
		}
	}
	return []*Rule{
		{Name: name + ".scale", changes: Rounding, pattern: binary(ir.Mul, linear, c), build: scale},
		{Name: name + ".shift", changes: Rounding, pattern: binary(ir.Add, linear, c), build: shift(1)},
		{Name: name + ".unshift", changes: Rounding, pattern: binary(ir.Sub, linear, c), build: shift(-1)},
	}
}
