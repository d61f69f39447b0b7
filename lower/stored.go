package lower

import (
	"slices"

	"github.com/rlxc/rlxc/ir"
	"github.com/rlxc/rlxc/tensor"
)

// Weights that a model stores as quantized values or as narrow floats stay so: views of them are views of what is stored, with the node
// that widens it after, where a kernel or a rewrite finds it.

// widened takes a float32 weight apart that a Dequantize, or a Cast of 16-bit floats, widens: values are what is stored, in are all
// operands.
func widened(w *ir.Value) (values *ir.Value, op ir.Op, in []*ir.Value, ok bool) {
	if w == nil || w.Def == nil || w.Type.DType != tensor.F32 {
		return nil, nil, nil, false
	}
	in = w.Def.Inputs
	switch w.Def.Op.(type) {
	case ir.Dequantize:
		return in[0], w.Def.Op, in, true
	case ir.Cast:
		d := in[0].Type.DType
		return in[0], w.Def.Op, in, d == tensor.F16 || d == tensor.BF16
	}
	return nil, nil, nil, false
}

// stored is widened of constants, and of what nodes make of constants.
func (c *context) stored(w *ir.Value) (values *ir.Value, op ir.Op, in []*ir.Value, ok bool) {
	if _, op, in, ok = widened(w); !ok {
		return nil, nil, nil, false
	}
	in = slices.Clone(in)
	for i, v := range in {
		if in[i] = c.weight(v); v != nil && in[i].Const == nil {
			return nil, nil, nil, false
		}
	}
	return in[0], op, in, true
}

// weights returns a view of weights, of which axis i becomes axes[i]; those that have no such view are combined again. Where scales
// are not for what is apart, the weights are computed.
func (c *context) weights(w *ir.Value, axes []int, view func(*ir.Value) *ir.Value) *ir.Value {
	values, op, in, ok := widened(w)
	if !ok {
		return view(w)
	}
	operands := append([]*ir.Value{view(values)}, in[1:]...)
	if o, stored := op.(ir.Dequantize); stored && rank(in[1]) > 0 {
		if o.Axis >= len(axes) {
			return view(c.weight(w))
		}
		if o.Axis = axes[o.Axis]; o.Block > 0 {
			for i, v := range in[1:] {
				if v != nil {
					operands[1+i] = view(v)
				}
			}
		}
		op = o
	}
	return c.Emit(op, operands...)
}

// besideEachOther returns weights [C,M,…] as matrix makes them, [C,…·M], whose columns are the M channels that many times.
func (c *context) besideEachOther(w *ir.Value, times int, matrix func(*ir.Value) *ir.Value) *ir.Value {
	values, op, in, ok := c.stored(w)
	if !ok {
		return matrix(w)
	}
	operands := append([]*ir.Value{matrix(values)}, in[1:]...)
	if o, stored := op.(ir.Dequantize); stored && rank(in[1]) > 0 {
		if o.Axis != 1 || o.Block != 0 {
			return matrix(c.weight(w))
		}
		for i, v := range in[1:] {
			if v != nil {
				operands[1+i] = c.repeated(v, times)
			}
		}
	}
	return c.Emit(op, operands...)
}

// repeated is a constant vector that many times.
func (c *context) repeated(v *ir.Value, times int) *ir.Value {
	return c.b.g.NewConst(v.Name, c.evaluated(ir.Concat{}, slices.Repeat([]*tensor.Tensor{v.Const.Aligned()}, times)...))
}

// evaluated is the result of an op on constants.
func (c *context) evaluated(op ir.Op, in ...*tensor.Tensor) *tensor.Tensor {
	out, err := ir.EvalOp(nil, op, in)
	if err != nil {
		c.Failf("%w", err)
	}
	return out[0]
}
