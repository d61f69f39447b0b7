package lower

import (
	"slices"

	"github.com/rlxc/rlxc/ir"
	"github.com/rlxc/rlxc/tensor"
)

// Gates, mixtures of streams and recurrences that onnxruntime's tools write for decoders with linear attention and for Qwen's models of
// text and images, as its document ContribOperators.md defines them. They compute in float32.
var contribGateRows = []row{
	{"GatedAdd", 1, func(c *context) []*ir.Value {
		return []*ir.Value{c.within(c.In(0), c.binary(ir.Add, c.In(0), c.binary(ir.Mul, c.In(1), c.In(2))))}
	}},
	{"GatedRMSNorm", 1, lowerGatedRMSNorm},
	{"BranchwiseRMSNorm", 1, lowerBranchwiseRMSNorm},
	{"HyperConnectionPreMix", 1, lowerHyperConnectionPreMix},
	{"HyperConnectionPostMix", 1, lowerHyperConnectionPostMix},
	{"LinearAttentionGate", 1, lowerLinearAttentionGate},
	{"LinearAttention", 1, plainOf(lowerLinearAttention, map[string]int{"state_window": 0})},
	{"CausalConvWithState", 1, plainOf(lowerCausalConv, map[string]int{"state_window": 0, "ndim": 1, "dilation": 1, "channels_last": 0,
		"state_length": 0, "state_update_capacity": 0, "state_channels_last": -1, "input_channels": 0, "input_channel_offset": 0})},
	{"MRotaryEmbedding", 1, lowerMRotaryEmbedding},
}

// plainOf lowers an operator as the one of ai.onnx that it became, where attributes that this one lacks have their defaults.
func plainOf(lower func(*context) []*ir.Value, defaults map[string]int) func(*context) []*ir.Value {
	return func(c *context) []*ir.Value {
		for name, plain := range defaults {
			if v := c.AttrInt(name, plain); v != plain {
				c.Unsupportedf("%s = %d", name, v)
			}
		}
		return lower(c)
	}
}

// float32 is a value as the operators here compute with it.
func (c *context) float32(v *ir.Value) *ir.Value { return c.cast(v, tensor.F32) }

// rmsOf is x normalised along its last axis, times scale.
func (c *context) rmsOf(x, scale *ir.Value) *ir.Value {
	y := c.Emit(ir.LayerNorm{Axes: 1, Eps: c.AttrFloat("epsilon", 1e-5), RMS: true}, c.float32(x))
	if scale == nil {
		return y
	}
	return c.binary(ir.Mul, y, c.float32(scale))
}

func lowerGatedRMSNorm(c *context) []*ir.Value {
	x, scale, gate := c.In(0), c.In(1), c.float32(c.In(2))
	if rank(x) < 1 || rank(scale) != 1 {
		c.Failf("%v with scale %v: want a scale with one axis", x.Type, scale.Type)
	}
	last, size := rank(x)-1, scale.Type.Shape[0]
	groups := append(slices.Clone(x.Type.Shape[:last]), x.Type.Shape[last].Div(size), size)
	open := c.unary(ir.Sigmoid, gate)
	switch a := c.AttrString("activation", "silu"); a {
	case "silu", "swish":
		open = c.binary(ir.Mul, gate, open)
	case "sigmoid":
	default:
		c.Failf("activation %q: want silu, swish or sigmoid", a)
	}
	y := c.reshape(c.rmsOf(c.reshape(x, groups), scale), x.Type.Shape)
	return []*ir.Value{c.cast(c.within(x, c.binary(ir.Mul, y, open)), x.Type.DType)}
}

// branches sees streams as […,C,H]: they are that, or […,C·H] of num_branches.
func (c *context) branches(x *ir.Value) *ir.Value {
	n, s := c.AttrInt("num_branches", 0), x.Type.Shape
	if n == 0 && len(s) >= 2 {
		return x
	}
	if n < 1 || len(s) < 1 || ir.Same(s[len(s)-1].Mod(ir.N(n)), ir.N(0)) == ir.No {
		c.Failf("%d branches of %v: the last axis must divide into them", n, x.Type)
	}
	return c.reshape(x, append(slices.Clone(s[:len(s)-1]), ir.N(n), s[len(s)-1].Div(ir.N(n))))
}

func lowerBranchwiseRMSNorm(c *context) []*ir.Value {
	x, scale := c.In(0), c.Opt(1)
	y := c.branches(x)
	if scale != nil && rank(scale) == 1 { // numbers of a branch, or of all
		size := y.Type.Shape[rank(y)-1]
		scale = c.reshape(scale, ir.Shape{scale.Type.Shape[0].Div(size), size})
	}
	return []*ir.Value{c.cast(c.reshape(c.rmsOf(y, scale), x.Type.Shape), x.Type.DType)}
}

