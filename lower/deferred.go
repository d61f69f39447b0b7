package lower

import (
	"bytes"
	"errors"
	"fmt"
	"math"
	"slices"
	"sync/atomic"

	"github.com/rlxc/rlxc/internal/ops"
	"github.com/rlxc/rlxc/ir"
	"github.com/rlxc/rlxc/tensor"
)

func (c *context) deferred(types ...ir.Type) ops.Deferred {
	c.b.deferred++
	return ops.Deferred{Typed: typed(types...), Domain: c.domain, Operator: c.name, Version: c.version, Attrs: c.attrs,
		Lowering: NewDeferred()}
}

// NewDeferred returns an ops.Lowering for a node. It lowers the node with actual operands and evaluates the result, which it reuses for
// operands of the same types and the same integers. It fails with ErrUnsupported if the operator is unknown.
func NewDeferred() ops.Lowering {
	f := &forms{}
	return func(env *ir.Env, o ops.Deferred, in []*tensor.Tensor) ([]*tensor.Tensor, error) {
		l, err := f.of(o, in)
		if err != nil {
			return nil, err
		}
		return l.run(env, in)
	}
}

// forms are the lowered forms of a Deferred for its latest operands, the most recent first. A node in a loop has other integers in each
// iteration.
type forms struct{ made atomic.Pointer[[]*lowered] }

// mostForms is the most forms of a node. All but the last have constants of at most formBytes.
const (
	mostForms = 32
	formBytes = 1 << 10
)

func (f *forms) of(o ops.Deferred, in []*tensor.Tensor) (*lowered, error) {
	var made []*lowered
	if last := f.made.Load(); last != nil {
		made = *last
	}
	if i := slices.IndexFunc(made, func(l *lowered) bool { return l.serves(in) }); i >= 0 {
		return made[i], nil
	}
	l, err := lowerWith(o, in, decides)
	if err != nil {
		return lowerWith(o, in, func(*tensor.Tensor) bool { return true })
	}
	next := []*lowered{l}
	for _, old := range made[:min(len(made), mostForms-1)] {
		if old.bytes <= formBytes {
			next = append(next, old)
		}
	}
	f.made.Store(&next)
	return l, nil
}

// A lowered is the graph of a Deferred for some operands.
type lowered struct {
	graph  *ir.Graph
	fixed  []*tensor.Tensor // the constant in graph for each operand; nil if the operand is an input of graph
	inputs []int            // indices of the operands that are inputs of graph
	shapes []tensor.Shape   // shape of each of these operands
	bytes  int64            // bytes of the constants
}

// decides reports whether a node's form may depend on the content of an operand. Only operands of few integers count.
func decides(t *tensor.Tensor) bool {
	const few = 64
	return t.IsSequence() || !t.DType().IsFloat() && t.Len() <= few
}

// lowerWith lowers the node of o with those operands constant that fixed says.
func lowerWith(o ops.Deferred, in []*tensor.Tensor, fixed func(t *tensor.Tensor) bool) (*lowered, error) {
	b := &builder{g: ir.NewGraph(o.String()), lists: map[*ir.Value][]*ir.Value{}, memo: ir.NewMemo(math.MaxInt), maxFold: math.MaxInt}
	l := &lowered{graph: b.g, fixed: make([]*tensor.Tensor, len(in))}
	values := make([]*ir.Value, len(in))
	for i, t := range in {
		switch {
		case t == nil:
		case fixed(t):
			l.fixed[i] = t.Clone() // a copy, because the run may overwrite t
			values[i] = b.g.NewConst("", l.fixed[i])
		default:
			values[i] = b.g.NewValue(fmt.Sprintf("operand %d", i), ir.TensorOf(t.DType(), ir.Dims(t.Shape()...)...))
			b.g.Inputs = append(b.g.Inputs, values[i])
			l.inputs, l.shapes = append(l.inputs, i), append(l.shapes, t.Shape().Clone())
		}
	}
	positions := o.Outputs
	if positions == nil {
		positions = upTo(len(o.Types))
	}
	op := operator{domain: o.Domain, name: o.Operator, version: o.Version, attrs: o.Attrs}
	for _, at := range positions {
		op.outputs = append(op.outputs, make([]string, at-len(op.outputs))...) // "": left out
		op.outputs = append(op.outputs, fmt.Sprintf("output %d", at))
	}
	out, err := b.lowerNode(op, values)
	if err != nil {
		return nil, err
	}
	if b.deferred > 0 {
		return nil, errors.New("the operator needs data that it computes itself")
	}
	for _, at := range positions {
		if at >= len(out) || out[at] == nil {
			return nil, fmt.Errorf("%w: output %d is not computed", ErrUnsupported, at)
		}
		b.g.Outputs = append(b.g.Outputs, out[at])
	}
	for _, v := range b.g.Consts() {
		l.bytes += v.Const.Size()
	}
	return l, nil
}

