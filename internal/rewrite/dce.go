package rewrite

import (
	"slices"

	"github.com/rlxc/rlxc/ir"
)

// dce drops the nodes whose results are not read and returns their number. A node with the trait Typed also lives for its sizes: it
// defines the symbols in its results' types that no input has, which later types and parameters may hold without reading it.
func dce(g *ir.Graph) int {
	outputs, symbols, inputs := map[*ir.Value]bool{}, map[string]bool{}, map[string]bool{}
	for _, v := range g.Inputs {
		ir.MapType(v.Type, func(d ir.Dim) (ir.Dim, error) {
			if name, ok := d.Symbol(); ok {
				inputs[name] = true
			}
			return d, nil
		})
	}
	needs := func(d ir.Dim) (ir.Dim, error) {
		d.Symbols(symbols)
		return d, nil
	}
	for _, v := range g.Outputs {
		outputs[v] = true
		ir.MapType(v.Type, needs)
	}
	live := func(n *ir.Node) bool {
		for _, v := range n.Outputs {
			if len(v.Uses) > 0 || outputs[v] {
				return true
			}
			if n.Op.Kind().Has(ir.Typed) && slices.ContainsFunc(v.Type.Shape, func(d ir.Dim) bool {
				name, ok := d.Symbol()
				return ok && symbols[name] && !inputs[name]
			}) {
				return true
			}
		}
		return false
	}
	dead := map[*ir.Node]bool{}
	for _, n := range slices.Backward(g.Nodes) {
		if !live(n) {
			dead[n] = true
			n.Detach()
			continue
		}
		if n.Op.Kind().Has(ir.Typed) {
			continue // its own types are what it defines, not what it needs
		}
		ir.MapDims(n.Op, needs)
		for _, v := range n.Outputs {
			ir.MapType(v.Type, needs)
		}
	}
	g.Nodes = slices.DeleteFunc(g.Nodes, func(n *ir.Node) bool { return dead[n] })
	return len(dead)
}
