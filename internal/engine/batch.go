package engine

import (
	"fmt"
	"slices"

	"github.com/rlxc/rlxc/internal/files"
	"github.com/rlxc/rlxc/internal/ops"
	"github.com/rlxc/rlxc/ir"
	"github.com/rlxc/rlxc/tensor"
)

// A batch is the proof that a graph computes each element of a batch separately: running it on some of the rows at a time returns these
// rows of its outputs.
type batch struct {
	symbol  string
	inputs  []bool // whether axis 0 of each input is the batch; all rows share the other inputs
	outputs []int  // size of axis 0 of each output, in batches
}

// A role is how a value depends on the rows of the batch. A graph with a value that has none of the roles is not split.
type role uint8

const (
	// shared values depend neither on rows nor on their number. Weights are shared.
	shared role = iota
	// The size of axis 0 of a leading value is a multiple of the number of rows. Row i of the inputs, together with shared values,
	// determines the i-th part of axis 0: of x [2·batch,3], row i determines x[2i,:] and x[2i+1,:].
	leads
	// Axis 0 of row numbers has an index for each row, and all elements at index i are i: range(batch), and its reshape [batch,1].
	rowNumbers
	// Tuples [batch,…,n] are tuples of n indices, the first of which is the number of the row.
	tuples
)

// findBatch looks for the batch of a graph: the symbol on axis 0 of its inputs. Every value must have a role, and every output must lead.
// The error names the first node for which that is not proved.
func findBatch(g *ir.Graph) (*batch, error) {
	b := &batch{}
	roles := map[*ir.Value]role{}
	for _, v := range g.Inputs {
		name, ok := "", false
		if len(v.Type.Shape) > 0 {
			name, ok = v.Type.Shape[0].Symbol()
		}
		if b.symbol == "" && ok {
			b.symbol = name
		}
		if ok && name == b.symbol {
			roles[v] = leads
		}
		b.inputs = append(b.inputs, roles[v] == leads)
	}
	if b.symbol == "" {
		return nil, fmt.Errorf("no input has an axis 0 of free size")
	}
	for _, v := range g.Inputs {
		if v.Type.Kind != ir.TensorType || v.Type.DType.Size() == 0 {
			return nil, fmt.Errorf("input %s has no elements of whole bytes", files.Quote(v.Name))
		}
		if roles[v] != leads && b.mentions(nil, v.Type) {
			return nil, fmt.Errorf("input %s has its %s on another axis", files.Quote(v.Name), b.symbol)
		}
	}
	for _, n := range g.Nodes {
		if err := b.node(n, roles); err != nil {
			return nil, n.Fail(err)
		}
	}
	for _, v := range g.Outputs {
		times, ok := b.times(v)
		if roles[v] != leads || !ok || v.Type.DType.Size() == 0 {
			return nil, fmt.Errorf("output %s has no axis 0 of size %s", files.Quote(v.Name), b.symbol)
		}
		b.outputs = append(b.outputs, times)
	}
	return b, nil
}

func (b *batch) mentions(op ir.Op, types ...ir.Type) bool {
	return ir.Mentions(map[string]bool{b.symbol: true}, op, types...)
}

// times is how many times the batch axis 0 of a leading value is, if that is known before the other sizes are.
func (b *batch) times(v *ir.Value) (int, bool) {
	return v.Type.Shape[0].Subst(map[string]ir.Dim{b.symbol: ir.N(1)}).Const()
}

// canLead reports whether the batch is on axis 0 of a shape, as a factor, and nowhere else.
func (b *batch) canLead(s ir.Shape) bool {
	if len(s) == 0 || b.mentions(nil, ir.TensorOf(tensor.F32, s[1:]...)) {
		return false
	}
	rest := s[0].Subst(map[string]ir.Dim{b.symbol: ir.N(1)})
	return rest.Mul(ir.Sym(b.symbol)).Equal(s[0])
}

// onlySizes reports whether what an op says of the batch is no more than the sizes of its result.
func (b *batch) onlySizes(op ir.Op) bool {
	switch op := op.(type) {
	case ir.Reshape, ir.Expand, ops.Resize:
		return true
	case ir.Slice:
		return !b.mentions(nil, ir.TensorOf(tensor.F32, op.Starts...))
	}
	return !b.mentions(op)
}

