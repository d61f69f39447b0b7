package ops

import (
	"fmt"

	"github.com/rlxc/rlxc/ir"
	"github.com/rlxc/rlxc/tensor"
)

func init() {
	ir.Register(ir.Define("rlxc.Deferred", Deferred{}, 0, -1, ir.Decides, ir.NoFlops, ir.NoRows))
}

// Deferred is an ONNX operator whose form in the IR follows from the content or the rank of an operand that only a run knows: it is
// translated each time it runs, with the operands at hand.
type Deferred struct {
	ir.Opaque[Deferred]
	Typed
	Domain   string
	Operator string
	Version  int // the opset version that defines the operator
	Attrs    ir.Attrs
	// Outputs are the positions of the results among the operator's outputs, ascending, if the model leaves outputs out; else nil.
	Outputs []int
	// Lowering translates and computes the node. It is nil in a graph that was read by a program that runs compiled files only.
	Lowering Lowering `ir:"-"`
}

// A Lowering computes a Deferred from its operands: package lower has one.
type Lowering func(env *ir.Env, o Deferred, in []*tensor.Tensor) ([]*tensor.Tensor, error)

// String is the operator's name after its domain, such as "onnx.Reshape".
func (o Deferred) String() string { return ir.QualifiedName(o.Domain, o.Operator) }

// maxOutputs bounds the positions in Outputs, which a compiled file names: a lowering makes a list up to the last of them.
const maxOutputs = 1 << 16

// Infer returns the types that were known when the node was made.
func (o Deferred) Infer([]*ir.Value) ([]ir.Type, error) {
	if o.Outputs != nil && len(o.Outputs) != len(o.Types) {
		return nil, fmt.Errorf("outputs %v for %d results", o.Outputs, len(o.Types))
	}
	last := -1
	for _, at := range o.Outputs {
		if at <= last || at >= maxOutputs {
			return nil, fmt.Errorf("outputs %v: want ascending positions below %d", o.Outputs, maxOutputs)
		}
		last = at
	}
	return o.Types, nil
}

func (o Deferred) Eval(env *ir.Env, in []*tensor.Tensor) ([]*tensor.Tensor, error) {
	if o.Lowering == nil {
		return nil, fmt.Errorf("%s takes its form from data, and nothing here translates it", o)
	}
	return o.Lowering(env, o, in)
}
