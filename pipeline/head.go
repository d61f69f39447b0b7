package pipeline

import (
	"fmt"
	"math"
	"slices"

	"github.com/rlxc/rlxc/ir"
	"github.com/rlxc/rlxc/tensor"
)

// The head of a model is what its modules make of the vectors of tokens: layers for each token, the pooling, and layers for each text. Open
// appends it to the compiled program, so that it runs on the device and only its results come back:
//
//	last_hidden_state [batch,tokens,size] ─ Dense … ─► tokens [batch,tokens,n]
//	                                               └─ pooling ─ Dense, LayerNorm … ─► embedding [batch,n]
//
// A program without padding has the vectors of tokens as [1,tokens,size] before it restores the padding. There the head begins.
//
// Which tokens of a text a pooling takes is an input of the program, [batch,2]: the first token and the one after the last. So the prompt
// of a call and the padding do not count. What calls choose, the length of a vector and its scale, stays on the host: see embed.

// A pooler is how a Pooling makes a vector from the vectors of a text's tokens: their sum times a factor, or the largest numbers.
type pooler struct {
	// tokens returns the range of tokens that count, of n tokens of which the first skip belong to the prompt, 0 ≤ skip ≤ n. What is left
	// of nothing is as sentence-transformers has it.
	tokens func(n, skip int) (from, to int)
	scale  func(from, to int) float64 // the factor of the sum; nil for 1
	weigh  bool                       // the vector of token i, from 0, counts i+1 times
	most   bool                       // the largest number of each column instead of the sum
}

var poolers = map[Pooling]pooler{
	PoolCLS: {tokens: func(n, skip int) (from, to int) {
		if skip == n {
			skip = 0
		}
		return skip, min(skip+1, n)
	}},
	PoolLastToken: {tokens: func(n, skip int) (from, to int) { return max(n-1, skip), n }},
	PoolMax:       {tokens: allTokens, most: true},
	poolSum:       {tokens: allTokens},
	PoolMean:      {tokens: allTokens, scale: func(from, to int) float64 { return 1 / float64(max(to-from, 1)) }},
	PoolMeanSqrt:  {tokens: allTokens, scale: func(from, to int) float64 { return 1 / math.Sqrt(float64(max(to-from, 1))) }},
	PoolWeightedMean: {tokens: allTokens, weigh: true, scale: func(from, to int) float64 {
		return 2 / float64(max(to*(to+1)-from*(from+1), 1))
	}},
}

// pickedInput is the name of the input of picked tokens, i32 [batch,picks]: the tokens of each text whose logits are computed. These are
// the masks of a model that fills them, and the last token for a judge, which has one pick.
const pickedInput = "picked_tokens"

// picksSymbol is the number of picked tokens of a text, which all texts of a batch have in common. No file has a symbol of this name.
const picksSymbol = "picked tokens of a text"

// poolSum is the pooling of SPLADE models that add up weights. No file names it.
const poolSum Pooling = "sum"

func allTokens(n, skip int) (from, to int) { return skip, n }

// tokensInput and scaleInput are the names of a pooling's inputs, i32 [batch,2] and f32 [batch,1].
func tokensInput(p Pooling) string { return "pooling_" + string(p) + "_tokens" }
func scaleInput(p Pooling) string  { return "pooling_" + string(p) + "_scale" }

// A head is what a program computes of the model's outputs: of the vectors of tokens, the modules of an embedding model; of the logits of
// tokens, what a judge reads, the words for masks, or the weights of a SPLADE model. A model with vectors and logits has both.
type head struct {
	hidden          string   // name of the output whose vectors it takes; "" for none
	tokens          []layer  // for the vector of each token
	pooling         *pooling // nil if the vectors of tokens are the result
	texts           []layer  // for the vector of each text
	vectors, pooled string   // names of its outputs; "" for none

	sparse  *splade // how the logits of words become their weights; nil if the model has no such logits
	words   string  // name of the output that has logits of words; "" for none
	weights string  // name of the output of weights; "" if sparse is nil
	filled  string  // name of the output that has the logits of masks
	judges  bool    // the output hidden is logits of words, and pooled those of the last token
	answers []int64 // columns of the logits that remain, for a judge; nil for all
}

// orNone returns nil for a head that computes nothing.
func (h *head) orNone() *head {
	if h.hidden == "" && h.words == "" {
		return nil
	}
	return h
}

// skipsPrompt reports whether the tokens of a prompt do not count.
func (h *head) skipsPrompt() bool {
	return h != nil && h.pooled != "" && h.pooling != nil && !h.pooling.includePrompt
}

