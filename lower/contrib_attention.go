package lower

import (
	"math"

	"github.com/rlxc/rlxc/ir"
	"github.com/rlxc/rlxc/tensor"
)

// onnxruntime's attention (domain com.microsoft). The packed forms, without padding, are in contrib_packed.go,
// and the one of decoders with caches of several lengths in contrib_gqa.go.
var contribAttentionRows = []row{
	{"Attention", 1, lowerContribAttention},
	{"QAttention", 1, lowerQAttention},
	{"MultiHeadAttention", 1, lowerMultiHeadAttention},
	{"DecoderMaskedMultiHeadAttention", 1, lowerMaskedMultiHeadAttention},
	{"GroupQueryAttention", 1, lowerGroupQueryAttention},
	{"PackedAttention", 1, lowerPackedAttention},
	{"PackedMultiHeadAttention", 1, lowerPackedMultiHeadAttention},
	{"RemovePadding", 1, lowerRemovePadding},
	{"RestorePadding", 1, lowerRestorePadding},
	{"RotaryEmbedding", 1, lowerContribRotary},
	{"RelativePositionBias", 1, lowerRelativePositionBias},
	{"GatedRelativePositionBias", 1, lowerGatedRelativePositionBias},
}

// heads is attention over heads on its way: q [B,S,H,D], k [B,T,G,D], v [B,T,G,E], and what is added to the scores.
type heads struct {
	*context
	q, k, v *ir.Value
	past    ir.Dim    // keys of a cache that come before this call's
	bias    *ir.Value // [B or 1,H or 1,S or 1,T], or nil
	filter  float64   // what is added to the score of a masked key
}

func (c *context) newHeads() *heads {
	return &heads{context: c, filter: float64(c.AttrFloat("mask_filter_value", -10000))}
}

// numHeads reads a required number of heads.
func (c *context) numHeads(name string) ir.Dim {
	n := c.AttrInt(name, 0)
	if n < 1 {
		c.Failf("%s is %d", name, n)
	}
	return ir.N(n)
}

// split sees [B,L,H·D] as [B,L,H,D].
func (c *context) split(x *ir.Value, heads ir.Dim) *ir.Value {
	s := x.Type.Shape
	if len(s) != 3 || ir.Same(s[2].Mod(heads), ir.N(0)) == ir.No {
		c.Failf("%v is not [batch, length, hidden] of %v heads", x.Type, heads)
	}
	return c.reshape(x, ir.Shape{s[0], s[1], heads, s[2].Div(heads)})
}

// parts cuts a packed projection [B,S,·] into heads of queries, keys and values, whose hidden sizes may differ.
func (h *heads) parts(y *ir.Value, count ir.Dim) {
	width := y.Type.Shape[2]
	third := width.Div(ir.N(3))
	sizes := []ir.Dim{third, third, third}
	if list, ok := h.AttrInts("qkv_hidden_sizes"); ok && len(list) > 0 {
		if len(list) != 3 {
			h.Failf("qkv_hidden_sizes %v are not three", list)
		}
		sizes = ir.Dims(list...)
	}
	if ir.Same(sizes[0].Add(sizes[1]).Add(sizes[2]), width) == ir.No {
		h.Failf("hidden sizes %v do not make up %v", ir.Shape(sizes), width)
	}
	at := ir.N(0)
	var out [3]*ir.Value
	for i, n := range sizes {
		out[i] = h.split(h.slice(y, 2, at, n), count)
		at = at.Add(n)
	}
	h.q, h.k, h.v = out[0], out[1], out[2]
}

// B, S and T return the sizes of masks: batch, queries and keys.
func (h *heads) B() ir.Dim { return h.q.Type.Shape[0] }
func (h *heads) S() ir.Dim { return h.q.Type.Shape[1] }
func (h *heads) T() ir.Dim { return h.k.Type.Shape[1] }

// addBias adds to the scores.
func (h *heads) addBias(b *ir.Value) {
	switch {
	case b == nil:
	case h.bias == nil:
		h.bias = b
	default:
		h.bias = h.binary(ir.Add, h.bias, b)
	}
}

// hide adds the filter value where visible is false.
func (h *heads) hide(visible *ir.Value) { h.hideBy(visible, h.filter) }

func (h *heads) hideBy(visible *ir.Value, filter float64) {
	d := h.q.Type.DType
	h.addBias(h.Emit(ir.Where{}, visible, h.Scalar(d, 0), h.Scalar(d, filter)))
}

