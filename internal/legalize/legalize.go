// Package legalize makes a bound graph runnable on a target: views that strides can express get layouts and no memory;
// where a kernel or the caller needs elements in row-major order, it puts copies.
package legalize

import (
	"github.com/rlxc/rlxc/internal/target"
	"github.com/rlxc/rlxc/ir"
)

// Graph changes the bound graph g in place and returns the layout of every value, by ID. The zero Layout stands for
// constants that no node of g looks at by strides: they are row-major.
func Graph(g *ir.Graph, t *target.Target) ([]ir.Layout, error) {
	l := &legalizer{g: g, t: t, layouts: make([]ir.Layout, g.NumValues()), copies: map[*ir.Value]*ir.Value{}}
	for _, v := range g.Inputs {
		l.own(v)
	}
	nodes := g.Nodes
	l.out = make([]*ir.Node, 0, len(nodes)+8)
	for _, n := range nodes {
		if err := l.node(n); err != nil {
			return nil, n.Fail(err)
		}
	}
	for i, v := range g.Outputs {
		if l.layout(v).Root.Def != nil && l.rowMajor(v) {
			continue
		}
		c, err := l.copy(v) // the caller's own input, a weight, or strided
		if err != nil {
			return nil, err
		}
		g.Outputs[i] = c
	}
	g.Nodes = l.out
	for _, v := range g.Consts() {
		l.layout(v)
	}
	return l.layouts, nil
}

type legalizer struct {
	g       *ir.Graph
	t       *target.Target
	out     []*ir.Node
	layouts []ir.Layout
	copies  map[*ir.Value]*ir.Value // row-major twins of strided views
}

func (l *legalizer) own(v *ir.Value) {
	for v.ID >= len(l.layouts) {
		l.layouts = append(l.layouts, ir.Layout{})
	}
	l.layouts[v.ID] = ir.OwnLayout(v)
}

// layout makes sure that a value has one; constants get theirs on first sight.
func (l *legalizer) layout(v *ir.Value) ir.Layout {
	if l.layouts[v.ID].Root == nil {
		l.own(v)
	}
	return l.layouts[v.ID]
}

func (l *legalizer) rowMajor(v *ir.Value) bool {
	if root := l.layouts[v.ID].Root; root == nil || root == v {
		return true // no view
	}
	return l.layouts[v.ID].Contiguous()
}

func (l *legalizer) node(n *ir.Node) error {
	if c, ok := n.Op.(ir.Cast); ok && c.To == n.Inputs[0].Type.DType {
		n.Op = ir.Reshape{Shape: n.Outputs[0].Type.Shape} // changes nothing: a view
	}
	if l.t.Where(n) == target.AsView {
		return l.view(n)
	}
	for i, v := range n.Inputs {
		if v == nil || l.rowMajor(v) || l.t.Strided(n, i, l.layouts[v.ID].Strides) {
			continue
		}
		c, err := l.copy(v)
		if err != nil {
			return err
		}
		n.SetInput(i, c)
	}
	l.emit(n)
	return nil
}

// emit appends a node whose results have separate memory.
func (l *legalizer) emit(n *ir.Node) {
	for _, v := range n.Outputs {
		l.own(v)
	}
	l.out = append(l.out, n)
}

// view lays a view out. Where strides cannot express it, it shows a row-major copy of its operand; where not even
// that helps, because it walks backwards or its elements do not start at bytes, it becomes a step that computes it.
func (l *legalizer) view(n *ir.Node) error {
	x := n.Inputs[0]
	if x.Type.DType.Size() > 0 {
		lay, ok := ir.ViewLayout(n, l.layout(x))
		if !ok && !l.rowMajor(x) {
			c, err := l.copy(x)
			if err != nil {
				return err
			}
			n.SetInput(0, c)
			lay, ok = ir.ViewLayout(n, l.layout(c))
		}
		if ok {
			l.layouts[n.Outputs[0].ID] = lay
			l.out = append(l.out, n)
			return nil
		}
	}
	n.Op = ir.Materialize{View: n.Op}
	l.emit(n)
	return nil
}

// copy returns the row-major twin of v, which all readers share.
func (l *legalizer) copy(v *ir.Value) (*ir.Value, error) {
	if c := l.copies[v]; c != nil {
		return c, nil
	}
	var origins []string
	if v.Def != nil {
		origins = v.Def.Origins
	}
	n, err := l.g.NewNode(ir.Copy{}, []*ir.Value{v}, origins...)
	if err != nil {
		return nil, err
	}
	n.Outputs[0].Name = v.Name
	l.emit(n)
	l.copies[v] = n.Outputs[0]
	return n.Outputs[0], nil
}
