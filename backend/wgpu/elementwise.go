package wgpu

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/rlxc/rlxc/internal/target"
	"github.com/rlxc/rlxc/ir"
	"github.com/rlxc/rlxc/tensor"
)

// groupSize is the workgroup of kernels that go element by element or row by row.
const groupSize = 256

// An expression builds the WGSL expression of a result from those of its operands.
type expression struct {
	wgsl  string // with $1, $2, … for the operands; lines before the last are computed first, as v0, v1, …
	needs []string
}

func (e expression) of(args ...string) string {
	var pairs []string
	for i := len(args) - 1; i >= 0; i-- { // $12 before $1
		pairs = append(pairs, fmt.Sprintf("$%d", i+1), args[i])
	}
	return strings.NewReplacer(pairs...).Replace(e.wgsl)
}

// each is the launch that computes y element by element from operands that broadcast to it. Results narrower than a word
// must be contiguous.
func each(name string, y *operand, xs []*operand, e expression) launch {
	return eachAs(name, y, xs, func(o *operand) element { return elements[o.DType] }, e)
}

// eachAs is each on elements that are seen in another way.
func eachAs(name string, y *operand, xs []*operand, as func(*operand) element, e expression) launch {
	return produce(name, y, as(y), func(s *shader, index string) (value, to string) {
		s.use(e.needs...)
		s.put("var to = %s;", s.u(y.first()))
		walked, variables, args := []*operand{y}, []string{"to"}, make([]string, len(xs))
		for i, x := range xs {
			if x == nil {
				continue
			}
			v := fmt.Sprintf("x%d", i)
			s.put("var %s = %s;", v, s.u(x.first()))
			walked, variables = append(walked, x), append(variables, v)
			args[i] = fmt.Sprintf("a%d", i)
		}
		newNest(y.Shape, walked...).walk(s, index, variables...)
		for i, x := range xs {
			if args[i] != "" {
				s.put("let %s = %s;", args[i], as(x).load(s.bind(x.memory), fmt.Sprintf("x%d", i)))
			}
		}
		lines := strings.Split(e.of(args...), "\n")
		last := len(lines) - 1
		for i, line := range lines[:last] {
			s.put("let v%d = %s;", i, line)
		}
		return lines[last], "to"
	})
}

// produce is the launch that computes y element by element: body puts the lines for flat index i and returns the
// expressions of the value and of its position in the memory of y. An invocation writes whole words: it combines narrower elements, whose
// result must be row-major.
func produce(name string, y *operand, e element, body func(s *shader, i string) (value, to string)) launch {
	s := newShader(name, "u32", groupSize)
	if y.DType == tensor.BF16 {
		s.use("bf16_")
	}
	n, per := y.Elements(), max(1, 4/e.width)
	count := ceil(n, per)
	s.put("let t = %s * %du + lid;\nif (t >= %s) { return; }", linear, groupSize, s.u(count))
	if per == 1 {
		value, to := body(s, "t")
		s.store(y, e, to, value)
		return launch{s, spread(ceil(count, groupSize))}
	}
	s.put("var packed = 0u;\nfor (var e = 0u; e < %du; e++) {\nlet i = t * %du + e;\nif (i >= %s) { break; }", per, per, s.u(n))
	value, _ := body(s, "i")
	s.put("packed |= %s << (e * %du);\n}\n%s[%s + t] = packed;", e.bits(value), 8*e.width, s.bind(y.memory), s.u(y.off/4))
	return launch{s, spread(ceil(count, groupSize))}
}

