package lower

import (
	"math"
	"slices"

	"github.com/rlxc/rlxc/ir"
	"github.com/rlxc/rlxc/tensor"
)

// ortRows are operators that onnxruntime's optimizer writes into ai.onnx, where ONNX has them under other versions or not
// at all.
var ortRows = []row{
	{"LayerNormalization", 1, lowerLayerNormalization},
	{"SimplifiedLayerNormalization", 1, lowerSimplifiedNormalization},
}

// What onnxruntime's optimizer fuses (domain com.microsoft), as its document ContribOperators.md defines it. Attention
// and quantised operators have separate files.
var contribRows = []row{
	{"LayerNormalization", 1, lowerLayerNormalization},
	{"SimplifiedLayerNormalization", 1, lowerSimplifiedNormalization},
	{"SkipLayerNormalization", 1, lowerSkipNormalization(false)},
	{"SkipSimplifiedLayerNormalization", 1, lowerSkipNormalization(true)},
	{"EmbedLayerNormalization", 1, lowerEmbedNormalization},

	{"Gelu", 1, func(c *context) []*ir.Value { return []*ir.Value{c.unary(ir.Gelu, c.In(0))} }},
	{"BiasGelu", 1, func(c *context) []*ir.Value { return []*ir.Value{c.unary(ir.Gelu, c.biased(0, 1))} }},
	{"FastGelu", 1, func(c *context) []*ir.Value { return []*ir.Value{c.unary(ir.GeluTanh, c.biased(0, 1))} }},
	{"QuickGelu", 1, lowerSilu(1.702)},
	{"ScaledSiLU", 1, lowerSilu(1)},
	{"BiasSplitGelu", 1, lowerBiasSplitGelu},
	{"BiasAdd", 1, func(c *context) []*ir.Value { return []*ir.Value{c.binary(ir.Add, c.biased(0, 1), c.In(2))} }},
	{"BiasSoftmax", 1, lowerBiasSoftmax},
	{"BiasDropout", 1, lowerBiasDropout},

	{"CDist", 1, lowerCDist},
	{"FusedMatMul", 1, lowerFusedMatMul},
	{"TransposeMatMul", 1, lowerFusedMatMul},
	{"FusedMatMulActivation", 1, lowerFusedMatMulActivation},
	{"FusedGemm", 1, lowerFusedGemm},
	{"GemmFastGelu", 1, lowerGemmFastGelu},

	{"FusedConv", 1, lowerFusedConv},
	{"NhwcMaxPool", 1, lowerNhwcMaxPool},

	{"Tokenizer", 1, lowerTokenizer},

	{"ExpandDims", 1, lowerExpandDims},
	{"GridSample", 1, lowerGridSample},
	{"Trilu", 1, asStandard("Trilu")},
	{"GatherND", 1, asStandard("GatherND")},
	{"Pad", 1, asStandard("Pad")},
	{"Range", 1, asStandard("Range")},
}

// asStandard lowers an operator as the one of ai.onnx with that name, whose meaning it shares.
func asStandard(name string) func(*context) []*ir.Value {
	return func(c *context) []*ir.Value {
		in := make([]*ir.Value, c.NumInputs())
		for i := range in {
			in[i] = c.Opt(i)
		}
		return []*ir.Value{c.standard(name, in...)}
	}
}

// biased is operand x plus operand bias, where there is one.
func (c *context) biased(x, bias int) *ir.Value {
	v, b := c.In(x), c.Opt(bias)
	if b == nil {
		return v
	}
	return c.within(v, c.binary(ir.Add, v, b))
}

// lowerSimplifiedNormalization is RMSNormalization, with the reciprocal of the root of the mean square as a second result.
func lowerSimplifiedNormalization(c *context) []*ir.Value {
	x, scale := c.In(0), c.In(1)
	op, stash := c.normalized(x)
	op.RMS = true
	out := []*ir.Value{c.norm(op, x, scale, nil)}
	if c.Wants(1) {
		wide := c.cast(x, stash)
		mean := c.Emit(ir.Reduce{Fn: ir.Mean, KeepDims: true, Axes: lastAxes(rank(x), op.Axes)}, c.binary(ir.Mul, wide, wide))
		root := c.unary(ir.Sqrt, c.binary(ir.Add, mean, c.like(mean, float64(op.Eps))))
		out = append(out, c.unary(ir.Reciprocal, root))
	}
	return out
}

func lastAxes(rank, n int) (axes []int) {
	for axis := rank - n; axis < rank; axis++ {
		axes = append(axes, axis)
	}
	return axes
}

