package lower

import (
	"math"

	"github.com/rlxc/rlxc/internal/ops"
	"github.com/rlxc/rlxc/ir"
	"github.com/rlxc/rlxc/tensor"
)

// The operands of GroupQueryAttention.
const (
	gqaQ = iota
	gqaK
	gqaV
	gqaPastKey
	gqaPastValue
	gqaLengths // length of each sequence, this call's positions included, minus one
	gqaTotal   // length of the longest sequence
	gqaCos
	gqaSin
	gqaPositions
	gqaBias
	gqaSink
)

// groupQuery is a GroupQueryAttention on its way.
type groupQuery struct {
	*heads
	result ir.Type   // [B,S,H·D]
	last   *ir.Value // i64 [B,1], the last position of each sequence, with this call's
	length *ir.Value // i64 [B,1], one more
	start  *ir.Value // i64 [B,1], the position of this call's first token
	window int       // the keys that a query sees, none of a decoder that sees all
	at     *ir.Value // i64, the positions of the keys, to be broadcast with [B,1,1,T]
	total  ir.Dim    // keys of the longest sequence, without the rest of the cache's room
	// visible is bool [B,1,S or 1,T]: whether the query sees the key.
	visible *ir.Value
}

// lowerGroupQueryAttention is a decoder's attention: the caches of sequences differ in length, and this call's keys and
// values go after it.
func lowerGroupQueryAttention(c *context) []*ir.Value {
	shown := c.choice("qk_output", 3)
	if c.Wants(3) != (shown > 0) {
		c.Failf("qk_output = %d with output_qk: %v", shown, c.Wants(3))
	}
	c.IgnoreAttr("kv_cache_bit_width", "qk_norm_epsilon")
	for _, name := range []string{"k_quant_type", "v_quant_type"} {
		if q := c.AttrString(name, "NONE"); q != "NONE" && q != "" {
			c.Unsupportedf("%s = %s: a quantised cache", name, q)
		}
	}
	g := &groupQuery{heads: &heads{context: c}, window: c.AttrInt("local_window_size", -1)}
	g.read()
	g.rotate()
	out := make([]*ir.Value, 4)
	if c.AttrBool("sliding_window_cache", false) {
		if shown > 0 {
			c.Unsupportedf("qk_output with sliding_window_cache, which onnxruntime refuses")
		}
		out[1], out[2] = g.slideCaches()
	} else {
		out[1], out[2] = g.extendCaches()
		g.at = g.count(g.T(), 3, 4)
	}
	op := ir.Attention{Softcap: c.softcap(), NaNGuard: true}
	g.see()
	g.sink()
	out[0] = g.attend(op)
	if shown > 0 {
		out[3] = g.scores(op, shown == 2)
	}
	return out[:min(c.NumOutputs(), 4)]
}

// scores returns the products of queries and keys [B,H,S,total] with caps and biases, before or after the softmax. It is 0 for keys that a
// query does not see.
func (g *groupQuery) scores(op ir.Attention, normalised bool) *ir.Value {
	var q *ir.Value
	q, op.Scale = g.scaled()
	y := g.products(q, g.k, op)
	if g.bias.Type.DType == tensor.Bool {
		y = g.Emit(ir.Where{}, g.bias, y, g.like(y, g.filter))
	} else {
		y = g.binary(ir.Add, y, g.bias)
	}
	if normalised {
		y = g.softmax(y, 3)
	}
	seen := func(v *ir.Value) *ir.Value { return g.slice(v, 3, ir.N(0), g.total) }
	y = seen(y)
	return g.Emit(ir.Where{}, seen(g.visible), y, g.like(y, 0))
}

// read takes queries, keys and values, separate or adjacent in one tensor, and the positions of each sequence.
func (g *groupQuery) read() {
	count, groups := g.numHeads("num_heads"), g.numHeads("kv_num_heads")
	q, k, v := g.In(gqaQ), g.Opt(gqaK), g.Opt(gqaV)
	if (k == nil) != (v == nil) {
		g.Failf("key and value must be given together")
	}
	if rank(q) != 3 {
		g.Failf("query %v has not three axes", q.Type)
	}
	if k == nil {
		size := q.Type.Shape[2].Div(count.Add(groups).Add(groups))
		kv := groups.Mul(size)
		k, v = g.slice(q, 2, count.Mul(size), kv), g.slice(q, 2, count.Mul(size).Add(kv), kv)
		q = g.slice(q, 2, ir.N(0), count.Mul(size))
	}
	g.result = q.Type
	g.q, g.k, g.v = g.split(q, count), g.split(k, groups), g.split(v, groups)
	// With right padding a first call has more queries than tokens: it starts at 0.
	g.last = g.reshape(g.cast(g.In(gqaLengths), tensor.I64), ir.Shape{g.B(), ir.N(1)})
	g.length = g.binary(ir.Add, g.last, g.number64(1))
	g.start = g.binary(ir.MaxFn, g.binary(ir.Sub, g.length, g.sizeScalar(g.S())), g.number64(0))
}