// addMask reads a mask in any of its forms: [B] lengths; [2B] ends, then starts; [3B+2] lengths, then sums that follow from
// them; [B,T] and [B,S,T] with a positive number where a key counts; [B,1,max,max], of which this call's part is taken.
func (h *heads) addMask(mask *ir.Value) {
	if mask == nil {
		return
	}
	B, S, T := h.B(), h.S(), h.T()
	s := mask.Type.Shape
	positive := func(v *ir.Value, shape ir.Shape) {
		h.hide(h.reshape(h.binary(ir.Greater, v, h.like(v, 0)), shape))
	}
	one := ir.N(1)
	switch len(s) {
	case 1:
		limit := func(v *ir.Value) *ir.Value { return h.cast(h.reshape(v, ir.Shape{B, one, one, one}), tensor.I64) }
		part := func(i int) *ir.Value { return limit(h.slice(mask, 0, B.Mul(ir.N(i)), B)) }
		keys := h.count(T, 3, 4)
		switch h.oneOf(s[0], B, B.Mul(ir.N(2)), B.Mul(ir.N(3)).Add(ir.N(2))) {
		case 0:
			h.hide(h.binary(ir.Less, keys, limit(mask)))
		case 1:
			h.hide(h.binary(ir.And, h.binary(ir.Less, keys, part(0)), h.binary(ir.GreaterOrEqual, keys, part(1))))
		case 2:
			h.hide(h.binary(ir.Less, keys, part(0)))
		default:
			h.Failf("mask %v for a batch of %v: want [batch], [2·batch], [3·batch+2], or two to four axes", mask.Type, B)
		}
	case 2:
		positive(mask, ir.Shape{B, one, one, T})
	case 3:
		positive(mask, ir.Shape{B, one, S, T})
	case 4:
		part := h.slice(h.slice(mask, 2, h.past, S), 3, ir.N(0), T)
		positive(part, ir.Shape{B, one, S, T})
	default:
		h.Failf("mask %v: want one to four axes", mask.Type)
	}
}

// scaled returns the queries and the factor of the scores. Where a run finds the size of a head, the factor is 1 and the queries are
// divided.
func (h *heads) scaled() (q *ir.Value, factor float32) {
	if s := h.AttrFloat("scale", 0); s != 0 {
		return h.q, s
	}
	size, ok := h.q.Type.Shape[3].Const()
	if !ok {
		root := h.unary(ir.Sqrt, h.cast(h.sizeScalar(h.q.Type.Shape[3]), h.q.Type.DType))
		return h.binary(ir.Div, h.q, root), 1
	}
	return h.q, float32(1 / math.Sqrt(float64(size)))
}

// extend puts the cache before keys or values: past is [B,H,P,D] or nil, the second result [B,H,T,D].
func (h *heads) extend(x, past *ir.Value) (all, present *ir.Value) {
	present = h.swapHeads(x)
	if past == nil {
		return x, present
	}
	if rank(past) != 4 {
		h.Failf("the cache %v has not four axes", past.Type)
	}
	h.past = past.Type.Shape[2]
	present = h.Emit(ir.Concat{Axis: 2}, past, present)
	return h.swapHeads(present), present
}

// attend returns the heads' results side by side, [B,S,H·E]. It sets the scale of op.
func (h *heads) attend(op ir.Attention) *ir.Value {
	in := []*ir.Value{nil, h.k, h.v}
	in[0], op.Scale = h.scaled()
	if h.bias != nil {
		in = append(in, h.bias)
	}
	y := h.Emit(op, in...)
	s := y.Type.Shape
	return h.reshape(y, ir.Shape{s[0], s[1], s[2].Mul(s[3])})
}

// causal returns the op of a decoder, whose queries are the last of the keys, or of an encoder. A decoder that may have keys after its
// queries takes a bias instead: like in onnxruntime, query s sees the keys up to past + s, and the last query all of them.
func (h *heads) causal() ir.Attention {
	on, S, T := h.AttrBool("unidirectional", false), h.S(), h.T()
	if on && ir.LessEqual(T, h.past.Add(S)) != ir.Yes {
		keys, at := h.count(T, 3, 4), h.count(S, 2, 4)
		before := h.binary(ir.LessOrEqual, keys, h.binary(ir.Add, at, h.sizeScalar(h.past)))
		last := h.binary(ir.Equal, at, h.sizeScalar(S.Sub(ir.N(1))))
		h.hideBy(h.binary(ir.Or, before, last), math.Inf(-1))
		on = false
	}
	return ir.Attention{Causal: on, Offset: on && !h.past.Is(0)}
}

