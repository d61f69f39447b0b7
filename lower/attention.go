package lower

import (
	"math"

	"github.com/rlxc/rlxc/ir"
	"github.com/rlxc/rlxc/tensor"
)

// Attention and rotary positions.
var attentionRows = []row{
	{"Attention", 23, lowerAttention},
	{"RotaryEmbedding", 23, lowerRotary},
}

// The operands of ONNX's Attention.
const (
	attnQ = iota
	attnK
	attnV
	attnMask
	attnPastKey
	attnPastValue
	attnValid // nonpad_kv_seqlen, since opset 24
)

// attention is the state of the lowering of one node. Shapes: B batch, S queries, T keys with those of the cache, H query heads, G heads of
// keys and values, D and E their sizes.
type attention struct {
	*context
	op          ir.Attention
	left, right int       // window, −1: no bound
	q, k, v     *ir.Value // [B,S,H,D], [B,T,G,D], [B,T,G,E]
	B, S, T, H  ir.Dim
	past        ir.Dim // keys of the cache
	cached      bool
	valid       *ir.Value    // [B,1,1,1] i64: keys that count, or nil
	mask        *ir.Value    // the model's mask, padded to T; nil for none
	present     [2]*ir.Value // the cache with this call's keys and values, [B,G,T,·]
}

func lowerAttention(c *context) []*ir.Value {
	a := &attention{context: c, left: -1, right: -1}
	a.operands()
	a.attributes()
	a.readMask()
	out := []*ir.Value{nil, a.present[0], a.present[1], nil}
	if mode := c.AttrInt("qk_matmul_output_mode", 0); c.Wants(3) {
		out[3] = a.scores(mode)
	}
	out[0] = a.result()
	return c.listed(out)
}

// heads sees an operand as [B,L,heads,size]: from [B,L,heads·size], or from [B,heads,L,size].
func (c *context) heads(x *ir.Value, attribute string) *ir.Value {
	n := c.AttrInt(attribute, 0)
	switch s := x.Type.Shape; {
	case len(s) == 4 && n != 0 && ir.Same(s[1], ir.N(n)) == ir.No:
		c.Failf("%s is %d for %v", attribute, n, x.Type)
	case len(s) == 4:
		return c.swapHeads(x)
	case len(s) != 3:
		c.Failf("%v has neither three axes nor four", x.Type)
	case n < 1 || ir.Same(s[2].Mod(ir.N(n)), ir.N(0)) == ir.No:
		c.Failf("%s is %d for %v", attribute, n, x.Type)
	}
	s := x.Type.Shape
	return c.reshape(x, ir.Shape{s[0], s[1], ir.N(n), s[2].Div(ir.N(n))})
}

// swapHeads exchanges the axes of heads and positions.
func (c *context) swapHeads(x *ir.Value) *ir.Value {
	return c.Emit(ir.Transpose{Perm: []int{0, 2, 1, 3}}, x)
}

func (a *attention) operands() {
	c := a.context
	a.q = c.heads(c.In(attnQ), "q_num_heads")
	a.k = a.withCache(0, attnK, attnPastKey)
	a.v = a.withCache(1, attnV, attnPastValue)
	if (c.Opt(attnPastKey) == nil) != (c.Opt(attnPastValue) == nil) {
		c.Failf("past_key and past_value must be given together")
	}
	a.B, a.S, a.H, a.T = a.q.Type.Shape[0], a.q.Type.Shape[1], a.q.Type.Shape[2], a.k.Type.Shape[1]
	if c.Version() >= 24 && c.Opt(attnValid) != nil {
		if a.cached {
			c.Failf("nonpad_kv_seqlen and past_key exclude each other")
		}
		a.valid = c.reshape(c.In(attnValid), ir.Shape{a.B, ir.N(1), ir.N(1), ir.N(1)})
	}
}

// withCache is keys or values with those of the cache before them.
func (a *attention) withCache(which, operand, past int) *ir.Value {
	c := a.context
	x := c.heads(c.In(operand), "kv_num_heads")
	x = c.cast(x, a.q.Type.DType)
	old := c.Opt(past)
	if old == nil && !c.Wants(1+which) {
		return x
	}
	a.present[which] = c.swapHeads(x)
	if old != nil {
		if rank(old) != 4 {
			c.Failf("the cache %v has not four axes", old.Type)
		}
		a.cached, a.past = true, old.Type.Shape[2]
		a.present[which] = c.Emit(ir.Concat{Axis: 2}, c.cast(old, x.Type.DType), a.present[which])
	}
	return c.swapHeads(a.present[which])
}

