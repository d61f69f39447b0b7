package lower

import (
	"github.com/rlxc/rlxc/ir"
	"github.com/rlxc/rlxc/tensor"
)

// Products and normalisations.
var nnRows = []row{
	{"MatMul", 1, lowerMatMul},
	{"Gemm", 7, lowerGemm},
	{"LayerNormalization", 17, lowerLayerNormalization},
	{"RMSNormalization", 23, lowerRMSNormalization},
	{"GroupNormalization", 18, lowerGroupNormalization},
	{"InstanceNormalization", 6, lowerInstanceNormalization},
	{"BatchNormalization", 7, lowerBatchNormalization},
}

func lowerMatMul(c *context) []*ir.Value {
	return []*ir.Value{c.matrices(c.In(0), c.expanded(c.In(1)), func(a, b *ir.Value) *ir.Value { return c.Emit(ir.MatMul{}, a, b) })}
}

// matrices adds a second axis to vectors, which the product loses again (numpy.matmul).
func (c *context) matrices(a, b *ir.Value, product func(a, b *ir.Value) *ir.Value) *ir.Value {
	if rank(a) == 0 || rank(b) == 0 {
		c.Failf("the product of %v and %v: scalars have none", a.Type, b.Type)
	}
	row, column := rank(a) == 1, rank(b) == 1
	if row {
		a = c.reshape(a, ir.Shape{ir.N(1), a.Type.Shape[0]})
	}
	if column {
		b = c.reshape(b, ir.Shape{b.Type.Shape[0], ir.N(1)})
	}
	y := product(a, b)
	s := y.Type.Shape
	lead, m, n := s[:len(s)-2], s[len(s)-2:len(s)-1], s[len(s)-1:]
	if row {
		m = nil
	}
	if column {
		n = nil
	}
	return c.reshape(y, append(append(append(ir.Shape{}, lead...), m...), n...))
}

// lowerGemm is alpha·a·b + beta·c.
func lowerGemm(c *context) []*ir.Value {
	a, b := c.In(0), c.expanded(c.In(1))
	alpha, beta := c.AttrFloat("alpha", 1), c.AttrFloat("beta", 1)
	if rank(a) != 2 || rank(b) != 2 {
		c.Failf("%v and %v are not matrices", a.Type, b.Type)
	}
	if c.AttrBool("transA", false) {
		a = c.Emit(ir.Transpose{Perm: []int{1, 0}}, a)
	}
	op := ir.MatMul{TransB: c.AttrBool("transB", false)}
	after := alpha != 1 // the product itself takes neither a factor of 0, nor one of integers
	if a.Type.DType.IsFloat() && alpha != 0 {
		op.Alpha, after = alpha, false
	}
	bias := c.Opt(2)
	columns := b.Type.Shape[1]
	if op.TransB {
		columns = b.Type.Shape[0]
	}
	if bias != nil && beta == 1 && !after && rank(bias) == 1 && ir.Same(bias.Type.Shape[0], columns) == ir.Yes {
		return []*ir.Value{c.Emit(op, a, b, bias)}
	}
	y := c.Emit(op, a, b)
	if after {
		y = c.binary(ir.Mul, y, c.factor(y, "alpha", alpha))
	}
	if bias == nil || beta == 0 {
		return []*ir.Value{y}
	}
	if beta != 1 {
		bias = c.binary(ir.Mul, bias, c.factor(y, "beta", beta))
	}
	return []*ir.Value{c.within(y, c.binary(ir.Add, y, bias))}
}

// factor is a scalar of x's type, which must hold it exactly when it is an integer.
func (c *context) factor(x *ir.Value, name string, v float32) *ir.Value {
	if !x.Type.DType.IsFloat() && v != float32(int32(v)) {
		c.Unsupportedf("%s = %v in a product of %s", name, v, x.Type.DType.ONNX())
	}
	return c.like(x, float64(v))
}

