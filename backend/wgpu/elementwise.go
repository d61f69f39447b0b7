package wgpu

import (
	"fmt"
	"slices"
	"strings"

	"github.com/rlxc/rlxc/ir"
	"github.com/rlxc/rlxc/target"
	"github.com/rlxc/rlxc/tensor"
)

// groupSize is the workgroup of kernels that go element by element or row by row.
const groupSize = 256

// An expression gives the text of a result from the texts of its operands.
type expression struct {
	text  string // with $1, $2, … for the operands
	needs []string
}

func (e expression) of(args ...string) string {
	for i, a := range args {
		e.text = strings.ReplaceAll(e.text, fmt.Sprintf("$%d", i+1), a)
	}
	return e.text
}

// each is the launch that computes y element by element from operands that broadcast to it. Each invocation writes whole
// words, so results narrower than a word must be contiguous.
func each(name string, y *operand, ye element, xs []*operand, xe []element, e expression) launch {
	s := newShader(name, "u32", groupSize)
	s.use(e.needs...)
	n, per := y.elements(), max(1, 4/ye.width)
	count := (n + per - 1) / per
	loops := newNest(y.shape, append([]*operand{y}, xs...)...)
	s.put("let t = %s * %du + lid;", linear, groupSize)
	s.put("if (t >= %s) { return; }", s.u(count))
	index := "t"
	if per > 1 {
		s.put("var packed = 0u;")
		s.put("for (var e = 0u; e < %du; e++) {", per)
		s.put("let i = t * %du + e;", per)
		s.put("if (i >= %s) { break; }", s.u(n))
		index = "i"
	}
	variables := []string{""}
	if per == 1 {
		s.put("var to = %s;", s.u(y.first()))
		variables[0] = "to"
	}
	var args []string
	for i, x := range xs {
		v := fmt.Sprintf("x%d", i)
		s.put("var %s = %s;", v, s.u(x.first()))
		variables = append(variables, v)
		args = append(args, xe[i].load(s.bind(x.memory), v))
	}
	loops.walk(s, index, variables...)
	s.put("let value = %s;", e.of(args...))
	out := s.bind(y.memory)
	switch {
	case per > 1:
		s.put("packed |= %s << (e * %du);\n}", ye.bits("value"), 8*ye.width)
		s.put("%s[%s + t] = packed;", out, s.u(y.off/4))
	case ye.width == 4:
		s.put("%s[to] = %s;", out, ye.bits("value"))
	default:
		s.put("%s[2u * to] = value.x;\n%s[2u * to + 1u] = value.y;", out, out)
	}
	return launch{s, spread((count + groupSize - 1) / groupSize)}
}

// unaryTexts are the functions of float32 by their text.
var unaryTexts = map[ir.UnaryFn]expression{
	ir.Neg: {text: "-($1)"}, ir.Abs: {text: "abs($1)"}, ir.Exp: {text: "exp($1)"}, ir.Log: {text: "log($1)"}, ir.Sqrt: {text: "sqrt($1)"},
	ir.Reciprocal: {text: "1.0 / ($1)"}, ir.Floor: {text: "floor($1)"}, ir.Ceil: {text: "ceil($1)"}, ir.Round: {text: "round($1)"},
	ir.Sin: {text: "sin($1)"}, ir.Cos: {text: "cos($1)"},
	ir.Erf: {"erf_($1)", []string{"erf_"}}, ir.Tanh: {"tanh_($1)", []string{"tanh_"}}, ir.Sigmoid: {"sigmoid_($1)", []string{"sigmoid_"}},
	ir.Relu: {"relu_($1)", []string{"relu_"}}, ir.Gelu: {"gelu_($1)", []string{"gelu_"}}, ir.GeluTanh: {"geluTanh_($1)", []string{"geluTanh_"}},
	ir.Softplus: {"softplus_($1)", []string{"softplus_"}}, ir.Softsign: {text: "$1 / (1.0 + abs($1))"}, ir.Sign: {"sign_($1)", []string{"sign_"}},
	ir.HardSwish: {text: "$1 * clamp($1 / 6.0 + 0.5, 0.0, 1.0)"}, ir.Mish: {"$1 * tanh_(softplus_($1))", []string{"tanh_", "softplus_"}},
}

// alphaTexts are the functions with parameters: $1 is the operand, $2 and $3 are Alpha and Beta.
var alphaTexts = map[ir.UnaryFn]expression{
	ir.LeakyRelu: {text: "select($1, $2 * $1, $1 < 0.0)"}, ir.Elu: {"select($1, $2 * expm1_(min($1, 0.0)), $1 < 0.0)", []string{"expm1_"}},
	ir.HardSigmoid: {text: "clamp($2 * $1 + $3, 0.0, 1.0)"}, ir.Silu: {"$1 * sigmoid_($2 * $1)", []string{"sigmoid_"}},
	ir.Selu:            {"$3 * select($1, $2 * expm1_(min($1, 0.0)), $1 <= 0.0)", []string{"expm1_"}},
	ir.ThresholdedRelu: {text: "select(0.0, $1, $1 > $2)"},
}

