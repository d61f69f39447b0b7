package lower

import (
	"slices"

	"github.com/rlxc/rlxc/internal/ops"
	"github.com/rlxc/rlxc/ir"
)

var recurrentRows = []row{
	{"RNN", 7, lowerRNN},
	{"GRU", 7, lowerGRU},
	{"LSTM", 7, lowerLSTM},
}

func lowerRNN(c *context) []*ir.Value {
	r, in := c.recurrent()
	return c.opaque(ops.RNN{Recurrent: r}, in...)
}

func lowerGRU(c *context) []*ir.Value {
	r, in := c.recurrent()
	return c.opaque(ops.GRU{Recurrent: r, LinearBeforeReset: c.AttrBool("linear_before_reset", false)}, in...)
}

func lowerLSTM(c *context) []*ir.Value {
	r, in := c.recurrent()
	return c.opaque(ops.LSTM{Recurrent: r, InputForget: c.AttrBool("input_forget", false)}, in...)
}

// recurrent reads what the recurrent operators share. The order of gates differs between PyTorch and ONNX, and some exporters write the
// reordering as nodes: kernels want the weights that come of it, or what is stored.
func (c *context) recurrent() (r ops.Recurrent, in []*ir.Value) {
	for i := range c.NumInputs() {
		v := c.Opt(i)
		if i == ops.RecurrentW || i == ops.RecurrentR || i == ops.RecurrentB {
			if _, _, _, ok := stored(v); !ok {
				v = c.weight(v)
			}
		}
		in = append(in, v)
	}
	return c.recurrentOf(c.In(ops.RecurrentR).Type), in
}

// maxWeights bounds the elements of the weights of a model that weight computes.
const maxWeights = 1 << 25

// weight computes a weight that is made from constants of no more elements than it has, by maxMakers nodes at most.
func (c *context) weight(v *ir.Value) *ir.Value {
	if v == nil || v.IsConst() {
		return v
	}
	n, ok := v.Type.Shape.Elements().Const()
	if !ok || n > maxWeights-c.b.weights {
		return v
	}
	t, ok := ir.Fold(v, n, ir.NewMemo(maxMakers*n))
	if !ok {
		return v
	}
	c.b.weights += n
	return c.b.g.NewConst(v.Name, t)
}

// expanded computes a weight that nodes make of constants: kernels pack constants only, and whatever made the model has left out the
// content or the arithmetic of the weight (one number in all places, a window of a filter, a norm that PyTorch divides by), not meant it
// to be made in each run. What widens codes or halves stays, since rewrites want to see those.
func (c *context) expanded(v *ir.Value) *ir.Value {
	if v == nil || v.Def == nil || !makesWeights(v, map[*ir.Value]bool{}) {
		return v
	}
	return c.weight(v)
}

// maxMakers bounds the nodes that make a weight.
const maxMakers = 64

// makesWeights reports whether the nodes behind a value make it of constants, without widening any. seen holds the values that were met.
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

// recurrentOf is recurrent for recurrent weights of type w.
func (c *context) recurrentOf(w ir.Type) ops.Recurrent {
	direction := c.AttrString("direction", "forward")
	if !slices.Contains([]string{"forward", "reverse", "bidirectional"}, direction) {
		c.Failf("direction %q is none of forward, reverse and bidirectional", direction)
	}
	if len(w.Shape) != 3 {
		c.Failf("recurrent weights %v", w)
	}
	hidden, ok := w.Shape[2].Const()
	if !ok {
		hidden = c.AttrInt("hidden_size", 0)
	}
	if hidden < 1 || c.AttrInt("hidden_size", hidden) != hidden {
		c.Failf("recurrent weights %v for hidden_size %d", w, c.AttrInt("hidden_size", 0))
	}
	r := ops.Recurrent{Hidden: hidden, Reverse: direction == "reverse", Bidirectional: direction == "bidirectional",
		BatchFirst: c.Version() >= 14 && c.choice("layout", 2) == 1, Results: c.NumOutputs()}
	r.Activations, _ = c.AttrStrings("activations")
	r.Alpha, _ = c.AttrFloats("activation_alpha")
	r.Beta, _ = c.AttrFloats("activation_beta")
	if c.HasAttr("clip") {
		if r.Clip = c.AttrFloat("clip", 0); !(r.Clip > 0) {
			c.Failf("clip = %v is not above 0", r.Clip)
		}
	}
	return r
}
