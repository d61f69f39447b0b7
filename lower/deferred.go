package lower

import (
	"errors"
	"fmt"
	"math"

	"github.com/rlxc/rlxc/ir"
	"github.com/rlxc/rlxc/ops"
	"github.com/rlxc/rlxc/tensor"
)

func init() {
	ir.Register(ir.Define("rlxc.Deferred", Deferred{}, 0, -1, ir.NoFlops, ir.NoRows))
}

// Deferred is an ONNX operator whose form in the IR follows from the content or the rank of an operand that only a run knows.
type Deferred struct {
	ops.Dynamic
	Domain   string
	Operator string
	Version  int // the opset version that gives the operator its meaning
	Attrs    ir.Attrs
}

func (c *Context) deferred(types ...ir.Type) Deferred {
	c.b.deferred++
	return Deferred{dynamic(types...), c.domain, c.name, c.version, c.attrs}
}

// String is the operator's name: "onnx.<Name>", or the domain in front where it is not ONNX's own.
func (o Deferred) String() string {
	if o.Domain == "ai.onnx" {
		return "onnx." + o.Operator
	}
	return o.Domain + "." + o.Operator
}

// Infer returns the types that were known when the node was made. An operator that is not known is an error.
func (o Deferred) Infer([]*ir.Value) ([]ir.Type, error) {
	if _, err := findRow(o.Domain, o.Operator, o.Version); err != nil {
		return nil, fmt.Errorf("%w operator %s", err, o)
	}
	return o.Types, nil
}

// Eval implements ir.Op.
func (o Deferred) Eval(in []*tensor.Tensor) ([]*tensor.Tensor, error) { return o.Run(ir.Env{}, in) }

// Run lowers the node with all operands constant and evaluates what came out.
func (o Deferred) Run(env ir.Env, in []*tensor.Tensor) ([]*tensor.Tensor, error) {
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
	results, err := (&ir.Evaluator{MemoryLimit: env.MemoryLimit}).Graph(b.g, nil, ir.Binding{})
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
