package rewrite

import (
	"bytes"
	"math"
	"slices"

	"github.com/rlxc/rlxc/internal/target"
	"github.com/rlxc/rlxc/ir"
	"github.com/rlxc/rlxc/tensor"
)

// perTensor reports whether v is quantised or dequantised by op T with one scale and zero point for the whole tensor.
func perTensor[T ir.Op](v *ir.Value) bool {
	if v == nil || v.Def == nil {
		return false
	}
	_, ok := v.Def.Op.(T)
	return ok && len(v.Def.Inputs[1].Type.Shape) == 0
}

func is8Bit(d tensor.DType) bool { return d == tensor.U8 || d == tensor.I8 }

// dequantized is any value that stands for quantised values. It is not a node of the pattern: others may read it, and it costs nothing
// to compute it twice.
func dequantized() *pattern {
	return value().when("a dequantised value", func(_ *match, v *ir.Value) bool { return perTensor[ir.Dequantize](v) })
}

// quantizedProduct is a product or a convolution of bytes: their operands are at the same positions.
func quantizedProduct(args ...*pattern) *pattern {
	p := node[ir.QMatMul](args...)
	p.kinds = append(p.kinds, ir.KindQConv)
	return p
}

// actOf is the activation of a product or a convolution of bytes, withAct the op with another.
func actOf(op ir.Op) ir.UnaryFn {
	if c, ok := op.(ir.QConv); ok {
		return c.Act
	}
	return op.(ir.QMatMul).Act
}

func withAct(op ir.Op, act ir.UnaryFn) ir.Op {
	if c, ok := op.(ir.QConv); ok {
		c.Act = act
		return c
	}
	o := op.(ir.QMatMul)
	o.Act = act
	return o
}

// sum32 is the bare int32 sums of a quantised product.
func sum32(rest ...*pattern) *pattern {
	p := quantizedProduct(rest...)
	return p.rest().when("bare sums", func(_ *match, v *ir.Value) bool { return v.Type.DType == tensor.I32 })
}

// at returns operand i of the node that makes v.
func at(v *ir.Value, i int) *ir.Value { return ir.Operand(v.Def.Inputs, i) }

// qOperands copies a product's operands into all ten positions.
func qOperands(v *ir.Value) []*ir.Value {
	return append(slices.Clone(v.Def.Inputs), make([]*ir.Value, ir.QMatMulYZero+1-len(v.Def.Inputs))...)
}

// single reports whether v holds one element.
func single(v *ir.Value) bool { return v.Type.Shape.Elements().Is(1) }

// quantSumRules put what makes floats of the sums of a quantised product into it: an addend of integers, and scales.
func quantSumRules() []*Rule {
	s, t := value(), value()
	sums := sum32()
	wide := with(node[ir.Cast](sums), func(o ir.Cast) bool { return o.To == tensor.F32 })
	scaled := product(wide, s, t)
	once := binary(ir.Mul, wide, s)
	finish := func(m *match, q, a, b, bias *ir.Value) *ir.Value {
		in := qOperands(q)
		n := q.Type.Shape[len(q.Type.Shape)-1]
		if !single(a) {
			a, b = b, a
		}
		if !single(a) || !single(b) && (len(b.Type.Shape) != 1 || ir.Same(b.Type.Shape[0], n) != ir.Yes) {
			return m.refuse("its scales are neither one number nor one for each column")
		}
		a = m.reshape(a, ir.Shape{})
		if single(b) {
			b = m.reshape(b, ir.Shape{})
		}
		in[ir.QMatMulAScale], in[ir.QMatMulBScale] = a, b
		if bias != nil {
			in[ir.QMatMulBias] = bias
		}
		return m.emit(q.Def.Op, in...)
	}
	addend := value()
	bare := sum32().when("sums without a bias", func(_ *match, v *ir.Value) bool { return at(v, ir.QMatMulBias) == nil })
	added := binary(ir.Add, bare, addend)
	return []*Rule{
		{Name: "qmatmul.scales", changes: Rounding, pattern: scaled, near: 3,
			build: func(m *match) *ir.Value { return finish(m, m.get(sums), m.get(s), m.get(t), nil) }},
		{Name: "qmatmul.scale", changes: Rounding, pattern: once, near: 3, build: func(m *match) *ir.Value {
			return finish(m, m.get(sums), m.get(s), m.e.constant("", tensor.Scalar(float32(1))), nil)
		}},
		{Name: "qmatmul.addend", changes: Rounding,
			pattern: binary(ir.Mul, with(node[ir.Cast](added), func(o ir.Cast) bool { return o.To == tensor.F32 }), s),
			build: func(m *match) *ir.Value {
				b := m.get(addend)
				if c, ok := m.get(bare).Def.Op.(ir.QConv); ok && c.Group > 1 {
					return nil // kernels of convolutions by channel add floats
				}
				columns := b.Type.Shape
				for len(columns) > 1 && columns[0].Is(1) {
					columns = columns[1:]
				}
				if b.Type.DType != tensor.I32 || !m.get(bare).Type.Equal(m.get(added).Type) || !columnwise(columns, m.get(bare).Def) {
					return nil
				}
				return finish(m, m.get(bare), m.get(s), m.e.constant("", tensor.Scalar(float32(1))), m.reshape(b, columns))
			}},
	}
}

