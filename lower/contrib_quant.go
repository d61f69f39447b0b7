package lower

import (
	"slices"

	"github.com/rlxc/rlxc/internal/ops"
	"github.com/rlxc/rlxc/ir"
	"github.com/rlxc/rlxc/tensor"
)

// onnxruntime's quantised operators (domain com.microsoft).
var contribQuantRows = []row{
	{"QuantizeLinear", 1, lowerQuantize},
	{"DequantizeLinear", 1, lowerDequantize},
	{"DynamicQuantizeMatMul", 1, lowerDynamicQuantizeMatMul},
	{"MatMulIntegerToFloat", 1, lowerMatMulIntegerToFloat},
	{"MatMulInteger16", 1, lowerMatMulInteger16},
	{"MulInteger", 1, lowerMulInteger},
	{"ReduceSumInteger", 1, lowerReduceSumInteger},
	{"QGemm", 1, lowerQGemm},
	{"QLinearConv", 1, lowerQLinearConvLast},
	{"QEmbedLayerNormalization", 1, lowerQEmbedNormalization},

	{"QLinearAdd", 1, lowerQLinearBinary(ir.Add)},
	{"QLinearMul", 1, lowerQLinearBinary(ir.Mul)},
	{"QLinearSigmoid", 1, lowerQLinearUnary(ir.Unary{Fn: ir.Sigmoid}, false)},
	{"QLinearLeakyRelu", 1, lowerQLinearUnary(ir.Unary{Fn: ir.LeakyRelu, Alpha: 0.01}, true)},
	{"QLinearSoftmax", 1, lowerQLinearSoftmax},
	{"QLinearReduceMean", 1, lowerQLinearReduceMean},
	{"QLinearWhere", 1, lowerQLinearWhere},
	{"QLinearConcat", 1, lowerQLinearConcat},
	{"QLinearAveragePool", 1, lowerQLinearAveragePool},
	{"QLinearGlobalAveragePool", 1, lowerQLinearGlobalAveragePool},

	{"DynamicQuantizeLSTM", 1, lowerDynamicQuantizeLSTM},

	{"MatMulNBits", 1, lowerMatMulNBits},
	{"MatMulBnb4", 1, lowerMatMulBnb4},
	{"GatherBlockQuantized", 1, lowerGatherBlockQuantized},
	{"GatherPacked", 1, lowerGatherPacked},
	{"MoE", 1, lowerMoE},
	{"MoEGroupRouter", 1, lowerMoEGroupRouter},
	{"QMoE", 1, lowerQMoE},
}

// one reads a scale or zero point that must be a single number; nil for one that may be left out and is.
func (c *context) one(i int) *ir.Value {
	v := c.scalar(c.Opt(i))
	if !isScalar(v) {
		c.Failf("operand %d is %v where one number is needed", i, v.Type)
	}
	return v
}

// columnwise reads a scale or zero point of matrix b: one number, or one for each of n columns.
func (c *context) columnwise(i int, n ir.Dim) *ir.Value {
	v := c.scalar(c.Opt(i), n)
	if v != nil && rank(v) == 2 && v.Type.Shape[0].Is(1) {
		v = c.reshape(v, v.Type.Shape[1:])
	}
	if !isScalar(v) && (rank(v) != 1 || ir.Same(v.Type.Shape[0], n) == ir.No) {
		c.Failf("operand %d is %v for %v columns", i, v.Type, n)
	}
	return v
}

// columns is the number of columns of a matrix, which must have two axes at least.
func (c *context) columns(b *ir.Value) ir.Dim {
	if rank(b) < 2 {
		c.Failf("%v is not a matrix", b.Type)
	}
	return b.Type.Shape[rank(b)-1]
}

func lowerDynamicQuantizeMatMul(c *context) []*ir.Value {
	a, b := c.In(0), c.In(1)
	n := c.columns(b)
	scale, zero, bias := c.columnwise(2, n), c.columnwise(3, n), c.Opt(4)
	c.checkScale(2)
	q := c.EmitAll(ir.DynamicQuantize{}, a)
	return []*ir.Value{c.matrices(q[0], b, func(a, b *ir.Value) *ir.Value {
		return c.Emit(ir.QMatMul{}, a, b, q[2], zero, q[1], scale, bias)
	})}
}

