package rewrite

import (
	"slices"

	"github.com/rlxc/rlxc/ir"
)

// order sorts the nodes by how the outputs depend on them, operands in order, so that the program does not depend on the
// order in which an exporter happened to write it. It returns the number of nodes that moved. Graphs with nodes of the trait Typed stay
// as they are: sizes order their nodes, too.
func order(g *ir.Graph) int {
	old := make(map[*ir.Node]int, len(g.Nodes))
	for i, n := range g.Nodes {
		if n.Op.Kind().Has(ir.Typed) || len(n.Subgraphs) > 0 {
			return 0
		}
		old[n] = i
	}
	type visit struct {
		n    *ir.Node
		next int // operand
	}
	sorted, seen := make([]*ir.Node, 0, len(g.Nodes)), make(map[*ir.Node]bool, len(g.Nodes))
	var stack []visit
	push := func(v *ir.Value) {
		if v != nil && v.Def != nil && !seen[v.Def] {
			seen[v.Def] = true
			stack = append(stack, visit{n: v.Def})
		}
	}
	for _, v := range g.Outputs {
		push(v)
		for len(stack) > 0 {
			top := &stack[len(stack)-1]
			if top.next < len(top.n.Inputs) {
				top.next++
				push(top.n.Inputs[top.next-1])
				continue
			}
			sorted = append(sorted, top.n)
			stack = stack[:len(stack)-1]
		}
	}
	if len(sorted) != len(g.Nodes) || slices.Equal(sorted, g.Nodes) {
		return 0
	}
	g.Nodes = sorted
	moved := 0
	for i, n := range sorted {
		if old[n] != i {
			moved++
		}
	}
	return moved
}