// unaryExpressions are the functions of an element by the type that they compute in: $1 is the operand, $2 and $3 are the function's
// Alpha and Beta.
var unaryExpressions = map[tensor.DType]map[ir.UnaryFn]expression{
	tensor.F32: {
		ir.Neg: {wgsl: "-($1)"}, ir.Abs: {wgsl: "abs($1)"}, ir.Exp: {wgsl: "exp($1)"}, ir.Log: {wgsl: "log($1)"},
		ir.Sqrt:       {wgsl: "sqrt($1)"},
		ir.Reciprocal: {wgsl: "1.0 / ($1)"}, ir.Floor: {wgsl: "floor($1)"}, ir.Ceil: {wgsl: "ceil($1)"}, ir.Round: {wgsl: "round($1)"},
		ir.Sin: {wgsl: "sin($1)"}, ir.Cos: {wgsl: "cos($1)"},
		ir.Erf: {"erf_($1)", []string{"erf_"}}, ir.Tanh: {"tanh_($1)", []string{"tanh_"}},
		ir.Sigmoid: {"sigmoid_($1)", []string{"sigmoid_"}},
		ir.Relu:    {"relu_($1)", []string{"relu_"}}, ir.Gelu: {"gelu_($1)", []string{"gelu_"}},
		ir.GeluTanh: {"geluTanh_($1)", []string{"geluTanh_"}},
		ir.Softplus: {"softplus_($1)", []string{"softplus_"}}, ir.Softsign: {wgsl: "$1 / (1.0 + abs($1))"},
		ir.Sign:      {"sign_($1)", []string{"sign_"}},
		ir.HardSwish: {wgsl: "$1 * clamp($1 / 6.0 + 0.5, 0.0, 1.0)"},
		ir.Mish:      {"$1 * tanh_(softplus_($1))", []string{"tanh_", "softplus_"}},
		ir.IsNaN:     {"is_nan($1)", []string{"is_nan"}}, ir.IsInf: {"is_inf($1) && select($3, $2, $1 > 0.0) != 0.0", []string{"is_inf"}},
		ir.LeakyRelu:   {wgsl: "select($1, $2 * $1, $1 < 0.0)"},
		ir.Elu:         {"select($1, $2 * expm1_(min($1, 0.0)), $1 < 0.0)", []string{"expm1_"}},
		ir.Celu:        {"select($1, $2 * expm1_(min($1, 0.0) / $2), $1 < 0.0)", []string{"expm1_"}},
		ir.HardSigmoid: {wgsl: "clamp($2 * $1 + $3, 0.0, 1.0)"}, ir.Silu: {"$1 * sigmoid_($2 * $1)", []string{"sigmoid_"}},
		ir.Selu:            {"$3 * select($1, $2 * expm1_(min($1, 0.0)), $1 <= 0.0)", []string{"expm1_"}},
		ir.Clamp:           {"min_(max_($1, $2), $3)", []string{"max_", "min_"}},
		ir.ThresholdedRelu: {wgsl: "select(0.0, $1, $1 > $2)"},
		ir.Shrink:          {wgsl: "select(select(0.0, $1 - $3, $1 > $2), $1 + $3, $1 < -($2))"},
	},
	tensor.I32: {
		ir.Neg: {wgsl: "-($1)"}, ir.Abs: {wgsl: "abs($1)"}, ir.Sign: {wgsl: "sign($1)"}, ir.Relu: {wgsl: "max($1, 0)"},
		ir.BitwiseNot: {wgsl: "~($1)"},
	},
	tensor.I64: {
		ir.Neg: {"neg64($1)", []string{"neg64"}}, ir.Abs: {"abs64($1)", []string{"abs64"}}, ir.Sign: {"sign64($1)", []string{"sign64"}},
		ir.Relu: {"select($1, vec2<u32>(0u, 0u), negative64($1))", []string{"negative64"}}, ir.BitwiseNot: {wgsl: "~($1)"},
	},
	tensor.Bool: {ir.Not: {wgsl: "!($1)"}},
}

