package wgpu

import (
	"fmt"
	"slices"

	"github.com/rlxc/rlxc/ir"
	"github.com/rlxc/rlxc/target"
	"github.com/rlxc/rlxc/tensor"
)

// rowGroup is the number of invocations that share a row: a power of two that fits its length.
func rowGroup(cols int) int {
	n := 32
	for n < groupSize && 4*n <= cols {
		n *= 2
	}
	return n
}

// allReduce puts the lines that combine variable v of all invocations of the workgroup, by an expression of two values,
// into v of each of them.
func (s *shader) allReduce(v string, e expression) {
	s.use(e.needs...)
	s.put("red[lid] = %s;\nworkgroupBarrier();", v)
	s.put("for (var step = %du; step > 0u; step >>= 1u) {", s.size/2)
	s.put("if (lid < step) { red[lid] = %s; }\nworkgroupBarrier();\n}", e.of("red[lid]", "red[lid + step]"))
	s.put("%s = red[0];\nworkgroupBarrier();", v)
}

var (
	sumOf = expression{text: "$1 + $2"}
	maxOf = expression{"max_($1, $2)", []string{"max_"}}
	minOf = expression{"min_($1, $2)", []string{"min_"}}
)

// newRowShader makes a shader whose workgroups each work on a row: row is its number, in all workgroups alike.
func newRowShader(name, word string, rows, cols int) *shader {
	s := newShader(name, word, rowGroup(cols))
	s.share("red", "f32", s.size)
	s.put("let row = %s;", linear)
	s.put("if (row >= %s) { return; }", s.u(rows))
	return s
}

// along opens the loop of an invocation over its elements of a row; the caller closes it.
func (s *shader) along(cols string) {
	s.put("for (var c = lid; c < %s; c += %du) {", cols, s.size)
}

// softmaxRow is over the last axis: largest, sum of exponentials, quotients.
var softmaxRow = row{
	Row: target.Row{
		Runs: target.OnKernel,
		Claims: func(n *ir.Node) bool {
			t := n.Inputs[0].Type
			return t.DType == tensor.F32 && n.Op.(ir.Softmax).Axis == len(t.Shape)-1
		},
		InPlace: func(*ir.Node, int) bool { return true },
	},
	bind: func(b *binder, n *ir.Node) ([]launch, error) {
		in, out, err := b.operands(n)
		if err != nil {
			return nil, err
		}
		x, y := &in[0], &out[0]
		cols := x.shape[len(x.shape)-1]
		rows := x.elements() / cols
		s := newRowShader("softmax", "f32", rows, cols)
		count := s.u(cols)
		from, to := s.bind(x.memory), s.bind(y.memory)
		s.put("let x = %s + row * %s;\nlet y = %s + row * %s;", s.u(x.first()), count, s.u(y.first()), count)
		s.put("var top = %s[x];", from)
		s.along(count)
		s.put("top = max(top, %s[x + c]);\n}", from)
		s.allReduce("top", maxOf)
		s.put("var total = 0.0;")
		s.along(count)
		s.put("total += exp(%s[x + c] - top);\n}", from)
		s.allReduce("total", sumOf)
		result := "exp(%s[x + c] - top) / total"
		if n.Op.(ir.Softmax).Log {
			result = "%s[x + c] - top - log(total)"
		}
		s.along(count)
		s.put("%s[y + c] = %s;\n}", to, fmt.Sprintf(result, from))
		return []launch{{s, spread(rows)}}, nil
	},
}

// A reduction is a start (of the memory, $1), a step, a way to join partial results and an end; $2 of the end is the number of elements.
type reduction struct {
	start string
	step  expression // of the result so far and an element
	join  expression
	end   string
}

var reductions = map[ir.Reduction]reduction{
	ir.Sum:       {"0.0", sumOf, sumOf, "$1"},
	ir.Mean:      {"0.0", sumOf, sumOf, "$1 / f32($2)"},
	ir.SumSquare: {"0.0", expression{text: "$1 + $2 * $2"}, sumOf, "$1"},
	ir.L1:        {"0.0", expression{text: "$1 + abs($2)"}, sumOf, "$1"},
	ir.L2:        {"0.0", expression{text: "$1 + $2 * $2"}, sumOf, "sqrt($1)"},
	ir.LogSum:    {"0.0", sumOf, sumOf, "log($1)"},
	ir.Prod:      {"1.0", expression{text: "$1 * $2"}, expression{text: "$1 * $2"}, "$1"},
	ir.MaxOf:     {"$1[x]", maxOf, maxOf, "$1"},
	ir.MinOf:     {"$1[x]", minOf, minOf, "$1"},
}