// quantRules bring every spelling of a quantised product into QMatMul, and quantised values to where products read them. They are
// before everything that would take the patterns apart.
func quantRules() []*Rule {
	deq := dequantized()
	viewed := either(node[ir.Reshape](deq), node[ir.Transpose](deq), node[ir.Slice](deq), node[ir.Expand](deq))
	index := value()
	table := value().when("a dequantised value", func(_ *match, v *ir.Value) bool { return isDequantized(v) })
	gathered := node[ir.Gather](table, index)
	widened := value().when("a constant of another type", func(_ *match, v *ir.Value) bool {
		return v.Def != nil && v.Def.Op.Kind() == ir.KindCast && foldInputs(v.Def)
	})
	again := node[ir.Quantize](deq).rest()
	floating := node[ir.MatMul]().rest().when("a product of dequantised values", func(_ *match, v *ir.Value) bool {
		return isDequantized(at(v, ir.MatMulA)) || isDequantized(at(v, ir.MatMulB))
	})
	return []*Rule{
		{Name: "dequantize.view", pattern: viewed, build: func(m *match) *ir.Value {
			return m.dequantize(m.get(deq), m.emit(m.root.Op, m.get(deq).Def.Inputs[0]))
		}},
		quantViewRule(),
		quantMaxRule(),
		{Name: "dequantize.gather", pattern: gathered,
			build: func(m *match) *ir.Value { return buildGathered(m, m.get(table), m.get(index)) }},
		{Name: "cast.gather", pattern: node[ir.Gather](widened, index), build: func(m *match) *ir.Value {
			cast := m.get(widened).Def
			return m.emit(cast.Op, m.emit(m.root.Op, cast.Inputs[0], m.get(index)))
		}},
		// Quantising what was dequantised by the same scale.
		{Name: "quantize.again", pattern: again, build: func(m *match) *ir.Value {
			from := m.get(deq).Def
			if m.root.Outputs[0].Type.DType != from.Inputs[0].Type.DType || !sameScalar(m.root.Inputs[1], from.Inputs[1]) ||
				!sameScalar(ir.Operand(m.root.Inputs, 2), ir.Operand(from.Inputs, 2)) {
				return nil
			}
			return from.Inputs[0]
		}},
		{Name: "qmatmul.dequantized", changes: Rounding, pattern: floating, near: 2, build: buildDequantized},
	}
}

// buildGathered gathers quantised values, and their scales where each has its own, and dequantises what was gathered.
func buildGathered(m *match, table, index *ir.Value) *ir.Value {
	op, o := m.root.Op.(ir.Gather), table.Def.Op.(ir.Dequantize)
	take := func(v *ir.Value) *ir.Value {
		if v == nil {
			return nil
		}
		return m.emit(op, v, index)
	}
	quantized, scale, zero := at(table, 0), at(table, 1), at(table, 2)
	s := quantized.Type.Shape
	width, known := last(s).Const()
	switch {
	case perTensor[ir.Dequantize](table):
	case o.Axis != op.Axis:
		if o.Block > 0 {
			scale, zero = take(scale), take(zero)
		}
		if o.Axis > op.Axis {
			o.Axis += len(index.Type.Shape) - 1
		}
	case o.Block == 0 && o.Axis == 0 && len(s) == 2 && known && width > 0: // a row is a block
		column := func(v *ir.Value) *ir.Value {
			if v == nil {
				return nil
			}
			return take(m.reshape(v, ir.Shape{s[0], ir.N(1)}))
		}
		scale, zero = column(scale), column(zero)
		o.Axis, o.Block = len(index.Type.Shape), width
	default:
		return m.refuse("its scales are along the axis of the indices")
	}
	return m.emit(o, take(quantized), scale, zero)
}

