package lower

import (
	"fmt"
	"math"
	"slices"

	"github.com/rlxc/rlxc/ir"
	"github.com/rlxc/rlxc/tensor"
)

// What takes attention's place, or bends it.
var attentionLikeRows = []row{
	{"LinearAttention", 27, lowerLinearAttention},
	{"CausalConvWithState", 27, lowerCausalConv},
}

// previewRows are those of ai.onnx.preview.
var previewRows = []row{
	{"FlexAttention", 1, lowerFlexAttention},
}

// lowerLinearAttention: attention without a softmax, as a recurrence over a state [batch, heads, Dk, Dv] for each group of
// heads. Every step may let the state decay, writes k ⊗ v into it (corrected by what the state has for k already, weighted
// by beta), and reads q (Yang et al. 2024, Gated Delta Networks).
func lowerLinearAttention(c *Context) []*ir.Value {
	q, k, v := c.In(0).Type, c.In(1).Type, c.In(2).Type
	past, decay, beta := c.Opt(3), c.Opt(4), c.Opt(5)
	qh, kh := c.AttrInt("q_num_heads", 0), c.AttrInt("kv_num_heads", 0)
	scale, rule := float64(c.AttrFloat("scale", 0)), c.AttrString("update_rule", "gated_delta")
	c.IgnoreAttr("chunk_size")
	if len(q.Shape) != 3 || len(k.Shape) != 3 || len(v.Shape) != 3 || qh < 1 || kh < 1 || qh%kh != 0 || qh > maxWindow {
		c.Failf("%v, %v and %v in %d and %d heads", q, k, v, qh, kh)
	}
	gated, corrected := rule == "gated" || rule == "gated_delta", rule == "delta" || rule == "gated_delta"
	if !gated && !corrected && rule != "linear" || gated != (decay != nil) || corrected != (beta != nil) {
		c.Failf("update_rule %q, decay given: %v, beta given: %v", rule, decay != nil, beta != nil)
	}
	heads := ir.N(kh)
	dk, dv := k.Shape[2].Div(heads), v.Shape[2].Div(heads)
	state := ir.TensorOf(q.DType, q.Shape[0], heads, dk, dv)
	if past != nil {
		state.DType = past.Type.DType
	}
	run := func(o ir.Custom, in []*tensor.Tensor) ([]*tensor.Tensor, error) {
		y, present := resultOf(o, 0), tensor.New(state.DType, o.Types[0].Shape[0].Int(), kh, in[1].Shape()[2]/kh, in[2].Shape()[2]/kh)
		r := linearState{q: in[0], k: in[1], v: in[2], past: ir.Operand(in, 3), decay: ir.Operand(in, 4), beta: ir.Operand(in, 5),
			qh: qh, kh: kh, dk: present.Shape()[2], dv: present.Shape()[3], scale: scale}
		if err := r.run(y, present); err != nil {
			return nil, err
		}
		return []*tensor.Tensor{y, present}[:len(o.Types)], nil
	}
	types := []ir.Type{ir.TensorOf(q.DType, q.Shape[0], q.Shape[1], dv.Mul(ir.N(qh))), state}
	return c.Kernel(run, types[:c.NumOutputs()]...)
}

type linearState struct {
	q, k, v, past, decay, beta *tensor.Tensor
	qh, kh, dk, dv             int
	scale                      float64
}

