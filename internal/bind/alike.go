package bind

import (
	"bytes"
	"reflect"
	"slices"

	"github.com/rlxc/rlxc/internal/legalize"
	"github.com/rlxc/rlxc/internal/target"
	"github.com/rlxc/rlxc/ir"
	"github.com/rlxc/rlxc/tensor"
)

// The layers of a model are alike: shape rules, layouts and targets give equal answers for a node of one layer and of another. Bind asks
// once for all nodes that do the same, as long as their operands have the same types and the same layouts in their buffers.

// mostAlike bounds the nodes of one kind with which others are compared.
const mostAlike = 64

// alike finds, for each node and for each chain that is not tiled, an earlier one that does the same at all sizes at which their operands
// agree.
func (p *Plan) alike() {
	type key struct {
		kind     ir.Kind
		operands int
		where    target.Runs
		over     int
		step     bool
	}
	pl, firsts := p.planned.Planned, map[key][]int{}
	for i, n := range pl.Graph.Nodes {
		d := &p.nodes[i]
		if d.concat >= 0 {
			continue // each part of a Concat has another offset
		}
		k := key{n.Op.Kind(), len(n.Inputs), d.where, d.inlay.Over, d.step >= 0}
		at := slices.IndexFunc(firsts[k], func(first int) bool {
			return p.same(n, pl.Graph.Nodes[first]) && p.planned.agree(n, pl.Graph.Nodes[first], true)
		})
		switch {
		case at >= 0:
			d.like = firsts[k][at]
			shares := p.o.Target.Kernels[k.kind].Shares
			d.shares = d.step >= 0 && d.where == target.OnKernel && shares != nil && shares(n)
		case len(firsts[k]) < mostAlike && len(n.Subgraphs) == 0:
			firsts[k] = append(firsts[k], i)
		}
	}
	for i, u := range p.untiled {
		like := slices.IndexFunc(p.untiled[:i], func(w legalize.Untiled) bool { return p.same(u.Node, w.Node) })
		p.untiledLike = append(p.untiledLike, like)
	}
}

// same reports whether two nodes of the same kind get the same decisions whenever their operands have equal types. It compares their ops
// and their constants. The content of constant vectors and of packed matrices may differ, because no decision reads it. If two operands of
// one node are the same value, the operands at these places of the other node must be the same value too: on 16-bit floats, a kernel has a
// scratch buffer for each value that it reads, so that add(x, x) has one buffer fewer than add(x, y).
func (p *Plan) same(n, m *ir.Node) bool {
	a, b := p.trace.Source(n), p.trace.Source(m)
	if len(n.Inputs) != len(m.Inputs) || len(n.Outputs) != len(m.Outputs) || len(n.Subgraphs) > 0 || (a == nil) != (b == nil) ||
		!reflect.DeepEqual(n.Op, m.Op) || a != nil && !reflect.DeepEqual(a.Op, b.Op) {
		return false
	}
	if a != nil {
		for i, v := range a.Outputs { // or they agree at the sizes of the plan by chance
			if !v.Type.Equal(b.Outputs[i].Type) {
				return false
			}
		}
	}
	for i, v := range n.Inputs {
		w := m.Inputs[i]
		if slices.Index(n.Inputs, v) != slices.Index(m.Inputs, w) {
			return false
		}
		if v == w {
			continue
		}
		if v == nil || w == nil || v.IsConst() != w.IsConst() {
			return false
		}
		if !v.IsConst() {
			continue
		}
		if p.trace.Moves(v) || p.trace.Moves(w) || !v.Type.Equal(w.Type) || (v.Packed == nil) != (w.Packed == nil) {
			return false
		}
		switch isVector := len(v.Type.Shape) == 1 && v.Type.Elements() > 1 && v.Type.DType.IsFloat(); {
		case v.Packed != nil && v.Packed.Layout != w.Packed.Layout:
			return false
		case v.Packed == nil && !isVector && (v.Type.DType == tensor.String || !bytes.Equal(v.Const.Bytes(), w.Const.Bytes())):
			return false
		}
	}
	return true
}

// agree reports whether the operands of two nodes have the same types at the sizes of b, if they are no constants, and, if asked, the same
// layouts. Those of views may begin elsewhere. The nodes may be of a Bound of other sizes.
func (b *Bound) agree(n, m *ir.Node, layouts bool) bool {
	isView, pl := n.Op.Kind().Has(ir.View), b.Planned
	for i, v := range n.Inputs {
		w := m.Inputs[i]
		if v == w || v.IsConst() {
			continue
		}
		if !b.values[v.ID].Type.Equal(b.values[w.ID].Type) {
			return false
		}
		if l, k := &pl.Layouts[v.ID], &pl.Layouts[w.ID]; layouts && ((l.Root == nil) != (k.Root == nil) ||
			l.Offset != k.Offset && !isView || !slices.Equal(l.Strides, k.Strides)) {
			return false
		}
	}
	return true
}