// quantViewRule moves a rounding in front of a view.
func quantViewRule() *Rule {
	x := value()
	views := either(node[ir.Reshape](x), node[ir.Transpose](x), node[ir.Slice](x))
	quantised := node[ir.Quantize](views).rest().when("one scale for all",
		func(_ *match, v *ir.Value) bool { return perTensor[ir.Quantize](v) })
	return &Rule{Name: "quantize.view", pattern: quantised, build: func(m *match) *ir.Value {
		q := m.root
		return m.emit(m.get(views).Def.Op, m.emit(q.Op, append([]*ir.Value{m.get(x)}, q.Inputs[1:]...)...))
	}}
}

// quantExpandRules round what is stretched while it is small. Products have taken their quantised values when they run.
func quantExpandRules() []*Rule {
	x := value()
	expanded := node[ir.Expand](x)
	quantised := node[ir.Quantize](expanded).rest().when("one scale for all",
		func(_ *match, v *ir.Value) bool { return perTensor[ir.Quantize](v) })
	dequantised := node[ir.Dequantize](expanded).rest().when("one scale for all",
		func(_ *match, v *ir.Value) bool { return perTensor[ir.Dequantize](v) })
	return []*Rule{{Name: "quantize.expand", pattern: either(quantised, dequantised), build: func(m *match) *ir.Value {
		q := m.root
		return m.emit(m.get(expanded).Def.Op, m.emit(q.Op, append([]*ir.Value{m.get(x)}, q.Inputs[1:]...)...))
	}}}
}

// qdqPairRules run when products have taken their quantised values: a QDQ pair that is left between them, on either side of views,
// only loses precision, if the quantised values have no other reader.
func qdqPairRules() []*Rule {
	rounded := value().when("quantised values that are not a result of the graph", func(m *match, v *ir.Value) bool {
		of, views := beneathViews(v)
		return (perTensor[ir.Quantize](of) || len(views) == 0 && perAxis(of)) && !m.e.outputs[of]
	})
	pair := node[ir.Dequantize](rounded).rest()
	// A vector of quantised values or narrow floats, such as a bias, is small enough to hold its values.
	vector := either(node[ir.Dequantize](constant()).rest(), node[ir.Cast](constant())).
		when("a vector", func(m *match, v *ir.Value) bool { return len(v.Type.Shape) < 2 && foldInputs(m.root) })
	return []*Rule{{Name: "widen.vector", pattern: vector, build: foldConstants},
		{Name: "quantize.pair", changes: Meaning,
			assumes: "the rounding of a QDQ pair of 8 bits or more before or after a product has no meaning if only float operators read " +
				"it, nor has the clipping of one of 8 bits, unless its zero point is the lowest value",
			pattern: pair, build: func(m *match) *ir.Value {
				values, views := beneathViews(m.get(rounded))
				q := values.Def
				if values.Type.DType.Bits() < 8 {
					return m.refuse("less than 8 bits")
				}
				if m.root.Outputs[0].Type.DType != q.Inputs[0].Type.DType || !sameNumbers(m.root.Inputs[1], q.Inputs[1]) ||
					!sameNumbers(ir.Operand(m.root.Inputs, 2), ir.Operand(q.Inputs, 2)) ||
					perAxis(values) && m.root.Op.(ir.Dequantize).Axis != q.Op.(ir.Quantize).Axis {
					return nil
				}
				if !m.e.steps.loose[q.Inputs[0]] && !leadsToSum(m.root.Outputs[0]) {
					return m.refuse("no product is before or after it, so that rounding is what it is for")
				}
				if productReads(values) {
					return m.refuse("a product also reads the quantised values")
				}
				if addsQuantized(m.root.Outputs[0]) {
					return m.refuse("a sum of quantised values reads them")
				}
				x := q.Inputs[0]
				switch low, high, how := clips(q); how {
				case clipsUnknown:
					return m.refuse("it is unknown which values it clips")
				case clipsOff:
					x = m.emit(ir.Unary{Fn: ir.Clamp, Alpha: low, Beta: high}, x)
				}
				for _, view := range slices.Backward(views) {
					x = m.emit(view.Op, append([]*ir.Value{x}, view.Inputs[1:]...)...)
				}
				return x
			}}}
}