// normalized reads the attributes that the norms over trailing axes share.
func (c *context) normalized(x *ir.Value) (op ir.LayerNorm, stash tensor.DType) {
	axis := c.Axis(c.AttrInt("axis", -1), rank(x))
	op = ir.LayerNorm{Axes: rank(x) - axis, Eps: c.AttrFloat("epsilon", 1e-5)}
	return op, c.stash()
}

// stash is the type in which the statistics of a norm are kept. The IR's norms compute in float32 or better, which
// serves all that ONNX allows.
func (c *context) stash() tensor.DType {
	d := tensor.DType(c.AttrInt("stash_type", int(tensor.F32)))
	if !d.IsFloat() {
		c.Failf("stash_type %d is not a floating-point type", int(d))
	}
	return d
}

func lowerLayerNormalization(c *context) []*ir.Value {
	x, scale, bias := c.In(0), c.In(1), c.Opt(2)
	op, stash := c.normalized(x)
	out := []*ir.Value{c.norm(op, x, scale, bias)}
	if !c.Wants(1) && !c.Wants(2) {
		return out
	}
	mean := ir.Reduce{Fn: ir.Mean, KeepDims: true}
	for axis := rank(x) - op.Axes; axis < rank(x); axis++ {
		mean.Axes = append(mean.Axes, axis)
	}
	wide := c.cast(x, stash)
	center := c.Emit(mean, wide)
	d := c.binary(ir.Sub, wide, center)
	variance := c.binary(ir.Add, c.Emit(mean, c.binary(ir.Mul, d, d)), c.like(d, float64(op.Eps)))
	return c.listed(append(out, center, c.unary(ir.Reciprocal, c.unary(ir.Sqrt, variance))))
}

// norm applies op, with scale and bias inside it where they fit the normalised axes, and after it where ONNX lets them
// reach further.
func (c *context) norm(op ir.LayerNorm, x, scale, bias *ir.Value) *ir.Value {
	fits := func(v *ir.Value) bool { return v == nil || rank(v) <= op.Axes && v.Type.DType == x.Type.DType }
	if fits(scale) && fits(bias) {
		return c.within(x, c.Emit(op, x, scale, bias))
	}
	y := c.cast(c.Emit(op, x), scale.Type.DType)
	y = c.binary(ir.Mul, y, scale)
	if bias != nil {
		y = c.binary(ir.Add, y, bias)
	}
	return c.within(x, y)
}

// lowerRMSNormalization has a result of the scale's type.
func lowerRMSNormalization(c *context) []*ir.Value {
	x := c.In(0)
	op, _ := c.normalized(x)
	op.RMS = true
	return []*ir.Value{c.norm(op, x, c.In(1), nil)}
}

// perChannel reshapes a vector of one number a channel so that it broadcasts over [N,C,…].
func (c *context) perChannel(v, x *ir.Value) *ir.Value {
	if rank(v) != 1 || ir.Same(v.Type.Shape[0], x.Type.Shape[1]) == ir.No {
		c.Failf("%v is not one number for each channel of %v", v.Type, x.Type)
	}
	s := ir.Shape{v.Type.Shape[0]}
	for range rank(x) - 2 {
		s = append(s, ir.N(1))
	}
	return c.reshape(v, s)
}