// elementExpressions returns, for every elementwise op, the expression that computes it on elements of these types.
var elementExpressions = map[ir.Kind]func(op ir.Op, in []tensor.DType) (expression, bool){
	ir.KindUnary: func(op ir.Op, in []tensor.DType) (expression, bool) {
		o := op.(ir.Unary)
		e, ok := unaryExpressions[in[0]][o.Fn]
		return expression{e.of("$1", literal(o.Alpha), literal(o.Beta)), e.needs}, ok
	},
	ir.KindBinary: func(op ir.Op, in []tensor.DType) (expression, bool) {
		fn := op.(ir.Binary).Fn
		e, ok := binaryExpressions[in[0]][fn]
		if cast, has := castExpressions[[2]tensor.DType{in[1], in[0]}]; fn == ir.Pow && has { // exponents have a separate type
			return expression{e.of("$1", cast.of("$2")), slices.Concat(e.needs, cast.needs)}, ok
		}
		return e, ok && in[0] == in[1]
	},
	ir.KindWhere: func(_ ir.Op, in []tensor.DType) (expression, bool) {
		_, ok := elements[in[1]]
		return expression{wgsl: "select($3, $2, $1)"}, ok
	},
	ir.KindCast: func(op ir.Op, in []tensor.DType) (expression, bool) {
		to := target.Wide(op.(ir.Cast).To)
		if _, ok := elements[to]; ok && to == in[0] {
			return expression{wgsl: "$1"}, true
		}
		e, ok := castExpressions[[2]tensor.DType{in[0], to}]
		return e, ok
	},
	// min(max(x, low), high) with either bound absent: Invalid.
	ir.KindClip: func(_ ir.Op, in []tensor.DType) (expression, bool) {
		e := expression{"$1", []string{"max_", "min_"}}
		for i, f := range e.needs {
			if len(in) > i+1 && in[i+1] != tensor.Invalid {
				e.wgsl = fmt.Sprintf("%s(%s, $%d)", f, e.wgsl, i+2)
			}
		}
		return e, in[0] == tensor.F32
	},
}

// elementExpression finds the expression of an elementwise node.
func elementExpression(n *ir.Node) (expression, bool) {
	if n.Op.Kind() == ir.KindMap {
		return mapExpression(n)
	}
	f := elementExpressions[n.Op.Kind()]
	if f == nil {
		return expression{}, false
	}
	return f(n.Op, dtypesOf(n))
}

// dtypesOf lists the types that the operands are computed with in, Invalid for absent ones.
func dtypesOf(n *ir.Node) []tensor.DType {
	out := make([]tensor.DType, len(n.Inputs))
	for i, v := range n.Inputs {
		if v != nil {
			out[i] = target.Wide(v.Type.DType)
		}
	}
	return out
}

// elementwiseEntry runs all elementwise ops.
var elementwiseEntry = entry{
	Supports: func(n *ir.Node) bool {
		_, ok := elementExpression(n)
		for _, v := range append(slices.Clone(n.Inputs), n.Outputs...) {
			if v != nil {
				_, known := elements[v.Type.DType]
				ok = ok && known
			}
		}
		return ok
	},
	Strided: target.AllStrides,
	InPlace: func(n *ir.Node, i int) bool { return n.Inputs[i].Type.DType.Size() == n.Outputs[0].Type.DType.Size() },
	Bind: func(b *binder, n *ir.Node, in, out []*operand) ([]launch, error) {
		e, _ := elementExpression(n)
		return []launch{each(ir.OpName(n.Op), out[0], in, e)}, nil
	},
}

// literal writes a float32 that WGSL reads back to the same bits.
func literal(v float32) string { return fmt.Sprintf("%.9ef", v) }

// binaryExpressions are the expressions of functions of two elements, by element type.
var binaryExpressions = map[tensor.DType]map[ir.BinaryFn]expression{
	tensor.F32: with(ordered, map[ir.BinaryFn]expression{
		ir.Add: {wgsl: "$1 + $2"}, ir.Sub: {wgsl: "$1 - $2"}, ir.Mul: {wgsl: "$1 * $2"}, ir.Div: {wgsl: "$1 / $2"},
		ir.MaxFn: {"max_($1, $2)", []string{"max_"}}, ir.MinFn: {"min_($1, $2)", []string{"min_"}},
		ir.Pow:   {"pow_($1, $2)", []string{"pow_"}},
		ir.PRelu: {wgsl: "select($1, $1 * $2, $1 < 0.0)"},
	}),
	tensor.I32: with(ordered, bitwise, map[ir.BinaryFn]expression{
		ir.Add: {wgsl: "$1 + $2"}, ir.Sub: {wgsl: "$1 - $2"}, ir.Mul: {wgsl: "$1 * $2"}, ir.MaxFn: {wgsl: "max($1, $2)"},
		ir.MinFn: {wgsl: "min($1, $2)"},
		ir.Div:   {"div32($1, $2)", []string{"div32"}}, ir.FMod: {"rem32($1, $2)", []string{"rem32"}},
		ir.Mod: {"mod32($1, $2)", []string{"mod32"}},
	}),
	tensor.I64: with(bitwise, map[ir.BinaryFn]expression{
		ir.Div: {"div64($1, $2)", []string{"div64"}}, ir.FMod: {"rem64($1, $2)", []string{"rem64"}},
		ir.Mod: {"mod64($1, $2)", []string{"mod64"}},
		ir.Add: {"add64($1, $2)", []string{"add64"}}, ir.Sub: {"sub64($1, $2)", []string{"sub64"}},
		ir.Mul:  {"mul64($1, $2)", []string{"mul64"}},
		ir.Less: {"less64($1, $2)", []string{"less64"}}, ir.Greater: {"less64($2, $1)", []string{"less64"}},
		ir.LessOrEqual: {"!less64($2, $1)", []string{"less64"}}, ir.GreaterOrEqual: {"!less64($1, $2)", []string{"less64"}},
		ir.Equal: {wgsl: "all($1 == $2)"},
		ir.MaxFn: {"select($1, $2, less64($1, $2))", []string{"less64"}}, ir.MinFn: {"select($2, $1, less64($1, $2))", []string{"less64"}},
	}),
	tensor.Bool: {
		ir.And: {wgsl: "$1 && $2"}, ir.Or: {wgsl: "$1 || $2"}, ir.Xor: {wgsl: "$1 != $2"}, ir.Equal: {wgsl: "$1 == $2"},
	},
}

