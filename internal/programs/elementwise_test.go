package programs

import (
	"slices"

	"github.com/rlxc/rlxc/ir"
	"github.com/rlxc/rlxc/lower"
	"github.com/rlxc/rlxc/tensor"
)

// A family is makers that are chosen equally often: each adds a node or a few, or nothing where it finds no operands.
type family struct {
	weight int
	make   []func(*generator)
}

var families []family
var familyWeights []int

func init() {
	families = []family{
		{8, []func(*generator){unary}},
		{10, []func(*generator){binary, binary, binary, variadic, where, clip, cast, prelu, modulo, shift}},
		{6, []func(*generator){reduction, reduction, reduction, softmax, softmax, argument, cumulative, normalised, topK, hardmax}},
		{10, []func(*generator){transpose, reshape, flatten, squeeze, unsqueeze, concat, split, slice, slice, expand, tile, pad, trilu,
			blocks}},
		{6, []func(*generator){gather, gather, gatherElements, gatherND, scatterElements, scatterND, oneHot, reverse, chosen}},
		{3, []func(*generator){sizes, sizes, counted, filled}},
		{3, []func(*generator){cut}},
		{2, []func(*generator){translated, distinct}},
		{6, []func(*generator){matmul, matmul, matmul, gemm, einsum, conv, pool}},
		{4, []func(*generator){convolved, convTranspose, pooled, resize, resize, recurrent}},
		{2, []func(*generator){branch, loop, scan}},
		{4, []func(*generator){layerNorm, layerNorm, batchNorm, instanceNorm, rmsNorm}},
		{4, []func(*generator){quantized, quantized, dynamic, integers, qlinear}},
		{8, []func(*generator){attention, attention, attention, gelu, norm, rotary, divided, embedding, causal}},
		{4, decoders},
	}
	for _, f := range families {
		familyWeights = append(familyWeights, f.weight)
	}
}

// The element types of programs, likely ones more often.
var (
	floats = []tensor.DType{tensor.F32, tensor.F32, tensor.F32, tensor.F32, tensor.F32, tensor.F32, tensor.F32, tensor.F32, tensor.F16,
		tensor.F64, tensor.BF16}
	integral = []tensor.DType{tensor.I64, tensor.I64, tensor.I64, tensor.I32, tensor.I32, tensor.I8, tensor.U8, tensor.I16, tensor.U16,
		tensor.U32, tensor.U64}
	allTypes = slices.Concat(floats, floats, integral, []tensor.DType{tensor.Bool, tensor.Bool})
)

func (n *generator) dtypeOf(list []tensor.DType) tensor.DType { return list[n.IntN(len(list))] }

// types are those of a list that an operand of an operator may have.
func (n *generator) types(op string, operand int, list []tensor.DType) []tensor.DType {
	sig, ok := lower.SignatureOf("", op, n.opset)
	if !ok || len(sig.Operands) == 0 {
		return nil
	}
	may := sig.Operands[min(operand, len(sig.Operands)-1)].Types
	return slices.DeleteFunc(slices.Clone(list), func(d tensor.DType) bool { return !slices.Contains(may, d) })
}

// operand is a value for operand 0 of an operator: one that there is, mostly, or a new one.
func (n *generator) operand(op string, list []tensor.DType, fits func(*value) bool) *value {
	types := n.types(op, 0, list)
	if len(types) == 0 {
		return nil
	}
	if n.IntN(6) > 0 {
		for range 8 {
			v := n.pool[n.IntN(len(n.pool))]
			if k := len(n.pool); k > 4 && n.IntN(2) == 0 {
				v = n.pool[k-1-n.IntN(3)] // what was made last
			}
			if slices.Contains(types, v.dtype()) && (fits == nil || fits(v)) {
				return v
			}
		}
	}
	for range 8 {
		if v := n.leaf(n.dtypeOf(types), n.size(n.weighted([]int{1, 4, 8, 8, 4}))); v != nil && (fits == nil || fits(v)) {
			return v
		}
	}
	return nil
}

// partner is a value of a type that broadcasts together with a shape: one that there is, or a new one.
func (n *generator) partner(d tensor.DType, shape []int, within bool) *value {
	if n.IntN(3) > 0 {
		for range 6 {
			v := n.pool[n.IntN(len(n.pool))]
			if v.dtype() == d && broadcasts(v.shape(), shape, within) {
				return v
			}
		}
	}
	return n.leaf(d, n.partOf(shape))
}

// partOf is a shape that broadcasts to another.
func (n *generator) partOf(shape []int) []int {
	s := slices.Clone(shape)
	switch n.IntN(6) {
	case 0:
		return nil
	case 1:
		return []int{1}
	case 2:
		s = s[n.IntN(len(s)+1):]
	case 3:
		for i := range s {
			if n.IntN(2) == 0 {
				s[i] = 1
			}
		}
	}
	return s
}

// broadcasts reports whether two shapes fit; within, whether the first becomes the second.
func broadcasts(a, b []int, within bool) bool {
	product := 1
	for i := range max(len(a), len(b)) {
		x, y := 1, 1
		if i < len(a) {
			x = a[len(a)-1-i]
		}
		if i < len(b) {
			y = b[len(b)-1-i]
		}
		if x != y && x != 1 && (y != 1 || within) || within && i >= len(b) {
			return false
		}
		product *= max(x, y)
	}
	return product <= maxElements
}

// unaryOperators are those of the IR's table, some of them more often, and those that lowering writes otherwise.
var unaryOperators = func() []string {
	names := []string{"Gelu", "Swish", "Not", "BitwiseNot", "IsNaN", "IsInf", "Identity", "Dropout",
		"Floor", "Ceil", "Round", "Sign", "Relu", "Neg", "Sqrt", "Erf", "Tanh", "Sigmoid"}
	for fn := range ir.NumUnary {
		if name := fn.Operator().Name; name != "" && !slices.Contains(names[:8], name) {
			names = append(names, name)
		}
	}
	return names
}()

