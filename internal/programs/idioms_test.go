package programs

import (
	"math"
	"slices"

	"github.com/rlxc/rlxc/tensor"
)

// What rules fuse, as exporters write it, and nearly so: now and then a number or an axis is another one.

// number is a constant of a type, of rank 0 or 1.
func (n *generator) number(d tensor.DType, x float64) *value {
	if n.IntN(25) == 0 {
		x = []float64{0, -x, x / 2, 1, -1e4, 41, 1e-40}[n.IntN(7)]
	}
	t := tensor.New(d, [][]int{{}, {1}}[n.IntN(2)]...)
	t.SetFloat64(0, x)
	return n.constant(t)
}

func (n *generator) f32(fits func(*value) bool) *value {
	return n.operand("MatMul", []tensor.DType{tensor.F32}, fits)
}

// either puts two operands of a commutative operator in any order.
func (n *generator) either(op string, x, y *value) *value {
	if n.IntN(2) == 0 {
		x, y = y, x
	}
	if x == nil || y == nil {
		return nil
	}
	return n.node(op, []*value{x, y})
}

// lowest is what masks add where nothing shall be seen.
func (n *generator) lowest() float64 {
	return []float64{-10000, -math.MaxFloat32, math.Inf(-1), -1e9, -10}[n.weighted([]int{3, 3, 3, 2, 1})]
}

// unmasked is (1 − mask)·lowest of what the tokenizer returned.
func (n *generator) unmasked(mask *value, lowest float64) *value {
	if math.IsInf(lowest, 0) {
		lowest = -10000
	}
	wide := n.withAxes("Unsqueeze", mask, []int{1, 2})
	if wide == nil {
		return nil
	}
	real := n.node("Cast", []*value{wide}, attr{"to", int(tensor.F32)})
	if real == nil {
		return nil
	}
	return n.either("Mul", n.node("Sub", []*value{n.number(tensor.F32, 1), real}), n.number(tensor.F32, lowest))
}

// mask is an additive mask of scores [batch, heads, from, to] in one of the forms that models have.
func (n *generator) mask(batch, from, to int) *value {
	lowest := n.lowest()
	switch n.IntN(5) {
	case 0:
		return n.unmasked(n.input(n.draw(tensor.I64, []int{batch, to}, style{kind: keeps}), style{kind: keeps}), lowest)
	case 1: // an input that is added as it is
		t := n.draw(tensor.F32, []int{batch, 1, from, to}, style{kind: keeps})
		for i := range t.Len() {
			if t.Float64(i) == 0 {
				t.SetFloat64(i, lowest)
			} else {
				t.SetFloat64(i, 0)
			}
		}
		return n.input(t, style{kind: reals})
	case 2: // a triangle
		if n.opset < 14 {
			return nil
		}
		t := tensor.New(tensor.F32, from, to)
		for i := range t.Len() {
			t.SetFloat64(i, lowest)
		}
		return n.node("Trilu", []*value{n.constant(t), n.constant(tensor.Scalar(int64(1)))}, attr{"upper", 1})
	case 3: // chosen by truths
		if n.opset < 16 {
			return nil
		}
		keep := n.input(n.draw(tensor.Bool, []int{batch, 1, 1, to}, style{}), style{})
		return n.node("Where", []*value{keep, n.number(tensor.F32, 0), n.number(tensor.F32, lowest)})
	}
	return n.leaf(tensor.F32, n.partOf([]int{batch, 1, from, to}))
}

