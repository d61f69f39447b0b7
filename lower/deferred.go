package lower

import (
	"errors"
	"fmt"
	"math"

	"github.com/rlxc/rlxc/internal/ops"
	"github.com/rlxc/rlxc/ir"
	"github.com/rlxc/rlxc/tensor"
)

func (c *context) deferred(types ...ir.Type) ops.Deferred {
	c.b.deferred++
	return ops.Deferred{Typed: typed(types...), Domain: c.domain, Operator: c.name, Version: c.version, Attrs: c.attrs, Lowering: Deferred}
}

// Deferred is the ops.Lowering of this package: it lowers the node with all operands constant and evaluates the result. It fails
// with ErrUnsupported if it knows no such operator.
func Deferred(env *ir.Env, o ops.Deferred, in []*tensor.Tensor) ([]*tensor.Tensor, error) {
	b := &builder{g: ir.NewGraph(o.String()), lists: map[*ir.Value][]*ir.Value{}, memo: ir.NewMemo(math.MaxInt), maxFold: math.MaxInt}
	values := make([]*ir.Value, len(in))
	for i, t := range in {
		if t != nil {
			values[i] = b.g.NewConst("", t)
		}
	}
	op := operator{domain: o.Domain, name: o.Operator, version: o.Version, attrs: o.Attrs}
	for i := range o.Types {
		op.outputs = append(op.outputs, fmt.Sprintf("output %d", i))
	}
	out, err := b.lowerNode(op, values)
	if err != nil {
		return nil, err
	}
	if b.deferred > 0 {
		return nil, errors.New("the operator needs data that it computes itself")
	}
	for i, v := range out {
		if v == nil {
			return nil, fmt.Errorf("%w: output %d is not computed", ErrUnsupported, i)
		}
	}
	b.g.Outputs = out[:min(len(out), len(o.Types))]
	results, err := env.Evaluator().Graph(b.g, nil, ir.Binding{})
	if err != nil {
		return nil, err
	}
	for i, t := range results { // a result may be an operand passed through
		for _, x := range in {
			if t == x {
				results[i] = t.Clone()
			}
		}
	}
	return results, nil
}