// softcap is the bound of scores; as in onnxruntime, one that is not above 0 is none.
func (c *context) softcap() float32 { return max(c.AttrFloat("softcap", 0), 0) }

func (a *attention) attributes() {
	c := a.context
	a.op = ir.Attention{Softcap: c.softcap(), Causal: c.AttrBool("is_causal", false), NaNGuard: true}
	a.op.Scale = c.AttrFloat("scale", 0)
	if !c.HasAttr("scale") {
		if size, ok := a.q.Type.Shape[3].Const(); ok {
			a.op.Scale = float32(1 / math.Sqrt(float64(size)))
		} else {
			root := c.unary(ir.Sqrt, c.cast(c.sizeScalar(a.q.Type.Shape[3]), a.q.Type.DType))
			a.q, a.op.Scale = c.binary(ir.Div, a.q, root), 1
		}
	}
	if c.Version() >= 25 {
		a.left, a.right = c.AttrInt("left_window_size", -1), c.AttrInt("right_window_size", -1)
		if a.left < -1 || a.right < -1 {
			c.Failf("window sizes %d and %d: want −1 or more", a.left, a.right)
		}
	}
	if d := tensor.DType(c.AttrInt("softmax_precision", int(tensor.F32))); !d.IsFloat() {
		c.Failf("softmax_precision %d is not a floating-point type", int(d))
	} // float32 or better is what the IR's softmax has anyway
}

// readMask makes the mask bool or of the queries' type and, from opset 24 on, as long as the keys.
func (a *attention) readMask() {
	c := a.context
	if a.mask = c.Opt(attnMask); a.mask == nil {
		return
	}
	if a.mask.Type.DType != tensor.Bool {
		a.mask = c.cast(a.mask, a.q.Type.DType)
	}
	if rank(a.mask) == 0 {
		return
	}
	last := a.mask.Type.Shape[rank(a.mask)-1]
	if c.Version() < 24 || ir.Same(last, a.T) == ir.Yes {
		return
	}
	pad := ir.Pad{Before: make([]ir.Dim, rank(a.mask)), After: make([]ir.Dim, rank(a.mask))}
	pad.After[rank(a.mask)-1] = a.T.Sub(last)
	a.mask = c.Emit(pad, a.mask, a.excluded(a.mask.Type.DType))
}

// excluded is what a mask says of keys that do not count.
func (a *attention) excluded(d tensor.DType) *ir.Value {
	if d == tensor.Bool {
		return a.Constant(tensor.Scalar(false))
	}
	return a.Scalar(d, math.Inf(-1))
}

// aligned reports whether the IR op itself can hold causality and window: the offset of the queries must be 0, or what
// is before them when they are the last of the keys, and the window as wide on both sides, unless causality bounds one.
func (a *attention) aligned() bool {
	atEnd := ir.Same(a.past.Add(a.S), a.T) == ir.Yes
	return a.valid == nil && (!a.cached || atEnd) && (a.op.Causal || a.left == a.right)
}

// bias is the mask together with all that excludes keys and is not left to the IR op; nil when nothing is.
func (a *attention) bias(all bool) *ir.Value {
	visible := a.visible(all)
	switch {
	case visible == nil:
		return a.mask
	case a.mask == nil:
		return visible
	case a.mask.Type.DType == tensor.Bool:
		return a.binary(ir.And, visible, a.mask)
	}
	return a.Emit(ir.Where{}, visible, a.mask, a.excluded(a.mask.Type.DType))
}

// visible says which keys each query may look at, [1 or B,1,S,T]: those that are not padding and, when all is set,
// those that causality and window leave.
func (a *attention) visible(all bool) (v *ir.Value) {
	if a.valid == nil && !all {
		return nil
	}
	and := func(fn ir.BinaryFn, x, y *ir.Value) {
		r := a.binary(fn, x, y)
		if v != nil {
			r = a.binary(ir.And, v, r)
		}
		v = r
	}
	keys := a.count(a.T, 3, 4)
	if a.valid != nil {
		and(ir.Less, keys, a.valid)
	}
	if !all {
		return v
	}
	at := a.count(a.S, 2, 4) // the position of each query among the keys
	if a.cached {
		at = a.binary(ir.Add, at, a.sizeScalar(a.past))
	}
	if a.valid != nil {
		at = a.binary(ir.Add, at, a.binary(ir.Sub, a.valid, a.sizeScalar(a.S)))
	}
	number := func(n int) *ir.Value { return a.Constant(tensor.Scalar(int64(n))) }
	if a.op.Causal {
		and(ir.LessOrEqual, keys, at)
	}
	if a.left >= 0 {
		and(ir.LessOrEqual, a.binary(ir.Sub, at, number(a.left)), keys)
	}
	if a.right >= 0 {
		and(ir.LessOrEqual, keys, a.binary(ir.Add, at, number(a.right)))
	}
	return v
}

