package ir

import (
	"fmt"

	"github.com/rlxc/rlxc/tensor"
)

// Interpret runs a graph by Eval alone, one node after the other: the meaning that every other way of running it must
// agree with. Inputs are in the graph's order.
func Interpret(g *Graph, inputs []*tensor.Tensor) ([]*tensor.Tensor, error) {
	b := Binding{}
	if err := g.BindTensors(inputs, b); err != nil {
		return nil, err
	}
	env := make([]*tensor.Tensor, g.nextID)
	for i, v := range g.Inputs {
		env[v.ID] = inputs[i]
	}
	value := func(v *Value) *tensor.Tensor {
		switch {
		case v == nil:
			return nil
		case v.Const != nil:
			return v.Const.Aligned()
		}
		return env[v.ID]
	}
	for _, n := range g.Nodes {
		in := make([]*tensor.Tensor, len(n.Inputs))
		for i, v := range n.Inputs {
			in[i] = value(v)
		}
		out, err := EvalNode(n, in, b)
		if err != nil {
			return nil, err
		}
		for i, v := range n.Outputs {
			env[v.ID] = out[i]
		}
	}
	out := make([]*tensor.Tensor, len(g.Outputs))
	for i, v := range g.Outputs {
		out[i] = value(v)
	}
	return out, nil
}

// EvalNode runs one node by Eval with the sizes of b, and gives b the sizes that only this run could tell (those of
// data-dependent results).
func EvalNode(n *Node, in []*tensor.Tensor, b Binding) ([]*tensor.Tensor, error) {
	op, err := BindOp(n.Op, b)
	switch {
	case err != nil && n.Op.Kind().Has(Dynamic):
		op = n.Op // it has sizes that only this run can tell
	case err != nil:
		return nil, n.Fail(err)
	}
	out, err := op.Eval(in)
	if err != nil {
		return nil, n.Fail(err)
	}
	if len(out) != len(n.Outputs) {
		return nil, n.Fail(fmt.Errorf("%d results where the graph has %d", len(out), len(n.Outputs)))
	}
	for i, v := range n.Outputs {
		if err := b.learn(v.Type, out[i]); err != nil {
			return nil, n.Fail(fmt.Errorf("result %d: %w", i, err))
		}
	}
	return out, nil
}

// learn checks an actual result against its type and binds the symbols that have no number yet.
func (b Binding) learn(t Type, x *tensor.Tensor) error {
	if t.Kind != TensorType {
		return nil
	}
	if x.DType() != t.DType {
		return fmt.Errorf("is %s where the graph says %s", x, t)
	}
	if t.Unranked {
		return nil
	}
	if x.Rank() != len(t.Shape) {
		return fmt.Errorf("is %s where the graph says %s", x, t)
	}
	for i, d := range t.Shape {
		if name, ok := d.Symbol(); ok {
			if _, known := b[name]; !known {
				b[name] = x.Shape()[i]
			}
		}
		if n, err := d.Eval(b); err != nil || n != x.Shape()[i] {
			return fmt.Errorf("is %s where the graph says %s", x, t)
		}
	}
	return nil
}

// BindTensors is BindInputs over actual tensors.
func (g *Graph) BindTensors(inputs []*tensor.Tensor, b Binding) error {
	if len(inputs) != len(g.Inputs) {
		return fmt.Errorf("%d inputs for a model that takes %d", len(inputs), len(g.Inputs))
	}
	dtypes, shapes := make([]tensor.DType, len(inputs)), make([]tensor.Shape, len(inputs))
	for i, x := range inputs {
		dtypes[i], shapes[i] = x.DType(), x.Shape()
	}
	return g.BindInputs(dtypes, shapes, b)
}

// Fold evaluates a value that depends on nothing but constants, through the nodes that make it, as long as no tensor on
// the way has more than limit elements. memo keeps what was evaluated between calls.
func Fold(v *Value, limit int, memo map[*Value]*tensor.Tensor) (*tensor.Tensor, bool) {
	if v == nil {
		return nil, true
	}
	if t, ok := v.ContentTensor(); ok {
		return t, t.Len() <= limit
	}
	if t, ok := memo[v]; ok {
		return t, t != nil
	}
	memo[v] = nil
	n := v.Def
	if n == nil || n.Op.Kind().Has(Dynamic) || len(n.Regions) > 0 {
		return nil, false
	}
	for _, o := range n.Outputs {
		s, ok := o.Type.Static()
		if !ok || s.Elements() > limit {
			return nil, false
		}
	}
	in := make([]*tensor.Tensor, len(n.Inputs))
	for i, x := range n.Inputs {
		t, ok := Fold(x, limit, memo)
		if !ok {
			return nil, false
		}
		if t != nil {
			t = t.Aligned()
		}
		in[i] = t
	}
	out, err := EvalNode(n, in, Binding{})
	if err != nil {
		return nil, false // the error belongs to the run, where it has its inputs
	}
	for i, o := range n.Outputs {
		memo[o] = out[i]
	}
	return memo[v], true
}
