package engine

import (
	"bytes"
	"reflect"
	"slices"

	"github.com/rlxc/rlxc/internal/backend"
	"github.com/rlxc/rlxc/internal/target"
	"github.com/rlxc/rlxc/ir"
	"github.com/rlxc/rlxc/tensor"
)

// The layers of a model are alike: what the shape rule, the layout and the target say of a node of one holds for those of the others. A
// box asks once for all nodes that do the same, as long as their operands have the same types and the same layouts in their buffers.

// alike finds, for each node, an earlier one that does the same at all sizes at which their operands agree.
func (x *box) alike(pl *backend.Planned, t *target.Target) {
	type key struct {
		kind     ir.Kind
		operands int
		where    target.Runs
		over     int
		step     bool
	}
	firsts := map[key][]*movingNode{}
	pl.Like = slices.Repeat([]int{-1}, len(pl.Steps))
	for i := range x.nodes {
		n := &x.nodes[i]
		if n.into != nil {
			continue // what is like it begins elsewhere
		}
		k := key{n.Op.Kind(), len(n.Inputs), n.where, n.over, n.step >= 0}
		at := slices.IndexFunc(firsts[k], func(first *movingNode) bool { return x.same(n, first) && agree(pl, n, first, true) })
		switch {
		case at >= 0:
			n.like = firsts[k][at]
			if shares := t.Kernels[k.kind].Shares; n.step >= 0 && n.where == target.OnKernel && shares != nil && shares(n.Node) {
				n.shares, pl.Like[n.step] = true, n.like.step
			}
		case len(firsts[k]) < mostAlike && len(n.Subgraphs) == 0:
			firsts[k] = append(firsts[k], n)
		}
	}
}

// mostAlike bounds the nodes of one kind with which others are compared.
const mostAlike = 64

// same reports whether two nodes of a kind do the same with operands of equal types: they have the same constants, but for vectors and
// packed matrices, of which no decision reads the content.
func (x *box) same(n, m *movingNode) bool {
	if len(n.Outputs) != len(m.Outputs) || len(n.Subgraphs) > 0 || (n.source == nil) != (m.source == nil) ||
		!reflect.DeepEqual(n.Op, m.Op) {
		return false
	}
	if n.source != nil {
		if !reflect.DeepEqual(n.source.Op, m.source.Op) {
			return false
		}
		for i, v := range n.source.Outputs { // or they agree at the sizes of now by chance
			if !v.Type.Equal(m.source.Outputs[i].Type) {
				return false
			}
		}
	}
	for i, v := range n.Inputs {
		w := m.Inputs[i]
		if v == w {
			continue
		}
		if v == nil || w == nil || v.IsConst() != w.IsConst() {
			return false
		}
		if !v.IsConst() {
			continue
		}
		if x.trace.Moved(v)|x.trace.Moved(w) != 0 || !v.Type.Equal(w.Type) || (v.Packed == nil) != (w.Packed == nil) {
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

// agree reports whether the operands of two nodes have the same types, if they are no constants, and, if asked, the same layouts. Those of
// views may begin elsewhere.
func agree(pl *backend.Planned, n, m *movingNode, layouts bool) bool {
	isView := n.Op.Kind().Has(ir.View)
	for i, v := range n.Inputs {
		w := m.Inputs[i]
		if v == w || v.IsConst() {
			continue
		}
		if !v.Type.Equal(w.Type) {
			return false
		}
		if l, k := &pl.Layouts[v.ID], &pl.Layouts[w.ID]; layouts && ((l.Root == nil) != (k.Root == nil) ||
			l.Offset != k.Offset && !isView || !slices.Equal(l.Strides, k.Strides)) {
			return false
		}
	}
	return true
}

// followType gives a node the op and the types of the one like it.
func (n *movingNode) followType() {
	n.Op, n.flops = n.like.Op, n.like.flops
	for i, v := range n.Outputs {
		v.Type = n.like.Outputs[i].Type
	}
}

// followLayout gives a node the layouts and the scratch memory of the one like it.
func (n *movingNode) followLayout(pl *backend.Planned) {
	m := n.like
	if n.step >= 0 {
		pl.Like[n.step] = -1
		if n.shares {
			pl.Like[n.step] = m.step
		}
	}
	n.scratch = m.scratch
	for i, v := range n.Outputs {
		w := m.Outputs[i]
		l := &pl.Layouts[v.ID]
		root := l.Root
		*l = pl.Layouts[w.ID]
		if l.Root = root; n.step < 0 && root != v {
			l.Offset += pl.Layouts[n.Inputs[0].ID].Offset - pl.Layouts[m.Inputs[0].ID].Offset
		}
	}
}
