package lower

import (
	"slices"

	"github.com/rlxc/rlxc/ir"
	"github.com/rlxc/rlxc/tensor"
)

// What combines the elements along axes.
var reduceRows = []row{
	{"ReduceSum", 1, lowerReduce(ir.Sum, 13)},
	{"ReduceMean", 1, lowerReduce(ir.Mean, 18)},
	{"ReduceMax", 1, lowerReduce(ir.MaxOf, 18)},
	{"ReduceMin", 1, lowerReduce(ir.MinOf, 18)},
	{"ReduceProd", 1, lowerReduce(ir.Prod, 18)},
	{"ReduceL1", 1, lowerReduce(ir.L1, 18)},
	{"ReduceL2", 1, lowerReduce(ir.L2, 18)},
	{"ReduceLogSum", 1, lowerReduce(ir.LogSum, 18)},
	{"ReduceLogSumExp", 1, lowerReduce(ir.LogSumExp, 18)},
	{"ReduceSumSquare", 1, lowerReduce(ir.SumSquare, 18)},
	{"ArgMax", 1, lowerArgReduce(false)},
	{"ArgMin", 1, lowerArgReduce(true)},

	{"Softmax", 1, lowerCoerced((*context).softmax)},
	{"Softmax", 13, lowerAlongAxis((*context).softmax)},
	{"LogSoftmax", 1, lowerCoerced((*context).logSoftmax)},
	{"LogSoftmax", 13, lowerAlongAxis((*context).logSoftmax)},
	{"Hardmax", 1, lowerCoerced((*context).hardmax)},
	{"Hardmax", 13, lowerAlongAxis((*context).hardmax)},
	{"CumSum", 11, lowerCumSum},
	{"LpNormalization", 1, lowerLpNormalization},
	{"MeanVarianceNormalization", 9, lowerMeanVarianceNormalization},
}

// lowerReduce lowers a reduction whose axes became an operand in the version given.
func lowerReduce(fn ir.Reduction, operandSince int) func(*context) []*ir.Value {
	return func(c *context) []*ir.Value {
		x, keep, none := c.In(0), c.AttrBool("keepdims", true), false
		if c.Version() >= operandSince {
			none = c.AttrBool("noop_with_empty_axes", false)
			if c.Opt(1) != nil && !c.IsConst(1) {
				return c.AtRun(c.reducedType(x.Type, keep))
			}
		}
		set, _ := c.axes(operandSince, rank(x))
		if !slices.Contains(set, true) && !none {
			for i := range set {
				set[i] = true
			}
		}
		op := ir.Reduce{Fn: fn, KeepDims: keep}
		for i, in := range set {
			if in {
				op.Axes = append(op.Axes, i)
			}
		}
		return []*ir.Value{c.Emit(op, x)}
	}
}

// reducedType is what is known of a reduction along axes that only the run knows.
func (c *context) reducedType(t ir.Type, keep bool) ir.Type {
	rank := len(t.Shape)
	if !keep {
		n, ok := c.In(1).Type.Shape.Elements().Const()
		if !ok || n == 0 || n > rank {
			return ir.Type{DType: t.DType, Unranked: true}
		}
		rank -= n
	}
	s := make(ir.Shape, rank)
	for i := range s {
		s[i] = c.Fresh(i)
	}
	return ir.TensorOf(t.DType, s...)
}

func lowerArgReduce(least bool) func(*context) []*ir.Value {
	return func(c *context) []*ir.Value {
		x := c.In(0)
		op := ir.ArgReduce{Min: least, Axis: c.Axis(c.AttrInt("axis", 0), rank(x)), KeepDims: c.AttrBool("keepdims", true)}
		if c.Version() >= 12 {
			op.Last = c.AttrBool("select_last_index", false)
		}
		return []*ir.Value{c.Emit(op, x)}
	}
}