// serves reports whether l is what these operands would become.
func (l *lowered) serves(in []*tensor.Tensor) bool {
	if len(in) != len(l.fixed) {
		return false
	}
	given := 0
	for i, t := range in {
		switch x := l.fixed[i]; {
		case x != nil:
			if t == nil || t.IsSequence() || t.DType() == tensor.String || t.DType() != x.DType() || !t.Shape().Equal(x.Shape()) ||
				!bytes.Equal(t.Bytes(), x.Bytes()) {
				return false
			}
		case given < len(l.inputs) && l.inputs[given] == i:
			if t == nil || t.IsSequence() || t.DType() != l.graph.Inputs[given].Type.DType || !t.Shape().Equal(l.shapes[given]) {
				return false
			}
			given++
		case t != nil:
			return false
		}
	}
	return true
}

// run evaluates l.
func (l *lowered) run(env *ir.Env, in []*tensor.Tensor) ([]*tensor.Tensor, error) {
	inputs := make([]*tensor.Tensor, len(l.inputs))
	for k, i := range l.inputs {
		inputs[k] = in[i]
	}
	results, err := env.Evaluator().Graph(l.graph, inputs, ir.Binding{})
	if err != nil {
		return nil, err
	}
	for i, t := range results {
		if l.graph.Outputs[i].Def == nil { // an operand passed through, or a constant, which the next run needs
			results[i] = t.Clone()
		}
	}
	return results, nil
}

// keepsRank are the operators all of whose results have the rank of operand 0.
var keepsRank = map[string]bool{
	"CausalConvWithState": true, "CenterCropPad": true, "ConvInteger": true, "CumProd": true, "CumSum": true, "DFT": true,
	"DeformConv": true, "DequantizeLinear": true, "Dropout": true, "FlexAttention": true, "MaxUnpool": true, "MoE": true,
	"MRotaryEmbedding": true, "Pad": true, "QGemm": true, "QLinearConv": true, "QMoE": true, "QuantizeLinear": true, "Resize": true,
	"ScatterND": true, "Slice": true, "Split": true, "Tile": true, "TopK": true, "Trilu": true, "Upsample": true,
}

// deferredRank returns the rank of result 0 of an operator that is not in keepsRank, from the types of the operands; −1 if it depends on
// data. The rank of an operator without a row, and that of each further result, is left to the run, which costs time only.
var deferredRank = map[string]func(in []*ir.Value) int{
	"Add":                broadcastRank,
	"Attention":          firstRank,
	"QAttention":         firstRank,
	"MultiHeadAttention": func([]*ir.Value) int { return 3 },
	"ExpandDims":         func(in []*ir.Value) int { return plus(rankOf(in, 0), 1) },
	"Reshape":            lengthOf(1),
	"Expand":             func(in []*ir.Value) int { return maxRank(rankOf(in, 0), lengthOf(1)(in)) },
	"ConstantOfShape":    lengthOf(0),
	"Range":              func([]*ir.Value) int { return 1 },
	"OneHot":             func(in []*ir.Value) int { return plus(rankOf(in, 0), 1) },
	"Squeeze":            squeezedRank,
	"Unsqueeze":          func(in []*ir.Value) int { return sum(rankOf(in, 0), lengthOf(1)(in)) },
	"Shape":              func([]*ir.Value) int { return 1 },
	"Size":               func([]*ir.Value) int { return 0 },
	"Gather":             func(in []*ir.Value) int { return plus(sum(rankOf(in, 0), rankOf(in, 1)), -1) },
	"GatherPacked":       func(in []*ir.Value) int { return plus(rankOf(in, 1), 1) },
	"MoEGroupRouter":     func([]*ir.Value) int { return 2 },
	"GatherND":           func([]*ir.Value) int { return -1 },
	"STFT":               func([]*ir.Value) int { return 4 },
	"MelWeightMatrix":    func([]*ir.Value) int { return 2 },
	"MatMul":             productRank(0, 1),
	"MatMulInteger":      productRank(0, 1),
	"QLinearMatMul":      productRank(0, 3),
}

