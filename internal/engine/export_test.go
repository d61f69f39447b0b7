package engine

import "github.com/rlxc/rlxc/ir"

// Plainly makes all later plans without results over parts of buffers, and without tiles.
func (p *Program) Plainly() {
	t := *p.target()
	t.Kernels[ir.KindAttention].StridedResult = nil
	t.Kernels[ir.KindChain].Supports = func(*ir.Node) bool { return false }
	p.late, p.opts.LateReads = &t, 1
}
