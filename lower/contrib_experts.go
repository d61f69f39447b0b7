package lower

import (
	"math"

	"github.com/rlxc/rlxc/internal/ops"
	"github.com/rlxc/rlxc/ir"
	"github.com/rlxc/rlxc/tensor"
)

// Mixtures of experts. Every expert computes all tokens, and those that it was not chosen for take nothing of it: products with constant
// weights are what kernels are made for, and the other way, weights that are gathered for each token, reads as much in all but the
// smallest batches.

// experts is a MoE or a QMoE on its way.
type experts struct {
	*context
	x       *ir.Value // [T,K]
	weights *ir.Value // [T,E]
	chosen  *ir.Value // bool [T,E]
	n       int       // experts
	layer   func(e, i int, x *ir.Value) *ir.Value
}

// lowerMoE takes weights as they are.
func lowerMoE(c *context) []*ir.Value {
	m := c.experts()
	m.route(nil, c.AttrBool("normalize_routing_weights", false))
	m.layer = func(e, i int, x *ir.Value) *ir.Value {
		at := 2 + 2*i
		return m.plus(m.Emit(ir.MatMul{TransB: true}, x, m.of(m.matrix(at), e)), e, at+1)
	}
	return m.mix(func(i int) bool { return c.Opt(2+2*i) != nil })
}

// lowerQMoE takes weights of 2, 4 or 8 bits, with a scale for each row or for blocks of it.
func lowerQMoE(c *context) []*ir.Value {
	if q := c.AttrString("quant_type", "int"); q != "int" {
		c.Unsupportedf("quant_type = %s: weights in floats of 4 or 8 bits", q)
	}
	c.IgnoreAttr("weights_prepacked", "accuracy_level") // of CPUs the layout is always the same; and the level allows rounding
	m := c.experts()
	m.route(c.Opt(14), c.AttrBool("normalize_routing_weights", false) || c.Opt(14) == nil)
	all, block := c.AttrInt("expert_weight_bits", 4), c.AttrInt("block_size", 0)
	if block != 0 && (block < 16 || block&(block-1) != 0) {
		c.Failf("block_size = %d is not a power of two from 16 on", block)
	}
	var bits [3]int
	for i, name := range []string{"fc1_expert_weight_bits", "fc2_expert_weight_bits", "fc3_expert_weight_bits"} {
		bits[i] = c.AttrInt(name, all)
	}
	m.layer = func(e, i int, x *ir.Value) *ir.Value {
		at := 2 + 3*i
		w, scale := m.unpack(m.of(m.matrix(at), e), bits[i], ir.Dim{}), m.of(m.In(at+1), e)
		var zero *ir.Value
		if z := m.Opt(11 + i); z != nil {
			zero = m.unpack(m.of(z, e), bits[i], scale.Type.Shape[rank(scale)-1])
		} else {
			zero = m.centre(w.Type.DType, bits[i], scale)
		}
		s := scaling{scale: scale, zero: zero}
		if block > 0 {
			s.axis, s.block = 1, block
		}
		w = m.dequantize(w, s, scale.Type.DType)
		return m.plus(m.Emit(ir.MatMul{TransB: true}, x, m.cast(w, x.Type.DType)), e, at+2)
	}
	return m.mix(func(i int) bool { return c.Opt(2+3*i) != nil })
}

func (c *context) experts() *experts {
	x, router := c.In(0), c.In(1)
	if r := rank(x); r != 2 && r != 3 || rank(router) != 2 {
		c.Failf("input %v and router_probs %v: want two or three axes, and two", x.Type, router.Type)
	}
	c.IgnoreAttr("use_sparse_mixer") // as onnxruntime's CPU provider does
	m := &experts{context: c}
	var known bool
	if m.n, known = router.Type.Shape[1].Const(); !known {
		panic(needsRun{1})
	}
	if m.n < 1 {
		c.Failf("router_probs %v of no experts", router.Type)
	}
	width := x.Type.Shape[rank(x)-1]
	m.x = c.reshape(x, ir.Shape{router.Type.Shape[0], width})
	return m
}

// matrix is operand i, which holds a matrix for each expert.
func (m *experts) matrix(i int) *ir.Value {
	v := m.In(i)
	if rank(v) != 3 || ir.Same(v.Type.Shape[0], ir.N(m.n)) == ir.No {
		m.Failf("operand %d is %v for %d experts", i, v.Type, m.n)
	}
	return v
}

// of is the part of v that belongs to expert e. Constants stay constants, and take no more memory.
func (m *experts) of(v *ir.Value, e int) *ir.Value {
	if rank(v) < 2 || ir.Same(v.Type.Shape[0], ir.N(m.n)) == ir.No {
		m.Failf("%v is not for %d experts", v.Type, m.n)
	}
	if w := m.weight(v); w.Const != nil {
		all := w.Const.Bytes()
		size := len(all) / m.n
		if t, err := tensor.FromBytes(w.Const.DType(), w.Const.Shape()[1:], all[e*size:][:size]); err == nil {
			return m.b.g.NewConst(v.Name, t)
		}
	}
	return m.reshape(m.slice(v, 0, ir.N(e), ir.N(1)), v.Type.Shape[1:])
}