// attention is softmax(q·kᵀ·scale + mask)·v by its parts.
func attention(n *generator) {
	batch, heads, from, size := 1+n.IntN(2), 1+n.IntN(3), 1+n.IntN(6), []int{1, 2, 4, 8}[n.IntN(4)]
	to := from
	if n.IntN(3) == 0 {
		to = 1 + n.IntN(17)
	}
	head := func(tokens int) *value { // [batch, heads, tokens, size], as projections make it
		if n.IntN(3) == 0 {
			return n.leaf(tensor.F32, []int{batch, heads, tokens, size})
		}
		x := n.leaf(tensor.F32, []int{batch, tokens, heads * size})
		if x == nil {
			return nil
		}
		if n.IntN(2) == 0 {
			x = n.matmulOf(x, heads*size)
		}
		if x == nil || x.rank() != 3 || x.shape()[2] != heads*size || x.shape()[0] != batch {
			return nil
		}
		y := n.node("Reshape", []*value{x, n.whole(0, []int{tokens, -1, 0}[n.IntN(3)], heads, size)})
		return n.node("Transpose", []*value{y}, attr{"perm", []int{0, 2, 1, 3}})
	}
	q, k, v := head(from), head(to), head(to)
	if q == nil || k == nil || v == nil {
		return
	}
	scale := math.Sqrt(float64(size))
	before := n.IntN(3)
	if before == 0 {
		q = n.node("Div", []*value{q, n.number(tensor.F32, scale)})
	}
	kt := n.node("Transpose", []*value{k}, attr{"perm", []int{0, 1, 3, 2}})
	if q == nil || kt == nil {
		return
	}
	scores := n.node("MatMul", []*value{q, kt})
	if scores != nil && before == 1 {
		scores = n.either("Mul", scores, n.number(tensor.F32, 1/scale))
	} else if scores != nil && before == 2 {
		scores = n.node("Div", []*value{scores, n.number(tensor.F32, scale)})
	}
	if scores == nil {
		return
	}
	switch n.IntN(4) {
	case 0:
	case 1: // filled where a mask says so
		if n.opset >= 9 {
			c := n.condition([]int{batch, 1, from, to})
			if c != nil {
				scores = n.node("Where", []*value{c,
					n.number(tensor.F32, []float64{-10000, math.Inf(-1), -math.MaxFloat32, -10}[n.IntN(4)]), scores})
			}
		}
	default:
		if m := n.mask(batch, from, to); m != nil && broadcasts(m.shape(), scores.shape(), true) {
			scores = n.either("Add", scores, m)
		}
	}
	if scores == nil {
		return
	}
	axis := scores.rank() - 1
	if n.opset >= 13 && n.IntN(2) == 0 {
		axis = -1
	}
	weights := n.node("Softmax", []*value{scores}, attr{"axis", axis})
	if weights == nil || weights.shape()[weights.rank()-1] != to {
		return
	}
	y := n.node("MatMul", []*value{weights, v})
	if y == nil || y.rank() != 4 || n.IntN(3) == 0 {
		return
	}
	if y = n.node("Transpose", []*value{y}, attr{"perm", []int{0, 2, 1, 3}}); y != nil {
		n.node("Reshape", []*value{y, n.whole(0, 0, heads*size)})
	}
}

// A decoder's step is of one token, or of a few, behind a cache; heads may share their keys.
type decoder struct{ batch, heads, groups, from, past, size int }

var decoders = []func(*generator){attentionOp, attentionOp, decoderStep, groupQueryAttention}

func (n *generator) decoder() decoder {
	d := decoder{1 + n.IntN(2), 1 + n.IntN(3), 1 + n.IntN(2), 1, []int{1, 3, 7, 16, 20}[n.IntN(5)], []int{2, 4, 6, 8, 16}[n.IntN(5)]}
	if d.heads *= d.groups; n.IntN(3) == 0 {
		d.from += n.IntN(5)
	}
	return d
}

// attentionOp is ONNX's own operator, after a cache or without.
func attentionOp(n *generator) {
	if n.opset < 23 {
		return
	}
	d, cached := n.decoder(), n.IntN(3) > 0
	keys, to := d.from, d.from+d.past
	if !cached {
		keys = 1 + n.IntN(9)
		to = keys
	}
	kv := func(length int) *value { return n.leaf(tensor.F32, []int{d.batch, d.groups, length, d.size}) }
	in := make([]*value, 6)
	in[0], in[1], in[2] = n.leaf(tensor.F32, []int{d.batch, d.heads, d.from, d.size}), kv(keys), kv(keys)
	switch n.IntN(4) {
	case 0:
		in[3] = n.leafOf(tensor.Bool, []int{d.from, to}, style{})
	case 1:
		in[3] = n.leafOf(tensor.F32, []int{d.batch, 1, d.from, to}, style{kind: reals})
	}
	results := 1
	if cached {
		in[4], in[5] = kv(d.past), kv(d.past)
		results = 3
	}
	attrs := []attr{{"is_causal", min(1, n.IntN(3))}, {"left_window_size", n.IntN(8) - 1}, {"right_window_size", n.IntN(4) - 1}}
	n.nodes("Attention", results, in, attrs[:1+2*n.IntN(2)]...)
}