// mix sees gates as […,C,1] or […,C,H] beside streams […,C,H].
func (c *context) mix(gates, streams *ir.Value) *ir.Value {
	s, n := streams.Type.Shape, rank(streams)
	if rank(gates) == n-1 { // a number for each stream, or all numbers of all
		gates = c.reshape(gates, append(slices.Clone(s[:n-1]), gates.Type.Shape[n-2].Div(s[n-2])))
	}
	return c.float32(gates)
}

func lowerHyperConnectionPreMix(c *context) []*ir.Value {
	x := c.In(0)
	streams := c.branches(x)
	mixed := c.binary(ir.Mul, c.float32(streams), c.mix(c.In(1), streams))
	y := c.Emit(ir.Reduce{Fn: ir.Sum, Axes: []int{rank(streams) - 2}}, mixed)
	return []*ir.Value{c.cast(c.binary(ir.Mul, y, c.like(y, float64(c.AttrFloat("reduction_scale", 1)))), x.Type.DType)}
}

func lowerHyperConnectionPostMix(c *context) []*ir.Value {
	x, block := c.In(0), c.In(1)
	streams := c.branches(x)
	n, y := rank(streams), c.float32(streams)
	if m := c.Opt(3); m != nil { // row k of the result takes column k
		perm := upTo(n)
		perm[n-2], perm[n-1] = n-1, n-2
		y = c.Emit(ir.MatMul{}, c.Emit(ir.Transpose{Perm: perm}, c.float32(m)), y)
	}
	s := block.Type.Shape
	if len(s) != n-1 {
		c.Failf("a block's output %v beside streams %v: want one axis less", block.Type, x.Type)
	}
	block = c.reshape(c.float32(block), append(slices.Clone(s[:n-2]), ir.N(1), s[n-2]))
	y = c.binary(ir.Add, y, c.binary(ir.Mul, c.mix(c.In(2), streams), block))
	return []*ir.Value{c.cast(c.reshape(y, x.Type.Shape), x.Type.DType)}
}

func lowerLinearAttentionGate(c *context) []*ir.Value {
	a := c.In(0)
	decay := c.binary(ir.Mul, c.In(2), c.unary(ir.Softplus, c.binary(ir.Add, c.float32(a), c.In(1))))
	out := []*ir.Value{c.cast(decay, a.Type.DType)}
	b := c.Opt(3)
	if c.Wants(1) {
		if b == nil {
			c.Failf("beta needs operand b")
		}
		out = append(out, c.cast(c.unary(ir.Sigmoid, c.float32(b)), a.Type.DType))
	}
	return out
}

// lowerMRotaryEmbedding is RotaryEmbedding by three positions of each token: each angle is that of one of them.
func lowerMRotaryEmbedding(c *context) []*ir.Value {
	sections, _ := c.AttrInts("mrope_section")
	positions, interleaved := c.In(1), c.choice("mrope_layout", 2) == 1
	half, known := c.In(2).Type.Shape[max(rank(c.In(2))-1, 0):].Elements().Const()
	if !known {
		panic(needsRun{2})
	}
	if len(sections) != 3 || slices.Min(sections) < 0 || rank(c.In(2)) != 2 || sections[0]+sections[1]+sections[2] != half ||
		rank(positions) != 3 {
		c.Failf("sections %v of cos_cache %v, position_ids %v: want three sections that add up to its columns, and ids with three axes",
			sections, c.In(2).Type, positions.Type)
	}
	from := make([]int64, half) // of the three rows of a token, one after the other
	for i := range from {
		stream := 0
		switch {
		case interleaved:
			if s := i % 3; i < 3*sections[s] {
				stream = s
			}
		case i >= sections[0]+sections[1]:
			stream = 2
		case i >= sections[0]:
			stream = 1
		}
		from[i] = int64(stream*half + i)
	}
	s := positions.Type.Shape
	positions = c.nonNegative(c.cast(positions, tensor.I64))
	return c.rotated(func(cache *ir.Value) *ir.Value {
		rows := c.Emit(ir.Transpose{Perm: []int{1, 2, 0, 3}}, c.Emit(ir.Gather{}, cache, positions))
		return c.Emit(ir.Gather{Axis: 2}, c.reshape(rows, ir.Shape{s[1], s[2], ir.N(3 * half)}), c.Constant(tensor.FromSlice(from)))
	})
}
