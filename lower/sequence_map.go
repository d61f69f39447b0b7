package lower

import (
	"fmt"
	"slices"

	"github.com/rlxc/rlxc/ir"
	"github.com/rlxc/rlxc/tensor"
)

// lowerSequenceMap runs its body for every element of the first sequence; further operands are sequences of the same
// length, or tensors, which every run gets whole.
func lowerSequenceMap(c *Context) []*ir.Value {
	in := c.All()
	r := c.attrRegion("body", len(in))
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
		c.Failf("the body gives %d values, the node %d", len(body.Outputs), c.NumOutputs())
	}
	var types []ir.Type
	for _, v := range body.Outputs {
		types = append(types, sequenceOf(hideSymbols(v.Type)))
	}
	attrs := ir.Attrs{{Name: "inputs", Value: int64(len(in))}}
	return c.control(attrs, append(in, body.captures...), []*ir.Graph{body.Graph}, types)
}

func runSequenceMap(o ir.Custom, in []*tensor.Tensor, call ir.CallRegion) ([]*tensor.Tensor, error) {
	n := intParam(o, "inputs")
	lists := newPiles(o, len(o.Types))
	for i := range in[0].Len() {
		args := slices.Clone(in)
		for k, x := range in[:n] {
			if x.IsSequence() {
				if x.Len() != in[0].Len() {
					return nil, fmt.Errorf("sequences of %d and %d elements", in[0].Len(), x.Len())
				}
				args[k] = x.Elems()[i]
			}
		}
		out, err := call(0, args)
		if err != nil {
			return nil, err
		}
		if err := lists.add(out); err != nil {
			return nil, err
		}
	}
	out := make([]*tensor.Tensor, len(o.Types))
	for k, l := range lists.lists {
		out[k] = tensor.NewSequence(l...)
	}
	return out, nil
}