// sizeOf is a size of a value, of one element.
func (n *generator) sizeOf(x *value, axis int) *value {
	return n.node("Gather", []*value{n.node("Shape", []*value{x}), n.whole(axis)}, attr{"axis", 0})
}

// countTo is the numbers from low, 0 if nil, to high, which have one element.
func (n *generator) countTo(low, high *value) *value {
	zero := n.constant(tensor.Scalar(int64(0)))
	if low != nil {
		zero = n.node("Squeeze", []*value{low})
	}
	return n.node("Range", []*value{zero, n.node("Squeeze", []*value{high}), n.constant(tensor.Scalar(int64(1)))})
}

// decoderStep is attention by parts: keys and values are put behind the cache and repeated for the heads that share them. Padding in
// front of texts, and what is outside a window or comes later, is masked.
func decoderStep(n *generator) {
	if n.opset < 13 {
		return
	}
	d := n.decoder()
	leaf := func(heads, length int) *value { return n.leaf(tensor.F32, []int{d.batch, heads, length, d.size}) }
	grown := func() *value {
		x := n.node("Concat", []*value{leaf(d.groups, d.past), leaf(d.groups, d.from)}, attr{"axis", 2})
		if x == nil || d.heads == d.groups {
			return x
		}
		x = n.node("Expand", []*value{n.withAxes("Unsqueeze", x, []int{2}), n.whole(1, 1, d.heads/d.groups, 1, 1)})
		return n.node("Reshape", []*value{x, n.whole(0, d.heads, -1, d.size)})
	}
	q, k, v := leaf(d.heads, d.from), grown(), grown()
	if q == nil || k == nil || v == nil {
		return
	}
	scores := n.node("MatMul", []*value{q, n.node("Transpose", []*value{k}, attr{"perm", []int{0, 1, 3, 2}})})
	scores = n.either("Mul", scores, n.number(tensor.F32, 1/math.Sqrt(float64(d.size))))
	if n.IntN(3) > 0 { // of what the tokenizer returned
		t := tensor.New(tensor.I64, d.batch, d.from+d.past)
		for b := range d.batch {
			for i := n.IntN(d.past + 1); i < d.from+d.past; i++ {
				t.SetInt64(b*(d.from+d.past)+i, 1)
			}
		}
		scores = n.either("Add", scores, n.unmasked(n.input(t, style{kind: keeps}), n.lowest()))
	}
	if n.IntN(3) > 0 && n.opset >= 16 {
		to := n.sizeOf(k, 2)
		key, query := n.countTo(nil, to), n.countTo(n.node("Sub", []*value{to, n.sizeOf(q, 2)}), to)
		behind := n.node("Sub", []*value{n.withAxes("Unsqueeze", query, []int{1}), key})
		hidden := n.node("Less", []*value{behind, n.whole(0)})
		if n.IntN(3) > 0 {
			hidden = n.either("Or", hidden, n.node("GreaterOrEqual", []*value{behind, n.whole([]int{1, 2, 4, 9}[n.IntN(4)])}))
		}
		scores = n.either("Add", scores, n.node("Where", []*value{hidden, n.number(tensor.F32, n.lowest()), n.number(tensor.F32, 0)}))
	}
	if y := n.node("MatMul", []*value{n.node("Softmax", []*value{scores}, attr{"axis", -1}), v}); y != nil {
		n.node("Transpose", []*value{y}, attr{"perm", []int{0, 2, 1, 3}})
	}
}

