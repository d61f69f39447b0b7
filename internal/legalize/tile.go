package legalize

import (
	"slices"

	"github.com/rlxc/rlxc/internal/target"
	"github.com/rlxc/rlxc/ir"
)

// Tile joins products of the legalised graph g that follow each other, up and down, where the target computes both by blocks of rows: the
// matrix between them, the largest of a transformer, then never is there whole. It returns the layouts, and nodes that it would have made
// if the target had accepted them.
func Tile(g *ir.Graph, layouts []ir.Layout, t *target.Target) (_ []ir.Layout, untiled []*ir.Node, err error) {
	if t.Kernels[ir.KindFeedForward].Runs != target.OnKernel {
		return layouts, nil, nil
	}
	joined := map[*ir.Node]bool{}
	for i, down := range g.Nodes {
		n, err := feedForward(g, down)
		if n == nil || err != nil {
			continue
		}
		up, y := down.Inputs[ir.MatMulA].Def, down.Outputs[0]
		if !Accepts(n, layouts, t) {
			untiled = append(untiled, &ir.Node{Op: n.Op, Inputs: slices.Clone(n.Inputs), Outputs: down.Outputs})
			n.Detach()
			continue
		}
		up.Detach()
		down.Detach()
		n.Outputs[0], y.Def = y, n
		g.Nodes[i], joined[up] = n, true
	}
	g.Nodes = slices.DeleteFunc(g.Nodes, func(n *ir.Node) bool { return joined[n] })
	for len(layouts) < g.NumValues() {
		layouts = append(layouts, ir.Layout{})
	}
	return layouts, untiled, nil
}

// feedForward makes the node of a product that reads another one, which has no other reader, as it is; nil if there is none.
func feedForward(g *ir.Graph, down *ir.Node) (*ir.Node, error) {
	d, ok := down.Op.(ir.MatMul)
	if !ok || d.Act != ir.NoUnary || d.Scale() != 1 || down.Inputs[ir.MatMulB].Packed == nil {
		return nil, nil
	}
	h := down.Inputs[ir.MatMulA]
	if h.Def == nil || len(h.Uses) != 1 || g.IsOutput(h) {
		return nil, nil
	}
	up := h.Def
	u, ok := up.Op.(ir.MatMul)
	if !ok || up.Inputs[ir.MatMulB].Packed == nil || up.HasOperand(ir.MatMulResidual) {
		return nil, nil
	}
	op := ir.FeedForward{TransUp: u.TransB, TransDown: d.TransB, Alpha: u.Alpha, Act: u.Act, ActAlpha: u.ActAlpha, ActBeta: u.ActBeta}
	return g.NewNode(op, []*ir.Value{up.Inputs[ir.MatMulA], up.Inputs[ir.MatMulB], down.Inputs[ir.MatMulB],
		ir.Operand(up.Inputs, ir.MatMulBias), ir.Operand(down.Inputs, ir.MatMulBias), ir.Operand(down.Inputs, ir.MatMulResidual)},
		ir.JoinOrigins(up.Origins, down.Origins)...)
}

// Accepts reports whether the target runs a node with these operands.
func Accepts(n *ir.Node, layouts []ir.Layout, t *target.Target) bool {
	if t.Where(n) != target.OnKernel {
		return false
	}
	for i, v := range n.Inputs {
		if v == nil || layouts[v.ID].Root == nil {
			continue
		}
		if l := layouts[v.ID]; !l.Contiguous() && !t.Strided(n, i, l.Strides) {
			return false
		}
	}
	return true
}