var unaryRow = row{
	Row: target.Row{
		Runs: target.OnKernel,
		Claims: func(n *ir.Node) bool {
			fn, d := n.Op.(ir.Unary).Fn, n.Inputs[0].Type.DType
			_, plain := unaryTexts[fn]
			_, alpha := alphaTexts[fn]
			return d == tensor.F32 && (plain || alpha || fn == ir.IsNaN) || fn == ir.Not && d == tensor.Bool
		},
		Strided: allStrides,
		InPlace: sameWidth,
	},
	bind: func(b *binder, n *ir.Node) ([]launch, error) {
		in, out, err := b.operands(n)
		if err != nil {
			return nil, err
		}
		op := n.Op.(ir.Unary)
		e, ok := unaryTexts[op.Fn]
		if alpha, with := alphaTexts[op.Fn]; with {
			e, ok = expression{alpha.of("$1", literal(op.Alpha), literal(op.Beta)), alpha.needs}, true
		}
		switch {
		case op.Fn == ir.Not:
			e = expression{text: "!($1)"}
		case op.Fn == ir.IsNaN:
			e = expression{"is_nan($1)", []string{"is_nan"}}
		case !ok:
			return nil, fmt.Errorf("no text for %s", op.Fn)
		}
		return []launch{each(op.Fn.String(), &out[0], elements[out[0].dtype], []*operand{&in[0]}, []element{elements[in[0].dtype]}, e)}, nil
	},
}

// literal writes a float32 that WGSL reads back to the same bits.
func literal(v float32) string { return fmt.Sprintf("%.9ef", v) }

func allStrides(*ir.Node, int, []int) bool { return true }

// sameWidth allows in-place results whose elements are as wide as the operand's.
func sameWidth(n *ir.Node, i int) bool {
	return n.Inputs[i].Type.DType.Size() == n.Outputs[0].Type.DType.Size()
}

// binaryTexts are the functions of two elements by the type that they compute in.
var binaryTexts = map[tensor.DType]map[ir.BinaryFn]expression{
	tensor.F32: with(ordered, map[ir.BinaryFn]expression{
		ir.Add: {text: "$1 + $2"}, ir.Sub: {text: "$1 - $2"}, ir.Mul: {text: "$1 * $2"}, ir.Div: {text: "$1 / $2"},
		ir.MaxFn: {"max_($1, $2)", []string{"max_"}}, ir.MinFn: {"min_($1, $2)", []string{"min_"}}, ir.Pow: {"pow_($1, $2)", []string{"pow_"}},
		ir.PRelu: {text: "select($1, $1 * $2, $1 < 0.0)"},
	}),
	tensor.I32: with(ordered, map[ir.BinaryFn]expression{
		ir.Add: {text: "$1 + $2"}, ir.Sub: {text: "$1 - $2"}, ir.Mul: {text: "$1 * $2"}, ir.MaxFn: {text: "max($1, $2)"}, ir.MinFn: {text: "min($1, $2)"},
	}),
	tensor.I64: {
		ir.Add: {"add64($1, $2)", []string{"add64"}}, ir.Sub: {"sub64($1, $2)", []string{"sub64"}}, ir.Mul: {"mul64($1, $2)", []string{"mul64"}},
		ir.Less: {"less64($1, $2)", []string{"less64"}}, ir.Greater: {"less64($2, $1)", []string{"less64"}},
		ir.LessOrEqual: {"!less64($2, $1)", []string{"less64"}}, ir.GreaterOrEqual: {"!less64($1, $2)", []string{"less64"}},
		ir.Equal: {text: "all($1 == $2)"},
		ir.MaxFn: {"select($1, $2, less64($1, $2))", []string{"less64"}}, ir.MinFn: {"select($2, $1, less64($1, $2))", []string{"less64"}},
	},
	tensor.Bool: {
		ir.And: {text: "$1 && $2"}, ir.Or: {text: "$1 || $2"}, ir.Xor: {text: "$1 != $2"}, ir.Equal: {text: "$1 == $2"},
	},
}

// ordered are the comparisons, which WGSL has for all numbers.
var ordered = map[ir.BinaryFn]expression{
	ir.Equal: {text: "$1 == $2"}, ir.Less: {text: "$1 < $2"}, ir.LessOrEqual: {text: "$1 <= $2"}, ir.Greater: {text: "$1 > $2"}, ir.GreaterOrEqual: {text: "$1 >= $2"},
}

func with(a, b map[ir.BinaryFn]expression) map[ir.BinaryFn]expression {
	out := map[ir.BinaryFn]expression{}
	for _, m := range []map[ir.BinaryFn]expression{a, b} {
		for k, v := range m {
			out[k] = v
		}
	}
	return out
}