// groupQueryAttention is a step by onnxruntime's operator. Lengths come from sizes, so that any sizes agree.
func groupQueryAttention(n *generator) {
	if n.opset < 13 {
		return
	}
	d := n.decoder()
	cache := func() *value { return n.leaf(tensor.F32, []int{d.batch, d.groups, d.past, d.size}) }
	kv := func() *value { return n.leaf(tensor.F32, []int{d.batch, d.from, d.groups * d.size}) }
	q, k, v, keys, values := n.leaf(tensor.F32, []int{d.batch, d.from, d.heads * d.size}), kv(), kv(), cache(), cache()
	if q == nil || keys == nil {
		return
	}
	whole := func(x *value) *value { return n.node("Cast", []*value{x}, attr{"to", int(tensor.I32)}) }
	total := n.node("Add", []*value{n.sizeOf(q, 1), n.sizeOf(keys, 2)})
	last := n.node("Expand", []*value{n.node("Sub", []*value{total, n.whole(1)}), n.sizeOf(q, 0)})
	n.nodes("com.microsoft.GroupQueryAttention", 3, []*value{q, k, v, keys, values, whole(last), whole(n.node("Squeeze", []*value{total}))},
		attr{"num_heads", d.heads}, attr{"kv_num_heads", d.groups}, attr{"local_window_size", []int{-1, 1, 2, 4, 9}[n.IntN(5)]})
}

// gelu is x·(1 + erf(x/√2))/2 in its spellings.
func gelu(n *generator) {
	x := n.f32(nil)
	if x == nil || n.opset < 9 {
		return
	}
	var inner *value
	if n.IntN(2) == 0 {
		inner = n.node("Div", []*value{x, n.number(tensor.F32, math.Sqrt2)})
	} else {
		inner = n.either("Mul", x, n.number(tensor.F32, 1/math.Sqrt2))
	}
	if inner == nil {
		return
	}
	one := n.either("Add", n.node("Erf", []*value{inner}), n.number(tensor.F32, 1))
	half := n.number(tensor.F32, 0.5)
	switch n.IntN(3) {
	case 0:
		n.either("Mul", n.either("Mul", x, one), half)
	case 1:
		n.either("Mul", n.either("Mul", x, half), one)
	default:
		n.either("Mul", x, n.either("Mul", one, half))
	}
}

// norm is LayerNorm, or without its mean, by parts.
func norm(n *generator) {
	x := n.f32(atLeast(1))
	if x == nil {
		return
	}
	axis := []int{x.rank() - 1}
	if n.IntN(12) == 0 {
		axis = []int{n.IntN(x.rank())}
	}
	d := x
	if n.IntN(4) > 0 {
		mean := n.reduce("ReduceMean", x, axis, 1)
		if mean == nil {
			return
		}
		d = n.node("Sub", []*value{x, mean})
	}
	if d == nil {
		return
	}
	var square *value
	if n.IntN(2) == 0 {
		square = n.node("Pow", []*value{d, n.number(tensor.F32, 2)})
	} else {
		square = n.node("Mul", []*value{d, d})
	}
	if n.IntN(15) == 0 {
		axis = []int{n.IntN(x.rank())}
	}
	if square == nil {
		return
	}
	variance := n.reduce("ReduceMean", square, axis, 1)
	if variance == nil {
		return
	}
	root := n.node("Sqrt", []*value{n.either("Add", variance, n.number(tensor.F32, 1e-3))})
	if root == nil {
		return
	}
	y := n.node("Div", []*value{d, root})
	columns := []int{x.shape()[x.rank()-1]}
	if y != nil && n.IntN(4) > 0 {
		if y = n.either("Mul", y, n.leaf(tensor.F32, columns)); y != nil && n.IntN(4) > 0 {
			n.either("Add", y, n.leaf(tensor.F32, columns))
		}
	}
}

// rotary turns halves of heads.
func rotary(n *generator) {
	if n.opset < 13 {
		return
	}
	batch, heads, tokens, size := 1+n.IntN(2), 1+n.IntN(2), 1+n.IntN(4), 2+2*n.IntN(3)
	x := n.leaf(tensor.F32, []int{batch, heads, tokens, size})
	if x == nil {
		return
	}
	part := func(from, to int) *value { return n.node("Slice", []*value{x, n.whole(from), n.whole(to), n.whole(3)}) }
	end := math.MaxInt32
	if n.IntN(10) == 0 {
		end = size - 1
	}
	low, high := part(0, size/2), part(size/2, end)
	if low == nil || high == nil {
		return
	}
	turned := n.node("Concat", []*value{n.node("Neg", []*value{high}), low}, attr{"axis", 3})
	if turned == nil || turned.shape()[3] != size {
		return
	}
	angles := func() *value { return n.leaf(tensor.F32, [][]int{{1, 1, tokens, size}, {tokens, size}}[n.IntN(2)]) }
	n.either("Add", n.either("Mul", x, angles()), n.either("Mul", turned, angles()))
}