// perAxis reports whether v is quantised by a scale for each slice along an axis.
func perAxis(v *ir.Value) bool {
	if v == nil || v.Def == nil {
		return false
	}
	o, ok := v.Def.Op.(ir.Quantize)
	return ok && o.Block == 0 && len(v.Def.Inputs[1].Type.Shape) == 1
}

// leadsToSum reports whether a sum of products or of an axis reads v, or reads what is computed from it.
func leadsToSum(v *ir.Value) bool {
	seen := map[*ir.Value]bool{v: true}
	for next := []*ir.Value{v}; len(next) > 0; {
		v, next = next[0], next[1:]
		for _, u := range v.Uses {
			if addsUp(u.Node) {
				return true
			}
			for _, y := range u.Node.Outputs {
				if !seen[y] {
					seen[y] = true
					next = append(next, y)
				}
			}
		}
	}
	return false
}

// beneathViews returns what v is views of, and these, the last one first.
func beneathViews(v *ir.Value) (of *ir.Value, views []*ir.Node) {
	for v.Def != nil && v.Def.Op.Kind().Has(ir.View) {
		views = append(views, v.Def)
		v = v.Def.Inputs[0]
	}
	return v, views
}

// widenRule widens the stored weights that nothing took or takes as they are, once and for all.
func widenRule() *Rule {
	stored := constant().when("quantised values or narrow floats", func(_ *match, v *ir.Value) bool {
		d := v.Type.DType
		return target.IsHalf(d) || d.IsInt() && d.Bits() <= 16
	})
	wide := either(node[ir.Dequantize](stored).rest(), node[ir.Cast](stored)).when("constants that become floats",
		func(m *match, v *ir.Value) bool {
			return v.Type.DType.IsFloat() && foldInputs(m.root) && !m.e.outputs[v] &&
				!slices.ContainsFunc(v.Uses, func(u ir.Use) bool { return m.takesStored(u.Node, u.Index) })
		})
	return &Rule{Name: "widen", pattern: wide, build: foldConstants}
}

// productReads reports whether a product reads quantised values, as they are or through views.
func productReads(v *ir.Value) bool {
	return slices.ContainsFunc(v.Uses, func(u ir.Use) bool {
		return u.Node.Op.Kind() == ir.KindQMatMul || u.Node.Op.Kind() == ir.KindQConv || u.Node.Op.Kind().Has(ir.View) &&
			productReads(u.Node.Outputs[0])
	})
}

// addsQuantized reports whether v is only added to another dequantised value, and a product reads the sum as quantised values: all three
// are bytes then.
func addsQuantized(v *ir.Value) bool {
	sum := onlyReader(v, func(op ir.Op) bool { return op == ir.Op(ir.Binary{Fn: ir.Add}) })
	if sum == nil || !perTensor[ir.Dequantize](at(sum, 0)) || !perTensor[ir.Dequantize](at(sum, 1)) {
		return false
	}
	if clamped := onlyReader(sum, func(op ir.Op) bool { return op == ir.Op(ir.Unary{Fn: ir.Relu}) }); clamped != nil {
		sum = clamped
	}
	quantised := onlyReader(sum, func(op ir.Op) bool { return op.Kind() == ir.KindQuantize })
	return quantised != nil && perTensor[ir.Quantize](quantised) && productReads(quantised)
}