func (r linearState) run(y, present *tensor.Tensor) error {
	batch, steps := r.q.Shape()[0], r.q.Shape()[1]
	if r.scale == 0 {
		r.scale = 1 / math.Sqrt(float64(r.dk))
	}
	fits := r.q.Shape()[2] == r.qh*r.dk && slices.Equal(r.k.Shape(), tensor.Shape{batch, steps, r.kh * r.dk}) && slices.Equal(r.v.Shape(), tensor.Shape{batch, steps, r.kh * r.dv})
	decays, betas := 0, 0 // along the last axis
	if r.decay != nil {
		decays = r.decay.Shape()[len(r.decay.Shape())-1]
		fits = fits && r.decay.Len() == batch*steps*decays && (decays == r.kh || decays == r.kh*r.dk)
	}
	if r.beta != nil {
		betas = r.beta.Shape()[len(r.beta.Shape())-1]
		fits = fits && r.beta.Len() == batch*steps*betas && (betas == r.kh || betas == 1)
	}
	if !fits || r.past != nil && !r.past.Shape().Equal(present.Shape()) {
		return fmt.Errorf("query %v, key %v, value %v, state %v, decay %v, beta %v in %d and %d heads do not fit", r.q, r.k, r.v, r.past, r.decay, r.beta, r.qh, r.kh)
	}
	group := r.qh / r.kh
	state, write := make([]float64, r.dk*r.dv), make([]float64, r.dv)
	for b := range batch {
		for h := range r.kh {
			base := (b*r.kh + h) * len(state)
			for i := range state {
				state[i] = 0
				if r.past != nil {
					state[i] = r.past.Float64(base + i)
				}
			}
			for t := range steps {
				at := b*steps + t
				key := func(d int) float64 { return r.k.Float64((at*r.kh+h)*r.dk + d) }
				if r.decay != nil {
					for d := range r.dk {
						i := at*decays + h
						if decays != r.kh {
							i = at*decays + h*r.dk + d
						}
						for m := range r.dv {
							state[d*r.dv+m] *= math.Exp(r.decay.Float64(i))
						}
					}
				}
				for m := range write {
					write[m] = r.v.Float64((at*r.kh+h)*r.dv + m)
					if r.beta != nil {
						for d := range r.dk {
							write[m] -= state[d*r.dv+m] * key(d)
						}
						write[m] *= r.beta.Float64(at*betas + h%betas)
					}
				}
				for d := range r.dk {
					for m, w := range write {
						state[d*r.dv+m] += key(d) * w
					}
				}
				for g := range group {
					head := h*group + g
					for m := range r.dv {
						sum := 0.0
						for d := range r.dk {
							sum += r.q.Float64((at*r.qh+head)*r.dk+d) * state[d*r.dv+m]
						}
						y.SetFloat64((at*r.qh+head)*r.dv+m, r.scale*sum)
					}
				}
			}
			for i, s := range state {
				present.SetFloat64(base+i, s)
			}
		}
	}
	return nil
}

// lowerCausalConv convolves each channel of [batch, channels, length] with its own taps, over the elements before; those of
// the last call stand in past_state.
func lowerCausalConv(c *Context) []*ir.Value {
	x, w, bias, past := c.In(0), c.In(1), c.Opt(2), c.Opt(3)
	if Rank(x) != 3 || Rank(w) != 3 {
		c.Failf("weights %v for %v", w.Type, x.Type)
	}
	taps, ok := w.Type.Shape[2].Const()
	if !ok {
		panic(needsRun{1})
	}
	activation := c.AttrString("activation", "none")
	if !slices.Contains([]string{"none", "silu", "swish"}, activation) || taps < 1 || taps > 1<<10 {
		c.Failf("activation %q, %d taps", activation, taps)
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
		part := c.binary(ir.Mul, c.cast(c.slice(padded, 2, ir.N(k), s[2]), wide), c.cast(c.reshape(c.slice(w, 2, ir.N(k), ir.N(1)), ir.Shape{s[1], ir.N(1)}), wide))
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
	return []*ir.Value{c.cast(y, x.Type.DType), c.slice(padded, 2, s[2], before)}[:c.NumOutputs()]
}

// lowerFlexAttention is attention whose scores, before and after the softmax, subgraphs change.
func lowerFlexAttention(c *Context) []*ir.Value {
	q, k, v := c.In(0), c.In(1), c.In(2)
	if Rank(q) != 4 || Rank(k) != 4 || Rank(v) != 4 {
		c.Failf("%v, %v and %v", q.Type, k.Type, v.Type)
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
		out := c.inline(c.attrRegion(name, 1), []*ir.Value{x})
		if len(out) != 1 || out[0] == nil || Rank(out[0]) != 4 {
			c.Failf("%s does not give scores", name)
		}
		return c.cast(out[0], wide)
	}
	scores = modify("prob_mod", c.softmax(modify("score_mod", scores), 3))
	return []*ir.Value{c.cast(c.Emit(ir.MatMul{}, scores, c.cast(v, wide)), v.Type.DType)}
}

// repeatHeads gives every head of x to as many heads in a row as make up heads.
func (c *Context) repeatHeads(x *ir.Value, heads ir.Dim) *ir.Value {
	s := x.Type.Shape
	if ir.Same(s[1], heads) == ir.Yes {
		return x
	}
	if ir.Same(heads.Mod(s[1]), ir.N(0)) == ir.No {
		c.Failf("%v heads over %v", heads, s[1])
	}
	times := heads.Div(s[1])
	y := c.reshape(x, ir.Shape{s[0], s[1], ir.N(1), s[2], s[3]})
	return c.reshape(c.expand(y, ir.Shape{s[0], s[1], times, s[2], s[3]}), ir.Shape{s[0], heads, s[2], s[3]})
}