func lowerMatMulIntegerToFloat(c *context) []*ir.Value {
	b := c.In(1)
	n := c.columns(b)
	aScale, bScale, aZero, bZero := c.one(2), c.columnwise(3, n), c.one(4), c.columnwise(5, n)
	c.checkScale(2)
	c.checkScale(3)
	return []*ir.Value{c.matrices(c.In(0), b, func(a, b *ir.Value) *ir.Value {
		return c.Emit(ir.QMatMul{}, a, b, aZero, bZero, aScale, bScale, c.Opt(6))
	})}
}

func lowerMatMulInteger16(c *context) []*ir.Value {
	to := tensor.I32
	if c.In(0).Type.DType == tensor.U16 && c.In(1).Type.DType == tensor.U16 {
		to = tensor.U32
	}
	return []*ir.Value{c.matrices(c.cast(c.In(0), to), c.cast(c.In(1), to), func(a, b *ir.Value) *ir.Value {
		return c.Emit(ir.MatMul{}, a, b)
	})}
}

func lowerMulInteger(c *context) []*ir.Value {
	return []*ir.Value{c.binary(ir.Mul, c.difference(c.In(0), c.one(1)), c.difference(c.In(2), c.one(3)))}
}

func lowerReduceSumInteger(c *context) []*ir.Value {
	x := c.In(0)
	to := tensor.I32
	if x.Type.DType.IsUnsigned() {
		to = tensor.U32
	}
	op := ir.Reduce{Fn: ir.Sum, Axes: c.reduceAxes(rank(x)), KeepDims: c.AttrBool("keepdims", true)}
	return []*ir.Value{c.Emit(op, c.cast(x, to))}
}

// reduceAxes reads the attribute axes, which must be there, in ascending order.
func (c *context) reduceAxes(rank int) []int {
	list, _ := c.AttrInts("axes")
	in := make([]bool, rank)
	for _, a := range list {
		in[c.Axis(a, rank)] = true
	}
	var out []int
	for i, yes := range in {
		if yes {
			out = append(out, i)
		}
	}
	return out
}

// lowerQGemm is alpha·a·b + c of quantised values; c is in units of alpha·aScale·bScale.
func lowerQGemm(c *context) []*ir.Value {
	a, b := c.In(0), c.In(3)
	if rank(a) != 2 || rank(b) != 2 {
		c.Failf("%v and %v are not matrices", a.Type, b.Type)
	}
	alpha := c.AttrFloat("alpha", 1)
	op := ir.QMatMul{TransB: c.AttrBool("transB", false)}
	n := b.Type.Shape[1]
	if op.TransB {
		n = b.Type.Shape[0]
	}
	if c.AttrBool("transA", false) {
		a = c.Emit(ir.Transpose{Perm: []int{1, 0}}, a)
	}
	aScale, aZero, bScale, bZero := c.one(1), c.one(2), c.columnwise(4, n), c.columnwise(5, n)
	c.checkScale(1)
	c.checkScale(4)
	if alpha != 1 {
		aScale = c.binary(ir.Mul, aScale, c.like(aScale, float64(alpha)))
	}
	yScale, yZero := c.one(7), c.one(8)
	if yScale != nil {
		c.checkScale(7)
	}
	if yScale == nil || yZero == nil { // the result is in floats, or, without a zero point, quantised around 0
		if yScale != nil {
			yZero = c.Scalar(tensor.U8, 0)
		} else {
			yZero = nil
		}
	}
	in := []*ir.Value{a, b, aZero, bZero, aScale, bScale, nil, nil, yScale, yZero}
	bias := c.Opt(6)
	if bias == nil {
		return []*ir.Value{c.Emit(op, in...)}
	}
	flat := c.scalar(bias, n)
	if rank(flat) == 2 && flat.Type.Shape[0].Is(1) {
		flat = c.reshape(flat, flat.Type.Shape[1:])
	}
	if rank(flat) == 0 {
		flat = c.expand(flat, ir.Shape{n})
	}
	if rank(flat) == 1 && c.oneOf(flat.Type.Shape[0], n) == 0 {
		in[ir.QMatMulBias] = flat
		return []*ir.Value{c.Emit(op, in...)}
	}
	// A number for each row: the sums are finished one step at a time.
	sums := c.Emit(op, a, b, aZero, bZero)
	y := c.cast(c.within(sums, c.binary(ir.Add, sums, bias)), tensor.F32)
	y = c.binary(ir.Mul, y, c.binary(ir.Mul, aScale, bScale))
	if yScale == nil {
		return []*ir.Value{y}
	}
	return []*ir.Value{c.quantize(y, scaling{scale: yScale, zero: yZero}, yZero.Type.DType)}
}