// onlyReader returns the result of the only node that reads v, if that has such an op, or nil.
func onlyReader(v *ir.Value, is func(op ir.Op) bool) *ir.Value {
	if len(v.Uses) != 1 || !is(v.Uses[0].Node.Op) {
		return nil
	}
	return v.Uses[0].Node.Outputs[0]
}

// isStored reports whether v is made from constants that a model stores, integers or narrow floats.
func isStored(v *ir.Value) bool {
	if v == nil || v.Def == nil || !foldInputs(v.Def) {
		return false
	}
	_, narrow := v.Def.Op.(ir.Cast)
	return isDequantized(v) || narrow && target.IsHalf(v.Def.Inputs[0].Type.DType)
}

// takesStored reports whether the target packs weights as they are stored.
func (m *match) takesStored(n *ir.Node, operand int) bool {
	return m.e.t != nil && m.e.t.TakesStored(n, operand)
}

// foldInputs reports whether all operands are constants.
func foldInputs(n *ir.Node) bool {
	return !slices.ContainsFunc(n.Inputs, func(v *ir.Value) bool { return v != nil && v.Const == nil })
}

// A clipping is what leaving out a quantiser must keep of what it cuts off.
type clipping int

const (
	clipsNothing clipping = iota
	clipsOff
	clipsUnknown
)

// clips returns the ends of what quantised values stand for, and whether values beyond them are to be cut off without the quantiser,
// too. With a zero point at the lowest value, it stands for a ReLU, or for a ReLU6 if 6 is the other end, which quantisers leave out of
// the model. Ranges of 8 bits are otherwise as narrow as rounding to 8 bits wants them; there is no such reason for 16 bits, where what is
// cut off is nearly all that the pair does. A zero point at the highest value, which stands for a mask, cuts off half of the numbers.
func clips(q *ir.Node) (low, high float32, how clipping) {
	zero, d := ir.Operand(q.Inputs, 2), q.Outputs[0].Type.DType
	z, most, known := rangeOfZeros(zero)
	scale, constant := numberOf(q.Inputs[1])
	lowest, highest := 0.0, float64(int(1)<<d.Bits()-1)
	if !d.IsUnsigned() {
		lowest, highest = -float64(int(1)<<(d.Bits()-1)), float64(int(1)<<(d.Bits()-1)-1)
	}
	low, high = float32((lowest-z)*scale), float32((highest-z)*scale)
	from, to := rangeOf(q.Inputs[0])
	switch {
	case !known || !d.IsInt() || most >= highest || math.IsInf(scale, 0):
		return low, high, clipsUnknown
	case d.Bits() == 8 && (z > lowest || from >= 0), constant && low <= from && to <= high:
		return low, high, clipsNothing
	case constant && scale > 0 && !math.IsInf(float64(high-low), 0):
		return low, high, clipsOff
	}
	return low, high, clipsUnknown
}

// rangeOfZeros returns the least and the largest of constant zero points, which are 0 where there are none.
func rangeOfZeros(zero *ir.Value) (least, most float64, known bool) {
	if zero == nil {
		return 0, 0, true
	}
	if zero.Const == nil || zero.Const.Len() == 0 {
		return 0, 0, false
	}
	least, most = math.Inf(1), math.Inf(-1)
	for _, z := range zero.Const.Aligned().Float64s() {
		least, most = min(least, z), max(most, z)
	}
	return least, most, true
}

// rangeOf returns the ends of what a value may be, as far as that is plain.
func rangeOf(v *ir.Value) (least, most float32) {
	most = float32(math.Inf(1))
	v, _ = beneathViews(v)
	if v.Def != nil {
		switch o := v.Def.Op.(type) {
		case ir.Softmax:
			if !o.Log {
				return 0, 1
			}
		case ir.Unary:
			switch o.Fn {
			case ir.Sigmoid, ir.HardSigmoid:
				return 0, 1
			case ir.Tanh, ir.Erf:
				return -1, 1
			case ir.Clamp:
				return o.Alpha, o.Beta
			}
		}
	}
	if neverNegative(v) {
		return 0, most
	}
	return -most, most
}

func isDequantized(v *ir.Value) bool {
	if v == nil || v.Def == nil {
		return false
	}
	_, ok := v.Def.Op.(ir.Dequantize)
	return ok
}