// appendTo appends the head to a rewritten graph.
func (h *head) appendTo(g *ir.Graph) error {
	if h.words != "" {
		b, err := newHeadBuilder(g, h.words)
		if err != nil {
			return err
		}
		if h.sparse != nil {
			b.output(h.weights, b.splade(b.x, *h.sparse))
		}
		if b.output(h.filled, b.picked(b.x, ir.Sym(picksSymbol))); b.err != nil {
			return b.err
		}
	}
	if h.hidden == "" {
		return nil
	}
	b, err := newHeadBuilder(g, h.hidden)
	if err != nil {
		return err
	}
	x := b.x
	if h.judges {
		b.output(h.pooled, b.columns(b.picked(x, ir.N(1)), h.answers))
		return b.err
	}
	if x.Type.DType != tensor.F32 {
		x = b.op(ir.Cast{To: tensor.F32}, x)
	}
	for _, l := range h.tokens {
		x = l.build(b, x)
	}
	if h.vectors != "" {
		y := x
		if b.unpack != nil {
			y = b.op(ir.Unpack{}, x, b.unpack.Inputs[ir.UnpackFlatIndices], b.unpack.Inputs[ir.UnpackMask])
		}
		b.output(h.vectors, y)
	}
	if h.pooled != "" {
		var all []*ir.Value
		for _, mode := range h.pooling.modes {
			all = append(all, b.pool(x, mode))
		}
		x = all[0]
		if len(all) > 1 {
			x = b.op(ir.Concat{Axis: 1}, all...)
		}
		for _, l := range h.texts {
			x = l.build(b, x)
		}
		b.output(h.pooled, x)
	}
	return b.err
}

// A headBuilder appends nodes to a graph, until one is invalid.
type headBuilder struct {
	*ir.Graph
	x      *ir.Value // the vectors of tokens, [batch,tokens,size] or packed
	unpack *ir.Node  // the Unpack that restores their padding; nil if they are not packed
	pack   *ir.Node  // the Pack of the tokens; nil if they are not packed
	err    error
}

// newHeadBuilder returns a builder that begins with an output [batch,tokens,size]: with the packed vectors if the output restores padding.
func newHeadBuilder(g *ir.Graph, name string) (*headBuilder, error) {
	at := slices.Index(g.OutputNames, name)
	if at < 0 {
		return nil, fmt.Errorf("the program has no output %q", name)
	}
	output := g.Outputs[at]
	if n := output.Def; n != nil && n.Op.Kind() == ir.KindUnpack {
		pack := n.Inputs[ir.UnpackFlatIndices].Def
		if pack != nil && pack.Op.Kind() == ir.KindPack && len(pack.Outputs) >= ir.PackValues { // a file may say anything
			return &headBuilder{Graph: g, x: n.Inputs[ir.UnpackX], unpack: n, pack: pack}, nil
		}
	}
	return &headBuilder{Graph: g, x: output}, nil
}

// op appends a node and returns its result.
func (b *headBuilder) op(op ir.Op, in ...*ir.Value) *ir.Value {
	if b.err != nil {
		return b.x
	}
	out, err := b.Append(op, in, "head")
	if err != nil {
		b.err = fmt.Errorf("the modules after the model: %w", err)
		return b.x
	}
	return out[0]
}

// takes fails unless the vectors have as many numbers as a module takes.
func (b *headBuilder) takes(module string, n int, x *ir.Value) {
	s := x.Type.Shape
	if size, ok := s[len(s)-1].Const(); b.err == nil && (!ok || size != n) {
		b.err = fmt.Errorf("a %s module takes %d numbers, but the vectors have %v", module, n, s[len(s)-1])
	}
}

func (b *headBuilder) number(x float32) *ir.Value { return b.NewConst("", tensor.Scalar(x)) }

func (b *headBuilder) binary(fn ir.BinaryFn, x, y *ir.Value) *ir.Value {
	return b.op(ir.Binary{Fn: fn}, x, y)
}

func (b *headBuilder) weights(data []float32, shape ...int) *ir.Value {
	return b.NewConst("", tensor.FromSlice(data, shape...))
}

func (b *headBuilder) output(name string, x *ir.Value) {
	if x.Name == "" {
		x.Name = name
	}
	b.Outputs, b.OutputNames = append(b.Outputs, x), append(b.OutputNames, name)
}

