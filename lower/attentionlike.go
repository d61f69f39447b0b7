package lower

import (
	"math"
	"slices"

	"github.com/rlxc/rlxc/internal/ops"
	"github.com/rlxc/rlxc/ir"
	"github.com/rlxc/rlxc/tensor"
)

// Operators like attention.
var attentionLikeRows = []row{
	{"LinearAttention", 27, lowerLinearAttention},
	{"CausalConvWithState", 27, lowerCausalConv},
}

// previewRows are those of ai.onnx.preview.
var previewRows = []row{
	{"FlexAttention", 1, lowerFlexAttention},
}

func lowerLinearAttention(c *context) []*ir.Value {
	for i := range c.NumInputs() {
		c.Opt(i)
	}
	rule := c.AttrString("update_rule", "gated_delta")
	c.IgnoreAttr("chunk_size")
	gated, corrected := rule == "gated" || rule == "gated_delta", rule == "delta" || rule == "gated_delta"
	if decay, beta := c.Opt(4), c.Opt(5); !gated && !corrected && rule != "linear" || gated != (decay != nil) ||
		corrected != (beta != nil) {
		c.Failf("update_rule %q, decay given: %v, beta given: %v", rule, decay != nil, beta != nil)
	}
	return c.opaque(ops.LinearAttention{QHeads: c.AttrInt("q_num_heads", 0), KVHeads: c.AttrInt("kv_num_heads", 0),
		Scale: c.AttrFloat("scale", 0), Results: c.NumOutputs()})
}

// lowerCausalConv convolves each channel of [batch, channels, length] with its own taps, over the elements before; those of
// the last call are in past_state.
func lowerCausalConv(c *context) []*ir.Value {
	x, w, bias, past := c.In(0), c.In(1), c.Opt(2), c.Opt(3)
	if rank(x) != 3 || rank(w) != 3 {
		c.Failf("weights %v for %v: want three axes each", w.Type, x.Type)
	}
	taps, ok := w.Type.Shape[2].Const()
	if !ok {
		panic(needsRun{1})
	}
	activation := c.AttrString("activation", "none")
	if !slices.Contains([]string{"none", "silu", "swish"}, activation) || taps < 1 || taps > 1<<10 {
		c.Failf("activation %q, %d taps: want none, silu or swish, and 1 to 1024 taps", activation, taps)
	}
	s := x.Type.Shape
	before := ir.N(taps - 1)
	if past == nil {
		past = c.expand(c.like(x, 0), ir.Shape{s[0], s[1], before})
	}
	padded := c.Emit(ir.Concat{Axis: 2}, past, x)
	wide := tensor.F32
	if x.Type.DType == tensor.F64 {
		wide = tensor.F64
	}
	var y *ir.Value
	for k := range taps {
		part := c.binary(ir.Mul, c.cast(c.slice(padded, 2, ir.N(k), s[2]), wide),
			c.cast(c.reshape(c.slice(w, 2, ir.N(k), ir.N(1)), ir.Shape{s[1], ir.N(1)}), wide))
		if y == nil {
			y = part
		} else {
			y = c.binary(ir.Add, y, part)
		}
	}
	if bias != nil {
		y = c.binary(ir.Add, y, c.cast(c.reshape(bias, ir.Shape{s[1], ir.N(1)}), wide))
	}
	if activation != "none" {
		y = c.cast(c.cast(y, x.Type.DType), wide) // the convolution's own result, rounded
		y = c.binary(ir.Mul, y, c.unary(ir.Sigmoid, y))
	}
	return c.listed([]*ir.Value{c.cast(y, x.Type.DType), c.slice(padded, 2, s[2], before)})
}

// lowerFlexAttention is attention whose scores, before and after the softmax, subgraphs change.
func lowerFlexAttention(c *context) []*ir.Value {
	q, k, v := c.In(0), c.In(1), c.In(2)
	if rank(q) != 4 || rank(k) != 4 || rank(v) != 4 {
		c.Failf("%v, %v and %v: want four axes each", q.Type, k.Type, v.Type)
	}
	t := q.Type
	scale, given := attr[float32](c, "scale")
	if !given {
		size, ok := t.Shape[3].Const()
		if !ok {
			panic(needsRun{0})
		}
		scale = float32(1 / math.Sqrt(float64(size)))
	}
	wide := tensor.F32
	if t.DType == tensor.F64 {
		wide = tensor.F64
	}
	if wide = tensor.DType(c.AttrInt("softmax_precision", int(wide))); !wide.IsFloat() {
		c.Failf("softmax_precision is %v", wide)
	}
	root := c.like(q, math.Sqrt(float64(scale)))
	k, v = c.repeatHeads(k, t.Shape[1]), c.repeatHeads(v, t.Shape[1])
	scores := c.cast(c.Emit(ir.MatMul{TransB: true}, c.binary(ir.Mul, q, root), c.binary(ir.Mul, k, root)), wide)
	modify := func(name string, x *ir.Value) *ir.Value {
		if !c.HasAttr(name) {
			return x
		}
		out := c.inline(c.attrSubgraph(name, 1), []*ir.Value{x})
		if len(out) != 1 || out[0] == nil || rank(out[0]) != 4 {
			c.Failf("%s does not compute scores", name)
		}
		return c.cast(out[0], wide)
	}
	scores = modify("prob_mod", c.softmax(modify("score_mod", scores), 3))
	return []*ir.Value{c.cast(c.Emit(ir.MatMul{}, scores, c.cast(v, wide)), v.Type.DType)}
}

// repeatHeads repeats every head of x, in a row, until there are heads of them.
func (c *context) repeatHeads(x *ir.Value, heads ir.Dim) *ir.Value {
	s := x.Type.Shape
	if ir.Same(s[1], heads) == ir.Yes {
		return x
	}
	if ir.Same(heads.Mod(s[1]), ir.N(0)) == ir.No {
		c.Failf("%v heads over %v: want a multiple", heads, s[1])
	}
	times := heads.Div(s[1])
	y := c.reshape(x, ir.Shape{s[0], s[1], ir.N(1), s[2], s[3]})
	return c.reshape(c.expand(y, ir.Shape{s[0], s[1], times, s[2], s[3]}), ir.Shape{s[0], heads, s[2], s[3]})
}