// quantized reads a quantised operand as floats: x, its scale and its zero point.
func (c *context) quantized(x, scale, zero int) *ir.Value {
	c.checkScale(scale)
	return c.dequantize(c.In(x), scaling{scale: c.one(scale), zero: c.one(zero)}, tensor.F32)
}

// requantize quantises a result by the scale and zero point that two operands give; without a zero point quantised values
// are of type d.
func (c *context) requantize(y *ir.Value, scale, zero int, d tensor.DType) []*ir.Value {
	c.checkScale(scale)
	s := scaling{scale: c.one(scale), zero: c.one(zero)}
	if s.zero != nil {
		d = s.zero.Type.DType
	}
	return []*ir.Value{c.quantize(y, s, d)}
}

func lowerQLinearBinary(fn ir.BinaryFn) func(*context) []*ir.Value {
	return func(c *context) []*ir.Value {
		return c.requantize(c.binary(fn, c.quantized(0, 1, 2), c.quantized(3, 4, 5)), 6, 7, c.In(0).Type.DType)
	}
}

func lowerQLinearUnary(op ir.Unary, alpha bool) func(*context) []*ir.Value {
	return func(c *context) []*ir.Value {
		op := op
		if alpha {
			op.Alpha = c.AttrFloat("alpha", op.Alpha)
		}
		return c.requantize(c.Emit(op, c.quantized(0, 1, 2)), 3, 4, c.In(0).Type.DType)
	}
}

// lowerQLinearSoftmax lowers a softmax of the opset that an attribute names. Before opset 13, the softmax is over axis and all axes after
// it.
func lowerQLinearSoftmax(c *context) []*ir.Value {
	x := c.quantized(0, 1, 2)
	s := x.Type.Shape
	axis := c.Axis(c.AttrInt("axis", -1), len(s))
	var y *ir.Value
	if c.AttrInt("opset", MaxOpset) < 13 && axis < len(s)-1 {
		flat := c.reshape(x, ir.Shape{s[:axis].Elements(), s[axis:].Elements()})
		y = c.reshape(c.softmax(flat, 1), s)
	} else {
		y = c.softmax(x, axis)
	}
	return c.requantize(y, 3, 4, c.In(0).Type.DType)
}

func lowerQLinearReduceMean(c *context) []*ir.Value {
	x := c.quantized(0, 1, 2)
	op := ir.Reduce{Fn: ir.Mean, Axes: c.reduceAxes(rank(x)), KeepDims: c.AttrBool("keepdims", true)}
	return c.requantize(c.Emit(op, x), 3, 4, c.In(0).Type.DType)
}

func lowerQLinearWhere(c *context) []*ir.Value {
	y := c.Emit(ir.Where{}, c.In(0), c.quantized(1, 2, 3), c.quantized(4, 5, 6))
	return c.requantize(y, 7, 8, c.In(1).Type.DType)
}

func lowerQLinearConcat(c *context) []*ir.Value {
	if c.NumInputs() < 5 || c.NumInputs()%3 != 2 {
		c.Failf("%d operands are not a list of tensors, scales and zero points", c.NumInputs())
	}
	var in []*ir.Value
	for i := 2; i < c.NumInputs(); i += 3 {
		in = append(in, c.quantized(i, i+1, i+2))
	}
	y := c.Emit(ir.Concat{Axis: c.Axis(c.AttrInt("axis", 0), rank(in[0]))}, in...)
	return c.requantize(y, 0, 1, c.In(2).Type.DType)
}

// lowerQLinearAveragePool is ONNX's AveragePool between quantised values, with the channels in front of the spatial axes or
// after them.
func lowerQLinearAveragePool(c *context) []*ir.Value {
	x, last := c.quantized(0, 1, 2), c.AttrBool("channels_last", false)
	dims := rank(x)
	if dims < 3 {
		c.Failf("%v has no spatial axes", x.Type)
	}
	if last {
		x = c.Emit(ir.Transpose{Perm: append([]int{0, dims - 1}, lastAxes(dims-1, dims-2)...)}, x)
	}
	pool := c.operator
	pool.version = MaxOpset
	y := (&context{operator: pool, b: c.b, in: []*ir.Value{x}, readIn: make([]bool, 1), readAtt: c.readAtt}).averagePool(true)[0]
	if last {
		y = c.Emit(ir.Transpose{Perm: append(append([]int{0}, lastAxes(dims, dims-2)...), 1)}, y)
	}
	return c.requantize(y, 3, 4, c.In(0).Type.DType)
}