// unary is a function of one operand, with its parameters sometimes.
func unary(n *generator) {
	op := unaryOperators[n.IntN(len(unaryOperators))]
	var attrs []attr
	for _, name := range []string{"alpha", "beta", "gamma", "lambd", "bias"} {
		if op != "Dropout" && op != "Celu" && n.IntN(2) == 0 {
			attrs = append(attrs, attr{name, []float64{0.5, 1, 0.25, 2}[n.IntN(4)]})
		}
	}
	if n.IntN(2) == 0 {
		attrs = append(attrs, attr{"approximate", "tanh"})
	}
	for _, name := range []string{"detect_positive", "detect_negative"} {
		if n.IntN(2) == 0 {
			attrs = append(attrs, attr{name, n.IntN(2)})
		}
	}
	n.node(op, []*value{n.operand(op, allTypes, nil)}, attrs...)
}

var binaryOperators = []string{"Add", "Add", "Add", "Sub", "Sub", "Mul", "Mul", "Mul", "Div", "Div", "Pow", "Equal", "Less",
	"LessOrEqual", "Greater",
	"GreaterOrEqual", "And", "Or", "Xor", "BitwiseAnd", "BitwiseOr", "BitwiseXor"}

func binary(n *generator) {
	op := binaryOperators[n.IntN(len(binaryOperators))]
	x := n.operand(op, allTypes, nil)
	if x == nil {
		return
	}
	var y *value
	switch whole := !x.dtype().IsFloat(); {
	case op == "Div" && whole, op == "Pow": // by no 0; small powers
		y = n.leafOf(x.dtype(), n.partOf(x.shape()), style{kind: wholes, lo: 1, hi: 5})
	case op == "Mul" && n.IntN(10) == 0:
		y = x
	default:
		y = n.partner(x.dtype(), x.shape(), false)
	}
	if n.IntN(3) == 0 && op != "Div" && op != "Pow" {
		x, y = y, x
	}
	n.node(op, []*value{x, y})
}

func variadic(n *generator) {
	op := []string{"Max", "Min", "Sum", "Mean"}[n.IntN(4)]
	x := n.operand(op, allTypes, nil)
	if x == nil {
		return
	}
	in := []*value{x}
	for range n.IntN(3) {
		in = append(in, n.partner(x.dtype(), x.shape(), true))
	}
	n.node(op, in)
}

// condition is a value of truths that broadcasts to a shape: a comparison, or an input.
func (n *generator) condition(shape []int) *value {
	if v := n.partner(tensor.Bool, shape, true); n.IntN(2) == 0 {
		return v
	}
	x := n.partner(tensor.F32, shape, true)
	if x == nil {
		return nil
	}
	return n.node([]string{"Less", "Greater"}[n.IntN(2)], []*value{x, n.partner(tensor.F32, x.shape(), true)})
}

func where(n *generator) {
	x := n.operand("Identity", allTypes, nil)
	if x == nil || len(n.types("Where", 1, []tensor.DType{x.dtype()})) == 0 {
		return
	}
	y := n.partner(x.dtype(), x.shape(), true)
	if n.IntN(2) == 0 {
		x, y = y, x
	}
	if c := n.condition(x.shape()); c != nil && y != nil {
		n.node("Where", []*value{c, x, y})
	}
}

// clip bounds a value from one side or from both, by constants or not.
func clip(n *generator) {
	x := n.operand("Clip", allTypes, nil)
	if x == nil {
		return
	}
	if n.opset < 11 {
		n.node("Clip", []*value{x}, attr{"min", -0.5}, attr{"max", 2.0})
		return
	}
	bound := func(lo int) *value {
		if n.IntN(3) == 0 {
			return nil
		}
		return n.leafOf(x.dtype(), nil, style{kind: wholes, lo: lo, hi: lo + 2})
	}
	n.node("Clip", []*value{x, bound(0), bound(2)})
}

func cast(n *generator) {
	x := n.operand("Cast", allTypes, nil)
	if x == nil {
		return
	}
	if n.IntN(6) == 0 {
		n.node("CastLike", []*value{x, n.operand("Identity", allTypes, nil)})
		return
	}
	to := n.types("Cast", 0, allTypes)
	n.node("Cast", []*value{x}, attr{"to", int(n.dtypeOf(to))})
}

func prelu(n *generator) {
	if x := n.operand("PRelu", floats, nil); x != nil {
		n.node("PRelu", []*value{x, n.partner(x.dtype(), x.shape(), true)})
	}
}

func modulo(n *generator) {
	x := n.operand("Mod", allTypes, nil)
	if x == nil {
		return
	}
	y := n.leafOf(x.dtype(), n.partOf(x.shape()), style{kind: wholes, lo: 1, hi: 5})
	if x.dtype().IsFloat() {
		n.node("Mod", []*value{x, y}, attr{"fmod", 1})
	} else {
		n.node("Mod", []*value{x, y}, attr{"fmod", n.IntN(2)})
	}
}

func shift(n *generator) {
	if x := n.operand("BitShift", []tensor.DType{tensor.U8, tensor.U16, tensor.U32, tensor.U64}, nil); x != nil {
		y := n.leafOf(x.dtype(), n.partOf(x.shape()), style{kind: wholes, lo: 0, hi: 5})
		n.node("BitShift", []*value{x, y}, attr{"direction", []string{"LEFT", "RIGHT"}[n.IntN(2)]})
	}
}
