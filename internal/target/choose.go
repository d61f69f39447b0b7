package target

import "github.com/rlxc/rlxc/ir"

// Choose is the row of a kind whose nodes each have a row of their own: of returns it, the zero Row for a node without a kernel.
func Choose(of func(n *ir.Node) Row) Row {
	return Row{
		Runs: OnKernel,
		Supports: func(n *ir.Node) bool {
			r := of(n)
			return r.Runs == OnKernel && (r.Supports == nil || r.Supports(n))
		},
		Strided: func(n *ir.Node, i int, strides []int) bool {
			r := of(n)
			return r.Strided != nil && r.Strided(n, i, strides)
		},
		InPlace: func(n *ir.Node, i int) bool {
			r := of(n)
			return r.InPlace != nil && r.InPlace(n, i)
		},
		TakesStored: func(n *ir.Node, i int) bool {
			r := of(n)
			return r.TakesStored != nil && r.TakesStored(n, i)
		},
		Scratch: func(n *ir.Node) []int64 {
			if r := of(n); r.Scratch != nil {
				return r.Scratch(n)
			}
			return nil
		},
	}
}