// lowerQLinearConvLast is ONNX's QLinearConv, of images whose channels may be last; its weights are ONNX's.
func lowerQLinearConvLast(c *context) []*ir.Value {
	x := c.In(0)
	if !c.AttrBool("channels_last", false) {
		return lowerQLinearConv(c)
	}
	if rank(x) < 3 {
		c.Failf("%v has no spatial axes", x.Type)
	}
	c.in = slices.Clone(c.in)
	c.in[0] = c.channelsFirst(x)
	return []*ir.Value{c.channelsLast(lowerQLinearConv(c)[0])}
}

func lowerQLinearGlobalAveragePool(c *context) []*ir.Value {
	x := c.quantized(0, 1, 2)
	if rank(x) < 3 {
		c.Failf("%v has no axes after the channels", x.Type)
	}
	axes := lastAxes(rank(x), rank(x)-2)
	if c.AttrBool("channels_last", false) {
		for i := range axes {
			axes[i]--
		}
	}
	y := c.Emit(ir.Reduce{Fn: ir.Mean, Axes: axes, KeepDims: true}, x)
	return c.requantize(y, 3, 4, c.In(0).Type.DType)
}

func lowerQEmbedNormalization(c *context) []*ir.Value {
	table := func(x, scale, zero int) *ir.Value {
		if c.Opt(x) == nil {
			return nil
		}
		return c.quantized(x, scale, zero)
	}
	return c.embed(embedding{ids: c.In(0), segments: c.Opt(1), words: table(2, 8, 13), positionTable: table(3, 9, 14),
		kinds: table(4, 10, 15),
		scale: table(5, 11, 16), shift: table(6, 12, 17), mask: c.Opt(7)})
}

func lowerMatMulNBits(c *context) []*ir.Value {
	a := c.In(0)
	op := ir.MatMulNBits{K: c.AttrInt("K", 0), N: c.AttrInt("N", 0), Bits: c.AttrInt("bits", 4), Block: c.AttrInt("block_size", 0)}
	level := c.AttrInt("accuracy_level", 0)
	if c.AttrInt("weight_prepacked", 0) != 0 {
		c.Unsupportedf("weight_prepacked: weights in a layout of one kind of GPU")
	}
	if err := op.Check(); err != nil {
		c.Failf("%w", err)
	}
	if op.Bits != 2 && op.Bits != 4 && op.Bits != 8 {
		c.Unsupportedf("bits = %d: 2, 4 and 8 are understood", op.Bits)
	}
	if op.Block < 16 || op.Block&(op.Block-1) != 0 {
		c.Failf("block_size = %d is not a power of two from 16 on", op.Block)
	}
	b := c.In(1)
	if rank(b) < 2 || ir.Same(b.Type.Shape[0], ir.N(op.N)) == ir.No {
		c.Failf("operand 1, B, is %v: its first axis is N = %d", b.Type, op.N)
	}
	if bias := c.Opt(5); bias != nil && rank(bias) != 1 {
		c.Failf("operand 5, the bias, is %v and not a vector", bias.Type)
	}
	if n, want := b.Type.Shape.Elements(), op.N*op.Blocks()*op.Block*op.Bits/8; ir.Same(n, ir.N(want)) == ir.No {
		c.Failf("operand 1, B, has %v bytes; N = %d, K = %d, bits = %d and block_size = %d need %d", n, op.N, op.K, op.Bits, op.Block, want)
	}
	if n, want := c.In(2).Type.Shape.Elements(), op.N*op.Blocks(); ir.Same(n, ir.N(want)) == ir.No {
		c.Failf("operand 2, scales, has %v elements; N = %d in blocks of block_size = %d along K = %d needs %d", n, op.N, op.Block, op.K,
			want)
	}
	zeros, groups := c.Opt(3), c.Opt(4)
	if groups != nil {
		groups = c.cast(groups, tensor.I32)
	}
	// The level allows rounding and does not ask for it: onnxruntime multiplies floats where it has no other kernel.
	op.Int8 = level == 4 && groups == nil && (zeros == nil || zeros.Type.DType == tensor.U8) &&
		(op.Bits > 2 || op.Block >= 32 && op.Block <= 128)
	return []*ir.Value{c.Emit(op, a, b, c.In(2), zeros, groups, c.Opt(5))}
}

