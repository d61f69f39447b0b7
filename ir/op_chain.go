package ir

import (
	"fmt"

	"github.com/rlxc/rlxc/tensor"
)

// Chain is products and convolutions, each of which reads the result of the one before. A kernel computes what is between them some rows at
// a time. Legalisation makes a Chain of MatMul, MatMulNBits and Conv. Operands: x, then of each op the operands between its first and its
// residual, which are nil where the op lacks them, then the residual of the last op or nil. For example, a chain of two MatMul has x, a
// weight and a bias, another weight and another bias, and a residual.
type Chain struct{ Ops []Op }

// The operand positions of Chain: x, and the weight of op 0.
const (
	ChainX = iota
	ChainW
)

// linkResiduals are the kinds of the ops that may be in a Chain, with the position of their residual. The result and the residual of an op
// have the rows of operand 0, and each row of the result follows from one row of operand 0, or from a window of rows.
var linkResiduals = map[Kind]int{KindMatMul: MatMulResidual, KindConv: ConvResidual, KindMatMulNBits: NBitsResidual}

// LinkResidual returns the position of the residual of an op that may be in a Chain; ok is false for other ops.
func LinkResidual(op Op) (at int, ok bool) {
	if op == nil {
		return 0, false
	}
	at, ok = linkResiduals[op.Kind()]
	return at, ok
}

// Weight is the position of the weight of op i. That of the op after the last one is the residual's.
func (o Chain) Weight(i int) int {
	at := ChainW
	for _, op := range o.Ops[:i] {
		residual, _ := LinkResidual(op)
		at += residual - 1
	}
	return at
}

// Residual is the position of the last op's residual.
func (o Chain) Residual() int { return o.Weight(len(o.Ops)) }

func (Chain) Kind() Kind { return KindChain }

// LinkOperands are the operands of op i of a chain, of a result x of the op before, up to its residual: zero values for absent ones.
func LinkOperands[T any](o Chain, i int, x T, in []T) []T {
	first, end := o.Weight(i), o.Weight(i+1)
	own := make([]T, 2+end-first)
	own[0] = x
	for k := range own[1:] {
		if at := first + k; at < len(in) && (at < end || i == len(o.Ops)-1) {
			own[1+k] = in[at]
		}
	}
	return own
}

// Links are the ops as nodes of no graph.
func (o Chain) Links(in []*Value) ([]*Node, error) {
	links := make([]*Node, len(o.Ops))
	x := in[ChainX]
	for i, op := range o.Ops {
		if _, ok := LinkResidual(op); !ok || x == nil || Operand(in, o.Weight(i)) == nil {
			return nil, fmt.Errorf("op %d is no product or lacks an operand", i)
		}
		n := &Node{Op: op, Inputs: LinkOperands(o, i, x, in)}
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
	if len(o.Ops) < 2 {
		return nil, fmt.Errorf("a chain of %d ops", len(o.Ops))
	}
	links, err := o.Links(in)
	if err != nil {
		return nil, err
	}
	if len(in) > o.Residual()+1 {
		return nil, fmt.Errorf("a chain of %d ops with %d operands", len(o.Ops), len(in))
	}
	return []Type{links[len(links)-1].Outputs[0].Type}, nil
}

func (o Chain) Eval(env *Env, in []*tensor.Tensor) (out []*tensor.Tensor, err error) {
	x := in[ChainX]
	for i, op := range o.Ops {
		if out, err = op.Eval(env, LinkOperands(o, i, x, in)); err != nil {
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
