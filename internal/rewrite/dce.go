package rewrite

import (
	"slices"

	"github.com/rlxc/rlxc/ir"
)

// dce drops the nodes that no output depends on and returns their number.
func dce(g *ir.Graph) int {
	nodes, _ := Live(g, g.Outputs)
	dead := make(map[*ir.Node]bool, len(g.Nodes)-len(nodes))
	for _, n := range g.Nodes {
		dead[n] = true
	}
	for _, n := range nodes {
		delete(dead, n)
	}
	for n := range dead {
		n.Detach()
	}
	g.Nodes = nodes
	return len(dead)
}

// Live returns the nodes and inputs of a graph that some of its values, the outputs, depend on, in the graph's order. The graph stays as it
// is. Besides what is read, two things live for a symbolic size that is used: in the types of the outputs, or in a type or parameter of a
// node that lives and has not the trait ir.Typed.
//   - a node with that trait whose results' types have the symbol, if no input of the graph has it: no other node defines it;
//   - the first input that has the symbol, if no input that is read has it.
//
// An input that no node of the graph reads lives too: it is part of the model's interface.
func Live(g *ir.Graph, outputs []*ir.Value) (nodes []*ir.Node, inputs []*ir.Value) {
	values, symbols, known := map[*ir.Value]bool{}, map[string]bool{}, map[string]bool{}
	each := func(t ir.Type, do func(name string)) {
		ir.MapType(t, func(d ir.Dim) (ir.Dim, error) {
			if name, ok := d.Symbol(); ok {
				do(name)
			}
			return d, nil
		})
	}
	for _, v := range g.Inputs {
		each(v.Type, func(name string) { known[name] = true })
	}
	needs := func(d ir.Dim) (ir.Dim, error) {
		d.Symbols(symbols)
		return d, nil
	}
	for _, v := range outputs {
		values[v] = true
		ir.MapType(v.Type, needs)
	}
	for _, n := range slices.Backward(g.Nodes) {
		typed := n.Op.Kind().Has(ir.Typed)
		live := slices.ContainsFunc(n.Outputs, func(v *ir.Value) bool {
			defines := false
			for _, d := range v.Type.Shape {
				name, ok := d.Symbol()
				defines = defines || typed && ok && symbols[name] && !known[name]
			}
			return values[v] || defines
		})
		if !live {
			continue
		}
		nodes = append(nodes, n)
		for _, v := range n.Inputs {
			values[v] = true
		}
		if typed {
			continue // its own types are what it defines, not what it needs
		}
		ir.MapDims(n.Op, needs)
		for _, v := range n.Outputs {
			ir.MapType(v.Type, needs)
		}
	}
	slices.Reverse(nodes)
	for _, sized := range []bool{false, true} { // what is read first, which has most sizes
		for _, v := range g.Inputs {
			if values[v] = values[v] || len(v.Uses) == 0; sized {
				each(v.Type, func(name string) { values[v] = values[v] || symbols[name] })
			}
			if values[v] {
				each(v.Type, func(name string) { delete(symbols, name) })
			}
		}
	}
	return nodes, slices.DeleteFunc(slices.Clone(g.Inputs), func(v *ir.Value) bool { return !values[v] })
}