var binaryRow = row{
	Row: target.Row{
		Runs: target.OnKernel,
		Claims: func(n *ir.Node) bool {
			_, ok := binaryTexts[n.Inputs[0].Type.DType][n.Op.(ir.Binary).Fn]
			return ok && n.Inputs[0].Type.DType == n.Inputs[1].Type.DType
		},
		Strided: allStrides,
		InPlace: sameWidth,
	},
	bind: func(b *binder, n *ir.Node) ([]launch, error) {
		in, out, err := b.operands(n)
		if err != nil {
			return nil, err
		}
		fn, e := n.Op.(ir.Binary).Fn, elements[in[0].dtype]
		text := binaryTexts[in[0].dtype][fn]
		return []launch{each(fn.String(), &out[0], elements[out[0].dtype], []*operand{&in[0], &in[1]}, []element{e, e}, text)}, nil
	},
}

var whereRow = row{
	Row: target.Row{
		Runs:    target.OnKernel,
		Claims:  func(n *ir.Node) bool { return moves(n.Outputs[0].Type.DType) },
		Strided: allStrides,
		InPlace: func(n *ir.Node, i int) bool { return i > 0 },
	},
	bind: func(b *binder, n *ir.Node) ([]launch, error) {
		in, out, err := b.operands(n)
		if err != nil {
			return nil, err
		}
		e, _ := raw(out[0].width)
		return []launch{each("where", &out[0], e, []*operand{&in[0], &in[1], &in[2]}, []element{elements[tensor.Bool], e, e},
			expression{text: "select($3, $2, $1)"})}, nil
	},
}

// moves reports whether elements of a type can be moved without being looked at.
func moves(d tensor.DType) bool {
	_, ok := raw(d.Size())
	return ok && d.Bits() == 8*d.Size()
}

// clipRow is min(max(x, low), high) with either bound absent.
var clipRow = row{
	Row: target.Row{
		Runs:    target.OnKernel,
		Claims:  func(n *ir.Node) bool { return n.Inputs[0].Type.DType == tensor.F32 },
		Strided: allStrides,
		InPlace: func(n *ir.Node, i int) bool { return i == 0 },
	},
	bind: func(b *binder, n *ir.Node) ([]launch, error) {
		in, out, err := b.operands(n)
		if err != nil {
			return nil, err
		}
		text, xs := "$1", []*operand{&in[0]}
		for i, f := range []string{"max_", "min_"} {
			if given(n, i+1) {
				xs = append(xs, &in[i+1])
				text = fmt.Sprintf("%s(%s, $%d)", f, text, len(xs))
			}
		}
		f32 := elements[tensor.F32]
		return []launch{each("clip", &out[0], f32, xs, slices.Repeat([]element{f32}, len(xs)), expression{text, []string{"max_", "min_"}})}, nil
	},
}

// castTexts are the conversions between the types that kernels compute in.
var castTexts = map[[2]tensor.DType]expression{
	{tensor.I64, tensor.F32}:  {"float64($1)", []string{"float64"}},
	{tensor.I32, tensor.F32}:  {text: "f32($1)"},
	{tensor.Bool, tensor.F32}: {text: "select(0.0, 1.0, $1)"},
	{tensor.F32, tensor.I64}:  {"trunc64($1)", []string{"trunc64"}},
	{tensor.I32, tensor.I64}:  {"wide64($1)", []string{"wide64"}},
	{tensor.Bool, tensor.I64}: {text: "vec2<u32>(select(0u, 1u, $1), 0u)"},
	{tensor.F32, tensor.I32}:  {"trunc32($1)", []string{"trunc32"}},
	{tensor.I64, tensor.I32}:  {text: "bitcast<i32>(($1).x)"},
	{tensor.Bool, tensor.I32}: {text: "select(0, 1, $1)"},
	{tensor.F32, tensor.Bool}: {text: "$1 != 0.0"},
	{tensor.I64, tensor.Bool}: {text: "any($1 != vec2<u32>(0u, 0u))"},
	{tensor.I32, tensor.Bool}: {text: "$1 != 0"},
}

var castRow = row{
	Row: target.Row{
		Runs: target.OnKernel,
		Claims: func(n *ir.Node) bool {
			_, ok := castTexts[[2]tensor.DType{n.Inputs[0].Type.DType, n.Op.(ir.Cast).To}]
			return ok
		},
		Strided: allStrides,
	},
	bind: func(b *binder, n *ir.Node) ([]launch, error) {
		in, out, err := b.operands(n)
		if err != nil {
			return nil, err
		}
		x, y := &in[0], &out[0]
		return []launch{each(strings.Join([]string{"cast", x.dtype.String(), y.dtype.String()}, "_"), y, elements[y.dtype], []*operand{x},
			[]element{elements[x.dtype]}, castTexts[[2]tensor.DType{x.dtype, y.dtype}])}, nil
	},
}
