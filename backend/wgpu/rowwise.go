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