func lowerAlongAxis(along func(*context, *ir.Value, int) *ir.Value) func(*context) []*ir.Value {
	return func(c *context) []*ir.Value {
		x := c.In(0)
		return []*ir.Value{along(c, x, c.Axis(c.AttrInt("axis", -1), rank(x)))}
	}
}

// lowerCoerced is how these operators worked before opset 13: along all axes from the one named on, taken as one.
func lowerCoerced(along func(*context, *ir.Value, int) *ir.Value) func(*context) []*ir.Value {
	return func(c *context) []*ir.Value {
		x := c.In(0)
		s, axis := x.Type.Shape, c.Axis(c.AttrInt("axis", 1), rank(x))
		if axis == len(s)-1 {
			return []*ir.Value{along(c, x, axis)}
		}
		flat := c.reshape(x, ir.Shape{s[:axis].Elements(), s[axis:].Elements()})
		return []*ir.Value{c.reshape(along(c, flat, 1), s)}
	}
}

func (c *context) softmax(x *ir.Value, axis int) *ir.Value { return c.Emit(ir.Softmax{Axis: axis}, x) }

func (c *context) logSoftmax(x *ir.Value, axis int) *ir.Value {
	return c.Emit(ir.Softmax{Axis: axis, Log: true}, x)
}

// hardmax is 1 at the first largest element and 0 elsewhere.
func (c *context) hardmax(x *ir.Value, axis int) *ir.Value {
	offOn := tensor.New(x.Type.DType, 2)
	offOn.SetFloat64(1, 1)
	n := x.Type.Shape[axis]
	if missing := ir.Max(ir.N(1).Sub(n), ir.N(0)); !missing.Is(0) { // an axis without elements has no largest one, and no result either
		none := make([]ir.Dim, rank(x))
		after := slices.Clone(none)
		after[axis] = missing
		x = c.Emit(ir.Pad{Before: none, After: after}, x)
	}
	return c.Emit(ir.OneHot{Axis: axis, Depth: n}, c.Emit(ir.ArgReduce{Axis: axis}, x), c.Constant(offOn))
}

func lowerCumSum(c *context) []*ir.Value {
	x := c.In(0)
	op := ir.CumSum{Exclusive: c.AttrBool("exclusive", false), Reverse: c.AttrBool("reverse", false)}
	op.Axis = c.Axis(int(c.number(1)), rank(x))
	return []*ir.Value{c.Emit(op, x)}
}

// lowerLpNormalization divides by the norm; where it is 0 all elements are, and stay so.
func lowerLpNormalization(c *context) []*ir.Value {
	x := c.In(0)
	fn, ok := map[int]ir.Reduction{1: ir.L1, 2: ir.L2}[c.AttrInt("p", 2)]
	if !ok {
		c.Failf("p is neither 1 nor 2")
	}
	norm := c.Emit(ir.Reduce{Fn: fn, Axes: []int{c.Axis(c.AttrInt("axis", -1), rank(x))}, KeepDims: true}, x)
	zero := c.binary(ir.Equal, norm, c.like(x, 0))
	return []*ir.Value{c.binary(ir.Div, x, c.Emit(ir.Where{}, zero, c.like(x, 1), norm))}
}

// lowerMeanVarianceNormalization adds its epsilon to the deviation, not to the variance.
func lowerMeanVarianceNormalization(c *context) []*ir.Value {
	const epsilon = 1e-9
	x := c.In(0)
	list, ok := c.AttrInts("axes")
	if !ok {
		list = []int{0, 2, 3}
	}
	mean := ir.Reduce{Fn: ir.Mean, KeepDims: true}
	for _, a := range list {
		mean.Axes = append(mean.Axes, c.Axis(a, rank(x)))
	}
	slices.Sort(mean.Axes)
	d := c.binary(ir.Sub, x, c.Emit(mean, x))
	deviation := c.unary(ir.Sqrt, c.Emit(mean, c.binary(ir.Mul, d, d)))
	return []*ir.Value{c.binary(ir.Div, d, c.binary(ir.Add, deviation, c.like(x, epsilon)))}
}