// node decides the roles of the results of n.
func (b *batch) node(n *ir.Node, roles map[*ir.Value]role) error {
	lead := make([]bool, len(n.Inputs))
	in := make([]role, len(n.Inputs))
	for i, v := range n.Inputs {
		in[i], lead[i] = roles[v], roles[v] == leads
	}
	var types []ir.Type
	for _, v := range n.Outputs {
		types = append(types, v.Type)
	}
	if r := b.numbered(n, in); r != shared {
		roles[n.Outputs[0]] = r
		return nil
	}
	if !slices.Contains(lead, true) {
		switch {
		case len(n.Subgraphs) == 0 && !b.mentions(n.Op, types...) && slices.Max(append(in, shared)) == shared:
		case b.repeats(n):
			roles[n.Outputs[0]] = leads
		default:
			return fmt.Errorf("it computes values from all rows of %s", b.symbol)
		}
		return nil
	}
	if scalesWhole(n) {
		return fmt.Errorf("the scale of its quantised values follows from all rows of %s", b.symbol)
	}
	rule := batchRules[n.Op.Kind()]
	if n.Op.Kind().Has(ir.Elementwise) {
		rule = alongside
	}
	if slices.Max(in) > leads { // numbers of rows, for which no other rule holds
		rule = nil
	}
	for _, v := range n.Outputs {
		if rule == nil || !b.onlySizes(n.Op) || len(n.Subgraphs) > 0 || !b.canLead(v.Type.Shape) || !rule(n, lead) {
			return fmt.Errorf("rows of %s are not known to be independent of each other", b.symbol)
		}
		roles[v] = leads
	}
	return nil
}

// repeats reports whether n, none of whose operands depends on the batch, repeats its operand for each element of the batch.
func (b *batch) repeats(n *ir.Node) bool {
	if len(n.Inputs) == 0 || !b.canLead(n.Outputs[0].Type.Shape) || b.mentions(nil, n.Inputs[0].Type) {
		return false
	}
	x, y := n.Inputs[0].Type.Shape, n.Outputs[0].Type.Shape
	switch op := n.Op.(type) {
	case ir.Expand:
		return len(x) < len(y) || x[0].Is(1)
	case ir.Tile: // [2,3] with repeats [batch,1] is [2·batch,3], of which each element of the batch has two rows
		return b.canLead(op.Repeats)
	}
	return false
}

// numbered returns the role of the result of a node that counts rows, or picks elements by the numbers of rows: x[range(batch), last].
// It returns shared for all other nodes.
func (b *batch) numbered(n *ir.Node, in []role) role {
	y := n.Outputs[0].Type
	if y.Kind != ir.TensorType || !b.canLead(y.Shape) {
		return shared
	}
	switch op := n.Op.(type) {
	case ir.Range:
		name, ok := op.Len.Symbol()
		if ok && name == b.symbol && op.Start.Is(0) && op.Step.Is(1) && y.DType.Size() >= 4 {
			return rowNumbers
		}
	case ir.Reshape, ir.Cast:
		if in[0] == rowNumbers && y.DType.IsInt() && y.DType.Size() >= 4 {
			return rowNumbers
		}
	case ir.Concat:
		others := slices.ContainsFunc(in[1:], func(r role) bool { return r != leads })
		if in[0] == rowNumbers && op.Axis > 0 && op.Axis == len(y.Shape)-1 && !others {
			return tuples
		}
	case ir.GatherND:
		x := n.Inputs[0].Type.Shape
		if name, ok := x[0].Symbol(); ok && name == b.symbol && in[0] == leads && in[1] == tuples && op.BatchDims == 0 {
			return leads
		}
	}
	return shared
}

// scalesWhole reports whether a node quantises its operand by a scale that it computes from the whole operand.
func scalesWhole(n *ir.Node) bool {
	switch op := n.Op.(type) {
	case ir.QMatMul:
		return op.Dynamic(n.Inputs)
	case ir.DynamicQuantize:
		return true
	}
	return false
}

// alongside: leading operands have the result's axes, and axis 0 whole; the others have no axis 0, or one that is broadcast.
func alongside(n *ir.Node, lead []bool) bool {
	for i := range n.Inputs {
		if !alignedTo(n.Outputs[0].Type.Shape, n, lead, i) {
			return false
		}
	}
	return true
}