// rotate rotates queries and keys by their positions.
func (g *groupQuery) rotate() {
	if !g.AttrBool("do_rotary", false) {
		g.IgnoreAttr("rotary_interleaved")
		g.Opt(gqaCos)
		g.Opt(gqaSin)
		g.Opt(gqaPositions)
		return
	}
	at := g.binary(ir.Add, g.start, g.count(g.S(), 1, 2))
	if p := g.Opt(gqaPositions); p != nil {
		at = g.nonNegative(g.cast(p, tensor.I64))
	}
	cos, sin := g.Emit(ir.Gather{}, g.In(gqaCos), at), g.Emit(ir.Gather{}, g.In(gqaSin), at)
	op := ir.Rotary{Interleaved: g.AttrBool("rotary_interleaved", false)}
	g.q, g.k = g.Emit(op, g.q, cos, sin), g.Emit(op, g.k, cos, sin)
}

// extendCaches appends keys and values to the cached ones of their sequences, and returns the new caches.
func (g *groupQuery) extendCaches() (presentKey, presentValue *ir.Value) {
	past, values, size := g.Opt(gqaPastKey), g.Opt(gqaPastValue), ir.N(0)
	switch {
	case (past == nil) != (values == nil):
		g.Failf("past_key and past_value must be given together")
	case past == nil:
	case rank(past) != 4 || rank(values) != 4 || ir.Same(past.Type.Shape[2], values.Type.Shape[2]) == ir.No:
		g.Failf("past_key %v and past_value %v: want four axes and equal lengths", past.Type, values.Type)
	default:
		size = past.Type.Shape[2]
	}
	if v := g.In(gqaTotal); v.Dims == nil && !g.IsConst(gqaTotal) {
		v.Dims = g.compute(ops.Size{Typed: typed(ir.TensorOf(tensor.Bool, g.Fresh(0), ir.N(0))), Name: "total_sequence_length",
			Limit: size.Add(g.S())}, v)[0].Type.Shape[:1]
	}
	total := g.Dims(gqaTotal)
	if len(total) != 1 || ir.LessEqual(ir.N(1), total[0]) == ir.No || ir.LessEqual(total[0], size.Add(g.S())) == ir.No {
		g.Failf("total_sequence_length %v for a cache of %v and %v more", ir.Shape(total), size, g.S())
	}
	g.total = total[0]
	op := ir.Append{Axis: 2, Size: ir.Max(total[0], size)}
	merge := func(x, old *ir.Value) (all, present *ir.Value) {
		present = g.Emit(op, g.swapHeads(x), g.length, old)
		return g.swapHeads(present), present
	}
	g.k, presentKey = merge(g.k, past)
	g.v, presentValue = merge(g.v, values)
	return presentKey, presentValue
}

// number64 is an i64 scalar.
func (g *groupQuery) number64(n int) *ir.Value { return g.Constant(tensor.Scalar(int64(n))) }

// slideCaches is extendCaches where a cache has room for C positions, the window W at least. Of T positions it holds the last ones from its
// beginning on, all of them up to C; from there on it drops C − W + 1 of them whenever it is full.
func (g *groupQuery) slideCaches() (presentKey, presentValue *ir.Value) {
	past, values := g.Opt(gqaPastKey), g.Opt(gqaPastValue)
	if past == nil || values == nil || rank(past) != 4 || rank(values) != 4 {
		g.Failf("sliding_window_cache without past_key and past_value")
	}
	room := past.Type.Shape[2]
	if g.window < 1 || ir.LessEqual(ir.N(g.window), room) == ir.No || ir.Same(room, values.Type.Shape[2]) == ir.No {
		g.Failf("local_window_size = %d of caches %v and %v: want at least 1, and at most their equal lengths",
			g.window, past.Type, values.Type)
	}
	if g.AttrInt("causal", 1) == 0 {
		g.Unsupportedf("sliding_window_cache without causality, which onnxruntime refuses")
	}
	g.In(gqaTotal)
	none := g.number64(0)
	add := func(x, y *ir.Value) *ir.Value { return g.binary(ir.Add, x, y) }
	sub := func(x, y *ir.Value) *ir.Value { return g.binary(ir.Sub, x, y) }
	dropped := g.sizeScalar(ir.Max(room.Sub(ir.N(g.window-1)), ir.N(1)))
	resident := func(length *ir.Value) *ir.Value {
		over := g.binary(ir.MaxFn, sub(length, g.sizeScalar(room)), none)
		times := g.binary(ir.Div, add(over, sub(dropped, g.number64(1))), dropped)
		return sub(length, g.binary(ir.Mul, times, dropped))
	}
	held, newHeld := resident(g.start), resident(g.length) // [B,1]
	index := g.count(room, 1, 2)
	first := sub(g.start, held)
	end := add(g.start, g.sizeScalar(g.S())) // which no query sees
	old := g.Emit(ir.Where{}, g.binary(ir.Less, index, held), add(index, first), end)
	at := g.Emit(ir.Concat{Axis: 1}, old, add(g.start, g.count(g.S(), 1, 2)))
	g.at = g.reshape(at, ir.Shape{g.B(), ir.N(1), ir.N(1), room.Add(g.S())})

	position := add(index, sub(g.length, newHeld)) // of what the new cache holds there
	from := g.Emit(ir.Where{}, g.binary(ir.Less, position, g.start), sub(position, first),
		add(sub(position, g.start), g.sizeScalar(room)))
	from = g.Emit(ir.Clip{}, from, none, g.sizeScalar(room.Add(g.S()).Sub(ir.N(1))))
	from = g.reshape(from, ir.Shape{g.B(), ir.N(1), room, ir.N(1)})
	slide := func(x, old *ir.Value) (all, present *ir.Value) {
		both := g.Emit(ir.Concat{Axis: 2}, old, g.swapHeads(x))
		return g.swapHeads(both), g.Emit(ir.GatherElements{Axis: 2}, both, g.expand(from, old.Type.Shape))
	}
	g.k, presentKey = slide(g.k, past)
	g.v, presentValue = slide(g.v, values)
	return presentKey, presentValue
}

