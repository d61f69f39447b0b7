package legalize

import (
	"errors"

	"github.com/rlxc/rlxc/internal/target"
	"github.com/rlxc/rlxc/ir"
)

// errCopy is the error of Again: the decision of Graph that a node needs no copy does not hold.
var errCopy = errors.New("a view or an operand needs a copy at these sizes")

// Again lays out the results of a node that Graph has made legal, at other sizes. The node's types and the layouts of its operands are
// those of the new sizes. A result stays in the memory that it has. Again returns errCopy where Graph would have inserted a copy.
func Again(n *ir.Node, layouts []ir.Layout, t *target.Target) error {
	if n.Op.Kind().Has(ir.View) {
		x := n.Inputs[0]
		in := ir.OwnLayout(x)
		if l := ir.LayoutIn(layouts, x); l != nil {
			in = *l
		}
		l, ok := ir.ViewLayout(n, in)
		if !ok {
			return errCopy
		}
		layouts[n.Outputs[0].ID] = l
		return nil
	}
	if !takes(n, layouts, t) {
		return errCopy
	}
	for _, v := range n.Outputs {
		root := layouts[v.ID].Root
		layouts[v.ID] = ir.OwnLayout(v)
		layouts[v.ID].Root = root
	}
	return nil
}

// takes reports whether each operand of a node is row-major, or the target takes its strides.
func takes(n *ir.Node, layouts []ir.Layout, t *target.Target) bool {
	for i, v := range n.Inputs {
		if v == nil {
			continue
		}
		if l := ir.LayoutIn(layouts, v); l != nil && !l.Contiguous() && !t.Strided(n, i, l.Strides) {
			return false
		}
	}
	return true
}
