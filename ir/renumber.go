package ir

// Number gives the values of a graph without subgraphs, which are listed, their positions in the list as IDs.
func (g *Graph) Number(values []*Value) {
	for i, v := range values {
		v.ID = i
	}
	g.nextID = len(values)
}

// Renumber gives the values new numbers without gaps, in the order of the text: inputs, constants, results. Tables by ID
// get no larger than they must, and two graphs that differ only in numbers print the same.
func (g *Graph) Renumber() {
	next := 0
	number := func(vs []*Value) {
		for _, v := range vs {
			v.ID = next
			next++
		}
	}
	var graphs []*Graph
	var walk func(g *Graph)
	walk = func(r *Graph) {
		graphs = append(graphs, r)
		number(r.Inputs)
		if r == g {
			number(g.Consts())
		}
		for _, n := range r.Nodes {
			number(n.Outputs)
			for _, x := range n.Subgraphs {
				walk(x)
			}
		}
	}
	walk(g)
	for _, r := range graphs {
		r.nextID = next
	}
}
