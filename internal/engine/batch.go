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
	inputs  []bool // by input: whether its axis 0 is the batch; the others are shared by all rows
	outputs []int  // by output: how many times the batch its axis 0 is
}

// findBatch looks for the batch of a graph: the symbol on axis 0 of its inputs. Every value must be free of it, or lead: its axis 0 is a
// multiple of the batch, whose parts depend on their own row of each operand alone. The error names the first node where neither is proved.
func findBatch(g *ir.Graph) (*batch, error) {
	b := &batch{}
	leads := map[*ir.Value]bool{}
	for _, v := range g.Inputs {
		name, ok := "", false
		if len(v.Type.Shape) > 0 {
			name, ok = v.Type.Shape[0].Symbol()
		}
		if b.symbol == "" && ok {
			b.symbol = name
		}
		leads[v] = ok && name == b.symbol
		b.inputs = append(b.inputs, leads[v])
	}
	if b.symbol == "" {
		return nil, fmt.Errorf("no input has an axis 0 of free size")
	}
	for _, v := range g.Inputs {
		if v.Type.Kind != ir.TensorType || v.Type.DType.Size() == 0 {
			return nil, fmt.Errorf("input %s has no elements of whole bytes", files.Quote(v.Name))
		}
		if !leads[v] && b.mentions(nil, v.Type) {
			return nil, fmt.Errorf("input %s has its %s on another axis", files.Quote(v.Name), b.symbol)
		}
	}
	for _, n := range g.Nodes {
		if err := b.node(n, leads); err != nil {
			return nil, n.Fail(err)
		}
	}
	for _, v := range g.Outputs {
		times, ok := b.times(v)
		if !leads[v] || !ok || v.Type.DType.Size() == 0 {
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

// node decides whether the results of n lead.
func (b *batch) node(n *ir.Node, leads map[*ir.Value]bool) error {
	lead := make([]bool, len(n.Inputs))
	for i, v := range n.Inputs {
		lead[i] = leads[v]
	}
	var types []ir.Type
	for _, v := range n.Outputs {
		types = append(types, v.Type)
	}
	if !slices.Contains(lead, true) {
		if !b.mentions(n.Op, types...) && len(n.Subgraphs) == 0 {
			return nil
		}
		if _, ok := n.Op.(ir.Expand); !ok || !b.canLead(n.Outputs[0].Type.Shape) || b.mentions(nil, n.Inputs[0].Type) {
			return fmt.Errorf("it computes values from all rows of %s", b.symbol)
		}
		x, y := n.Inputs[0].Type.Shape, n.Outputs[0].Type.Shape
		if len(x) == len(y) && !x[0].Is(1) {
			return fmt.Errorf("it computes values from all rows of %s", b.symbol)
		}
		leads[n.Outputs[0]] = true
		return nil
	}
	rule := batchRules[n.Op.Kind()]
	if n.Op.Kind().Has(ir.Elementwise) {
		rule = alongside
	}
	for _, v := range n.Outputs {
		if rule == nil || !b.onlySizes(n.Op) || len(n.Subgraphs) > 0 || !b.canLead(v.Type.Shape) || !rule(n, lead) {
			return fmt.Errorf("rows of %s are not known to be independent of each other", b.symbol)
		}
		leads[v] = true
	}
	return nil
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

// alignedTo says so of operand i, which broadcasts to the axes of y.
func alignedTo(y ir.Shape, n *ir.Node, lead []bool, i int) bool {
	if !n.HasOperand(i) {
		return true
	}
	s := n.Inputs[i].Type.Shape
	whole := len(s) == len(y) && len(s) > 0
	return lead[i] && whole && s[0].Equal(y[0]) || !lead[i] && (!whole || s[0].Is(1))
}

// free reports whether none of these operands leads.
func free(lead []bool, operands ...int) bool {
	return !slices.ContainsFunc(operands, func(i int) bool { return i < len(lead) && lead[i] })
}

// absentOrLeads: an operand of the result's shape.
func absentOrLeads(n *ir.Node, lead []bool, i int) bool { return !n.HasOperand(i) || lead[i] }

// matMulBatch: axis 0 is one of rows of a, or of matrices of both operands.
func matMulBatch(n *ir.Node, lead []bool) bool {
	y := n.Outputs[0].Type.Shape
	if !free(lead, ir.MatMulBias) || !absentOrLeads(n, lead, ir.MatMulResidual) {
		return false
	}
	if len(y) == 2 {
		return !lead[ir.MatMulB]
	}
	return alignedTo(y, n, lead, ir.MatMulA) && alignedTo(y, n, lead, ir.MatMulB)
}

// embeddingBatch: tables are of all rows, indices are not.
func embeddingBatch(n *ir.Node, lead []bool) bool {
	for i, leads := range lead {
		if index := i >= ir.EmbeddingIndex && i%2 == ir.EmbeddingIndex%2; n.Inputs[i] != nil && leads != index {
			return false
		}
	}
	return len(n.Outputs[0].Type.Shape) > 2
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
	ir.KindReduce: func(n *ir.Node, _ []bool) bool {
		axes := n.Op.(ir.Reduce).Axes
		return len(axes) > 0 && slices.Min(axes) > 0
	},
	ir.KindArgReduce: func(n *ir.Node, _ []bool) bool { return n.Op.(ir.ArgReduce).Axis > 0 },
	ir.KindSoftmax:   func(n *ir.Node, _ []bool) bool { return n.Op.(ir.Softmax).Axis > 0 },
	ir.KindCumSum:    func(n *ir.Node, _ []bool) bool { return n.Op.(ir.CumSum).Axis > 0 },
	ir.KindMatMul:    matMulBatch,
	ir.KindLayerNorm: func(n *ir.Node, lead []bool) bool {
		return lead[ir.LayerNormX] && rank(n) > n.Op.(ir.LayerNorm).Axes && free(lead, ir.LayerNormScale, ir.LayerNormBias)
	},
	ir.KindConv: func(n *ir.Node, lead []bool) bool {
		return lead[ir.ConvX] && free(lead, ir.ConvW, ir.ConvBias) && absentOrLeads(n, lead, ir.ConvResidual)
	},
	ir.KindAttention: func(n *ir.Node, lead []bool) bool {
		return !n.HasOperand(ir.AttentionSequences) && lead[ir.AttentionQ] && lead[ir.AttentionK] && lead[ir.AttentionV] &&
			alignedTo(n.Inputs[ir.AttentionQ].Type.Shape, n, lead, ir.AttentionMask)
	},
	ir.KindRotary:    func(n *ir.Node, lead []bool) bool { return lead[0] && !lead[1] && !lead[2] && rank(n) > 3 },
	ir.KindEmbedding: embeddingBatch,

	ops.MaxPool{}.Kind():     sameFront,
	ops.AveragePool{}.Kind(): sameFront,
	ops.LpPool{}.Kind():      sameFront,
	ops.LRN{}.Kind():         sameFront,
	ops.Resize{}.Kind():      sameFront,
}
