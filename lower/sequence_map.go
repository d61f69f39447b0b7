package lower

import (
	"github.com/rlxc/rlxc/internal/ops"
	"github.com/rlxc/rlxc/ir"
)

// lowerSequenceMap runs its body for every element of the first sequence; further operands are sequences of the same
// length, or tensors, which every run gets whole.
func lowerSequenceMap(c *context) []*ir.Value {
	in := c.All()
	r := c.attrSubgraph("body", len(in))
	c.sequence(0)
	params := make([]ir.Type, len(in))
	for i, v := range in {
		if params[i] = v.Type; v.Type.Kind == ir.SequenceType {
			params[i] = *v.Type.Elem
		}
	}
	body, err := c.body(r, params)
	if err != nil {
		panic(failure{err})
	}
	if len(body.Outputs) != c.NumOutputs() {
		c.Failf("the body returns %d values, the node %d", len(body.Outputs), c.NumOutputs())
	}
	var types []ir.Type
	for _, v := range body.Outputs {
		types = append(types, sequenceOf(hideSymbols(v.Type)))
	}
	op := ops.SequenceMap{Typed: typed(types...), Inputs: len(in)}
	return c.control(op, types, append(in, body.captures...), []*ir.Graph{body.Graph})
}
