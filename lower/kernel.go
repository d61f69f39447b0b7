package lower

import (
	"fmt"

	"github.com/rlxc/rlxc/ir"
	"github.com/rlxc/rlxc/tensor"
)

// opaque emits an operator of package ops; without operands, over all of the node's.
func (c *context) opaque(op ir.Op, in ...*ir.Value) []*ir.Value {
	if in == nil {
		in = c.in
	}
	out, err := c.b.g.Append(op, in, c.node)
	if err != nil {
		c.Failf("%w", err)
	}
	return out
}

// check reports what an operator of package ops has against the node's operands.
func (c *context) check(op ir.Op) {
	if _, err := checked(op, c.in); err != nil {
		c.Failf("%w", err)
	}
}

// checked prepares op, because Eval needs the result of Prepare, and infers the types of its results.
func checked(op ir.Op, in []*ir.Value) (_ ir.Op, err error) {
	if p, ok := op.(ir.Preparer); ok {
		if op, err = p.Prepare(); err != nil {
			return nil, err
		}
	}
	_, err = ir.Infer(&ir.Node{Op: op, Inputs: in})
	return op, err
}

// compute is opaque for an operator whose results' sizes depend on data: where all operands are known it is evaluated at once.
func (c *context) compute(op ir.Op, in ...*ir.Value) []*ir.Value {
	ready, err := checked(op, in)
	if err != nil {
		c.Failf("%w", err)
	}
	content := make([]*tensor.Tensor, len(in))
	for i, v := range in {
		t, known := c.fold(v)
		if !known {
			return c.opaque(op, in...)
		}
		content[i] = t
	}
	results, err := ir.EvalOp(nil, ready, content)
	if err != nil {
		c.Failf("%w", err)
	}
	out := make([]*ir.Value, len(results))
	for i, t := range results {
		out[i] = c.Constant(t)
	}
	return out
}

// AtRun leaves the node to the run, as operands do whose content is asked for and not known; the lowering knows the types
// of the results, though, but for sizes that only the data report: see Fresh.
func (c *context) AtRun(types ...ir.Type) []*ir.Value {
	for i := range c.readIn { // the run reads all of the node
		c.readIn[i] = true
	}
	for _, a := range c.attrs {
		c.IgnoreAttr(a.Name)
	}
	return c.EmitAll(c.deferred(types...), c.in...)
}

// Fresh is a size of this node's results that only the run can report; k distinguishes several of them.
func (c *context) Fresh(k int) ir.Dim { return ir.Sym(fmt.Sprintf("u%d.%d", c.b.g.NumValues(), k)) }
