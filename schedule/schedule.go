// Package schedule puts the steps of a bound, legalised graph in order.
package schedule

import "github.com/rlxc/rlxc/ir"

// Order gives the nodes that run, in the order of their steps: views are left out, they only show memory. The graph's own
// order is kept.
func Order(g *ir.Graph) []*ir.Node {
	steps := make([]*ir.Node, 0, len(g.Nodes))
	for _, n := range g.Nodes {
		if !n.Op.Kind().Has(ir.View) {
			steps = append(steps, n)
		}
	}
	return steps
}
