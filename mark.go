package rlxc

import "github.com/rlxc/rlxc/ir"

// markAll makes every named tensor that a node of g gives an output of g, behind those of the model and in the order of the
// nodes. Names that the model uses twice, inside functions, are marked once.
func markAll(g *ir.Graph) {
	given := map[string]bool{}
	for _, name := range g.OutputNames {
		given[name] = true
	}
	for _, n := range g.Nodes {
		for _, v := range n.Outputs {
			if v.Name == "" || given[v.Name] || v.Type.Kind != ir.TensorType {
				continue
			}
			given[v.Name] = true
			g.Outputs = append(g.Outputs, v)
			g.OutputNames = append(g.OutputNames, v.Name)
		}
	}
}
