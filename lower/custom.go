package lower

import (
	"errors"
	"fmt"

	"github.com/rlxc/rlxc/ir"
)

// findCustom finds the user's operator of that domain and name, nil where there is none.
func findCustom(list []*ir.OpDef, domain, name string) *ir.OpDef {
	name = ir.QualifiedName(domain, name)
	for _, d := range list {
		if d.Name == name {
			return d
		}
	}
	return nil
}

// lowerCustom keeps a node as its user's operator.
func (b *builder) lowerCustom(d *ir.OpDef, op operator, in []*ir.Value) ([]*ir.Value, error) {
	types := make([]ir.Type, len(in))
	for i, v := range in {
		if v != nil {
			types[i] = v.Type
		}
	}
	out, err := d.Types(types, op.attrs)
	if panicked := (*ir.PanicError)(nil); errors.As(err, &panicked) {
		return nil, err
	} else if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrInvalid, err)
	}
	if len(out) < len(op.outputs) {
		return nil, fmt.Errorf("%w: the shape rule of %s returns %d results, the node has %d", ErrInvalid, d.Name, len(out),
			len(op.outputs))
	}
	out = out[:len(op.outputs)]
	return b.g.Append(ir.Custom{Name: d.Name, Attrs: op.attrs, Types: out, Def: d}, in, op.node)
}