// column returns column i of a matrix, [rows,1].
func (b *headBuilder) column(x *ir.Value, i int) *ir.Value {
	return b.op(ir.Slice{Starts: ir.Dims(0, i), Sizes: ir.Shape{x.Type.Shape[0], ir.N(1)}, Steps: []int{1, 1}}, x)
}

// splade returns a number for each text and word: the largest logit, or the sum of the tokens' weights.
func (b *headBuilder) splade(x *ir.Value, how splade) *ir.Value {
	if x.Type.DType != tensor.F32 {
		x = b.op(ir.Cast{To: tensor.F32}, x)
	}
	if !how.sum {
		return b.pool(x, PoolMax)
	}
	x = b.op(ir.Unary{Fn: ir.Relu}, x)
	for range how.logs() {
		x = b.op(ir.Unary{Fn: ir.Log}, b.binary(ir.Add, x, b.number(1)))
	}
	return b.pool(x, poolSum)
}

// columns returns columns of a matrix, or the matrix if they are nil.
func (b *headBuilder) columns(x *ir.Value, at []int64) *ir.Value {
	if at == nil {
		return x
	}
	size, ok := x.Type.Shape[1].Const()
	var all []*ir.Value
	for _, i := range at {
		if ok && i >= int64(size) && b.err == nil {
			b.err = fmt.Errorf("the model returns the logits of %d words, but its tokenizer has the token %d", size, i)
			return x
		}
		all = append(all, b.column(x, int(i)))
	}
	return b.op(ir.Concat{Axis: 1}, all...)
}

// picked returns the vectors of the picked tokens of each text, [batch,picks·size].
func (b *headBuilder) picked(x *ir.Value, picks ir.Dim) *ir.Value {
	batch := b.batch()
	at := b.AddInput(pickedInput, ir.TensorOf(tensor.I32, batch, picks))
	if b.pack != nil {
		at = b.binary(ir.Add, at, b.column(b.pack.Outputs[ir.PackSequences], 0))
	}
	y := b.pick(x, at)
	return b.op(ir.Reshape{Shape: ir.Shape{batch, picks.Mul(y.Type.Shape[2])}}, y)
}

// pick returns v for the tokens at [batch,picks], as [batch,picks,size]. It goes back from v over the nodes that compute each token alone,
// gathers at the first of them, and appends copies of these nodes for the picked tokens.
func (b *headBuilder) pick(v, at *ir.Value) *ir.Value {
	if i := tokenOperand(v.Def); i >= 0 {
		in := slices.Clone(v.Def.Inputs)
		in[i] = b.pick(in[i], at)
		return b.op(v.Def.Op, in...)
	}
	s, picks := v.Type.Shape, at.Type.Shape[1]
	if b.pack != nil { // v is [1,tokens,size]
		return b.op(ir.Reshape{Shape: ir.Shape{b.batch(), picks, s[2]}}, b.op(ir.Gather{Axis: 1}, v, at))
	}
	return b.op(ir.GatherND{BatchDims: 1}, v, b.op(ir.Reshape{Shape: ir.Shape{s[0], picks, ir.N(1)}}, at))
}

// productWeights lists, by kind of product, the operands that hold the weights. A product of operand 0 by constant weights computes each
// token alone.
var productWeights = map[ir.Kind][]int{
	ir.KindMatMul:      {ir.MatMulB},
	ir.KindMatMulNBits: {ir.NBitsWeights, ir.NBitsScales, ir.NBitsZeros, ir.NBitsGroups},
}

// tokenOperand returns the index of the operand [batch,tokens,…] of a node [batch,tokens,…] that computes each token from this token of the
// operand and from constants that are the same for all tokens. It returns −1 for nil and for every other node.
func tokenOperand(n *ir.Node) int {
	if n == nil || len(n.Outputs) != 1 {
		return -1
	}
	weights, product := productWeights[n.Op.Kind()]
	if norm, ok := n.Op.(ir.LayerNorm); !product && !n.Op.Kind().Has(ir.Elementwise) && (!ok || norm.Axes != 1) {
		return -1
	}
	at := -1
	for i, v := range n.Inputs {
		switch {
		case v == nil:
		case !v.IsConst() && at < 0:
			at = i
		case !v.IsConst() || !slices.Contains(weights, i) && !isRow(v.Type.Shape):
			return -1
		}
	}
	if at < 0 || product && at > 0 {
		return -1
	}
	x, y := n.Inputs[at].Type.Shape, n.Outputs[0].Type.Shape
	if len(x) != 3 || len(y) != 3 || !x[:2].Equal(y[:2]) {
		return -1
	}
	return at
}

