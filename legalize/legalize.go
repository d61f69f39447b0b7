// Package legalize makes a bound graph runnable on a target: views that strides can express get layouts and no memory;
// where a kernel or the caller needs elements in row-major order, it puts copies.
package legalize

import (
	"github.com/rlxc/rlxc/ir"
	"github.com/rlxc/rlxc/target"
)

// Graph changes the bound graph g in place and gives the layout of every value, by ID.
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
		lay := l.layout(v)
		if lay.Root.Def == nil || !lay.Contiguous(v.Type.Sizes()) { // the caller's own input, a weight, or strided
			c, err := l.copy(v)
			if err != nil {
				return nil, err
			}
			g.Outputs[i] = c
		}
	}
	g.Nodes = l.out
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
	if v.ID >= len(l.layouts) || l.layouts[v.ID].Root == nil {
		l.own(v)
	}
	return l.layouts[v.ID]
}

func (l *legalizer) node(n *ir.Node) error {
	if l.t.Where(n) == target.AsView {
		in := l.layout(n.Inputs[0])
		lay, ok := ir.ViewLayout(n, in)
		if !ok {
			c, err := l.copy(n.Inputs[0])
			if err != nil {
				return err
			}
			n.SetInput(0, c)
			if lay, ok = ir.ViewLayout(n, l.layouts[c.ID]); !ok {
				return l.materialize(n)
			}
		}
		l.layouts[n.Outputs[0].ID] = lay
		l.out = append(l.out, n)
		return nil
	}
	for i, v := range n.Inputs {
		if v == nil {
			continue
		}
		lay := l.layout(v)
		if lay.Contiguous(v.Type.Sizes()) || l.t.Strided(n, i, lay.Strides) {
			continue
		}
		c, err := l.copy(v)
		if err != nil {
			return err
		}
		n.SetInput(i, c)
	}
	for _, v := range n.Outputs {
		l.own(v)
	}
	l.out = append(l.out, n)
	return nil
}

// materialize turns a view that no strides can express even over row-major memory (a slice that walks backwards) into a
// host step that computes it.
func (l *legalizer) materialize(n *ir.Node) error {
	n.Op = ir.Materialize{View: n.Op}
	l.own(n.Outputs[0])
	l.out = append(l.out, n)
	return nil
}

// copy gives the row-major twin of v.
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
	l.own(n.Outputs[0])
	l.out = append(l.out, n)
	l.copies[v] = n.Outputs[0]
	return n.Outputs[0], nil
}