// reduceRow walks any axes: a workgroup combines the elements of one result.
var reduceRow = row{
	Row: target.Row{
		Runs: target.OnKernel,
		Claims: func(n *ir.Node) bool {
			_, ok := reductions[n.Op.(ir.Reduce).Fn]
			return ok && n.Inputs[0].Type.DType == tensor.F32
		},
		Strided: allStrides,
	},
	bind: func(b *binder, n *ir.Node) ([]launch, error) {
		op := n.Op.(ir.Reduce)
		in, out, err := b.operands(n)
		if err != nil {
			return nil, err
		}
		x, y := &in[0], &out[0]
		if x.elements() == 0 {
			return nil, errOnHost // results of nothing differ by function
		}
		var kept, reduced operand // x along the axes that stay, and along the others
		for i, d := range x.shape {
			o := &kept
			if slices.Contains(op.Axes, i) {
				o = &reduced
			}
			o.shape, o.strides = append(o.shape, d), append(o.strides, x.strides[i])
		}
		r, rows, cols := reductions[op.Fn], kept.elements(), reduced.elements()
		s := newRowShader("reduce_"+op.Fn.String(), "f32", rows, cols)
		s.use(r.step.needs...)
		from, count := s.bind(x.memory), s.u(cols)
		s.put("var x = %s;\n{", s.u(x.first()))
		newNest(kept.shape, &kept).walk(s, "row", "x")
		s.put("}")
		s.put("var result = %s;", expression{text: r.start}.of(from))
		s.along(count)
		s.put("var at = x;")
		newNest(reduced.shape, &reduced).walk(s, "c", "at")
		s.put("result = %s;\n}", r.step.of("result", from+"[at]"))
		s.allReduce("result", r.join)
		s.put("if (lid == 0u) { %s[%s + row] = %s; }", s.bind(y.memory), s.u(y.first()), expression{text: r.end}.of("result", count))
		return []launch{{s, spread(rows)}}, nil
	},
}

// cachedRow is the longest row that LayerNorm keeps in workgroup memory: 8 of the 16 KiB that every device has.
const cachedRow = 2048

var layerNormRow = row{
	Row: target.Row{
		Runs: target.OnKernel,
		Claims: func(n *ir.Node) bool {
			x := n.Inputs[ir.LayerNormX].Type
			if x.DType != tensor.F32 {
				return false
			}
			inner := x.Shape[len(x.Shape)-n.Op.(ir.LayerNorm).Axes:]
			for _, i := range []int{ir.LayerNormScale, ir.LayerNormBias} {
				if given(n, i) && !n.Inputs[i].Type.Shape.Equal(inner) {
					return false
				}
			}
			return true
		},
		InPlace: func(n *ir.Node, i int) bool { return i == ir.LayerNormX || i == ir.LayerNormResidual },
	},
	bind: func(b *binder, n *ir.Node) ([]launch, error) {
		op := n.Op.(ir.LayerNorm)
		in, out, err := b.operands(n)
		if err != nil {
			return nil, err
		}
		x := &in[ir.LayerNormX]
		cols := x.shape[len(x.shape)-op.Axes:].Elements()
		rows := x.elements() / cols
		// Rows of whole vec4 at aligned places move so; a workgroup's memory keeps the row between the passes over it.
		vector := cols%4 == 0
		for i := range in {
			vector = vector && (!given(n, i) || in[i].off%16 == 0)
		}
		for i := range out {
			vector = vector && out[i].off%16 == 0
		}
		word, lanes, zero, total := "f32", 1, "0.0", "%s"
		if vector {
			word, lanes, zero, total = "vec4<f32>", 4, "vec4<f32>()", "dot(%s, vec4<f32>(1.0))"
		}
		width := cols / lanes
		s := newRowShader("layernorm", word, rows, width)
		count := s.u(width)
		at := func(o *operand) string {
			return fmt.Sprintf("%s[%s + row * %s + c]", s.bind(o.memory), s.u(o.off/(4*lanes)), count)
		}
		value := at(x)
		if given(n, ir.LayerNormResidual) {
			value += " + " + at(&in[ir.LayerNormResidual])
		}
		again := value
		cached := cols <= cachedRow
		if cached {
			s.share("cache", s.word, width)
			again = "cache[c]"
		}
		s.put("var acc = %s;", zero)
		s.along(count)
		s.put("let v = %s;\nacc += v;", value)
		if cached {
			s.put("cache[c] = v;")
		}
		if op.Sum {
			s.put("%s = v;", at(&out[1]))
			if !cached { // the result may lie where an operand did
				again = at(&out[1])
			}
		}
		s.put("}")
		s.put("var mean = "+total+";", "acc")
		s.allReduce("mean", sumOf)
		if op.RMS {
			s.put("mean = 0.0;")
		}
		s.put("mean /= f32(%s);\nacc = %s;", s.u(cols), zero)
		s.along(count)
		s.put("let v = %s - mean;\nacc += v * v;\n}", again)
		s.put("var variance = "+total+";", "acc")
		s.allReduce("variance", sumOf)
		s.put("let scale = inverseSqrt(variance / f32(%s) + %s);", s.u(cols), s.f(op.Eps))
		s.along(count)
		result := fmt.Sprintf("(%s - mean) * scale", again)
		inner := func(o *operand) string { return fmt.Sprintf("%s[%s + c]", s.bind(o.memory), s.u(o.off/(4*lanes))) }
		if given(n, ir.LayerNormScale) {
			result += " * " + inner(&in[ir.LayerNormScale])
		}
		if given(n, ir.LayerNormBias) {
			result += " + " + inner(&in[ir.LayerNormBias])
		}
		s.put("%s = %s;\n}", at(&out[0]), result)
		return []launch{{s, spread(rows)}}, nil
	},
}
