package lower

import "github.com/rlxc/rlxc/ir"

// Kernel keeps the node as the custom op "onnx.<Name>" whose results have the given types: for operators without an IR op
// of their own and with results whose sizes follow from those of the operands. run computes the results from whole
// operands; the Custom that it gets has the node's attributes and, in Types, the results' sizes in numbers.
func (c *Context) Kernel(run ir.CustomRule, types ...ir.Type) []*ir.Value {
	op := ir.Custom{Name: "onnx." + c.name, Version: c.version, Attrs: c.attrs, Types: types, Rule: run}
	return c.EmitAll(op, c.in...)
}