// isRow reports whether all sizes but the last are 1, so that a constant of this shape is the same for all tokens.
func isRow(s ir.Shape) bool {
	return len(s) == 0 || !slices.ContainsFunc(s[:len(s)-1], func(d ir.Dim) bool { return !d.Is(1) })
}

// batch returns the number of texts.
func (b *headBuilder) batch() ir.Dim {
	if b.pack != nil {
		return b.pack.Outputs[ir.PackSequences].Type.Shape[0]
	}
	return b.x.Type.Shape[0]
}

// pool returns the vectors of texts, [batch,size], by the vectors of their tokens.
func (b *headBuilder) pool(x *ir.Value, mode Pooling) *ir.Value {
	p, batch, length, size := poolers[mode], b.batch(), b.x.Type.Shape[1], x.Type.Shape[2]
	tokens := b.AddInput(tokensInput(mode), ir.TensorOf(tensor.I32, batch, ir.N(2)))
	var y *ir.Value
	if b.pack != nil {
		if p.weigh {
			at := b.op(ir.Reshape{Shape: ir.Shape{ir.N(1), length, ir.N(1)}}, b.pack.Outputs[ir.PackPositions])
			x = b.binary(ir.Mul, x, b.binary(ir.Add, b.op(ir.Cast{To: tensor.F32}, at), b.number(1)))
		}
		tokens = b.binary(ir.Add, tokens, b.column(b.pack.Outputs[ir.PackSequences], 0))
		y = b.op(ir.SumSequences{Largest: p.most}, x, b.op(ir.Concat{Axis: 1}, tokens, tokens))
	} else {
		at := b.op(ir.Range{Step: ir.N(1), Len: length, DType: tensor.I32})
		if p.weigh {
			weight := b.op(ir.Reshape{Shape: ir.Shape{length, ir.N(1)}}, b.op(ir.Cast{To: tensor.F32}, at))
			x = b.binary(ir.Mul, x, b.binary(ir.Add, weight, b.number(1)))
		}
		counts := b.binary(ir.And, b.binary(ir.GreaterOrEqual, at, b.column(tokens, 0)), b.binary(ir.Less, at, b.column(tokens, 1)))
		fn, none := ir.Sum, float32(0)
		if p.most {
			fn, none = ir.MaxOf, float32(math.Inf(-1))
		}
		x = b.op(ir.Where{}, b.op(ir.Reshape{Shape: ir.Shape{batch, length, ir.N(1)}}, counts), x, b.number(none))
		y = b.op(ir.Reduce{Fn: fn, Axes: []int{1}}, x)
	}
	y = b.op(ir.Reshape{Shape: ir.Shape{batch, size}}, y)
	if p.most { // of no tokens, the largest number would be −∞
		y = b.op(ir.Where{}, b.binary(ir.Less, b.column(tokens, 0), b.column(tokens, 1)), y, b.number(0))
	}
	if p.scale != nil {
		y = b.binary(ir.Mul, y, b.AddInput(scaleInput(mode), ir.TensorOf(tensor.F32, batch, ir.N(1))))
	}
	return y
}

// build returns activation(x·Wᵀ + b), with x added if the module is residual.
func (l *dense) build(b *headBuilder, x *ir.Value) *ir.Value {
	b.takes("Dense", l.in, x)
	in := []*ir.Value{x, b.weights(l.weight, l.out, l.in)}
	if l.bias != nil {
		in = append(in, b.weights(l.bias, l.out))
	}
	y := b.op(ir.MatMul{TransB: true}, in...)
	if l.activation.Fn != ir.NoUnary {
		y = b.op(l.activation, y)
	}
	if l.residual {
		y = b.binary(ir.Add, y, x)
	}
	return y
}

// build returns PyTorch's LayerNorm of the last axis.
func (l *layerNorm) build(b *headBuilder, x *ir.Value) *ir.Value {
	b.takes("LayerNorm", len(l.weight), x)
	return b.op(ir.LayerNorm{Axes: 1, Eps: 1e-5}, x, b.weights(l.weight, len(l.weight)), b.weights(l.bias, len(l.bias)))
}

// build scales vectors to length 1, as Normalize does.
func (normalize) build(b *headBuilder, x *ir.Value) *ir.Value {
	length := b.op(ir.Reduce{Fn: ir.L2, Axes: []int{len(x.Type.Shape) - 1}, KeepDims: true}, x)
	return b.binary(ir.Div, x, b.binary(ir.MaxFn, length, b.number(leastLength)))
}