// alignedTo reports whether operand i, which broadcasts to the axes of y, has the rows of y if it leads, and is the same for all rows
// otherwise.
func alignedTo(y ir.Shape, n *ir.Node, lead []bool, i int) bool {
	if !n.HasOperand(i) {
		return true
	}
	s := n.Inputs[i].Type.Shape
	whole := len(s) == len(y) && len(s) > 0
	return lead[i] && whole && s[0].Equal(y[0]) || !lead[i] && (!whole || s[0].Is(1))
}

// absentOrLeads: an operand of the result's shape.
func absentOrLeads(n *ir.Node, lead []bool, i int) bool { return !n.HasOperand(i) || lead[i] }

// only reports whether no operand leads but these.
func only(lead []bool, operands ...int) bool {
	for i, leads := range lead {
		if leads && !slices.Contains(operands, i) {
			return false
		}
	}
	return true
}

// product returns the rule of a product a·b + residual, whose other operands are of columns or of the whole product. Axis 0 is an axis of
// rows of a, or of matrices of both operands.
func product(a, b, residual int) func(*ir.Node, []bool) bool {
	return func(n *ir.Node, lead []bool) bool {
		y := n.Outputs[0].Type.Shape
		if !only(lead, a, b, residual) || !absentOrLeads(n, lead, residual) {
			return false
		}
		if len(y) == 2 {
			return !lead[b]
		}
		return alignedTo(y, n, lead, a) && alignedTo(y, n, lead, b)
	}
}

// weighted is the rule of a product whose operand b is a matrix of weights in any form.
func weighted(a, residual int) func(*ir.Node, []bool) bool {
	return func(n *ir.Node, lead []bool) bool {
		return rank(n) > 1 && lead[a] && only(lead, a, residual) && absentOrLeads(n, lead, residual)
	}
}

// embeddings is the rule of an Embedding whose tables follow each other every step operands, each with its index behind it. Tables belong
// to all rows, and indices to one.
func embeddings(step int) func(*ir.Node, []bool) bool {
	return func(n *ir.Node, lead []bool) bool {
		for i, leads := range lead {
			if index := i >= ir.EmbeddingIndex && (i-ir.EmbeddingIndex)%step == 0; n.Inputs[i] != nil && leads != index {
				return false
			}
		}
		return len(n.Outputs[0].Type.Shape) > 2
	}
}

// attentionBatch is the rule of an Attention and of a QAttention, whose first four operands are queries, keys, values and mask. Lists of
// sequences, which only packed batches have, mention rows of all of them.
func attentionBatch(n *ir.Node, lead []bool) bool {
	return only(lead, ir.AttentionQ, ir.AttentionK, ir.AttentionV, ir.AttentionMask) &&
		lead[ir.AttentionQ] && lead[ir.AttentionK] && lead[ir.AttentionV] &&
		alignedTo(n.Inputs[ir.AttentionQ].Type.Shape, n, lead, ir.AttentionMask)
}

// layerNormBatch is the rule of a LayerNorm and of a QLayerNorm of these axes.
func layerNormBatch(n *ir.Node, lead []bool, axes int) bool {
	return lead[ir.LayerNormX] && rank(n) > axes && only(lead, ir.LayerNormX, ir.LayerNormResidual)
}

// scaledBatch is the rule of Quantize and Dequantize: a scale serves the whole tensor, or a position along another axis than 0.
func scaledBatch(n *ir.Node, lead []bool, axis, block int) bool {
	return first(n, lead) && (len(n.Inputs[1].Type.Shape) == 0 || axis > 0 && block == 0)
}

// first: operand 0 leads, and no other one.
func first(n *ir.Node, lead []bool) bool { return lead[0] && !slices.Contains(lead[1:], true) }

// rank is the rank of operand 0.
func rank(n *ir.Node) int { return len(n.Inputs[0].Type.Shape) }

// sameFront: operand 0 leads alone, and axis 0 of the result is its own.
func sameFront(n *ir.Node, lead []bool) bool {
	return first(n, lead) && rank(n) > 1 && n.Outputs[0].Type.Shape[0].Equal(n.Inputs[0].Type.Shape[0])
}