// bnb4 has the numbers that 4 bits stand for in MatMulBnb4: FP4, NF4.
var bnb4 = [2][16]float32{
	{0, 1.0 / 192, 2.0 / 3, 1, 1.0 / 3, 0.5, 1.0 / 6, 0.25, 0, -1.0 / 192, -2.0 / 3, -1, -1.0 / 3, -0.5, -1.0 / 6, -0.25},
	{-1, -0.6961928009986877, -0.5250730514526367, -0.39491748809814453, -0.28444138169288635, -0.18477343022823334,
		-0.09105003625154495, 0, 0.07958029955625534, 0.16093020141124725, 0.24611230194568634, 0.33791524171829224, 0.44070982933044434,
		0.5626170039176941, 0.7229568362236023, 1},
}

// lowerMatMulBnb4 multiplies with weights [N,K] of which each 4 bits, the upper ones of a byte first, stand for a number that is not
// evenly spaced, times the largest of their block.
func lowerMatMulBnb4(c *context) []*ir.Value {
	K, N, block := c.AttrInt("K", 0), c.AttrInt("N", 0), c.AttrInt("block_size", 0)
	table := bnb4[c.choice("quant_type", 2)]
	c.IgnoreAttr("training_mode")
	if K < 1 || N < 1 || K > ir.MaxSize || N > ir.MaxSize || block < 16 || block > ir.MaxSize || block&(block-1) != 0 {
		c.Failf("K = %d, N = %d, block_size = %d: want positive sizes, and a power of two from 16 on", K, N, block)
	}
	stored, scales := c.weight(c.In(1)), c.In(2)
	blocks := (K*N + block - 1) / block
	if stored.Const == nil || stored.Const.Len() != (K*N+1)/2 {
		c.Failf("operand 1, B, is %v and no constant of %d bytes", stored.Type, (K*N+1)/2)
	}
	if rank(scales) != 1 || ir.Same(scales.Type.Shape[0], ir.N(blocks)) == ir.No {
		c.Failf("operand 2, absmax, is %v for %d blocks", scales.Type, blocks)
	}
	pairs := tensor.New(tensor.U8, blocks*block/2)
	for i, b := range stored.Const.Bytes() {
		pairs.Bytes()[i] = b>>4 | b<<4
	}
	numbers := c.cast(c.Constant(tensor.FromSlice(table[:])), scales.Type.DType)
	w := c.Emit(ir.Gather{}, numbers, c.cast(c.unpack(c.Constant(pairs), 4, ir.Dim{}), tensor.I32))
	w = c.binary(ir.Mul, c.reshape(w, ir.Dims(blocks, block)), c.reshape(scales, ir.Dims(blocks, 1)))
	w = c.slice(c.reshape(w, ir.Dims(blocks*block)), 0, ir.N(0), ir.N(K*N))
	if !c.AttrBool("transB", true) {
		c.Unsupportedf("transB = 0, for which onnxruntime reads what is not there")
	}
	return []*ir.Value{c.matrices(c.In(0), c.weight(c.reshape(w, ir.Dims(N, K))), func(a, b *ir.Value) *ir.Value {
		return c.Emit(ir.MatMul{TransB: true}, a, b)
	})}
}