// sameScalar reports whether two operands are the same value, or constants of one equal element.
func sameScalar(a, b *ir.Value) bool {
	if a == b {
		return true
	}
	p, ok := numberOf(a)
	q, ok2 := numberOf(b)
	return ok && ok2 && p == q && a.Type.DType == b.Type.DType
}

// sameNumbers is sameScalar for constants of any shape.
func sameNumbers(a, b *ir.Value) bool {
	if sameScalar(a, b) {
		return true
	}
	return a != nil && b != nil && a.Const != nil && b.Const != nil && a.Type.Equal(b.Type) &&
		bytes.Equal(a.Const.Bytes(), b.Const.Bytes())
}

// dequantize dequantises other values by the scale of old.
func (m *match) dequantize(old, quantized *ir.Value) *ir.Value {
	return m.emit(old.Def.Op, append([]*ir.Value{quantized}, old.Def.Inputs[1:]...)...)
}

// buildDequantized makes a product of dequantised values a quantised product.
func buildDequantized(m *match) *ir.Value {
	n := m.root
	op := n.Op.(ir.MatMul)
	a, b := n.Inputs[ir.MatMulA], n.Inputs[ir.MatMulB]
	if !isDequantized(a) || !isDequantized(b) {
		return m.refuse("only one of its operands is quantised")
	}
	if d := n.Outputs[0].Type.DType; d != tensor.F32 {
		return m.refuse("it is a product of %s", d)
	}
	if !perTensor[ir.Dequantize](a) {
		return m.refuse("operand 0 has more than one scale")
	}
	columns := len(b.Type.Shape) - 1
	if op.TransB {
		columns--
	}
	if o := b.Def.Op.(ir.Dequantize); !perTensor[ir.Dequantize](b) && (o.Block != 0 || o.Axis != columns || len(b.Type.Shape) != 2) {
		return m.refuse("the scales of operand 1 are not for its columns")
	}
	for i, v := range []*ir.Value{a, b} {
		if d := at(v, 0).Type.DType; !is8Bit(d) {
			return m.refuse("operand %d has quantised values of %s", i, d)
		}
	}
	scale := at(a, 1)
	if op.Scale() != 1 {
		number, ok := numberOf(scale)
		if !ok {
			return m.refuse("it has a factor and a computed scale")
		}
		scale = m.likeConstant(scale, number*float64(op.Scale()))
	}
	return m.emit(ir.QMatMul{TransB: op.TransB, Act: op.Act}, at(a, 0), at(b, 0), at(a, 2), at(b, 2), scale, at(b, 1),
		ir.Operand(n.Inputs, ir.MatMulBias), ir.Operand(n.Inputs, ir.MatMulResidual))
}

// qFloats is a quantised product whose result is in floats, as far as it got.
func qFloats(upTo int) *pattern {
	return quantizedProduct().rest().when("a quantised product in floats", func(_ *match, v *ir.Value) bool {
		if v.Type.DType != tensor.F32 {
			return false
		}
		for i := upTo; i <= ir.QMatMulYZero; i++ {
			if at(v, i) != nil {
				return false
			}
		}
		return upTo > ir.QMatMulBias || actOf(v.Def.Op) == ir.NoUnary
	})
}

