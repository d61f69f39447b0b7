package lower

import (
	"fmt"

	"github.com/rlxc/rlxc/ir"
	"github.com/rlxc/rlxc/tensor"
)

// A Custom is an operator that a user brings: its name, with the domain in front where that is not ai.onnx, its shape rule
// and its meaning. It goes before an operator of that name that is known otherwise.
type Custom struct {
	Name  string
	WGSL  string // see target.OpDef
	Infer func(in []ir.Type, attrs ir.Attrs) ([]ir.Type, error)
	Eval  func(in []*tensor.Tensor, attrs ir.Attrs) ([]*tensor.Tensor, error)
}

// findCustom finds the user's operator of that domain and name.
func findCustom(list []Custom, domain, name string) (Custom, bool) {
	if domain != "ai.onnx" {
		name = domain + "." + name
	}
	for _, c := range list {
		if c.Name == name {
			return c, true
		}
	}
	return Custom{}, false
}

// lowerCustom keeps a node as its user's operator.
func (b *builder) lowerCustom(c Custom, op operator, in []*ir.Value) ([]*ir.Value, error) {
	types := make([]ir.Type, len(in))
	for i, v := range in {
		if v != nil {
			types[i] = v.Type
		}
	}
	out, err := c.Infer(types, op.attrs)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrInvalid, err)
	}
	if len(out) < len(op.outputs) {
		return nil, fmt.Errorf("%w: the shape rule of %s gives %d results, the node has %d", ErrInvalid, c.Name, len(out), len(op.outputs))
	}
	out = out[:len(op.outputs)]
	return b.g.Append(ir.Custom{Name: c.Name, Version: op.version, Attrs: op.attrs, Types: out, Rule: c.rule(), WGSL: c.WGSL}, in, op.node)
}

// rule computes the results that the node has, of the kernel's first ones.
func (c Custom) rule() ir.CustomRule {
	return func(o ir.Custom, in []*tensor.Tensor) ([]*tensor.Tensor, error) {
		out, err := c.Eval(in, o.Attrs)
		if err != nil {
			return nil, err
		}
		if len(out) < len(o.Types) {
			return nil, fmt.Errorf("the kernel of %s gives %d results, the node has %d", c.Name, len(out), len(o.Types))
		}
		return out[:len(o.Types)], nil
	}
}
