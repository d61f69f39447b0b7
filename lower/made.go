package lower

import (
	"slices"

	"github.com/rlxc/rlxc/ir"
	"github.com/rlxc/rlxc/tensor"
)

// Constants that nodes make: exporters write a Reshape, a Transpose, a Cast or a norm between what a model stores and what reads it.

// maxWeights bounds the elements of the weights of a model that weight computes.
const maxWeights = 1 << 25

// weight is the constant that nodes make of constants, maxMakers of them at most, and v itself where they do not. It is what every
// lowering asks that needs a constant of any size; context.Const is for sizes, axes and the like, which may wait for the run.
func (c *context) weight(v *ir.Value) *ir.Value {
	if v == nil || v.IsConst() {
		return v
	}
	if t := viewed(v); t != nil {
		return c.b.g.NewConst(v.Name, t)
	}
	if made := c.b.made[v]; made != nil {
		return made
	}
	n, ok := v.Type.Shape.Elements().Const()
	if !ok || n > maxWeights-c.b.weights {
		return v
	}
	t, ok := ir.Fold(v, min(maxMakers*n, maxWeights), ir.NewMemo(maxMakers*n))
	if !ok {
		return v
	}
	c.b.weights += n
	made := c.b.g.NewConst(v.Name, t)
	if c.b.made == nil {
		c.b.made = map[*ir.Value]*ir.Value{}
	}
	c.b.made[v] = made
	return made
}

// viewed is the content of a constant, or of one in another shape, which takes no memory; nil of other values.
func viewed(v *ir.Value) *tensor.Tensor {
	shape, ok := v.Type.Static()
	for ok && v.Const == nil && v.Def != nil && v.Def.Op.Kind() == ir.KindReshape {
		v = v.Def.Inputs[0]
	}
	if !ok || v.Const == nil || v.Const.Len() != shape.Elements() {
		return nil
	}
	return v.Const.Reshape(shape...)
}

// expanded computes a weight that nodes make of constants: kernels pack constants only, and whatever made the model has left out the
// content or the arithmetic of the weight (one number in all positions, a window of a filter, a norm that PyTorch divides by), not meant it
// to be made in each run. What widens quantized values or 16-bit floats stays, since rewrites want to see those.
func (c *context) expanded(v *ir.Value) *ir.Value {
	if v == nil || v.Def == nil || !makesWeights(v, map[*ir.Value]bool{}) {
		return v
	}
	return c.weight(v)
}

// maxMakers bounds the nodes that make a weight.
const maxMakers = 64

// makesWeights reports whether the nodes after a value make it of constants, without widening any. seen holds the values that were met.
func makesWeights(v *ir.Value, seen map[*ir.Value]bool) bool {
	if v == nil || v.IsConst() || seen[v] {
		return true
	}
	if seen[v] = true; v.Def == nil || len(seen) > maxMakers {
		return false
	}
	switch k := v.Def.Op.Kind(); {
	case k == ir.KindQuantize, k == ir.KindDequantize, k == ir.KindCast && v.Def.Inputs[0].Type.DType.Bits() < v.Type.DType.Bits() &&
		v.Type.DType.IsFloat(), k.Has(ir.KeepsCustom), k.Has(ir.Typed):
		return false
	}
	return !slices.ContainsFunc(v.Def.Inputs, func(x *ir.Value) bool { return !makesWeights(x, seen) })
}