// plus adds the bias of expert e that operand i holds, if there is one.
func (m *experts) plus(y *ir.Value, e, i int) *ir.Value {
	if m.Opt(i) == nil {
		return y
	}
	return m.within(y, m.binary(ir.Add, y, m.of(m.In(i), e)))
}

// route chooses k experts for each token, and weighs them by the softmax of the router's numbers, over all experts or, normalised, over
// the chosen ones, or by separate numbers.
func (m *experts) route(own *ir.Value, normalised bool) {
	router, k := m.In(1), m.AttrInt("k", 1)
	if k < 1 || k > m.n {
		m.Failf("k = %d of %d experts: want at least one and at most all", k, m.n)
	}
	m.chosen = m.chosenOf(router, k)
	switch {
	case own != nil:
		m.weights = m.Emit(ir.Where{}, m.chosen, own, m.like(own, 0))
		if normalised {
			m.weights = m.binary(ir.Div, m.weights, m.Emit(ir.Reduce{Fn: ir.Sum, Axes: []int{1}, KeepDims: true}, m.weights))
		}
	case normalised:
		m.weights = m.softmax(m.Emit(ir.Where{}, m.chosen, router, m.like(router, math.Inf(-1))), 1)
	default:
		m.weights = m.softmax(router, 1)
	}
}

// maxExpertNodes bounds the nodes that one expert becomes.
const maxExpertNodes = 40

// mix adds up what the experts make of the tokens; has reports whether layer i is there.
func (m *experts) mix(has func(i int) bool) []*ir.Value {
	if m.b.nodes += maxExpertNodes * m.n; m.b.nodes > maxNodes {
		m.Failf("more than %d nodes with those of %d experts", maxNodes, m.n)
	}
	activate := m.activation(has(2))
	var sum *ir.Value
	for e := range m.n {
		y := m.layer(e, 1, activate(e, m.layer(e, 0, m.x)))
		column := func(v *ir.Value) *ir.Value { return m.slice(v, 1, ir.N(e), ir.N(1)) }
		y = m.Emit(ir.Where{}, column(m.chosen), m.binary(ir.Mul, y, column(m.weights)), m.like(y, 0))
		if sum == nil {
			sum = y
		} else {
			sum = m.binary(ir.Add, sum, y)
		}
	}
	return []*ir.Value{m.reshape(sum, m.In(0).Type.Shape)}
}

// activation returns what is between the layers of expert e.
func (m *experts) activation(third bool) func(e int, y *ir.Value) *ir.Value {
	name, fusion := m.AttrString("activation_type", "relu"), m.choice("swiglu_fusion", 3)
	alpha, beta, limit := m.AttrFloat("activation_alpha", 1), m.AttrFloat("activation_beta", 0), m.AttrFloat("swiglu_limit", 0)
	if m.AttrBool("swiglu_limit_after_activation", false) {
		m.Unsupportedf("swiglu_limit_after_activation = 1, which onnxruntime has on CUDA alone")
	}
	limited := m.HasAttr("swiglu_limit") && !math.IsInf(float64(limit), 1)
	if third != (name == "swiglu" && fusion == 0) {
		m.Unsupportedf("activation_type = %s with swiglu_fusion = %d and a third layer: %v", name, fusion, third)
	}
	if op, ok := map[string]ir.Unary{"relu": {Fn: ir.Relu}, "gelu": {Fn: ir.GeluTanh}, "silu": {Fn: ir.Silu, Alpha: 1}}[name]; ok {
		return func(_ int, y *ir.Value) *ir.Value { return m.Emit(op, y) }
	}
	switch name {
	case "identity":
		return func(_ int, y *ir.Value) *ir.Value { return y }
	case "swiglu":
	default:
		m.Failf("activation_type = %q is not relu, gelu, silu, swiglu or identity", name)
	}
	return func(e int, y *ir.Value) *ir.Value {
		gate, linear := m.gates(e, y, fusion)
		if limited {
			high := m.like(y, float64(limit))
			gate = m.binary(ir.MinFn, gate, high)
			linear = m.Emit(ir.Clip{}, linear, m.like(y, -float64(limit)), high)
		}
		if beta != 0 {
			linear = m.binary(ir.Add, linear, m.like(y, float64(beta)))
		}
		return m.binary(ir.Mul, m.Emit(ir.Unary{Fn: ir.Silu, Alpha: alpha}, gate), linear)
	}
}