// lowerSkipNormalization normalises input + skip + bias over the last axis. The results after it are the mean and the reciprocal
// of the deviation, and that sum.
func lowerSkipNormalization(rms bool) func(*context) []*ir.Value {
	return func(c *context) []*ir.Value {
		x, skip, scale := c.In(0), c.In(1), c.In(2)
		shift, bias := c.Opt(3), 4
		if rms {
			shift, bias = nil, 3
		}
		if rank(x) < 2 || rank(skip) > rank(x) {
			c.Failf("input %v and skip %v: want two axes or more, and no more for skip", x.Type, skip.Type)
		}
		x = c.biased(0, bias)
		op := ir.LayerNorm{Axes: 1, Eps: c.AttrFloat("epsilon", 1e-12), RMS: rms}
		if skip.Type.Shape.Equal(x.Type.Shape) && !c.Wants(1) && !c.Wants(2) {
			op.Sum = c.Wants(3)
			out := c.EmitAll(op, x, scale, shift, skip)
			return []*ir.Value{out[0], nil, nil, out[len(out)-1]}
		}
		sum := c.within(x, c.binary(ir.Add, x, skip))
		out := []*ir.Value{c.Emit(op, sum, scale, shift), nil, nil, sum}
		if c.Wants(1) || c.Wants(2) {
			mean := func(v *ir.Value) *ir.Value {
				return c.Emit(ir.Reduce{Fn: ir.Mean, KeepDims: true, Axes: lastAxes(rank(x), 1)}, v)
			}
			wide := c.cast(sum, tensor.F32)
			out[1] = mean(wide)
			if !rms {
				wide = c.binary(ir.Sub, wide, out[1])
			}
			variance := mean(c.binary(ir.Mul, wide, wide))
			out[2] = c.unary(ir.Reciprocal, c.unary(ir.Sqrt, c.binary(ir.Add, variance, c.like(variance, float64(op.Eps)))))
		}
		return out
	}
}

// An embedding has the operands of a sum of rows of embedding tables.
type embedding struct {
	ids, segments, mask, positions *ir.Value // [B,S] but positions, which may be [1,S]; all but ids may be nil
	words, positionTable, kinds    *ir.Value // tables [·,hidden]; kinds goes with segments
	scale, shift                   *ir.Value
}

func lowerEmbedNormalization(c *context) []*ir.Value {
	return c.embed(embedding{ids: c.In(0), segments: c.Opt(1), words: c.In(2), positionTable: c.In(3), kinds: c.Opt(4),
		scale: c.In(5), shift: c.In(6), mask: c.Opt(7), positions: c.Opt(8)})
}

// embed sums embeddings and normalises: results are the norm, the number of ones in each row of the mask, and the sum.
func (c *context) embed(e embedding) []*ir.Value {
	if rank(e.ids) != 2 {
		c.Failf("input_ids %v are not [batch, sequence]", e.ids.Type)
	}
	if (e.segments == nil) != (e.kinds == nil) {
		c.Failf("segment_ids and segment_embedding must be given together")
	}
	c.IgnoreAttr("mask_index_type")
	B, S := e.ids.Type.Shape[0], e.ids.Type.Shape[1]
	sum := c.Emit(ir.Gather{}, e.words, e.ids)
	if e.positions != nil {
		sum = c.binary(ir.Add, sum, c.Emit(ir.Gather{}, e.positionTable, e.positions))
	} else {
		sum = c.binary(ir.Add, sum, c.slice(e.positionTable, 0, ir.N(0), S))
	}
	if e.segments != nil {
		sum = c.binary(ir.Add, sum, c.Emit(ir.Gather{}, e.kinds, e.segments))
	}
	y := c.Emit(ir.LayerNorm{Axes: 1, Eps: c.AttrFloat("epsilon", 1e-12)}, sum, e.scale, e.shift)
	out := []*ir.Value{y, nil, sum}
	if c.Wants(1) {
		if e.mask == nil {
			out[1] = c.expand(c.Scalar(tensor.I32, 0), ir.Shape{B})
		} else {
			ones := c.cast(c.binary(ir.Equal, e.mask, c.like(e.mask, 1)), tensor.I32)
			out[1] = c.Emit(ir.Reduce{Fn: ir.Sum, Axes: []int{1}}, ones)
		}
	}
	return out[:min(c.NumOutputs(), 3)]
}

// lowerBiasSplitGelu multiplies the first half of x + bias by the GELU of the second.
func lowerBiasSplitGelu(c *context) []*ir.Value {
	x := c.biased(0, 1)
	last := rank(x) - 1
	half := x.Type.Shape[last].Div(ir.N(2))
	if last < 0 || ir.Same(half.Mul(ir.N(2)), x.Type.Shape[last]) == ir.No {
		c.Failf("the last axis of %v cannot be halved", x.Type)
	}
	return []*ir.Value{c.binary(ir.Mul, c.slice(x, last, ir.N(0), half), c.unary(ir.Gelu, c.slice(x, last, half, half)))}
}