func firstRank(in []*ir.Value) int { return rankOf(in, 0) }

func broadcastRank(in []*ir.Value) int { return maxRank(rankOf(in, 0), rankOf(in, 1)) }

// productRank is the rank of the product of operands i and k; −1 if one of them may be a vector, whose axis the result lacks.
func productRank(i, k int) func(in []*ir.Value) int {
	return func(in []*ir.Value) int {
		if least := min(rankOf(in, i), rankOf(in, k)); least < 2 {
			return -1
		}
		return max(rankOf(in, i), rankOf(in, k))
	}
}

func squeezedRank(in []*ir.Value) int {
	if n := lengthOf(1)(in); n >= 0 {
		return plus(rankOf(in, 0), -n)
	}
	return -1
}

func rankOf(in []*ir.Value, i int) int {
	if i >= len(in) || in[i] == nil || in[i].Type.Unranked {
		return -1
	}
	return len(in[i].Type.Shape)
}

// plus is a number of axes with some more or fewer.
func plus(a, b int) int {
	if a < 0 {
		return -1
	}
	return max(a+b, -1)
}

// sum is unknown if one of two numbers is.
func sum(a, b int) int {
	if b < 0 {
		return -1
	}
	return plus(a, b)
}

func maxRank(a, b int) int {
	if a < 0 || b < 0 {
		return -1
	}
	return max(a, b)
}

// lengthOf is the number of elements of operand i when it is a vector of known length.
func lengthOf(i int) func([]*ir.Value) int {
	return func(in []*ir.Value) int {
		if i >= len(in) || in[i] == nil || in[i].Type.Unranked || len(in[i].Type.Shape) != 1 {
			return -1
		}
		if n, ok := in[i].Type.Shape[0].Const(); ok {
			return n
		}
		return -1
	}
}

// deferredTypes returns what is known of the results of a deferred node, for those outputs that are not left out: the element type, the
// rank from keepsRank or deferredRank, and no sizes.
func (c *context) deferredTypes(outputs []int) ([]ir.Type, error) {
	types := make([]ir.Type, len(outputs))
	var tried []*ir.Value
	for k, i := range outputs {
		t := ir.Type{DType: c.deferredDType(i, c.outputs[i]), Unranked: true}
		if t.DType == tensor.Invalid {
			if tried == nil {
				tried = c.trial()
			}
			if i < len(tried) && tried[i] != nil && tried[i].Type.Kind == ir.TensorType {
				t.DType = tried[i].Type.DType
			}
		}
		if t.DType == tensor.Invalid {
			return nil, fmt.Errorf("%w: the element type of result %d depends on data", ErrUnsupported, i)
		}
		rank := -1
		if keepsRank[c.name] {
			rank = rankOf(c.in, 0)
		} else if f, ok := deferredRank[c.name]; ok && i == 0 {
			rank = f(c.in)
		}
		if rank >= 0 {
			t.Unranked, t.Shape = false, ir.Shape{}
			for range rank {
				t.Shape = append(t.Shape, ir.Sym(fresh))
			}
		}
		types[k] = t
	}
	return types, nil
}