// lowerGroupNormalization normalises over groups of channels. Before opset 21, scale and bias were one number a group.
func lowerGroupNormalization(c *context) []*ir.Value {
	x, scale, bias, groups := c.In(0), c.In(1), c.In(2), c.AttrInt("num_groups", 0)
	s, op := x.Type.Shape, ir.LayerNorm{Axes: 1, Eps: c.AttrFloat("epsilon", 1e-5)}
	if len(s) < 2 || groups < 1 || ir.Same(s[1].Mod(ir.N(groups)), ir.N(0)) == ir.No {
		c.Failf("%d groups of the channels of %v: the channels must divide into them", groups, x.Type)
	}
	if c.Version() >= 21 {
		c.stash()
	}
	y := c.Emit(op, c.reshape(x, ir.Shape{s[0], ir.N(groups), s[1:].Elements().Div(ir.N(groups))}))
	apply := func(y *ir.Value) *ir.Value {
		return c.binary(ir.Add, c.binary(ir.Mul, y, c.perChannel(scale, y)), c.perChannel(bias, y))
	}
	if c.Version() < 21 {
		return []*ir.Value{c.reshape(c.within(y, apply(y)), s)}
	}
	y = c.reshape(y, s)
	return []*ir.Value{c.within(x, apply(y))}
}

func lowerInstanceNormalization(c *context) []*ir.Value {
	x := c.In(0)
	if rank(x) < 3 {
		c.Failf("%v has no axes after the channels", x.Type)
	}
	y := c.Emit(ir.LayerNorm{Axes: rank(x) - 2, Eps: c.AttrFloat("epsilon", 1e-5)}, x)
	y = c.binary(ir.Mul, y, c.perChannel(c.In(1), x))
	return []*ir.Value{c.within(x, c.binary(ir.Add, y, c.perChannel(c.In(2), x)))}
}

// lowerBatchNormalization is (x − mean) / sqrt(var + epsilon) · scale + bias, in the widest of the operands' types. In
// training mode mean and variance are the batch's, and the running ones move towards them.
func lowerBatchNormalization(c *context) []*ir.Value {
	x := c.In(0)
	if rank(x) < 2 {
		c.Failf("%v has no channels", x.Type)
	}
	eps, momentum := c.AttrFloat("epsilon", 1e-5), c.AttrFloat("momentum", 0.9)
	if c.Version() < 9 && !c.AttrBool("spatial", true) {
		c.Unsupportedf("statistics for every position (spatial = 0)")
	}
	training := c.Version() >= 14 && c.choice("training_mode", 2) == 1
	switch n := c.NumOutputs(); {
	case !training && n > 1:
		c.Unsupportedf("statistics of the batch are results of training")
	case training && n != 3:
		c.Failf("%d results: training has three, the output and the running mean and variance", n)
	}
	wide := x.Type.DType
	for _, v := range c.All() {
		if v.Type.DType.Bits() > wide.Bits() {
			wide = v.Type.DType
		}
	}
	param := func(i int) *ir.Value { return c.cast(c.perChannel(c.In(i), x), wide) }
	scale, bias, mean, variance := param(1), param(2), param(3), param(4)
	from := c.cast(x, wide)
	out := []*ir.Value{nil}
	if training {
		over := ir.Reduce{Fn: ir.Mean, KeepDims: true, Axes: []int{0}}
		for axis := 2; axis < rank(x); axis++ {
			over.Axes = append(over.Axes, axis)
		}
		moved := func(i int, running, now *ir.Value) *ir.Value {
			old := c.binary(ir.Mul, running, c.like(running, float64(momentum)))
			y := c.binary(ir.Add, old, c.binary(ir.Mul, now, c.like(now, 1-float64(momentum))))
			return c.cast(c.reshape(y, c.In(i).Type.Shape), c.In(i).Type.DType)
		}
		runningMean, runningVariance := mean, variance
		mean = c.Emit(over, from)
		d := c.binary(ir.Sub, from, mean)
		variance = c.Emit(over, c.binary(ir.Mul, d, d))
		out = append(out, moved(3, runningMean, mean), moved(4, runningVariance, variance))
	}
	deviation := c.unary(ir.Sqrt, c.binary(ir.Add, variance, c.like(variance, float64(eps))))
	y := c.binary(ir.Mul, c.binary(ir.Sub, from, mean), c.binary(ir.Div, scale, deviation))
	out[0] = c.within(x, c.cast(c.binary(ir.Add, y, bias), x.Type.DType))
	return c.listed(out)
}
