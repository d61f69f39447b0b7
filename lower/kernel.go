package lower

import (
	"fmt"

	"github.com/rlxc/rlxc/ir"
)

// Kernel keeps the node as the custom op "onnx.<Name>", or that of another domain, whose results have the given types: for operators without an IR op
// of their own and with results whose sizes follow from those of the operands. run computes the results from whole
// operands; the Custom that it gets has the node's attributes and, in Types, the results' sizes in numbers.
func (c *Context) Kernel(run ir.CustomRule, types ...ir.Type) []*ir.Value {
	op := ir.Custom{Name: customName(c.domain, c.name), Version: c.version, Attrs: c.attrs, Types: types, Rule: run}
	return c.EmitAll(op, c.in...)
}

// AtRun leaves the node to the run, as operands do whose content is asked for and not known; the lowering knows the types
// of the results, though, but for sizes that only the data tell: see Fresh.
func (c *Context) AtRun(types ...ir.Type) []*ir.Value {
	c.b.kept++
	for i := range c.readIn { // the run reads all of the node
		c.readIn[i] = true
	}
	for _, a := range c.attrs {
		c.IgnoreAttr(a.Name)
	}
	return c.Kernel(evalRule(c.operator), types...)
}

// Fresh is a size of this node's results that only the run can tell; k tells several of them apart.
func (c *Context) Fresh(k int) ir.Dim { return ir.Sym(fmt.Sprintf("u%d.%d", c.b.g.NumValues(), k)) }