// quantEpilogueRules put what follows a quantised product into it, in the order in which it runs there.
func quantEpilogueRules() []*Rule {
	bias, residual, factor := value(), value(), scalar()
	bare, biased := qFloats(ir.QMatMulBias), qFloats(ir.QMatMulResidual)
	activated := node[ir.Unary](biased)
	noResidual := qFloats(ir.QMatMulResidual)
	return []*Rule{
		{Name: "qmatmul.alpha", changes: Rounding, pattern: either(binary(ir.Mul, bare, factor), binary(ir.Div, bare, factor)),
			build: func(m *match) *ir.Value {
				scale := at(m.get(bare), ir.QMatMulAScale)
				number, ok := numberOf(scale)
				if !ok {
					return nil
				}
				if m.root.Op == ir.Op(ir.Binary{Fn: ir.Mul}) {
					number *= m.number(factor)
				} else {
					number /= m.number(factor)
				}
				return m.withOperands(m.get(bare), map[int]*ir.Value{ir.QMatMulAScale: m.likeConstant(scale, number)})
			}},
		{Name: "qmatmul.bias", pattern: binary(ir.Add, bare, bias), build: func(m *match) *ir.Value {
			if b := m.perColumn(m.get(bias)); b != nil {
				return m.withOperands(m.get(bare), map[int]*ir.Value{ir.QMatMulBias: b})
			}
			return nil
		}},
		{Name: "qmatmul.activation", changes: Rounding, pattern: activated, build: func(m *match) *ir.Value {
			o := m.get(biased).Def.Op
			act, ok := epilogue(opOf[ir.Unary](m, activated))
			if !ok || actOf(o) != ir.NoUnary {
				return nil
			}
			return m.emit(withAct(o, act), m.get(biased).Def.Inputs...)
		}},
		{Name: "qmatmul.residual", pattern: binary(ir.Add, noResidual, residual), build: func(m *match) *ir.Value {
			if !m.get(residual).Type.Equal(m.get(noResidual).Type) {
				return nil
			}
			sum := m.root.Outputs[0]
			if isDequantized(m.get(residual)) && len(sum.Uses) == 1 && sum.Uses[0].Node.Op.Kind() == ir.KindLayerNorm {
				return nil // the norm adds quantised values as they are
			}
			return m.withOperands(m.get(noResidual), map[int]*ir.Value{ir.QMatMulResidual: m.get(residual)})
		}},
	}
}

// withOperands makes a product again with more operands.
func (m *match) withOperands(product *ir.Value, more map[int]*ir.Value) *ir.Value {
	in := qOperands(product)
	for i, v := range more {
		in[i] = v
	}
	return m.emit(product.Def.Op, in...)
}

// quantLateRules run when products have been packed and roundings left out: a product that alone reads a value's quantised values
// quantises it on the way, and one of which only quantised values are wanted returns those.
func quantLateRules() []*Rule {
	x, any := value(), qFloats(ir.QMatMulYScale)
	quantised := node[ir.Quantize](any).rest().when("one scale for all",
		func(_ *match, v *ir.Value) bool { return perTensor[ir.Quantize](v) })
	dynamic := node[ir.QMatMul](node[ir.DynamicQuantize](x)).rest()
	return []*Rule{
		{Name: "qmatmul.quantize", changes: Rounding, pattern: quantised, build: func(m *match) *ir.Value {
			zero := ir.Operand(m.root.Inputs, 2)
			if d := m.root.Outputs[0].Type.DType; !is8Bit(d) {
				return m.refuse("its result is quantised to %s", d)
			} else if zero == nil {
				zero = m.e.constant("", tensor.New(d))
			}
			return m.withOperands(m.get(any), map[int]*ir.Value{ir.QMatMulYScale: m.root.Inputs[1], ir.QMatMulYZero: zero})
		}},
		{Name: "qmatmul.dynamic", pattern: dynamic, build: func(m *match) *ir.Value {
			in := slices.Clone(m.root.Inputs)
			q := in[ir.QMatMulA].Def
			if !in[ir.QMatMulB].IsConst() || ir.Operand(in, ir.QMatMulAScale) != q.Outputs[1] || in[ir.QMatMulAZero] != q.Outputs[2] {
				return nil
			}
			in[ir.QMatMulA], in[ir.QMatMulAZero], in[ir.QMatMulAScale] = m.get(x), nil, nil
			return m.emit(m.root.Op, in...)
		}},
	}
}

// quantQKVRule packs the products that one attention makes of the same quantised values, as qkvRules do for floats.
func quantQKVRule() *Rule {
	first := node[ir.QMatMul]().rest().when("a product without residual", func(_ *match, v *ir.Value) bool {
		return v.Type.DType != tensor.I32 && at(v, ir.QMatMulResidual) == nil
	})
	return &Rule{Name: "qmatmul.packed", pattern: first, build: func(m *match) *ir.Value {
		parts := parallel(m, ir.QMatMulA, packsQuantized)
		if parts == nil {
			return nil
		}
		axis, columns := 1, 1
		if m.root.Op.(ir.QMatMul).TransB {
			axis, columns = 0, 0
		}
		in := qOperands(m.root.Outputs[0])
		for _, i := range []int{ir.QMatMulB, ir.QMatMulBZero, ir.QMatMulBScale, ir.QMatMulBias, ir.QMatMulYScale, ir.QMatMulYZero} {
			if in[i] == nil {
				continue
			}
			var list []*tensor.Tensor
			for _, n := range parts {
				t := n.Inputs[i].Const
				if i != ir.QMatMulB {
					t = repeated(t, n.Inputs[ir.QMatMulB].Const.Shape()[columns])
				}
				list = append(list, t)
			}
			along := 0
			if i == ir.QMatMulB {
				along = axis
			}
			in[i] = m.e.constant("", join(along, list...))
		}
		return apart(m, m.emit(m.root.Op, in...), parts)
	}}
}