// batchRules say of nodes with a leading operand whether their results lead: by kind, whether each part of axis 0 depends on the same part
// of the leading operands. Elementwise ops need no row.
var batchRules = map[ir.Kind]func(n *ir.Node, lead []bool) bool{
	ir.KindReshape:   first, // row-major: parts stay together
	ir.KindTranspose: func(n *ir.Node, _ []bool) bool { return n.Op.(ir.Transpose).Perm[0] == 0 },
	ir.KindSlice: func(n *ir.Node, _ []bool) bool {
		s := n.Op.(ir.Slice)
		return s.Starts[0].Is(0) && s.Steps[0] == 1 && s.Sizes[0].Equal(n.Inputs[0].Type.Shape[0])
	},
	ir.KindExpand: alongside,
	ir.KindCopy:   first, ir.KindActCopy: first,
	ir.KindConcat: func(n *ir.Node, lead []bool) bool { return n.Op.(ir.Concat).Axis > 0 && !slices.Contains(lead, false) },
	ir.KindPad: func(n *ir.Node, lead []bool) bool {
		p := n.Op.(ir.Pad)
		return first(n, lead) && p.Before[0].Is(0) && p.After[0].Is(0)
	},
	ir.KindTrilu: func(n *ir.Node, lead []bool) bool { return first(n, lead) && rank(n) > 2 },
	ir.KindGather: func(n *ir.Node, lead []bool) bool {
		axis := n.Op.(ir.Gather).Axis
		return lead[0] && !lead[1] && axis > 0 || !lead[0] && lead[1] && axis == 0
	},
	ir.KindGatherElements: func(n *ir.Node, lead []bool) bool {
		x, index := n.Inputs[0].Type.Shape, n.Inputs[1].Type.Shape
		return lead[0] && lead[1] && n.Op.(ir.GatherElements).Axis > 0 && x[0].Equal(index[0])
	},
	ir.KindReduce: func(n *ir.Node, _ []bool) bool {
		axes := n.Op.(ir.Reduce).Axes
		return len(axes) > 0 && slices.Min(axes) > 0
	},
	ir.KindArgReduce:   func(n *ir.Node, _ []bool) bool { return n.Op.(ir.ArgReduce).Axis > 0 },
	ir.KindSoftmax:     func(n *ir.Node, _ []bool) bool { return n.Op.(ir.Softmax).Axis > 0 },
	ir.KindCumSum:      func(n *ir.Node, _ []bool) bool { return n.Op.(ir.CumSum).Axis > 0 },
	ir.KindMatMul:      product(ir.MatMulA, ir.MatMulB, ir.MatMulResidual),
	ir.KindQMatMul:     product(ir.QMatMulA, ir.QMatMulB, ir.QMatMulResidual),
	ir.KindQConv:       weighted(ir.QMatMulA, ir.QMatMulResidual),
	ir.KindMatMulNBits: weighted(ir.NBitsA, ir.NBitsResidual),
	ir.KindLayerNorm:   func(n *ir.Node, lead []bool) bool { return layerNormBatch(n, lead, n.Op.(ir.LayerNorm).Axes) },
	ir.KindQLayerNorm:  func(n *ir.Node, lead []bool) bool { return layerNormBatch(n, lead, n.Op.(ir.QLayerNorm).Axes) },
	ir.KindQuantize: func(n *ir.Node, lead []bool) bool {
		q := n.Op.(ir.Quantize)
		return scaledBatch(n, lead, q.Axis, q.Block)
	},
	ir.KindDequantize: func(n *ir.Node, lead []bool) bool {
		q := n.Op.(ir.Dequantize)
		return scaledBatch(n, lead, q.Axis, q.Block)
	},
	ir.KindConv: func(n *ir.Node, lead []bool) bool {
		return lead[ir.ConvX] && only(lead, ir.ConvX, ir.ConvResidual) && absentOrLeads(n, lead, ir.ConvResidual)
	},
	ir.KindAttention: func(n *ir.Node, lead []bool) bool {
		return !n.HasOperand(ir.AttentionSequences) && attentionBatch(n, lead)
	},
	ir.KindQAttention: func(n *ir.Node, lead []bool) bool {
		return !n.HasOperand(ir.QAttentionSequences) && attentionBatch(n, lead)
	},
	ir.KindRotary:     func(n *ir.Node, lead []bool) bool { return lead[0] && !lead[1] && !lead[2] && rank(n) > 3 },
	ir.KindEmbedding:  embeddings(2), // table, index
	ir.KindQEmbedding: embeddings(4), // table, index, scale, zero point

	ops.MaxPool{}.Kind():     sameFront,
	ops.AveragePool{}.Kind(): sameFront,
	ops.LpPool{}.Kind():      sameFront,
	ops.LRN{}.Kind():         sameFront,
	ops.Resize{}.Kind():      sameFront,
}