// divided is a quotient by a constant, or a product, in front of what has a step.
func divided(n *generator) {
	d := []tensor.DType{tensor.F32, tensor.F32, tensor.F16}[n.IntN(3)]
	c := tensor.New(d)
	c.SetFloat64(0, []float64{41, 3, 0.1, 7, 2, 1e-40, 49, 100}[n.IntN(8)])
	x := n.leafOf(d, n.size(1+n.IntN(2)), style{kind: wholes, lo: -200, hi: 400})
	if x == nil {
		return
	}
	y := n.node([]string{"Div", "Div", "Mul"}[n.IntN(3)], []*value{x, n.constant(c)})
	if y == nil {
		return
	}
	if n.IntN(3) == 0 {
		y = n.node("Mul", []*value{y, n.number(d, []float64{41, 3, 7, 10}[n.IntN(4)])})
	}
	if y == nil {
		return
	}
	switch op := []string{"Floor", "Ceil", "Round", "Cast", "Sign", ""}[n.IntN(6)]; op {
	case "Cast":
		n.node("Cast", []*value{y}, attr{"to", int([]tensor.DType{tensor.I64, tensor.I32, tensor.I8}[n.IntN(3)])})
	case "":
	default:
		if len(n.types(op, 0, []tensor.DType{d})) > 0 {
			n.node(op, []*value{y})
		}
	}
}

// embedding adds up rows of tables and normalises them.
func embedding(n *generator) {
	batch, tokens, width := 1+n.IntN(2), 1+n.IntN(6), []int{1, 4, 8, 17}[n.IntN(4)]
	rows := 2 + n.IntN(9)
	words := n.node("Gather", []*value{n.leaf(tensor.F32, []int{rows, width}), n.index(rows, []int{batch, tokens})}, attr{"axis", 0})
	if words == nil {
		return
	}
	places := n.leaf(tensor.F32, []int{tokens + n.IntN(3), width})
	if places == nil || n.opset < 13 {
		return
	}
	at := n.node("Slice", []*value{places, n.whole(0), n.whole(tokens), n.whole(0)})
	y := n.either("Add", words, at)
	if y != nil && n.opset >= 17 {
		n.node("LayerNormalization", []*value{y, n.leaf(tensor.F32, []int{width}), n.leaf(tensor.F32, []int{width})}, attr{"epsilon", 1e-3})
	}
}

// causal compares positions, as exporters make triangles of any size.
func causal(n *generator) {
	if n.opset < 13 {
		return
	}
	x := n.f32(func(v *value) bool { return atLeast(2)(v) })
	if x == nil {
		return
	}
	s := n.node("Shape", []*value{x})
	if s == nil {
		return
	}
	zero, one := n.constant(tensor.Scalar(int64(0))), n.constant(tensor.Scalar(int64(1)))
	at := func(axis int) *value {
		size := n.node("Gather", []*value{s, n.constant(tensor.Scalar(int64(axis)))}, attr{"axis", 0})
		if size == nil {
			return nil
		}
		return n.node("Range", []*value{zero, size, one})
	}
	from, to := at(x.rank()-2), at(x.rank()-1)
	if from == nil || to == nil {
		return
	}
	if n.IntN(3) == 0 {
		to = n.either("Add", to, n.whole(n.IntN(3)-1))
	}
	tall, wide := n.withAxes("Unsqueeze", from, []int{1}), n.withAxes("Unsqueeze", to, []int{0})
	if tall == nil || wide == nil {
		return
	}
	in := []*value{wide, tall}
	if n.IntN(5) == 0 {
		slices.Reverse(in)
	}
	op := []string{"Greater", "Less", "LessOrEqual", "GreaterOrEqual"}[n.IntN(4)]
	if len(n.types(op, 0, []tensor.DType{tensor.I64})) == 0 || n.opset < 16 {
		return
	}
	if above := n.node(op, in); above != nil {
		if y := n.node("Where", []*value{above, n.number(tensor.F32, []float64{math.Inf(-1), -1e4, -math.MaxFloat32, 0}[n.IntN(4)]),
			x}); y != nil && n.IntN(2) == 0 {
			n.node("Softmax", []*value{y}, attr{"axis", -1})
		}
	}
}
