package ir

import (
	"fmt"

	"github.com/rlxc/rlxc/tensor"
)

// Chain is products and convolutions, each of which reads the result of the one before. A kernel computes what is between them some rows at
// a time. Legalisation makes a Chain of MatMul and Conv. Operands: x, then of each op the weight and its bias or nil, then the residual of
// the last op or nil.
type Chain struct{ Ops []Op }

// The operand positions of Chain. Weight and bias are those of op 0; op i has them 2·i further.
const (
	ChainX = iota
	ChainW
	ChainBias
)

// Residual is the position of the last op's residual.
func (o Chain) Residual() int { return ChainW + 2*len(o.Ops) }

func (Chain) Kind() Kind { return KindChain }

// chainOperands are the operands of op i, of a result x of the op before. Both ops have them in the same order.
func chainOperands[T any](o Chain, i int, x *T, in []*T) []*T {
	own := []*T{x, Operand(in, ChainW+2*i), Operand(in, ChainBias+2*i)}
	if i == len(o.Ops)-1 {
		own = append(own, Operand(in, o.Residual()))
	}
	return own
}

// IsLink reports whether an op may be one of a Chain.
func IsLink(op Op) bool { return op != nil && (op.Kind() == KindMatMul || op.Kind() == KindConv) }

// Links are the ops as nodes of no graph.
func (o Chain) Links(in []*Value) ([]*Node, error) {
	links := make([]*Node, len(o.Ops))
	x := in[ChainX]
	for i, op := range o.Ops {
		if !IsLink(op) || x == nil || Operand(in, ChainW+2*i) == nil {
			return nil, fmt.Errorf("op %d is no product or lacks an operand", i)
		}
		n := &Node{Op: op, Inputs: chainOperands(o, i, x, in)}
		types, err := op.Infer(n.Inputs)
		if err != nil {
			return nil, err
		}
		x = &Value{Type: types[0]}
		n.Outputs, links[i] = []*Value{x}, n
	}
	return links, nil
}

func (o Chain) Infer(in []*Value) ([]Type, error) {
	if len(o.Ops) < 2 || len(in) > o.Residual()+1 {
		return nil, fmt.Errorf("a chain of %d ops with %d operands", len(o.Ops), len(in))
	}
	links, err := o.Links(in)
	if err != nil {
		return nil, err
	}
	return []Type{links[len(links)-1].Outputs[0].Type}, nil
}

func (o Chain) Eval(env *Env, in []*tensor.Tensor) (out []*tensor.Tensor, err error) {
	x := in[ChainX]
	for i, op := range o.Ops {
		if out, err = op.Eval(env, chainOperands(o, i, x, in)); err != nil {
			return nil, err
		}
		x = out[0]
	}
	return out, nil
}

// chainFlops adds those of its ops up.
func chainFlops(n *Node) (sum Dim) {
	links, _ := n.Op.(Chain).Links(n.Inputs)
	for _, l := range links {
		sum = sum.Add(Flops(l))
	}
	return sum
}
