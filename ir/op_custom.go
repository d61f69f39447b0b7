package ir

import (
	"fmt"

	"github.com/rlxc/rlxc/tensor"
)

// Custom is an operator kept as the model has it, run by a kernel that is registered under its name: "onnx.<Name>" for
// ONNX operators without an op of their own or with operands that only a run can know, any other name for a user's. Its
// output types are those that its shape rule gave when the node was made.
type Custom struct {
	Name    string `ir:"name"`
	Version int    // the opset version that gives the operator its meaning
	Attrs   Attrs
	Types   []Type `ir:"-"`
	// Rule runs the operator; target.Ops holds it by name, and whoever makes the node fills it in.
	Rule CustomRule `ir:"-"`
	// WGSL is what a GPU may run instead, or empty; see target.OpDef.
	WGSL string `ir:"-"`
	// Control runs an operator whose node has regions, in place of Rule.
	Control ControlRule `ir:"-"`
	// MemoryLimit is what a run allows a result to take, in bytes; whoever runs the operator fills it in.
	MemoryLimit int64 `ir:"-"`
}

// CustomRule is the meaning of a custom operator on whole tensors.
type CustomRule func(o Custom, in []*tensor.Tensor) ([]*tensor.Tensor, error)

// ControlRule is the meaning of an operator with regions: call runs one of them. Regions are closed: what they read of the
// values around them, constants apart, stands among the node's operands and is handed to call.
type ControlRule func(o Custom, in []*tensor.Tensor, call CallRegion) ([]*tensor.Tensor, error)

// CallRegion runs a node's region. The results are the caller's to keep.
type CallRegion func(region int, in []*tensor.Tensor) ([]*tensor.Tensor, error)

// An Attr is a parameter of a custom operator: int64, float32, string, slices of these, or *tensor.Tensor.
type Attr struct {
	Name  string
	Value any
}

// Attrs are a custom operator's parameters in the model's order.
type Attrs []Attr

// Get finds a parameter by name.
func (a Attrs) Get(name string) (any, bool) {
	for _, x := range a {
		if x.Name == name {
			return x.Value, true
		}
	}
	return nil, false
}

// Kind implements Op.
func (Custom) Kind() Kind { return KindCustom }

func (o Custom) opName() string     { return o.Name }
func (Custom) named() map[string]Op { return nil }

// Infer gives the recorded types.
func (o Custom) Infer([]*Value) ([]Type, error) { return o.Types, nil }

// Eval implements Op.
func (o Custom) Eval(in []*tensor.Tensor) ([]*tensor.Tensor, error) {
	if o.Rule == nil {
		if o.Control != nil {
			return nil, fmt.Errorf("%s has regions and cannot be computed from its operands alone", o.Name)
		}
		return nil, fmt.Errorf("no kernel is registered for %s", o.Name)
	}
	return o.Rule(o, in)
}

// ActCopy is a materialised copy of an activation, made to keep an intermediate value for comparison: rewrites leave it
// alone, and liveness treats it as a custom operator.
type ActCopy struct{}

// Kind implements Op.
func (ActCopy) Kind() Kind { return KindActCopy }

// Infer implements Op.
func (ActCopy) Infer(in []*Value) ([]Type, error) { return Copy{}.Infer(in) }

// Eval implements Op.
func (ActCopy) Eval(in []*tensor.Tensor) ([]*tensor.Tensor, error) { return Copy{}.Eval(in) }