// result is the node's first output.
func (a *attention) result() *ir.Value {
	op, explicit := a.op, !a.aligned()
	if explicit {
		op.Causal = false
	} else {
		op.Offset = a.cached
		op.Window = a.left + 1
	}
	in := []*ir.Value{a.q, a.k, a.v}
	if bias := a.bias(explicit); bias != nil {
		in = append(in, bias)
	}
	y := a.Emit(op, in...)
	if rank(a.In(attnQ)) == 4 {
		return a.swapHeads(y)
	}
	s := y.Type.Shape
	return a.reshape(y, ir.Shape{s[0], s[1], s[2].Mul(s[3])})
}

// scores is the output that shows the products of queries and keys: as they are (0), capped (1), with the mask (2), or
// after the softmax (3).
func (a *attention) scores(mode int) *ir.Value {
	if mode < 0 || mode > 3 {
		a.Failf("qk_matmul_output_mode %d: want 0 to 3", mode)
	}
	op := a.op
	if mode == 0 {
		op.Softcap = 0
	}
	y := a.products(a.q, a.k, op)
	bias := a.bias(true)
	if mode >= 2 && bias != nil {
		none := a.excluded(y.Type.DType)
		if bias.Type.DType == tensor.Bool {
			y = a.Emit(ir.Where{}, bias, y, none)
		} else {
			y = a.binary(ir.Add, y, bias)
		}
	}
	if mode < 3 {
		return y
	}
	p := a.softmax(y, 3)
	top := a.Emit(ir.Reduce{Fn: ir.MaxOf, Axes: []int{3}, KeepDims: true}, y)
	return a.Emit(ir.Where{}, a.binary(ir.Equal, top, a.excluded(y.Type.DType)), a.like(y, 0), p)
}

// products returns the scaled and capped products [B,H,S,T] of queries [B,S,H,D] and keys [B,T,G,D], where H is a multiple of G.
func (c *context) products(q, k *ir.Value, op ir.Attention) *ir.Value {
	heads, groups := q.Type.Shape[2], k.Type.Shape[2]
	split := func(x *ir.Value, g, r ir.Dim) *ir.Value { // [B,G,H/G or 1,L,D]
		s := x.Type.Shape
		return c.reshape(c.swapHeads(x), ir.Shape{s[0], g, r, s[1], s[3]})
	}
	y := c.Emit(ir.MatMul{TransB: true, Alpha: op.Scale}, split(q, groups, heads.Div(groups)), split(k, groups, ir.N(1)))
	y = c.reshape(y, ir.Shape{q.Type.Shape[0], heads, q.Type.Shape[1], k.Type.Shape[1]})
	if op.Softcap != 0 {
		most := c.like(y, float64(op.Softcap))
		y = c.binary(ir.Mul, c.unary(ir.Tanh, c.binary(ir.Div, y, most)), most)
	}
	return y
}

// lowerRotary rotates the first rotary_embedding_dim elements of each head, or all of them.
func lowerRotary(c *context) []*ir.Value {
	x, cos, sin := c.In(0), c.In(1), c.In(2)
	y := c.heads(x, "num_heads")
	if positions := c.Opt(3); positions != nil {
		positions = c.nonNegative(positions)
		cos, sin = c.Emit(ir.Gather{}, cos, positions), c.Emit(ir.Gather{}, sin, positions)
	}
	if rank(cos) != 3 {
		c.Failf("cosines %v have not three axes", cos.Type)
	}
	rotated := y.Type.Shape[3]
	if n := c.AttrInt("rotary_embedding_dim", 0); n != 0 {
		rotated = ir.N(n)
	}
	if ir.Same(cos.Type.Shape[2].Mul(ir.N(2)), rotated) == ir.No {
		c.Failf("%v elements of each head are rotated, and there are cosines for half of %v", rotated, cos.Type)
	}
	y = c.Emit(ir.Rotary{Interleaved: c.AttrBool("interleaved", false)}, y, cos, sin)
	if rank(x) == 4 {
		return []*ir.Value{c.swapHeads(y)}
	}
	return []*ir.Value{c.reshape(y, x.Type.Shape)}
}
