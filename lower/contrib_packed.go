package lower

import (
	"math"

	"github.com/rlxc/rlxc/ir"
	"github.com/rlxc/rlxc/tensor"
)

// Padding is removed from a batch by listing the flat index of every token in the padded batch, in order. token_offset holds
// the flat indices of the tokens and then those of the padding, [B,S] numbers in all.

// flatIndices returns the first n flat indices, as ScatterND and Gather take them.
func (c *context) flatIndices(offset *ir.Value, n ir.Dim) *ir.Value {
	if rank(offset) != 2 {
		c.Failf("token_offset %v is not [batch, sequence]", offset.Type)
	}
	return c.slice(c.reshape(offset, ir.Shape{offset.Type.Shape.Elements()}), 0, ir.N(0), n)
}

// restore puts tokens [n,·] back into a batch [B,S,·], with zeros as padding.
func (c *context) restore(x, offset *ir.Value) *ir.Value {
	n, width := x.Type.Shape[0], x.Type.Shape[1]
	at := c.flatIndices(offset, n)
	B, S := offset.Type.Shape[0], offset.Type.Shape[1]
	empty := c.expand(c.like(x, 0), ir.Shape{B.Mul(S), width})
	y := c.Emit(ir.ScatterND{}, empty, c.reshape(c.cast(at, tensor.I64), ir.Shape{n, ir.N(1)}), x)
	return c.reshape(y, ir.Shape{B, S, width})
}

// remove takes the n tokens out of a batch [B,S,·].
func (c *context) remove(x, offset *ir.Value, n ir.Dim) *ir.Value {
	s := x.Type.Shape
	return c.Emit(ir.Gather{}, c.reshape(x, ir.Shape{s[0].Mul(s[1]), s[2]}), c.flatIndices(offset, n))
}

// A removed is what RemovePadding did: where ir.Pack and ir.Unpack do the same, token_offset and cumulated_seq_len are not read.
type removed struct {
	x    *ir.Value   // [B,S,·]
	pack []*ir.Value // results of ir.Pack
}

// removedBy is the RemovePadding that a token_offset or cumulated_seq_len is of, if it has that many tokens; nil for others.
func (c *context) removedBy(v *ir.Value, tokens ir.Dim) *removed {
	if r := c.b.removed[v]; r != nil && r.pack[ir.PackPositions].Type.Shape[1].Equal(tokens) {
		return r
	}
	return nil
}

func lowerRestorePadding(c *context) []*ir.Value {
	x, offset := c.In(0), c.In(1)
	if rank(x) != 2 {
		c.Failf("input %v is not [tokens, hidden]", x.Type)
	}
	if r := c.removedBy(offset, x.Type.Shape[0]); r != nil {
		x = c.reshape(x, append(ir.Shape{ir.N(1)}, x.Type.Shape...))
		return []*ir.Value{c.Emit(ir.Unpack{}, x, r.pack[ir.PackFlatIndices], r.x)}
	}
	return []*ir.Value{c.restore(x, offset)}
}

// lowerRemovePadding leaves the number of tokens, which depends on the lengths, to the run; and those of its results that are not of tokens
// to what reads them.
func lowerRemovePadding(c *context) []*ir.Value {
	x, counts := c.In(0), c.In(1)
	if rank(x) != 3 || rank(counts) != 1 {
		c.Failf("input %v with lengths %v: want three axes and one", x.Type, counts.Type)
	}
	s := x.Type.Shape
	if ir.Same(counts.Type.Shape[0], s[0]) == ir.No {
		c.Failf("%v lengths for %v sequences: want one each", counts.Type.Shape[0], s[0])
	}
	if _, known := x.Type.Static(); !known || !c.IsConst(1) {
		n := c.Fresh(0)
		pack := c.EmitAll(ir.NewPack(counts, []*ir.Value{x}, n, 0), counts, x)
		i32 := func(shape ...ir.Dim) ir.Type { return ir.TensorOf(tensor.I32, shape...) }
		rest := c.AtRun(ir.TensorOf(x.Type.DType, c.Fresh(0), s[2]), i32(s[0], s[1]), i32(s[0].Add(ir.N(1))), i32(ir.N(1)))
		out := append([]*ir.Value{c.reshape(pack[ir.PackValues], ir.Shape{n, s[2]})}, rest[1:]...)
		if c.b.removed == nil {
			c.b.removed = map[*ir.Value]*removed{}
		}
		r := &removed{x, pack}
		c.b.removed[out[1]], c.b.removed[out[2]] = r, r
		return c.listed(out)
	}
	sizes := x.Type.Sizes()
	var tokens, padding []int32
	sums, longest := []int32{0}, int32(0)
	for b, n := range c.Ints(1) {
		if n < 0 || n > sizes[1] {
			c.Failf("sequence_token_count[%d] is %d of %d", b, n, sizes[1])
		}
		for i := range sizes[1] {
			if at := int32(b*sizes[1] + i); i < n {
				tokens = append(tokens, at)
			} else {
				padding = append(padding, at)
			}
		}
		sums = append(sums, sums[b]+int32(n))
		longest = max(longest, int32(n))
	}
	offset := c.Constant(tensor.FromSlice(append(tokens, padding...), sizes[0], sizes[1]))
	out := []*ir.Value{c.remove(x, offset, ir.N(len(tokens))), offset, c.Constant(tensor.FromSlice(sums)),
		c.Constant(tensor.FromSlice([]int32{longest}))}
	return c.listed(out)
}