// lowerBiasSoftmax is the softmax of data + bias over all axes from axis on. Whichever way the bias is said to broadcast, its
// shape has ones there.
func lowerBiasSoftmax(c *context) []*ir.Value {
	c.IgnoreAttr("is_inner_broadcast")
	x := c.biased(0, 1)
	s := x.Type.Shape
	axis := c.Axis(c.AttrInt("axis", 1), len(s))
	if axis == len(s)-1 {
		return []*ir.Value{c.softmax(x, axis)}
	}
	flat := c.reshape(x, ir.Shape{s[:axis].Elements(), s[axis:].Elements()})
	return []*ir.Value{c.reshape(c.softmax(flat, 1), s)}
}

func lowerBiasDropout(c *context) []*ir.Value {
	c.IgnoreAttr("seed")
	x := c.biased(0, 1)
	c.Opt(3)
	if c.Opt(4) != nil && c.Const(4).Int64(0) != 0 {
		c.Unsupportedf("dropout in training mode is random")
	}
	y := x
	if r := c.Opt(2); r != nil {
		y = c.within(x, c.binary(ir.Add, x, r))
	}
	out := []*ir.Value{y}
	if c.Wants(1) {
		out = append(out, c.expand(c.Constant(tensor.Scalar(true)), x.Type.Shape))
	}
	return out
}

// lowerFusedMatMul is alpha·a·b with either matrix transposed. transBatch moves an operand's first axis to the rows first:
// [M,…,K] becomes […,M,K].
func lowerFusedMatMul(c *context) []*ir.Value { return []*ir.Value{c.fusedMatMul()} }

func (c *context) fusedMatMul() *ir.Value {
	alpha := c.AttrFloat("alpha", 1)
	operand := func(i int, batch, rows string) (v *ir.Value, transposed bool) {
		v = c.In(i)
		transposed = c.AttrBool(rows, false) && rank(v) > 1
		if c.AttrBool(batch, false) && rank(v) > 2 {
			perm := []int{}
			for axis := 1; axis < rank(v)-1; axis++ {
				perm = append(perm, axis)
			}
			v = c.Emit(ir.Transpose{Perm: append(perm, 0, rank(v)-1)}, v)
		}
		return v, transposed
	}
	a, transA := operand(0, "transBatchA", "transA")
	b, transB := operand(1, "transBatchB", "transB")
	if transA {
		perm := lastAxes(rank(a), rank(a))
		n := len(perm)
		perm[n-1], perm[n-2] = n-2, n-1
		a = c.Emit(ir.Transpose{Perm: perm}, a)
	}
	return c.matrices(a, b, func(a, b *ir.Value) *ir.Value {
		if alpha == 0 { // the product itself knows no factor of 0
			y := c.Emit(ir.MatMul{TransB: transB}, a, b)
			return c.binary(ir.Mul, y, c.like(y, 0))
		}
		return c.Emit(ir.MatMul{TransB: transB, Alpha: alpha}, a, b)
	})
}

// lowerSilu is x·sigmoid(alpha·x).
func lowerSilu(alpha float32) func(*context) []*ir.Value {
	return func(c *context) []*ir.Value {
		return []*ir.Value{c.Emit(ir.Unary{Fn: ir.Silu, Alpha: c.AttrFloat("alpha", alpha)}, c.In(0))}
	}
}

// contribActivations are the activations that onnxruntime fuses into products, with the defaults of their parameters.
var contribActivations = map[string]ir.Unary{
	"Relu": {Fn: ir.Relu}, "Tanh": {Fn: ir.Tanh}, "Sigmoid": {Fn: ir.Sigmoid}, "Softplus": {Fn: ir.Softplus}, "Softsign": {Fn: ir.Softsign},
	"LeakyRelu": {Fn: ir.LeakyRelu, Alpha: 0.01}, "Elu": {Fn: ir.Elu, Alpha: 1}, "ThresholdedRelu": {Fn: ir.ThresholdedRelu, Alpha: 1},
	"HardSigmoid": {Fn: ir.HardSigmoid, Alpha: 0.2, Beta: 0.5}, "Gelu": {Fn: ir.Gelu},
	"Selu": {Fn: ir.Selu, Alpha: 1.6732632, Beta: 1.050701},
}

