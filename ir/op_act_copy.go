package ir

import "github.com/rlxc/rlxc/tensor"

// ActCopy is a materialised copy of an activation, made to keep an intermediate value for comparison: rewrites leave it
// alone, and liveness treats it as a custom operator.
type ActCopy struct{}

func (ActCopy) Kind() Kind { return KindActCopy }

func (ActCopy) Infer(in []*Value) ([]Type, error) { return Copy{}.Infer(in) }

func (ActCopy) Eval(env *Env, in []*tensor.Tensor) ([]*tensor.Tensor, error) {
	return Copy{}.Eval(env, in)
}
