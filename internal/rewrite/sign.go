package rewrite

import (
	"github.com/rlxc/rlxc/ir"
)

// neverNegative reports whether it is plain that v holds no number below 0, −∞ among them.
func neverNegative(v *ir.Value) bool {
	fuel := maxChase
	return signOf(v, &fuel)
}

// signOf is neverNegative as long as there is fuel.
func signOf(v *ir.Value, fuel *int) bool {
	if *fuel--; *fuel < 0 {
		return false
	}
	if c := v.Const; c != nil {
		if c.Len() > maxFold || !v.Type.DType.IsFloat() {
			return false
		}
		c = c.Aligned()
		for i := range c.Len() {
			if !(c.Float64(i) >= 0) {
				return false
			}
		}
		return true
	}
	if v.Def == nil {
		return false
	}
	in := v.Def.Inputs
	operand := func(i int) bool { return signOf(in[i], fuel) }
	switch o := v.Def.Op.(type) {
	case ir.Softmax:
		return !o.Log
	case ir.Reshape, ir.Transpose, ir.Slice, ir.Expand:
		return operand(0)
	case ir.Cast:
		return in[0].Type.DType.IsFloat() && o.To.IsFloat() && operand(0)
	case ir.Unary:
		switch o.Fn {
		case ir.Exp, ir.Relu, ir.Sigmoid, ir.Abs, ir.Sqrt:
			return true
		}
	case ir.Reduce:
		switch o.Fn {
		case ir.SumSquare, ir.L1, ir.L2:
			return true
		case ir.Sum, ir.Mean, ir.MinOf, ir.Prod:
			return operand(0)
		}
	case ir.Binary:
		switch o.Fn {
		case ir.Mul:
			return in[0] == in[1] || operand(0) && operand(1)
		case ir.Pow:
			two, ok := numberOf(in[1])
			return ok && two == 2
		case ir.Add:
			return operand(0) && operand(1) || onePlus(in[0], in[1]) || onePlus(in[1], in[0])
		}
	}
	return false
}

// onePlus reports whether c is a number from 1 on and x a function with values from −1 on, as in 1 + erf(x).
func onePlus(c, x *ir.Value) bool {
	n, ok := numberOf(c)
	if !ok || n < 1 || x.Def == nil {
		return false
	}
	u, ok := x.Def.Op.(ir.Unary)
	return ok && (u.Fn == ir.Erf || u.Fn == ir.Tanh)
}
