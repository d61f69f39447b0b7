package rewrite

import (
	"github.com/rlxc/rlxc/internal/ops"
	"github.com/rlxc/rlxc/ir"
	"github.com/rlxc/rlxc/tensor"
)

// quantMaxRule makes maxima of what quantised values stand for, as pools are, maxima of the quantised values: where the scale is above 0,
// both have the same order.
func quantMaxRule() *Rule {
	largest := value().when("a maximum or a frame", func(_ *match, v *ir.Value) bool {
		if v.Def == nil {
			return false
		}
		k := v.Def.Op.Kind()
		return v.Def.Op == ir.Op(ir.Binary{Fn: ir.MaxFn}) || k == ir.KindPad || k == ops.MaxPool{}.Kind()
	})
	quantised := node[ir.Quantize](largest).rest().when("one scale for all",
		func(_ *match, v *ir.Value) bool { return perTensor[ir.Quantize](v) })
	return &Rule{Name: "quantize.max", pattern: quantised, build: func(m *match) *ir.Value {
		scale, known := numberOf(m.root.Inputs[1])
		c := quantizedSources{match: m, values: map[*ir.Value]*ir.Value{}}
		if !known || !(scale > 0) || !is8Bit(m.root.Outputs[0].Type.DType) {
			return nil
		}
		return c.of(m.root.Inputs[0], maxQuantized)
	}}
}

// maxQuantized limits the depth of the search for quantised values.
const maxQuantized = 512

// quantizedSources finds the quantised form of values whose sources are dequantised values.
type quantizedSources struct {
	*match
	values map[*ir.Value]*ir.Value // quantised form of each visited value; nil if it has none
}

// of returns what quantising v returns, or nil if that is not known without doing so.
func (c *quantizedSources) of(v *ir.Value, depth int) *ir.Value {
	if found, ok := c.values[v]; ok || v.Def == nil || depth == 0 {
		return found
	}
	c.values[v] = nil
	q, in := c.root, v.Def.Inputs
	first := func() *ir.Value { return c.of(in[0], depth-1) }
	switch op := v.Def.Op.(type) {
	case ir.Dequantize:
		if perTensor[ir.Dequantize](v) && in[0].Type.DType == q.Outputs[0].Type.DType && sameScalar(in[1], q.Inputs[1]) &&
			sameScalar(ir.Operand(in, 2), ir.Operand(q.Inputs, 2)) {
			c.values[v] = in[0]
		}
	case ir.Binary:
		if op.Fn != ir.MaxFn {
			break
		}
		if a, b := first(), c.of(in[1], depth-1); a != nil && b != nil {
			c.values[v] = c.emit(op, a, b)
		}
	case ir.Pad:
		x := first()
		if x == nil {
			break
		}
		if op.Mode != ir.PadConstant {
			c.values[v] = c.emit(op, x)
		} else if fill := c.quantized(ir.Operand(in, 1), v.Type.DType); fill != nil {
			c.values[v] = c.emit(op, x, fill)
		}
	case ops.MaxPool:
		if op.Results = 1; !meetsAll(op.Window) {
			break
		}
		if x := first(); x != nil {
			c.values[v] = c.emit(op, x)
		}
	case ir.Slice, ir.Transpose, ir.Reshape:
		if x := first(); x != nil {
			c.values[v] = c.emit(op, x)
		}
	}
	return c.values[v]
}

// meetsAll reports whether no window is in the padding alone, where a pool is 0, whatever the code of 0.
func meetsAll(w ir.Window) bool {
	for i, pad := range w.Pads {
		if axis := i % len(w.Kernel); w.Dilations[axis] != 1 || pad >= w.Kernel[axis] {
			return false
		}
	}
	return true
}

// quantized quantises a constant as the root does, 0 where there is none.
func (c *quantizedSources) quantized(v *ir.Value, d tensor.DType) *ir.Value {
	in := []*tensor.Tensor{tensor.New(d)}
	for _, x := range c.root.Inputs[1:] {
		if x == nil {
			continue
		}
		if x.Const == nil {
			return nil
		}
		in = append(in, x.Const.Aligned())
	}
	if v != nil {
		if v.Const == nil {
			return nil
		}
		in[0] = v.Const.Aligned()
	}
	y, err := ir.EvalOp(nil, c.root.Op, in)
	if err != nil {
		return nil
	}
	return c.e.constant("", y[0])
}