// sequencesOf lists the sequences as ir.Pack does, given the sums of the lengths, [B+1].
func (c *context) sequencesOf(sums *ir.Value) *ir.Value {
	if rank(sums) != 1 {
		c.Failf("cumulative_sequence_length %v: want one axis", sums.Type)
	}
	one := ir.N(1)
	batch := sums.Type.Shape[0].Sub(one)
	part := func(from ir.Dim) *ir.Value { return c.reshape(c.slice(sums, 0, from, batch), ir.Shape{batch, one}) }
	first, end := part(ir.N(0)), part(one)
	return c.Emit(ir.Concat{Axis: 1}, first, end, first, end)
}

// attendPacked is attention of tokens [1,n,H,D] within their sequences, with a bias [B or 1,H or 1,S,S] or none. The bias has an element
// for each pair of positions of a padded sequence.
func (h *heads) attendPacked(offset, sums, bias *ir.Value) []*ir.Value {
	q, factor := h.scaled()
	in, n := []*ir.Value{q, h.k, h.v, bias}, q.Type.Shape[1]
	if bias != nil && (rank(bias) != 4 || rank(offset) != 2 || ir.Same(bias.Type.Shape[2], offset.Type.Shape[1]) == ir.No ||
		ir.Same(bias.Type.Shape[3], offset.Type.Shape[1]) == ir.No) {
		h.Failf("attention bias %v for sequences of token_offset %v: want [batch, heads, sequence, sequence]", bias.Type, offset.Type)
	}
	r := h.removedBy(sums, n)
	if r != nil {
		in = append(in, r.pack[ir.PackSequences])
	} else {
		in = append(in, h.sequencesOf(sums))
	}
	switch {
	case bias == nil:
	case r != nil && r == h.removedBy(offset, n):
		in = append(in, r.pack[ir.PackPositions])
	default:
		index := h.reshape(h.cast(h.flatIndices(offset, n), tensor.I64), ir.Shape{ir.N(1), n})
		in = append(in, h.binary(ir.Mod, index, h.sizeScalar(offset.Type.Shape[1])))
	}
	y := h.Emit(ir.Attention{Scale: factor}, in...)
	s := y.Type.Shape
	return []*ir.Value{h.reshape(y, ir.Shape{s[1], s[2].Mul(s[3])})}
}

func lowerPackedAttention(c *context) []*ir.Value {
	x := c.In(0)
	if rank(x) != 2 || rank(c.In(1)) != 2 {
		c.Failf("input %v and weights %v: want two axes each", x.Type, c.In(1).Type)
	}
	h, y := c.newHeads(), c.Emit(ir.MatMul{}, x, c.In(1), c.In(2))
	h.parts(c.reshape(y, append(ir.Shape{ir.N(1)}, y.Type.Shape...)), c.numHeads("num_heads"))
	return h.attendPacked(c.In(3), c.In(4), c.Opt(5))
}

func lowerPackedMultiHeadAttention(c *context) []*ir.Value {
	tokens := func(x *ir.Value) *ir.Value {
		if x == nil {
			return nil
		}
		return c.reshape(x, append(ir.Shape{ir.N(1)}, x.Type.Shape...))
	}
	h := c.newHeads()
	h.operands(tokens(c.In(0)), tokens(c.Opt(1)), tokens(c.Opt(2)), c.Opt(3), c.numHeads("num_heads"))
	return h.attendPacked(c.In(4), c.In(5), c.Opt(6))
}