// ordered are the comparisons, which WGSL has for all numbers.
var ordered = map[ir.BinaryFn]expression{
	ir.Equal: {wgsl: "$1 == $2"}, ir.Less: {wgsl: "$1 < $2"}, ir.LessOrEqual: {wgsl: "$1 <= $2"}, ir.Greater: {wgsl: "$1 > $2"},
	ir.GreaterOrEqual: {wgsl: "$1 >= $2"},
}

// bitwise are the functions of whole numbers bit by bit.
var bitwise = map[ir.BinaryFn]expression{ir.BitwiseAnd: {wgsl: "$1 & $2"}, ir.BitwiseOr: {wgsl: "$1 | $2"},
	ir.BitwiseXor: {wgsl: "$1 ^ $2"}}

func with(tables ...map[ir.BinaryFn]expression) map[ir.BinaryFn]expression {
	out := map[ir.BinaryFn]expression{}
	for _, m := range tables {
		maps.Copy(out, m)
	}
	return out
}

// castExpressions are the conversions between element types: {from, to}.
var castExpressions = map[[2]tensor.DType]expression{
	{tensor.U8, tensor.F32}:   {wgsl: "f32($1)"},
	{tensor.I8, tensor.F32}:   {wgsl: "f32($1)"},
	{tensor.U8, tensor.I32}:   {wgsl: "i32($1)"},
	{tensor.I8, tensor.I32}:   {wgsl: "$1"},
	{tensor.U8, tensor.I64}:   {wgsl: "vec2<u32>($1, 0u)"},
	{tensor.I8, tensor.I64}:   {"wide64($1)", []string{"wide64"}},
	{tensor.I64, tensor.F32}:  {"float64($1)", []string{"float64"}},
	{tensor.I32, tensor.F32}:  {wgsl: "f32($1)"},
	{tensor.Bool, tensor.F32}: {wgsl: "select(0.0, 1.0, $1)"},
	{tensor.F32, tensor.I64}:  {"trunc64($1)", []string{"trunc64"}},
	{tensor.I32, tensor.I64}:  {"wide64($1)", []string{"wide64"}},
	{tensor.Bool, tensor.I64}: {wgsl: "vec2<u32>(select(0u, 1u, $1), 0u)"},
	{tensor.F32, tensor.I32}:  {"trunc32($1)", []string{"trunc32"}},
	{tensor.I64, tensor.I32}:  {wgsl: "bitcast<i32>(($1).x)"},
	{tensor.Bool, tensor.I32}: {wgsl: "select(0, 1, $1)"},
	{tensor.F32, tensor.Bool}: {wgsl: "$1 != 0.0"},
	{tensor.I64, tensor.Bool}: {wgsl: "any($1 != vec2<u32>(0u, 0u))"},
	{tensor.I32, tensor.Bool}: {wgsl: "$1 != 0"},
}