// gates returns the two factors of SwiGLU: they alternate in what the first layer returns, one is after the other, or the third layer
// returns the second.
func (m *experts) gates(e int, y *ir.Value, fusion int) (gate, linear *ir.Value) {
	if fusion == 0 {
		return y, m.layer(e, 2, m.x)
	}
	s := y.Type.Shape
	half := s[1].Div(ir.N(2))
	if ir.Same(half.Mul(ir.N(2)), s[1]) == ir.No {
		m.Failf("%v columns have no two halves", s[1])
	}
	if fusion == 2 {
		return m.slice(y, 1, ir.N(0), half), m.slice(y, 1, half, half)
	}
	every := func(from int) *ir.Value {
		return m.Emit(ir.Slice{Starts: ir.Dims(0, from), Sizes: []ir.Dim{s[0], half}, Steps: []int{1, 2}}, y)
	}
	return every(0), every(1)
}

// maxGroupExperts is the number of experts up to which onnxruntime returns the scores of all.
const maxGroupExperts = 512

// lowerMoEGroupRouter scores the experts of each token by the sigmoid of the router's numbers. It returns the logarithms of the scores of
// the chosen experts. A token chooses the topk_group groups of experts with the largest sum of the group_topk best scores plus their
// biases, and in these groups the top_k experts with the largest scores plus biases. Or it returns all scores, with and without biases.
func lowerMoEGroupRouter(c *context) []*ir.Value {
	logits, bias, projection := c.In(0), c.In(1), c.Opt(2)
	k, groups, chosen, best := c.AttrInt("top_k", 0), c.AttrInt("n_group", 1), c.AttrInt("topk_group", 1), c.AttrInt("group_topk", 2)
	sentinel := c.AttrFloat("router_sentinel", -1e4)
	all := c.Wants(1) || c.Wants(2)
	if rank(logits) < 1 || rank(bias) != 1 {
		c.Failf("logits %v and expert_bias %v: want at least one axis, and one", logits.Type, bias.Type)
	}
	n, known := bias.Type.Shape[0].Const()
	if !known {
		panic(needsRun{1})
	}
	width := logits.Type.Shape[rank(logits)-1]
	tokens := ir.Shape(logits.Type.Shape[:rank(logits)-1]).Elements()
	x := c.float32(c.reshape(logits, ir.Shape{tokens, width}))
	switch {
	case k < 1 || groups < 1 || chosen < 1 || best < 1:
		c.Failf("top_k = %d, n_group = %d, topk_group = %d, group_topk = %d: want positive numbers", k, groups, chosen, best)
	case n < 1 || n%groups != 0 || chosen > groups || k > n/groups*chosen:
		c.Failf("%d experts in n_group = %d groups, of which topk_group = %d have top_k = %d experts", n, groups, chosen, k)
	case all && (c.Wants(0) || !c.Wants(1) || !c.Wants(2) || groups > 1 || n > maxGroupExperts):
		c.Failf("selection_scores and router_weights come together, without router_probs, and for at most %d experts in one group",
			maxGroupExperts)
	case projection != nil && !all:
		c.Failf("projection_weight is for selection_scores and router_weights")
	case projection != nil:
		x = c.Emit(ir.MatMul{TransB: true}, x, c.float32(projection))
	}
	if ir.Same(x.Type.Shape[1], ir.N(n)) == ir.No {
		c.Failf("%v for %d experts", x.Type, n)
	}
	scores := c.unary(ir.Sigmoid, x)
	biased := c.binary(ir.Add, scores, bias)
	if all {
		return []*ir.Value{nil, biased, scores}
	}
	if groups > 1 {
		grouped := c.reshape(biased, ir.Shape{tokens, ir.N(groups), ir.N(n / groups)})
		top := c.opaque(ops.TopK{Axis: 2, K: ir.N(min(best, n/groups))}, grouped)[0]
		sums := c.Emit(ir.Reduce{Fn: ir.Sum, Axes: []int{2}}, top)
		in := c.reshape(c.chosenOf(sums, chosen), ir.Shape{tokens, ir.N(groups), ir.N(1)})
		biased = c.reshape(c.Emit(ir.Where{}, in, grouped, c.like(grouped, math.Inf(-1))), biased.Type.Shape)
	}
	// log σ(x) = −log(1+exp(−x)), which keeps the digits that σ(x) loses far below 0
	logs := c.binary(ir.MaxFn, c.unary(ir.Neg, c.unary(ir.Softplus, c.unary(ir.Neg, x))), c.like(x, math.Log(1e-20)))
	return []*ir.Value{c.cast(c.Emit(ir.Where{}, c.chosenOf(biased, k), logs, c.like(logs, float64(sentinel))), logits.Type.DType)}
}

// chosenOf reports for each number of a row whether it is among the k largest: bool, in the shape of x [rows,n].
func (c *context) chosenOf(x *ir.Value, k int) *ir.Value {
	top := c.opaque(ops.TopK{Axis: 1, K: ir.N(k)}, x)[1]
	zeros, ones := c.expand(c.like(x, 0), x.Type.Shape), c.expand(c.like(x, 1), top.Type.Shape)
	return c.binary(ir.Equal, c.Emit(ir.ScatterElements{Axis: 1}, zeros, top, ones), c.like(x, 1))
}