// lowerGatherBlockQuantized gathers quantised values and their scales and dequantises what was gathered. Several of them in
// a byte are along the last axis.
func lowerGatherBlockQuantized(c *context) []*ir.Value {
	data, ids, scale, zero := c.In(0), c.In(1), c.In(2), c.Opt(3)
	bits, block := c.AttrInt("bits", 4), c.AttrInt("block_size", 128)
	gather, along := c.Axis(c.AttrInt("gather_axis", 0), rank(data)), c.Axis(c.AttrInt("quantize_axis", 1), rank(data))
	if block < 16 || block&(block-1) != 0 {
		c.Failf("block_size = %d is not a power of two from 16 on", block)
	}
	if gather == along {
		c.Unsupportedf("gather_axis and quantize_axis are both %d", gather)
	}
	unsigned := data.Type.DType == tensor.U8
	if zero != nil {
		want := slices.Clone(scale.Type.Shape)
		if unsigned && len(want) > 0 { // they are packed like the data
			want[len(want)-1] = want[len(want)-1].Mul(ir.N(bits)).CeilDiv(ir.N(8))
		}
		if !slices.EqualFunc(zero.Type.Shape, want, func(a, b ir.Dim) bool { return ir.Same(a, b) != ir.No }) {
			c.Failf("zero points %v for scales %v: their shapes must agree", zero.Type, scale.Type)
		}
	}
	if unsigned {
		data = c.unpack(data, bits, ir.Dim{})
		if zero != nil {
			zero = c.unpack(zero, bits, scale.Type.Shape[rank(scale)-1])
		} else {
			zero = c.centre(data.Type.DType, bits, scale)
		}
	}
	if rank(scale) != rank(data) || ir.Same(scale.Type.Shape[along], data.Type.Shape[along].CeilDiv(ir.N(block))) == ir.No {
		c.Failf("scales %v for %v in blocks of block_size = %d along axis %d: want one for each block", scale.Type, data.Type, block, along)
	}
	pick := func(v *ir.Value) *ir.Value {
		if v == nil {
			return nil
		}
		return c.Emit(ir.Gather{Axis: gather}, v, ids)
	}
	if along > gather {
		along += rank(ids) - 1
	}
	return []*ir.Value{c.dequantize(pick(data), scaling{pick(scale), pick(zero), along, block}, scale.Type.DType)}
}

// lowerGatherPacked gathers rows in the formats of GGUF files.
func lowerGatherPacked(c *context) []*ir.Value {
	op := ops.GatherPacked{Format: c.AttrInt("packed_type", -1), K: c.AttrInt("K", 0), To: c.attrDType("output_dtype")}
	if op.To == tensor.Invalid {
		op.To = tensor.BF16
	}
	f, ok := ops.RowFormats[op.Format]
	if !ok {
		c.Unsupportedf("packed_type = %d", op.Format)
	}
	if op.K < 1 || op.K > ops.MaxSize || op.K%f.Numbers != 0 {
		c.Failf("K = %d: want a multiple of %d, which a block of format %s holds", op.K, f.Numbers, f.Name)
	}
	return c.opaque(op, c.In(0), c.In(1))
}

// centre is the zero points of quantised values that have separate none: the middle of what that many bits hold.
func (c *context) centre(d tensor.DType, bits int, scale *ir.Value) *ir.Value {
	mid := tensor.New(d)
	mid.SetInt64(0, 1<<(bits-1))
	return c.expand(c.Constant(mid), scale.Type.Shape)
}

// unpack sees bytes, which must be constant or made of constants, as the quantised values of fewer bits that they hold along the last axis:
// length of them, where that is not all.
func (c *context) unpack(v *ir.Value, bits int, length ir.Dim) *ir.Value {
	to, ok := map[int]tensor.DType{2: tensor.U2, 4: tensor.U4, 8: tensor.U8}[bits]
	if !ok {
		c.Unsupportedf("bits = %d: 2, 4 and 8 are understood", bits)
	}
	if bits == 8 {
		return v
	}
	if v = c.weight(v); v.Const == nil {
		c.Unsupportedf("packed values that a run computes")
	}
	shape := v.Const.Shape().Clone()
	shape[len(shape)-1] *= 8 / bits
	t, err := tensor.FromBytes(to, shape, v.Const.Bytes())
	if err != nil {
		c.Failf("%w", err)
	}
	w := c.Constant(t)
	if n, known := length.Const(); known && n > 0 && n < shape[len(shape)-1] {
		w = c.slice(w, len(shape)-1, ir.N(0), length)
	}
	return w
}

// lowerDynamicQuantizeLSTM is an LSTM with weights of 8 bits, [D, I, 4H] and [D, H, 4H].
func lowerDynamicQuantizeLSTM(c *context) []*ir.Value {
	in := make([]*ir.Value, ops.QuantizedLSTMRZero+1)
	for i := range in {
		if in[i] = c.Opt(i); i == ops.RecurrentW || i == ops.RecurrentR || i == ops.RecurrentB || i > ops.RecurrentP {
			in[i] = c.weight(in[i])
		}
	}
	r := c.In(ops.RecurrentR).Type
	if len(r.Shape) == 3 {
		r.Shape = ir.Shape{r.Shape[0], r.Shape[2], r.Shape[1]} // as LSTM has them
	}
	return c.opaque(ops.DynamicQuantizeLSTM{LSTM: ops.LSTM{Recurrent: c.recurrentOf(r), InputForget: c.AttrBool("input_forget", false)}},
		in...)
}
