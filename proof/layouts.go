package proof

import (
	"fmt"

	"github.com/rlxc/rlxc/ir"
)

// layouts follow views to their roots, from the graph alone.
type layouts struct{ known []ir.Layout } // by ID

func newLayouts(c Claim) *layouts { return &layouts{make([]ir.Layout, c.Graph.NumValues())} }

// of is the layout of a value; views must have been shown before.
func (l *layouts) of(v *ir.Value) ir.Layout {
	if l.known[v.ID].Root == nil {
		l.known[v.ID] = ir.OwnLayout(v)
	}
	return l.known[v.ID]
}

// show finds the layouts of values that a step reads, and of the views on the way to them, and checks that each stays inside
// its root.
func (l *layouts) show(values []*ir.Value) error {
	var views []*ir.Node
	for _, v := range values {
		for v != nil && v.Def != nil && v.Def.Op.Kind().Has(ir.View) && l.known[v.ID].Root == nil {
			views = append(views, v.Def)
			v = v.Def.Inputs[0]
		}
		for ; len(views) > 0; views = views[:len(views)-1] {
			if err := l.view(views[len(views)-1]); err != nil {
				return err
			}
		}
	}
	return nil
}

func (l *layouts) view(n *ir.Node) error {
	in, out := n.Inputs[0], n.Outputs[0]
	if out.Type.DType.Size() == 0 {
		return fmt.Errorf("view %s: elements of %s do not start at bytes", n.Label(), out.Type.DType)
	}
	lay, ok := ir.ViewLayout(n, l.of(in))
	if !ok {
		return fmt.Errorf("view %s: its operand's strides do not allow it", n.Label())
	}
	l.known[out.ID] = lay
	if shape := out.Type.Sizes(); shape.Elements() > 0 {
		if last, all := lay.Offset+lay.Span(shape), lay.Root.Type.Sizes().Elements(); lay.Offset < 0 || last > all {
			return fmt.Errorf("view %s shows elements %d to %d of %s, which has %d", n.Label(), lay.Offset, last, name(lay.Root), all)
		}
	}
	return nil
}
