package lower

import (
	"github.com/rlxc/rlxc/ir"
)

// Steps of optimisers (ai.onnx.preview.training): learning rate, count of steps, then tensors, gradients and states, as many
// of each as there are tensors.
var trainingRows = []row{
	{"Adagrad", 1, lowerAdagrad},
	{"Adam", 1, lowerAdam},
	{"Momentum", 1, lowerMomentum},
}

// optimiser passes each tensor its operands (itself, gradient, states…) and collects what step makes of them, kind by kind.
func (c *context) optimiser(kinds int, step func(r, t *ir.Value, x []*ir.Value) []*ir.Value) []*ir.Value {
	in := c.All()
	if len(in) < 2+kinds || (len(in)-2)%kinds != 0 {
		c.Failf("%d operands: want a rate, a count, and %d for each tensor", len(in), kinds)
	}
	n := (len(in) - 2) / kinds
	out := make([]*ir.Value, n*(kinds-1))
	for i := range n {
		x := make([]*ir.Value, kinds)
		for k := range x {
			x[k] = in[2+k*n+i]
		}
		for k, y := range step(in[0], in[1], x) {
			out[k*n+i] = y
		}
	}
	return out
}

// regularized is the gradient with that of the norm of x.
func (c *context) regularized(x, gradient *ir.Value) *ir.Value {
	return c.binary(ir.Add, c.scaledBy(x, c.AttrFloat("norm_coefficient", 0)), gradient)
}

func (c *context) scaledBy(x *ir.Value, by float32) *ir.Value {
	return c.binary(ir.Mul, x, c.like(x, float64(by)))
}

// stepCount is operand t, the number of steps so far, as a number of x's type.
func (c *context) stepCount(t, x *ir.Value) *ir.Value { return c.cast(t, x.Type.DType) }

// after picks v where steps were made before, and first otherwise.
func (c *context) after(t, v, first *ir.Value) *ir.Value {
	return c.Emit(ir.Where{}, c.binary(ir.Greater, t, c.like(t, 0)), v, first)
}

func lowerAdagrad(c *context) []*ir.Value {
	decay, epsilon := c.AttrFloat("decay_factor", 0), c.AttrFloat("epsilon", 1e-6)
	return c.optimiser(3, func(r, t *ir.Value, x []*ir.Value) []*ir.Value {
		slowed := c.binary(ir.Add, c.scaledBy(c.stepCount(t, x[0]), decay), c.like(x[0], 1))
		r = c.binary(ir.Div, r, slowed)
		g := c.regularized(x[0], x[1])
		squares := c.binary(ir.Add, x[2], c.binary(ir.Mul, g, g))
		root := c.binary(ir.Add, c.unary(ir.Sqrt, squares), c.like(x[0], float64(epsilon)))
		return []*ir.Value{c.binary(ir.Sub, x[0], c.binary(ir.Div, c.binary(ir.Mul, r, g), root)), squares}
	})
}

func lowerAdam(c *context) []*ir.Value {
	alpha, beta := c.AttrFloat("alpha", 0.9), c.AttrFloat("beta", 0.999)
	epsilon, post := c.AttrFloat("epsilon", 1e-6), c.AttrFloat("norm_coefficient_post", 0)
	return c.optimiser(4, func(r, t *ir.Value, x []*ir.Value) []*ir.Value {
		g := c.regularized(x[0], x[1])
		mean := c.binary(ir.Add, c.scaledBy(x[2], alpha), c.scaledBy(g, 1-alpha))
		squares := c.binary(ir.Add, c.scaledBy(x[3], beta), c.scaledBy(c.binary(ir.Mul, g, g), 1-beta))
		root := c.binary(ir.Add, c.unary(ir.Sqrt, squares), c.like(x[0], float64(epsilon)))
		count := c.stepCount(t, x[0])
		left := func(factor float32) *ir.Value { // 1 − factor^t
			return c.binary(ir.Sub, c.like(x[0], 1), c.binary(ir.Pow, c.like(x[0], float64(factor)), count))
		}
		corrected := c.binary(ir.Div, c.binary(ir.Mul, r, c.unary(ir.Sqrt, left(beta))), left(alpha))
		rate := c.after(t, corrected, r)
		y := c.binary(ir.Sub, x[0], c.binary(ir.Mul, rate, c.binary(ir.Div, mean, root)))
		return []*ir.Value{c.scaledBy(y, 1-post), mean, squares}
	})
}

func lowerMomentum(c *context) []*ir.Value {
	alpha, beta, mode := c.AttrFloat("alpha", 0), c.AttrFloat("beta", 0), c.AttrString("mode", "standard")
	if mode != "standard" && mode != "nesterov" {
		c.Failf("mode %q is neither standard nor nesterov", mode)
	}
	return c.optimiser(3, func(r, t *ir.Value, x []*ir.Value) []*ir.Value {
		g := c.regularized(x[0], x[1])
		weight := c.after(t, c.like(x[0], float64(beta)), c.like(x[0], 1))
		v := c.binary(ir.Add, c.scaledBy(x[2], alpha), c.binary(ir.Mul, weight, g))
		step := v
		if mode == "nesterov" {
			step = c.binary(ir.Add, g, c.scaledBy(v, alpha))
		}
		return []*ir.Value{c.binary(ir.Sub, x[0], c.binary(ir.Mul, r, step)), v}
	})
}
