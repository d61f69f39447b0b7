package ops

import (
	"errors"
	"fmt"
	"math"
	"slices"

	"github.com/rlxc/rlxc/ir"
	"github.com/rlxc/rlxc/tensor"
)

// MaxIterations bounds a loop: models are untrusted.
const MaxIterations = 1 << 18

// If runs the first of its two subgraphs where operand 0 is true and the second one otherwise. The other operands are what the
// subgraphs read, those of the first one in front.
type If struct {
	ir.Opaque[If]
	Typed
	ThenInputs int    `ir:"then_inputs"`
	ThenError  string `ir:"then_error"` // why a branch cannot run; empty where it can
	ElseError  string `ir:"else_error"`
}

func (o If) Infer(in []*ir.Value) ([]ir.Type, error) {
	if o.ThenInputs < 0 || 1+o.ThenInputs > len(in) {
		return nil, fmt.Errorf("%d inputs of a branch among %d operands", o.ThenInputs, len(in))
	}
	return o.Types, nil
}

// Branch returns the subgraph that a condition chooses, and which of that many operands are its inputs.
func (o If) Branch(condition *tensor.Tensor, operands int) (subgraph, from, to int, err error) {
	if condition.Len() != 1 {
		return 0, 0, 0, fmt.Errorf("the condition is %v, not one bool", condition)
	}
	split, problem := 1+o.ThenInputs, o.ThenError
	subgraph, from, to = 0, 1, split
	if condition.Int64(0) == 0 {
		subgraph, from, to, problem = 1, split, operands, o.ElseError
	}
	if problem != "" {
		err = errors.New(problem)
	}
	return subgraph, from, to, err
}

func (o If) Eval(env *ir.Env, in []*tensor.Tensor) ([]*tensor.Tensor, error) {
	subgraph, from, to, err := o.Branch(in[0], len(in))
	if err != nil {
		return nil, err
	}
	return env.Subgraph(subgraph, in[from:to])
}

// Loop repeats its subgraph. The operands are the number of iterations and the condition, each of which may be absent, then what iterations
// pass, then what the subgraph reads of the values around it.
type Loop struct {
	ir.Opaque[Loop]
	Typed
	Carried    int
	NumberAxes int `ir:"number_axes"` // rank, 0 or 1, of the iteration's number and of the condition among the subgraph's inputs
	CondAxes   int `ir:"cond_axes"`
}

func (o Loop) Infer(in []*ir.Value) ([]ir.Type, error) {
	if o.Carried < 0 || 2+o.Carried > len(in) || o.Carried > len(o.Types) {
		return nil, fmt.Errorf("%d loop-carried values among %d operands and %d results", o.Carried, len(in), len(o.Types))
	}
	if n := [...]int{o.NumberAxes, o.CondAxes}; slices.Min(n[:]) < 0 || slices.Max(n[:]) > 1 {
		return nil, fmt.Errorf("the iteration number and the condition have %d axes", n)
	}
	return o.Types, nil
}

func (o Loop) Eval(env *ir.Env, in []*tensor.Tensor) ([]*tensor.Tensor, error) {
	iterations, cond := int64(math.MaxInt64), tensor.Scalar(true)
	if in[0] != nil {
		if in[0].Len() != 1 {
			return nil, fmt.Errorf("the number of iterations is %v, not one integer", in[0])
		}
		iterations = in[0].Int64(0)
	}
	if in[1] != nil {
		cond = in[1]
	}
	numberShape, condShape := One(o.NumberAxes), One(o.CondAxes)
	n := 2 + o.Carried
	state, captures := in[2:n], in[n:]
	stacked := make([][]*tensor.Tensor, len(o.Types)-len(state))
	for i := int64(0); i < iterations; i++ {
		if cond.Len() != 1 {
			return nil, fmt.Errorf("the condition is %v, not one bool", cond)
		}
		if cond.Int64(0) == 0 {
			break
		}
		if i == MaxIterations {
			return nil, fmt.Errorf("the loop does not end within the limit of %d iterations", MaxIterations)
		}
		out, err := env.Subgraph(0, slices.Concat([]*tensor.Tensor{tensor.Scalar(i).Reshape(numberShape...), cond.Reshape(condShape...)},
			state, captures))
		if err != nil {
			return nil, err
		}
		if i > 0 { // before, they were operands
			env.Release(state...)
		}
		cond, state = out[0], out[1:1+len(state)]
		for k, t := range out[1+len(state):] {
			stacked[k] = append(stacked[k], t)
		}
	}
	out := slices.Clone(state)
	for k, ts := range stacked {
		t, err := stackTensors(env, ts, 0, o.Types[len(state)+k])
		if err != nil {
			return nil, err
		}
		out = append(out, t)
	}
	return out, nil
}

// One is the shape of one element with this many axes.
func One(axes int) []int { return slices.Repeat([]int{1}, axes) }

// stackTensors joins tensors of one shape along a new axis; of none, their type decides.
func stackTensors(env *ir.Env, ts []*tensor.Tensor, axis int, t ir.Type) (*tensor.Tensor, error) {
	if len(ts) == 0 {
		shape := make([]int, len(t.Shape))
		for i, d := range t.Shape {
			if n, ok := d.Const(); ok && i != axis {
				shape[i] = n
			}
		}
		if len(shape) == 0 {
			shape = []int{0} // not even the rank is known
		}
		return env.New(t.DType, shape...), nil
	}
	for i, x := range ts {
		if x.IsSequence() || x.DType() != ts[0].DType() || !x.Shape().Equal(ts[0].Shape()) {
			return nil, fmt.Errorf("iteration %d returns %v, and the first one returned %v", i, x, ts[0])
		}
	}
	parts := make([]*tensor.Tensor, len(ts))
	for i, x := range ts {
		parts[i] = x.Reshape(slices.Insert(x.Shape().Clone(), axis, 1)...)
	}
	out, err := ir.Concat{Axis: axis}.Eval(env, parts)
	return out[0], err
}

// at is element i, which must be there, of a tensor along an axis, which goes away.
func at(env *ir.Env, x *tensor.Tensor, axis, i int) *tensor.Tensor {
	out, _ := ir.Gather{Axis: axis}.Eval(env, []*tensor.Tensor{x, tensor.Scalar(int64(i))})
	return out[0]
}
