package legalize

import (
	"errors"

	"github.com/rlxc/rlxc/internal/target"
	"github.com/rlxc/rlxc/ir"
)

// errOther is what Again says of sizes at which Graph would have decided otherwise.
var errOther = errors.New("a view or an operand needs a copy at these sizes")

// Again lays the results of a node out that Graph has made legal, after its sizes have changed. It fails where Graph would have put a copy
// that is not there. A result stays in the memory that it has.
func Again(n *ir.Node, layouts []ir.Layout, t *target.Target) error {
	of := func(v *ir.Value) ir.Layout {
		if l := layouts[v.ID]; l.Root != nil {
			return l
		}
		return ir.OwnLayout(v)
	}
	if n.Op.Kind().Has(ir.View) {
		l, ok := ir.ViewLayout(n, of(n.Inputs[0]))
		if !ok {
			return errOther
		}
		layouts[n.Outputs[0].ID] = l
		return nil
	}
	for i, v := range n.Inputs {
		if v == nil || layouts[v.ID].Root == nil {
			continue
		}
		if l := layouts[v.ID]; !l.Contiguous() && !t.Strided(n, i, l.Strides) {
			return errOther
		}
	}
	for _, v := range n.Outputs {
		root := layouts[v.ID].Root
		layouts[v.ID] = ir.OwnLayout(v)
		layouts[v.ID].Root = root
	}
	return nil
}
