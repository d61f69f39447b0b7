package wgpu

import (
	"github.com/rlxc/rlxc/ir"
	"github.com/rlxc/rlxc/tensor"
)

// countable reports whether the lines of a type can be summed and compared.
func countable(n *ir.Node) bool {
	d := n.Inputs[0].Type.DType
	return d == tensor.F32 || d == tensor.I32 || d == tensor.I64
}

// newAxisScan makes a shader whose invocations each go along a line of x, row-major: its elements start at start and are step
// apart; line is its number.
func newAxisScan(name string, x *operand, axis int) *shader {
	s := newShader(name, "u32", groupSize)
	inner := x.Shape[axis+1:].Elements()
	count := x.Shape[:axis].Elements() * inner
	step := s.u(inner)
	s.put("let line = %s * %du + lid;\nif (line >= %s) { return; }", linear, groupSize, s.u(count))
	s.put("let step = %s;\nlet size = %s;\nlet start = line / step * step * size + line %% step;", step, s.u(x.Shape[axis]))
	s.put("let first = %s + start;", s.u(x.first()))
	return s
}

// lines is the launch of a shader of newAxisScan.
func lines(s *shader, x *operand, axis int) []launch {
	return []launch{{s, spread(ceil(x.Elements()/x.Shape[axis], groupSize))}}
}

var cumSumEntry = entry{
	Supports: countable,
	Bind: func(b *binder, n *ir.Node, in, out []*operand) ([]launch, error) {
		op, x, y := n.Op.(ir.CumSum), in[0], out[0]
		e, add := elements[x.DType], binaryExpressions[x.DType][ir.Add]
		s := newAxisScan("cumsum", x, op.Axis)
		s.use(add.needs...)
		index := "i"
		if op.Reverse {
			index = "size - 1u - i"
		}
		s.put("var sum = %s();\nfor (var i = 0u; i < size; i++) {\nlet at = (%s) * step;", e.wgsl, index)
		s.put("let next = %s;", add.of("sum", e.load(s.bind(x.memory), "first + at")))
		value := "next"
		if op.Exclusive {
			value = "sum"
		}
		s.put("let value = %s;\nsum = next;", value)
		s.store(y, e, s.u(y.first())+" + start + at", "value")
		s.put("}")
		return lines(s, x, op.Axis), nil
	},
}

var argReduceEntry = entry{
	Supports: countable,
	Bind: func(b *binder, n *ir.Node, in, out []*operand) ([]launch, error) {
		op, x, y := n.Op.(ir.ArgReduce), in[0], out[0]
		e, less := elements[x.DType], binaryExpressions[x.DType][ir.Less]
		s := newAxisScan("argreduce", x, op.Axis)
		s.use(less.needs...)
		low, high := "best", "v"
		if op.Min {
			low, high = "v", "best"
		}
		better := less.of(low, high)
		if op.Last {
			better = "(" + better + ") || " + binaryExpressions[x.DType][ir.Equal].of("best", "v")
		}
		m := s.bind(x.memory)
		s.put("var best = %s;\nvar position = 0u;\nfor (var i = 0u; i < size; i++) {", e.load(m, "first"))
		s.put("let v = %s;\nif (%s) { best = v; position = i; }\n}", e.load(m, "first + i * step"), better)
		s.store(y, elements[tensor.I64], s.u(y.first())+" + line", "vec2<u32>(position, 0u)")
		return lines(s, x, op.Axis), nil
	},
}

// store puts the line that writes element number at of an operand of elements of a word or two.
func (s *shader) store(y *operand, e element, at, value string) {
	m := s.bind(y.memory)
	if e.width == 4 {
		s.put("%s[%s] = %s;", m, at, e.bits(value))
		return
	}
	s.put("{ let to = (%s) * 2u;\nlet pair = %s;\n%s[to] = pair.x;\n%s[to + 1u] = pair.y; }", at, value, m, m)
}