// packsQuantized reports whether two products of the same quantised values can become one.
func packsQuantized(a, b *ir.Node) bool {
	if a.Op != b.Op {
		return false
	}
	for i := range ir.QMatMulYZero + 1 {
		v, w := ir.Operand(a.Inputs, i), ir.Operand(b.Inputs, i)
		switch {
		case (v == nil) != (w == nil):
			return false
		case v == nil:
		case i == ir.QMatMulA || i == ir.QMatMulAZero || i == ir.QMatMulAScale:
			if v != w && !sameScalar(v, w) {
				return false
			}
		case v.Const == nil || w.Const == nil || v.Type.DType != w.Type.DType:
			return false
		case i == ir.QMatMulB && (len(v.Type.Shape) != 2 || len(w.Type.Shape) != 2):
			return false
		}
	}
	return true
}

// repeated returns n elements: those of t, or its only one n times.
func repeated(t *tensor.Tensor, n int) *tensor.Tensor {
	if t.Len() == n && t.Rank() == 1 {
		return t
	}
	y := tensor.New(t.DType(), n)
	width := t.DType().Size()
	for i := range n {
		copy(y.Bytes()[i*width:], t.Bytes()[:width])
	}
	return y
}

// nBits matches a product with weights in blocks whose epilogue lacks operand upTo and all operands after it.
func nBits(upTo int) *pattern {
	return node[ir.MatMulNBits]().rest().when("a product with a free epilogue", func(_ *match, v *ir.Value) bool {
		for i := upTo; i <= ir.NBitsResidual; i++ {
			if at(v, i) != nil {
				return false
			}
		}
		return upTo > ir.NBitsBias || v.Def.Op.(ir.MatMulNBits).Act == ir.NoUnary
	})
}

// nBitsRules put what follows a product with weights in blocks into it.
func nBitsRules() []*Rule {
	bias, residual := value(), value()
	bare, biased, activated := nBits(ir.NBitsBias), nBits(ir.NBitsResidual), nBits(ir.NBitsResidual)
	act := node[ir.Unary](activated)
	with := func(m *match, p *pattern, i int, v *ir.Value) *ir.Value {
		in := append(slices.Clone(m.get(p).Def.Inputs), make([]*ir.Value, ir.NBitsResidual+1-len(m.get(p).Def.Inputs))...)
		in[i] = v
		return m.emit(m.get(p).Def.Op, in...)
	}
	return []*Rule{
		{Name: "matmul_nbits.bias", pattern: binary(ir.Add, bare, bias), build: func(m *match) *ir.Value {
			if !columnwise(m.get(bias).Type.Shape, m.root) {
				return nil
			}
			return with(m, bare, ir.NBitsBias, m.get(bias))
		}},
		{Name: "matmul_nbits.activation", changes: Rounding, pattern: act, build: func(m *match) *ir.Value {
			o := opOf[ir.MatMulNBits](m, activated)
			fn, ok := epilogue(opOf[ir.Unary](m, act))
			if !ok || o.Act != ir.NoUnary {
				return nil
			}
			o.Act = fn
			return m.emit(o, m.get(activated).Def.Inputs...)
		}},
		{Name: "matmul_nbits.residual", pattern: binary(ir.Add, biased, residual), build: func(m *match) *ir.Value {
			if !m.get(residual).Type.Equal(m.get(biased).Type) {
				return nil
			}
			return with(m, biased, ir.NBitsResidual, m.get(residual))
		}},
	}
}