// trial lowers the node in a graph of its own, with operands of made-up ranks where the ranks are unknown. It returns the results, whose
// element types do not depend on the ranks; nil if the node needs data.
func (c *context) trial() []*ir.Value {
	if c.b.trial {
		return nil
	}
	for _, rank := range []int{2, 3, 4, 1, 0} {
		b := &builder{g: ir.NewGraph(""), lists: map[*ir.Value][]*ir.Value{}, memo: ir.NewMemo(math.MaxInt), maxFold: c.b.maxFold,
			trial: true}
		in := make([]*ir.Value, len(c.in))
		for i, v := range c.in {
			switch {
			case v == nil:
			case v.IsConst():
				in[i] = b.g.NewConst("", v.Const)
			default:
				t := v.Type
				for k := 0; t.Unranked && k < rank; k++ {
					t.Shape = append(t.Shape, ir.Sym(fmt.Sprintf("made-up %d.%d", i, k)))
				}
				t.Unranked = false
				in[i] = b.g.NewValue("", t)
			}
		}
		op := c.operator
		op.declared = nil
		if out, err := b.lowerNode(op, in); err == nil {
			return out
		}
	}
	return nil
}

// requiredRanks are the ranks that operators demand of their operands, whatever the data are; −1 for any.
var requiredRanks = map[string]func(in []*ir.Value) []int{
	"LSTM": recurrentRanks, "GRU": recurrentRanks, "RNN": recurrentRanks, "DynamicQuantizeLSTM": recurrentRanks,
	"Conv": windowRanks, "ConvTranspose": windowRanks, "ConvInteger": windowRanks,
	"Gemm": func([]*ir.Value) []int { return []int{2, 2} },
}

func recurrentRanks([]*ir.Value) []int { return []int{3, 3, 3, 2, 1, 3, 3, 2} }

func windowRanks(in []*ir.Value) []int { return []int{rankOf(in, 1), rankOf(in, 0)} }

// requiredRank is the rank that operand i must have, −1 where the operator takes several.
func requiredRank(operator string, in []*ir.Value, i int) int {
	if f, ok := requiredRanks[operator]; ok {
		if ranks := f(in); i < len(ranks) {
			return ranks[i]
		}
	}
	return -1
}

// ranked is a value of unknown rank as an operator reads it that takes one rank only. A run compares: see ops.Identity.
func (c *context) ranked(v *ir.Value, rank int) *ir.Value {
	types := []ir.Type{ir.TensorOf(v.Type.DType, slices.Repeat(ir.Shape{ir.Sym(fresh)}, rank)...)}
	out := c.EmitAll(ops.Identity{Typed: typed(types...)}, v)
	settle(out, types)
	return out[0]
}

// sourceDType returns the element types of results that neither the model, nor an attribute, nor the operator's schema states.
var sourceDType = map[string]func(c *context) tensor.DType{
	"ConstantOfShape":  constantOfShapeDType,
	"MelWeightMatrix":  func(*context) tensor.DType { return tensor.F32 },
	"QuantizeLinear":   func(c *context) tensor.DType { return operandDType(c, 2, tensor.U8) },
	"DequantizeLinear": func(c *context) tensor.DType { return operandDType(c, 1, tensor.F32) },
	"QGemm":            func(c *context) tensor.DType { return operandDType(c, 8, tensor.F32) },
}

// attributeDType are the attributes that name the element type of results.
var attributeDType = []string{"to", "dtype", "output_dtype", "output_datatype"}

func operandDType(c *context, i int, def tensor.DType) tensor.DType {
	if i < len(c.in) && c.in[i] != nil {
		return c.in[i].Type.DType
	}
	return def
}

func constantOfShapeDType(c *context) tensor.DType {
	if t, ok := c.AttrTensor("value"); ok {
		return t.DType()
	}
	return tensor.F32
}

func (c *context) deferredDType(i int, name string) tensor.DType {
	if tp := c.declared[name].GetTensorType(); tp != nil && tensor.DType(tp.GetElemType()).Valid() {
		return tensor.DType(tp.GetElemType())
	}
	for _, attribute := range attributeDType {
		if v, ok := c.attrs.Get(attribute); ok {
			if n, ok := v.(int64); ok && tensor.DType(n).Valid() {
				return tensor.DType(n)
			}
		}
	}
	if f, ok := sourceDType[c.name]; ok {
		return f(c)
	}
	if schema := findSchema(c.domain, c.name, c.version); schema != nil {
		return schema.result(i, c.in)
	}
	return tensor.Invalid
}
