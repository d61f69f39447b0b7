package ir

import "github.com/rlxc/rlxc/tensor"

// FeedForward is two products, down(up(x)): act(Alpha·x·u + upBias)·d + bias + residual. A kernel computes the value between them some
// rows at a time. Legalisation makes a FeedForward of two MatMul. Operands: x [..,M,K], u and d as MatMul's b, their biases or nil,
// residual of the result's shape or nil.
type FeedForward struct {
	TransUp, TransDown bool // TransB of each product
	Alpha              float32
	Act                UnaryFn
	ActAlpha, ActBeta  float32
}

// The operand positions of FeedForward.
const (
	FeedForwardX = iota
	FeedForwardUp
	FeedForwardDown
	FeedForwardUpBias
	FeedForwardBias
	FeedForwardResidual
)

func (FeedForward) Kind() Kind { return KindFeedForward }

// Up is the first product.
func (o FeedForward) Up() MatMul {
	return MatMul{TransB: o.TransUp, Alpha: o.Alpha, Act: o.Act, ActAlpha: o.ActAlpha, ActBeta: o.ActBeta}
}

// Down is the second product.
func (o FeedForward) Down() MatMul { return MatMul{TransB: o.TransDown} }

// upOperands are the operands of the first product.
func upOperands[T any](in []*T) []*T {
	return []*T{in[FeedForwardX], in[FeedForwardUp], Operand(in, FeedForwardUpBias)}
}

// downOperands are the operands of the second product, of a result of the first.
func downOperands[T any](h *T, in []*T) []*T {
	return []*T{h, in[FeedForwardDown], Operand(in, FeedForwardBias), Operand(in, FeedForwardResidual)}
}

func (o FeedForward) Infer(in []*Value) ([]Type, error) {
	h, err := o.Up().Infer(upOperands(in))
	if err != nil {
		return nil, err
	}
	return o.Down().Infer(downOperands(&Value{Type: h[0]}, in))
}

func (o FeedForward) Eval(env *Env, in []*tensor.Tensor) ([]*tensor.Tensor, error) {
	h, err := o.Up().Eval(env, upOperands(in))
	if err != nil {
		return nil, err
	}
	return o.Down().Eval(env, downOperands(h[0], in))
}

// feedForwardFlops: the products meet in u's columns.
func feedForwardFlops(n *Node) Dim {
	x, y, u := n.Inputs[FeedForwardX].Type.Shape, n.Outputs[0].Type.Shape, n.Inputs[FeedForwardUp].Type.Shape
	between := u[len(u)-1]
	if n.Op.(FeedForward).TransUp {
		between = u[len(u)-2]
	}
	return y[:len(y)-1].Elements().Mul(between).Mul(x[len(x)-1].Add(y[len(y)-1])).Mul(N(2))
}