// project is x·w + bias for x [B,S,·].
func (c *context) project(x, w, bias *ir.Value) *ir.Value {
	if rank(x) != 3 || rank(w) != 2 {
		c.Failf("input %v and weights %v: want three axes and two", x.Type, w.Type)
	}
	return c.Emit(ir.MatMul{}, x, w, bias)
}

func lowerContribAttention(c *context) []*ir.Value {
	c.refuse("do_rotary", "past_present_share_buffer")
	c.IgnoreAttr("rotary_embedding_dim")
	if c.Opt(6) != nil {
		c.Unsupportedf("past_sequence_length, which goes with past_present_share_buffer")
	}
	y := c.project(c.In(0), c.In(1), c.Opt(2))
	return c.packedAttention(y, 3, 4, c.Opt(5))
}

// refuse reports attributes that enable unsupported features.
func (c *context) refuse(names ...string) {
	for _, n := range names {
		if c.AttrBool(n, false) {
			c.Unsupportedf("attribute %s", n)
		}
	}
}

// packedAttention continues from the projection of queries, keys and values; mask and past are operand positions.
func (c *context) packedAttention(y *ir.Value, mask, past int, bias *ir.Value) []*ir.Value {
	h := c.newHeads()
	h.parts(y, c.numHeads("num_heads"))
	one := ir.N(1)
	var present *ir.Value // keys, then values: [2,B,H,T,D]
	if p := c.Opt(past); p != nil || c.Wants(1) {
		pair := []*ir.Value{h.k, h.v}
		for i, x := range pair {
			pair[i] = c.swapHeads(x)
			pair[i] = c.reshape(pair[i], append(ir.Shape{one}, pair[i].Type.Shape...))
		}
		present = c.Emit(ir.Concat{Axis: 0}, pair...)
		if p != nil {
			s := p.Type.Shape
			if len(s) != 5 || ir.Same(s[0], ir.N(2)) == ir.No {
				c.Failf("past %v is not [2, batch, heads, length, size]", p.Type)
			}
			h.past = s[3]
			present = c.Emit(ir.Concat{Axis: 3}, p, present)
			part := func(i int) *ir.Value {
				return c.swapHeads(c.reshape(c.slice(present, 0, ir.N(i), one), present.Type.Shape[1:]))
			}
			h.k, h.v = part(0), part(1)
		}
	}
	h.addMask(c.Opt(mask))
	h.addBias(bias)
	out := []*ir.Value{h.attend(h.causal())}
	if c.Wants(1) {
		out = append(out, present)
	}
	return out
}

// lowerQAttention is Attention with its input and weights quantised.
func lowerQAttention(c *context) []*ir.Value {
	c.refuse("do_rotary", "past_present_share_buffer")
	x, w := c.In(0), c.In(1)
	if rank(x) != 3 || rank(w) != 2 {
		c.Failf("input %v and weights %v: want three axes and two", x.Type, w.Type)
	}
	c.checkScale(3)
	c.checkScale(4)
	n := w.Type.Shape[1]
	y := c.Emit(ir.QMatMul{}, x, w, c.one(6), c.columnwise(7, n), c.one(3), c.columnwise(4, n), c.In(2))
	return c.packedAttention(y, 5, 8, nil)
}

// multiHeadOperands are where an operator has its operands after queries, keys and values.
type multiHeadOperands struct{ bias, mask, scores, pastKey, pastValue, pastLength, beams int }

func lowerMultiHeadAttention(c *context) []*ir.Value {
	return c.multiHead(multiHeadOperands{bias: 3, mask: 4, scores: 5, pastKey: 6, pastValue: 7, pastLength: 8, beams: 9})
}

// lowerMaskedMultiHeadAttention reads one token, and its cache is a buffer that the result shares.
func lowerMaskedMultiHeadAttention(c *context) []*ir.Value {
	c.refuse("output_qk")
	c.IgnoreAttr("past_present_share_buffer")
	c.Opt(8) // beam_width, which goes with cache_indirection
	if s := c.In(0).Type.Shape; len(s) > 1 && ir.Same(s[1], ir.N(1)) == ir.No {
		c.Failf("queries %v of more than one token", c.In(0).Type)
	}
	return c.multiHead(multiHeadOperands{bias: 10, mask: 3, scores: 4, pastKey: 5, pastValue: 6, pastLength: 7, beams: 9})
}