// lowerRelativePositionBias is T5's: the distance of key and query falls into a bucket, half of which are single distances
// and the others grow up to max_distance (arXiv 1910.10683). The table is stored by columns: [buckets,heads] by its shape,
// [heads,buckets] in memory.
func lowerRelativePositionBias(c *context) []*ir.Value {
	table := c.In(0)
	if rank(table) != 2 {
		c.Failf("bias_table %v has not two axes", table.Type)
	}
	atRun := ir.TensorOf(table.Type.DType, ir.N(1), table.Type.Shape[1], c.Fresh(0), c.Fresh(1))
	all, known := table.Type.Shape[0].Const()
	if !known {
		return c.AtRun(atRun)
	}
	far := c.AttrInt("max_distance", 0)
	both := c.AttrBool("is_bidirectional", false)
	buckets := all
	if both {
		buckets /= 2
	}
	exact := buckets / 2
	if exact < 1 || far <= exact {
		c.Failf("max_distance = %d with %v buckets: want more than the buckets for exact distances", far, table.Type.Shape[0])
	}
	for _, i := range []int{1, 2} {
		if c.In(i).Dims == nil && !c.IsConst(i) {
			return c.AtRun(atRun)
		}
	}
	S, T := c.Dims(1)[0], c.Dims(2)[0]
	i64 := func(n int) *ir.Value { return c.Constant(tensor.Scalar(int64(n))) }
	f32 := func(x float64) *ir.Value { return c.Scalar(tensor.F32, x) }
	distance := c.binary(ir.Sub, c.count(T, 1, 2), c.count(S, 0, 2)) // [S,T]
	var bucket *ir.Value
	if both {
		ahead := c.Emit(ir.Where{}, c.binary(ir.Greater, distance, i64(0)), i64(buckets), i64(0))
		distance, bucket = c.unary(ir.Abs, distance), ahead
	} else {
		distance, bucket = c.unary(ir.Neg, c.binary(ir.MinFn, distance, i64(0))), i64(0)
	}
	ratio := c.binary(ir.Div, c.cast(c.binary(ir.MaxFn, distance, i64(1)), tensor.F32), f32(float64(exact)))
	steps := c.binary(ir.Mul, c.binary(ir.Div, c.unary(ir.Log, ratio), f32(math.Log(float64(far)/float64(exact)))),
		f32(float64(buckets-exact)))
	large := c.binary(ir.MinFn, c.binary(ir.Add, c.cast(steps, tensor.I64), i64(exact)), i64(buckets-1))
	bucket = c.binary(ir.Add, bucket, c.Emit(ir.Where{}, c.binary(ir.Less, distance, i64(exact)), distance, large))
	byHead := c.reshape(table, ir.Shape{table.Type.Shape[1], table.Type.Shape[0]})
	y := c.Emit(ir.Gather{Axis: 1}, byHead, bucket)
	return []*ir.Value{c.reshape(y, append(ir.Shape{ir.N(1)}, y.Type.Shape...))}
}

// lowerGatedRelativePositionBias scales a bias of positions by gates that follow from the queries (WavLM, arXiv 2110.13900).
func lowerGatedRelativePositionBias(c *context) []*ir.Value {
	q, bias, w := c.In(0), c.In(1), c.In(3)
	q = c.binary(ir.Add, q, bias)
	if offset := c.Opt(6); offset != nil {
		q = c.restore(q, offset)
	}
	gates := c.Emit(ir.MatMul{}, c.swapHeads(c.split(q, c.numHeads("num_heads"))), w, c.In(4)) // [B,H,S,D]
	s := gates.Type.Shape
	sum := c.Emit(ir.Reduce{Fn: ir.Sum, Axes: []int{4}}, c.reshape(gates, ir.Shape{s[0], s[1], s[2], ir.N(2), s[3].Div(ir.N(2))}))
	gate := c.unary(ir.Sigmoid, sum)
	u, r := c.slice(gate, 3, ir.N(0), ir.N(1)), c.slice(gate, 3, ir.N(1), ir.N(1))
	r = c.binary(ir.Sub, c.binary(ir.Mul, r, c.In(5)), c.like(r, 1))
	return []*ir.Value{c.binary(ir.Mul, c.binary(ir.Add, c.binary(ir.Mul, u, r), c.like(u, 2)), c.In(2))}
}
