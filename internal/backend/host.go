package backend

import (
	"fmt"

	"github.com/rlxc/rlxc/ir"
	"github.com/rlxc/rlxc/tensor"
)

// Eval runs a bound node on the host, by its op's Eval, within env, and checks its results against the types of the graph. Operands
// are in order, nil where they are absent.
func Eval(env *ir.Env, n *ir.Node, operands []*tensor.Tensor) ([]*tensor.Tensor, error) {
	results, err := ir.EvalOp(env, n.Op, operands)
	if err != nil {
		return nil, err
	}
	if len(results) != len(n.Outputs) {
		return nil, fmt.Errorf("%d results where the graph has %d", len(results), len(n.Outputs))
	}
	for i, t := range results {
		if want := n.Outputs[i].Type; t.DType() != want.DType || !t.Shape().Equal(want.Sizes()) {
			return nil, fmt.Errorf("result %d is %s: the graph declares %s", i, t, want)
		}
	}
	return results, nil
}

// OutOfRange is the error of kernels about an index that is outside of an axis.
func OutOfRange(index int64, axis, size int) error {
	return fmt.Errorf("%s is out of range: axis %d has size %d", ir.IndexText(index), axis, size)
}

// View returns a tensor of type d on the host as a step of the host reads it: shape and strides in elements, off elements from the
// start of t, which holds the view's root. What strides scatter is copied, within env. A nil t stands for a root without elements.
func View(env *ir.Env, t *tensor.Tensor, d tensor.DType, shape tensor.Shape, strides []int, off int) *tensor.Tensor {
	if t == nil {
		return env.New(d, shape...)
	}
	if d.Size() == 0 { // strings and types below a byte have no views with an offset
		return t.Reshape(shape...)
	}
	return ir.CopyStrided(env, as(t, d), shape, strides, off)
}

// as sees a root's bytes as elements of type d: a root keeps its own type when a value of another one is computed in its position.
func as(t *tensor.Tensor, d tensor.DType) *tensor.Tensor {
	if t.DType() == d {
		return t
	}
	n := len(t.Bytes()) / d.Size()
	x, err := tensor.FromBytes(d, tensor.Shape{n}, t.Bytes()[:n*d.Size()])
	if err != nil {
		panic(err) // the planner puts no value where its bytes do not fit
	}
	return x
}