func (c *context) multiHead(at multiHeadOperands) []*ir.Value {
	if c.Opt(at.beams) != nil {
		c.Unsupportedf("cache_indirection, which goes with BeamSearch")
	}
	h, count := c.newHeads(), c.numHeads("num_heads")
	h.operands(c.In(0), c.Opt(1), c.Opt(2), c.Opt(at.bias), count)
	var present [2]*ir.Value
	if (c.Opt(at.pastKey) == nil) != (c.Opt(at.pastValue) == nil) {
		c.Failf("past_key and past_value must be given together")
	}
	mask, scores := c.Opt(at.mask), c.Opt(at.scores)
	var op ir.Attention
	if length := c.Opt(at.pastLength); length != nil && c.Opt(at.pastKey) != nil {
		present = h.extendBuffers(c.Opt(at.pastKey), c.Opt(at.pastValue), length, mask, scores)
		c.AttrBool("unidirectional", false)
	} else {
		h.k, present[0] = h.extend(h.k, c.Opt(at.pastKey))
		h.v, present[1] = h.extend(h.v, c.Opt(at.pastValue))
		op = h.causal()
	}
	h.addMask(mask)
	h.addBias(scores)
	out := []*ir.Value{h.attend(op), present[0], present[1], nil}
	if c.Wants(3) {
		if op.Causal {
			c.Unsupportedf("the products of queries and keys of a decoder as a result")
		}
		q, factor := h.scaled()
		y := c.Emit(ir.MatMul{TransB: true, Alpha: factor}, c.swapHeads(q), c.swapHeads(h.k))
		if h.bias != nil {
			y = c.binary(ir.Add, y, h.bias)
		}
		out[3] = c.softmax(y, 3)
	}
	return c.listed(out)
}

// extendBuffers puts keys and values into buffers with room for all of a text, after the positions that past_sequence_length says are
// taken.
// What masks and scores lack is not read.
func (h *heads) extendBuffers(pastKey, pastValue, past *ir.Value, masks ...*ir.Value) (present [2]*ir.Value) {
	one, B, S := ir.N(1), h.B(), h.S()
	if ir.Same(past.Type.Shape.Elements(), one) == ir.No {
		h.Failf("past_sequence_length %v is not one number", past.Type)
	}
	start := h.cast(h.reshape(past, ir.Shape{one, one, one, one}), tensor.I64)
	length := h.binary(ir.Add, start, h.sizeScalar(S))
	none := h.binary(ir.Less, start, h.Constant(tensor.Scalar(int64(0)))) // nothing before a negative position: no length
	lengths := h.expand(h.reshape(h.Emit(ir.Where{}, none, start, length), ir.Shape{one}), ir.Shape{B})
	for i, x := range []struct {
		part **ir.Value
		old  *ir.Value
	}{{&h.k, pastKey}, {&h.v, pastValue}} {
		if rank(x.old) != 4 {
			h.Failf("the cache %v has not four axes", x.old.Type)
		}
		room := x.old.Type.Shape[2]
		present[i] = h.Emit(ir.Append{Axis: 2, Size: room, Keep: true}, h.swapHeads(*x.part), lengths, x.old)
		seen := present[i]
		for _, m := range masks {
			if m == nil || rank(m) == 1 {
				continue
			}
			n := m.Type.Shape[rank(m)-1]
			if ir.LessEqual(n, room) == ir.No {
				h.Failf("%v masks more keys than the cache %v has", m.Type, x.old.Type)
			}
			seen = h.slice(present[i], 2, ir.N(0), n)
		}
		*x.part = h.swapHeads(seen)
	}
	keys := h.count(h.T(), 3, 4)
	visible := h.binary(ir.Less, keys, length)
	if h.AttrBool("unidirectional", false) {
		visible = h.binary(ir.LessOrEqual, keys, h.binary(ir.Add, start, h.count(S, 2, 4)))
	}
	h.hideBy(visible, math.Inf(-1))
	return present
}

