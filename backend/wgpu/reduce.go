package wgpu

import (
	"fmt"

	"github.com/rlxc/rlxc/internal/target"
	"github.com/rlxc/rlxc/ir"
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

// A join makes one value of two, and of those of a subgroup: invocations that the device runs together, as many as it
// likes.
type join struct {
	wgsl string     // the values' type
	two  expression // $1 and $2
	all  expression // $1 of all invocations of a subgroup; empty if WGSL has no function for it
}

// joinOf is the join by a function of two elements.
func joinOf(d tensor.DType, fn ir.BinaryFn) join {
	return join{elements[d].wgsl, binaryExpressions[d][fn], subgroupExpressions[d][fn]}
}

var subgroupExpressions = map[tensor.DType]map[ir.BinaryFn]expression{
	tensor.F32: {
		ir.Add: {wgsl: "subgroupAdd($1)"}, ir.Mul: {wgsl: "subgroupMul($1)"},
		ir.MaxFn: {"allMax_($1)", []string{"allMax_"}}, ir.MinFn: {"allMin_($1)", []string{"allMin_"}},
	},
	tensor.I32: {
		ir.Add: {wgsl: "subgroupAdd($1)"}, ir.Mul: {wgsl: "subgroupMul($1)"},
		ir.MaxFn: {wgsl: "subgroupMax($1)"}, ir.MinFn: {wgsl: "subgroupMin($1)"},
	},
}

var (
	sumOf = joinOf(tensor.F32, ir.Add)
	maxOf = joinOf(tensor.F32, ir.MaxFn)
	minOf = joinOf(tensor.F32, ir.MinFn)
)

// newJoiner makes a shader that may call allReduce.
func (d *Device) newJoiner(name, word string, size int) *shader {
	s := newShader(name, word, size)
	s.subgroups = d.subgroups
	return s
}

// allReduce puts the lines that join variable v of all invocations of the workgroup into v of each of them: by subgroups
// and then what each of them has, or else by a tree. Both join in an order that one device always takes.
func (s *shader) allReduce(v string, j join) {
	red := fmt.Sprintf("red%d", s.reductions)
	s.reductions++
	s.share(red, j.wgsl, s.size) // a subgroup may be a single invocation
	s.use(j.two.needs...)
	if s.subgroups && j.all.wgsl != "" {
		s.use(j.all.needs...)
		s.put("%s = %s;\nif (lane == 0u) { %s[subgroup] = %s; }\nworkgroupBarrier();", v, j.all.of(v), red, v)
		s.put("%s = %s[0];\nfor (var i = 1u; i < subgroups; i++) { %s = %s; }", v, red, v, j.two.of(v, red+"[i]"))
		return
	}
	s.put("%s[lid] = %s;\nworkgroupBarrier();\nfor (var step = %du; step > 0u; step >>= 1u) {", red, v, s.size/2)
	s.put("if (lid < step) { %[1]s[lid] = %[2]s; }\nworkgroupBarrier();\n}\n%[3]s = %[1]s[0];", red,
		j.two.of(red+"[lid]", red+"[lid + step]"), v)
}

// newRowShader makes a shader whose workgroups each work on a row: row is its number, in all workgroups alike.
func (d *Device) newRowShader(name, word string, rows, cols int) *shader {
	s := d.newJoiner(name, word, rowGroup(cols))
	s.put("let row = %s;", linear)
	s.put("if (row >= %s) { return; }", s.u(rows))
	return s
}

// along opens the loop of an invocation over its elements of a row; the caller closes it.
func (s *shader) along(cols string) {
	s.put("for (var c = lid; c < %s; c += %du) {", cols, s.size)
}

// softmaxEntry is over the last axis: largest, sum of exponentials, quotients.
var softmaxEntry = entry{
	Supports: func(n *ir.Node) bool {
		t := n.Inputs[0].Type
		return t.DType == tensor.F32 && n.Op.(ir.Softmax).Axis == len(t.Shape)-1
	},
	InPlace: func(*ir.Node, int) bool { return true },
	Bind: func(b *binder, n *ir.Node, in, out []*operand) ([]launch, error) {
		x, y := in[0], out[0]
		cols := x.Shape[len(x.Shape)-1]
		rows := x.Elements() / cols
		s := b.d.newRowShader("softmax", "f32", rows, cols)
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

// A reduction is a start, a step, a way to join partial results and an end; $2 of the end is the number of elements.
type reduction struct {
	start string     // $1 is the first element
	step  expression // combines the result so far, $1, with an element, $2
	join  join
	end   string
}

// floatReductions are the reductions that only float types support.
var floatReductions = map[ir.Reduction]reduction{
	ir.Mean:      {"0.0", sumOf.two, sumOf, "$1 / f32($2)"},
	ir.SumSquare: {"0.0", expression{wgsl: "$1 + $2 * $2"}, sumOf, "$1"},
	ir.L1:        {"0.0", expression{wgsl: "$1 + abs($2)"}, sumOf, "$1"},
	ir.L2:        {"0.0", expression{wgsl: "$1 + $2 * $2"}, sumOf, "sqrt($1)"},
	ir.LogSum:    {"0.0", sumOf.two, sumOf, "log($1)"},
}

// reductionOf finds how elements of a type are reduced.
func reductionOf(fn ir.Reduction, d tensor.DType) (reduction, bool) {
	if r, ok := floatReductions[fn]; ok && d == tensor.F32 {
		return r, true
	}
	by := map[ir.Reduction]struct {
		fn    ir.BinaryFn
		start map[tensor.DType]string
	}{
		ir.Sum:   {ir.Add, map[tensor.DType]string{tensor.F32: "0.0", tensor.I32: "0", tensor.I64: "vec2<u32>()"}},
		ir.Prod:  {ir.Mul, map[tensor.DType]string{tensor.F32: "1.0", tensor.I32: "1", tensor.I64: "vec2<u32>(1u, 0u)"}},
		ir.MaxOf: {ir.MaxFn, map[tensor.DType]string{tensor.F32: "$1", tensor.I32: "$1", tensor.I64: "$1"}},
		ir.MinOf: {ir.MinFn, map[tensor.DType]string{tensor.F32: "$1", tensor.I32: "$1", tensor.I64: "$1"}},
	}[fn]
	j, start := joinOf(d, by.fn), by.start[d]
	return reduction{start, j.two, j, "$1"}, j.two.wgsl != "" && start != ""
}

// reduceEntry walks any axes: a workgroup combines the elements of one result.
var reduceEntry = entry{
	Supports: func(n *ir.Node) bool {
		_, ok := reductionOf(n.Op.(ir.Reduce).Fn, n.Inputs[0].Type.DType)
		return ok
	},
	Strided: target.AllStrides,
	Bind: func(b *binder, n *ir.Node, in, out []*operand) ([]launch, error) {
		op := n.Op.(ir.Reduce)
		x, y := in[0], out[0]
		if x.Elements() == 0 {
			return nil, errOnHost // results of nothing differ by function
		}
		left, taken := x.Reduced(op.Axes)
		r, _ := reductionOf(op.Fn, x.DType)
		e, rows, cols := elements[x.DType], left.Elements(), taken.Elements()
		s := b.d.newRowShader("reduce_"+op.Fn.String(), "u32", rows, cols)
		s.use(r.step.needs...)
		from, count := s.bind(x.memory), s.u(cols)
		s.put("var x = %s;\n{", s.u(x.first()))
		newNest(left.Shape, &operand{Operand: left}).walk(s, "row", "x")
		s.put("}")
		s.put("var result = %s;", expression{wgsl: r.start}.of(e.load(from, "x")))
		s.along(count)
		s.put("var at = x;")
		newNest(taken.Shape, &operand{Operand: taken}).walk(s, "c", "at")
		s.put("let v = %s;\nresult = %s;\n}", e.load(from, "at"), r.step.of("result", "v"))
		s.allReduce("result", r.join)
		s.put("if (lid == 0u) {")
		s.store(y, e, s.u(y.first())+" + row", expression{wgsl: r.end}.of("result", count))
		s.put("}")
		return []launch{{s, spread(rows)}}, nil
	},
}
