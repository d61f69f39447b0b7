package lower

import (
	"slices"

	"github.com/rlxc/rlxc/ir"
	"github.com/rlxc/rlxc/tensor"
)

// Losses over classes.
var lossRows = []row{
	{"NegativeLogLikelihoodLoss", 12, lowerNegativeLogLikelihoodLoss},
	{"SoftmaxCrossEntropyLoss", 12, lowerSoftmaxCrossEntropyLoss},
}

func lowerNegativeLogLikelihoodLoss(c *context) []*ir.Value {
	return []*ir.Value{c.loss(c.In(0))}
}

func lowerSoftmaxCrossEntropyLoss(c *context) []*ir.Value {
	logp := c.logSoftmax(c.In(0), c.Axis(1, rank(c.In(0))))
	return c.listed([]*ir.Value{c.loss(logp), logp})
}

// loss is the negative log likelihood of the classes that operand 1 names, weighted by operand 2, from the logarithms of
// the probabilities [N,C,…].
func (c *context) loss(logp *ir.Value) *ir.Value {
	target, axes := c.In(1), rank(logp)
	if axes < 2 || rank(target) != axes-1 || ir.Same(target.Type.Shape[0], logp.Type.Shape[0]) == ir.No {
		c.Failf("targets %v for classes %v: want one axis less, and the same batch", target.Type, logp.Type)
	}
	var ignored *ir.Value
	if c.HasAttr("ignore_index") {
		none := c.Constant(intScalar(target.Type.DType, c.AttrInt("ignore_index", 0)))
		ignored = c.binary(ir.Equal, target, none)
		// what is ignored may be outside the classes
		target = c.Emit(ir.Where{}, ignored, c.Constant(intScalar(target.Type.DType, 0)), target)
	}
	target = c.nonNegative(target)
	column := slices.Insert(slices.Clone(target.Type.Shape), 1, ir.N(1))
	picked := c.Emit(ir.GatherElements{Axis: 1}, logp, c.reshape(target, column))
	loss := c.unary(ir.Neg, c.reshape(picked, target.Type.Shape))

	var weight *ir.Value
	if w := c.Opt(2); w != nil {
		weight = c.Emit(ir.Gather{}, w, target)
	}
	if ignored != nil {
		if weight == nil {
			weight = c.like(loss, 1)
		}
		weight = c.Emit(ir.Where{}, ignored, c.like(loss, 0), weight)
	}
	if weight != nil {
		loss = c.binary(ir.Mul, loss, weight)
	}
	all := upTo(rank(loss))
	switch r := c.AttrString("reduction", "mean"); r {
	case "none":
		return loss
	case "sum":
		return c.Emit(ir.Reduce{Fn: ir.Sum, Axes: all}, loss)
	case "mean":
		if weight == nil {
			return c.Emit(ir.Reduce{Fn: ir.Mean, Axes: all}, loss)
		}
		total := c.Emit(ir.Reduce{Fn: ir.Sum, Axes: all}, c.expand(weight, loss.Type.Shape))
		return c.binary(ir.Div, c.Emit(ir.Reduce{Fn: ir.Sum, Axes: all}, loss), total)
	default:
		c.Failf("reduction %q is not none, sum or mean", r)
		return nil
	}
}

func intScalar(d tensor.DType, v int) *tensor.Tensor {
	t := tensor.New(d)
	t.SetInt64(0, int64(v))
	return t
}