// operands reads queries, keys and values in any of the forms of MultiHeadAttention: [B,L,hidden] each; packed as
// [B,S,H,3,D]; keys and values packed as [B,L,H,2,D] or already as heads, [B,H,L,D]. The bias is that of the projections.
func (h *heads) operands(q, k, v, bias *ir.Value, count ir.Dim) {
	piece := func(x *ir.Value, i int) *ir.Value { // of a packed operand
		s := x.Type.Shape
		return h.reshape(h.slice(x, 3, ir.N(i), ir.N(1)), ir.Shape{s[0], s[1], s[2], s[4]})
	}
	if bias != nil && rank(bias) != 1 {
		h.Failf("bias %v is not a vector", bias.Type)
	}
	at := ir.N(0)
	part := func(n ir.Dim) *ir.Value { // the bias of the projection that is next
		at = at.Add(n)
		return h.slice(bias, 0, at.Sub(n), n)
	}
	project := func(x *ir.Value) *ir.Value { // with its bias, which a product takes up
		if n := x.Type.Shape[rank(x)-1]; bias != nil && rank(x) == 3 {
			x = h.binary(ir.Add, x, part(n))
		}
		return h.split(x, count)
	}
	switch {
	case rank(q) == 5 && k == nil && v == nil:
		h.q, h.k, h.v = piece(q, 0), piece(q, 1), piece(q, 2)
	case rank(q) != 3 || k == nil:
		h.Failf("query %v: want three axes with a key, or five for packed queries, keys and values", q.Type)
	case rank(k) == 5 && v == nil:
		h.q, h.k, h.v = h.split(q, count), piece(k, 0), piece(k, 1)
	case v == nil:
		h.Failf("key %v without value", k.Type)
	case rank(k) == 4 && rank(v) == 4: // they have their bias
		h.q, h.k, h.v = project(q), h.swapHeads(k), h.swapHeads(v)
		return
	default:
		h.q, h.k, h.v = project(q), project(k), project(v)
		return
	}
	if bias == nil {
		return
	}
	for _, x := range []**ir.Value{&h.q, &h.k, &h.v} {
		s := (*x).Type.Shape
		*x = h.binary(ir.Add, *x, h.reshape(part(s[2].Mul(s[3])), ir.Shape{s[2], s[3]}))
	}
}

// lowerContribRotary differs from ONNX's RotaryEmbedding in the order of its operands and in that one position stands for
// the first of the sequence.
func lowerContribRotary(c *context) []*ir.Value {
	return c.rotated(nil)
}

// rotated is a rotary embedding whose angles are, for a cache of cosines or sines, [B,S,R/2]; nil finds them by one position for each
// token.
func (c *context) rotated(angles func(cache *ir.Value) *ir.Value) []*ir.Value {
	x, cos, sin := c.In(0), c.In(2), c.In(3)
	c.IgnoreAttr("scale") // which onnxruntime reads and does not use
	c.refuse("is_packed_batching")
	if rank(cos) != 2 || rank(sin) != 2 {
		c.Failf("cos_cache %v and sin_cache %v have not two axes", cos.Type, sin.Type)
	}
	size := cos.Type.Shape[1].Mul(ir.N(2))
	if n := c.AttrInt("rotary_embedding_dim", 0); n != 0 && ir.Same(ir.N(n), size) == ir.No {
		c.Failf("rotary_embedding_dim = %d for %v: want twice the columns", n, cos.Type)
	}
	var y *ir.Value
	switch {
	case rank(x) == 4:
		y = c.swapHeads(x)
		c.IgnoreAttr("num_heads")
	case rank(x) != 3:
		c.Failf("input %v: want three axes or four", x.Type)
	default:
		count := x.Type.Shape[2].Div(size)
		if n := c.AttrInt("num_heads", 0); n > 0 {
			count = ir.N(n)
		} else if ir.Same(count.Mul(size), x.Type.Shape[2]) == ir.No {
			c.Failf("input %v is not a number of heads of %v, as cos_cache %v has them", x.Type, size, cos.Type)
		}
		y = c.split(x, count)
	}
	B, S := y.Type.Shape[0], y.Type.Shape[1]
	if angles == nil {
		positions := c.nonNegative(c.cast(c.In(1), tensor.I64))
		if rank(positions) == 1 {
			positions = c.binary(ir.Add, c.reshape(positions, ir.Dims(1, 1)), c.count(S, 1, 2))
		} else if rank(positions) != 2 || ir.Same(positions.Type.Shape[0], B) == ir.No {
			c.Failf("position_ids %v for %v: want [1] or [batch, sequence]", positions.Type, x.Type)
		}
		angles = func(cache *ir.Value) *ir.Value { return c.Emit(ir.Gather{}, cache, positions) }
	}
	op := ir.Rotary{Interleaved: c.AttrBool("interleaved", false)}
	y = c.Emit(op, y, angles(cos), angles(sin))
	if rank(x) == 4 {
		return []*ir.Value{c.swapHeads(y)}
	}
	return []*ir.Value{c.reshape(y, x.Type.Shape)}
}
