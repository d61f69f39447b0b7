package legalize

import (
	"slices"

	"github.com/rlxc/rlxc/internal/target"
	"github.com/rlxc/rlxc/ir"
)

// Tile joins products and convolutions of the legalised graph g that follow each other where the target computes them by blocks of rows:
// what is between them, the largest value of many models, then never is there whole. It returns the layouts, and the chains of
// the decisions Untiled.
func Tile(g *ir.Graph, layouts []ir.Layout, t *target.Target) (_ []ir.Layout, untiled []Untiled, err error) {
	if t.Kernels[ir.KindChain].Runs != target.OnKernel {
		return layouts, nil, nil
	}
	joined := map[*ir.Node]bool{}
	for i, last := range g.Nodes {
		n, err := chain(g, last)
		if n == nil || err != nil {
			continue
		}
		before, y := last.Inputs[ir.ChainX].Def, last.Outputs[0]
		if !accepts(n, layouts, t) {
			untiled = append(untiled, Untiled{&ir.Node{Op: n.Op, Inputs: slices.Clone(n.Inputs), Outputs: n.Outputs, Origins: n.Origins}})
			n.Detach()
			continue
		}
		before.Detach()
		last.Detach()
		n.Outputs[0], y.Def = y, n
		g.Nodes[i], joined[before] = n, true
	}
	g.Nodes = slices.DeleteFunc(g.Nodes, func(n *ir.Node) bool { return joined[n] })
	for len(layouts) < g.NumValues() {
		layouts = append(layouts, ir.Layout{})
	}
	return layouts, untiled, nil
}

// chain makes the node of an op and the one that it reads, which has no other reader, as they are, or of the chain that it reads; nil if
// there is none.
func chain(g *ir.Graph, last *ir.Node) (*ir.Node, error) {
	if !isLink(last) {
		return nil, nil
	}
	h := last.Inputs[ir.ChainX]
	if h.Def == nil || len(h.Uses) != 1 || g.IsOutput(h) {
		return nil, nil
	}
	before := h.Def
	op, ok := before.Op.(ir.Chain)
	if !ok {
		if !isLink(before) {
			return nil, nil
		}
		op.Ops = []ir.Op{before.Op}
	}
	if before.HasOperand(op.Residual()) {
		return nil, nil
	}
	in := slices.Clone(before.Inputs[:min(len(before.Inputs), op.Residual())])
	in = append(in, make([]*ir.Value, op.Residual()-len(in))...)
	residual, _ := ir.LinkResidual(last.Op)
	for i := ir.ChainW; i <= residual; i++ {
		in = append(in, ir.Operand(last.Inputs, i))
	}
	return g.NewNode(ir.Chain{Ops: append(slices.Clone(op.Ops), last.Op)}, in, ir.JoinOrigins(before.Origins, last.Origins)...)
}

// isLink reports whether a node may be in a chain: the weights of products are packed.
func isLink(n *ir.Node) bool {
	_, ok := ir.LinkResidual(n.Op)
	return ok && (n.Op.Kind() == ir.KindConv || n.Inputs[ir.ChainW].Packed != nil)
}

// accepts reports whether the target runs a node with these operands.
func accepts(n *ir.Node, layouts []ir.Layout, t *target.Target) bool {
	return t.Where(n) == target.OnKernel && takes(n, layouts, t)
}

// An Untiled is the decision of Tile to leave the steps of a chain apart. Its node is that chain, which is in no graph.
type Untiled struct{ *ir.Node }

// Holds reports whether the target does not accept the chain at other sizes either. values are the graph's values at these sizes, by ID.
func (u Untiled) Holds(values []*ir.Value, layouts []ir.Layout, t *target.Target) bool {
	n := ir.Node{Op: u.Op, Inputs: slices.Clone(u.Inputs)}
	for i, v := range n.Inputs {
		if v != nil {
			n.Inputs[i] = values[v.ID]
		}
	}
	types, err := ir.Infer(&n)
	if err != nil {
		return true
	}
	for _, t := range types { // the graph has no value for the result if it has become the inner value of the next chain
		n.Outputs = append(n.Outputs, &ir.Value{Type: t})
	}
	return !accepts(&n, layouts, t)
}