// biasOf takes from a bias for all positions of the sequences that of the keys that are there.
func (g *groupQuery) biasOf(bias *ir.Value) *ir.Value {
	if rank(bias) != 4 {
		g.Failf("attention_bias %v has not four axes", bias.Type)
	}
	s := bias.Type.Shape
	at := g.Emit(ir.Clip{}, g.at, g.number64(0), g.sizeScalar(s[3].Sub(ir.N(1))))
	bias = g.expand(bias, ir.Shape{g.B(), s[1], g.S(), s[3]})
	return g.Emit(ir.GatherElements{Axis: 3}, bias, g.expand(at, ir.Shape{g.B(), s[1], g.S(), g.T()}))
}

// see makes the mask: a query sees the keys of its sequence, of a decoder those up to its own position, and of these the
// ones in its window. A query of padding sees no key of padding either.
func (g *groupQuery) see() {
	of := func(v *ir.Value) *ir.Value { return g.reshape(v, ir.Shape{g.B(), ir.N(1), ir.N(1), ir.N(1)}) }
	at := g.binary(ir.Add, of(g.start), g.count(g.S(), 2, 4))
	visible := g.binary(ir.Less, g.at, of(g.length))
	if g.AttrInt("causal", 1) != 0 {
		visible = g.binary(ir.LessOrEqual, g.at, g.binary(ir.MinFn, at, of(g.last)))
	}
	if g.window > 0 {
		near := g.binary(ir.Greater, g.at, g.binary(ir.Sub, at, g.number64(g.window)))
		visible = g.binary(ir.And, visible, near)
	}
	g.filter, g.visible = math.Inf(-1), visible
	if bias := g.Opt(gqaBias); bias != nil {
		if g.AttrBool("sliding_window_cache", false) {
			bias = g.biasOf(bias)
		}
		g.addBias(bias)
		g.hide(visible)
	} else {
		g.bias = visible
	}
}

// sink adds a score to each softmax without a value after it, head_sink or 0: that of one more key, of zeros.
func (g *groupQuery) sink() {
	sink, one := g.Opt(gqaSink), ir.N(1)
	smooth := g.AttrInt("smooth_softmax", -1) == 1
	switch {
	case sink != nil:
		sink = g.reshape(sink, ir.Shape{one, g.q.Type.Shape[2], one, one})
	case smooth:
		sink = g.like(g.q, 0)
	default:
		return
	}
	if g.bias.Type.DType == tensor.Bool {
		visible := g.bias
		g.bias = nil
		g.hide(visible)
	}
	appended := func(x, last *ir.Value, axis int, shape ir.Shape) *ir.Value {
		last = g.expand(last, append(append(shape[:axis:axis], one), shape[axis+1:]...))
		return g.Emit(ir.Concat{Axis: axis}, x, last)
	}
	g.k = appended(g.k, g.like(g.k, 0), 1, g.k.Type.Shape)
	g.v = appended(g.v, g.like(g.v, 0), 1, g.v.Type.Shape)
	scores := ir.Shape{g.B(), g.q.Type.Shape[2], g.S(), g.bias.Type.Shape[3]}
	g.bias = appended(g.expand(g.bias, scores), sink, 3, scores)
}