// activated applies the activation that the attributes name.
func (c *context) activated(y *ir.Value) *ir.Value {
	name := c.AttrString("activation", "")
	if name == "" {
		return y
	}
	op, ok := contribActivations[name]
	if !ok {
		c.Unsupportedf("activation %q", name)
	}
	op.Alpha = c.AttrFloat("activation_alpha", op.Alpha)
	op.Beta = c.AttrFloat("activation_beta", op.Beta)
	if op.Fn == ir.Selu {
		op.Beta = c.AttrFloat("activation_gamma", op.Beta)
	}
	c.IgnoreAttr("activation_gamma", "activation_axis")
	return c.Emit(op, y)
}

func lowerFusedMatMulActivation(c *context) []*ir.Value {
	return []*ir.Value{c.activated(c.fusedMatMul())}
}

func lowerFusedGemm(c *context) []*ir.Value {
	c.version = MaxOpset // Gemm's, whose operand c is optional
	return []*ir.Value{c.activated(lowerGemm(c)[0])}
}

func lowerGemmFastGelu(c *context) []*ir.Value {
	y := c.matrices(c.In(0), c.In(1), func(a, b *ir.Value) *ir.Value {
		if bias := c.Opt(2); bias != nil {
			return c.Emit(ir.MatMul{}, a, b, bias)
		}
		return c.Emit(ir.MatMul{}, a, b)
	})
	return []*ir.Value{c.unary(ir.GeluTanh, y)}
}

func lowerExpandDims(c *context) []*ir.Value {
	x := c.In(0)
	axes := c.Ints(1)
	if len(axes) != 1 {
		c.Failf("axis is not a single number")
	}
	shape := slices.Insert(slices.Clone(x.Type.Shape), c.Axis(axes[0], rank(x)+1), ir.N(1))
	return []*ir.Value{c.reshape(x, shape)}
}

// lowerCDist is the distance of every row of A to every row of B: −2·a·b + |b|² + |a|², or its root.
func lowerCDist(c *context) []*ir.Value {
	a, b := c.In(0), c.In(1)
	metric := c.AttrString("metric", "sqeuclidean")
	if metric != "sqeuclidean" && metric != "euclidean" {
		c.Failf("metric %q is neither sqeuclidean nor euclidean", metric)
	}
	if rank(a) != 2 || rank(b) != 2 || ir.Same(a.Type.Shape[1], b.Type.Shape[1]) == ir.No {
		c.Failf("rows of %v and of %v: want matrices with equally many columns", a.Type, b.Type)
	}
	squares := func(x *ir.Value, keep ir.Shape) *ir.Value {
		return c.reshape(c.Emit(ir.Reduce{Fn: ir.SumSquare, Axes: []int{1}}, x), keep)
	}
	product := c.Emit(ir.MatMul{TransB: true, Alpha: -2}, a, b)
	d := c.binary(ir.Add, product, squares(b, ir.Shape{b.Type.Shape[0]}))
	d = c.binary(ir.Add, d, squares(a, ir.Shape{a.Type.Shape[0], ir.N(1)}))
	d = c.binary(ir.MaxFn, d, c.like(d, 0))
	if metric == "euclidean" {
		d = c.unary(ir.Sqrt, d)
	}
	return []*ir.Value{d}
}

// lowerFusedConv is Conv, to which operand 3 is added where there is one, and an activation.
func lowerFusedConv(c *context) []*ir.Value {
	z := c.Opt(3)
	c.in = c.in[:min(len(c.in), 3)] // Conv's
	y := lowerConv(c)[0]
	if z != nil {
		y = c.within(y, c.binary(ir.Add, y, z))
	}
	name, params := c.AttrString("activation", ""), []float32{}
	if v, ok := c.AttrFloats("activation_params"); ok {
		params = v
	}
	param := func(i int, def float32) float32 {
		if i < len(params) {
			return params[i]
		}
		return def
	}
	if name == "Clip" {
		bound := func(i int, def float32) *ir.Value { return c.like(y, float64(param(i, def))) }
		return []*ir.Value{c.Emit(ir.Clip{}, y, bound(0, -math.MaxFloat32), bound(1, math.MaxFloat32))}
	}
	op, ok := contribActivations[name]
	switch {
	case name == "":
		return []*ir.Value{y}
	case !ok:
		c.Unsupportedf("activation %q", name)
	}
	op.Alpha, op.Beta = param(0, op.Alpha), param(1, op.Beta)
	return []*ir.Value{c.Emit(op, y)}
}

// lowerNhwcMaxPool is MaxPool with the channels last.
func lowerNhwcMaxPool(c *context) []*ir.Value {
	x := c.In(0)
	if rank(x) < 3 {
		c.Failf("%v has no spatial axes: [N,…,C] is needed", x.Type)
	}
	first := upTo(rank(x))
	copy(first[2:], first[1:])
	first[1] = rank(x) - 1
	return []*ir.Value{c.channelsLast(c.standard("MaxPool", c.Emit(ir.Transpose{Perm: first}, x)))}
}
