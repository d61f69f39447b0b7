package wgpu

import (
	"github.com/rlxc/rlxc/internal/ops"
	"github.com/rlxc/rlxc/ir"
	"github.com/rlxc/rlxc/tensor"
)

// loopLimit is the number of loop iterations that an invocation may execute: lavapipe ends loops there without an error.
const loopLimit = 1<<16 - 1

// topKEntry counts, for each element of a line, how many come before it, which is its position in the result.
var topKEntry = entry{
	Supports: countable,
	Bind: func(b *binder, n *ir.Node, in, out []*operand) ([]launch, error) {
		op, x, values, indices := n.Op.(ops.TopK), in[0], out[0], out[1]
		size, inner := x.Shape[op.Axis], x.Shape[op.Axis+1:].Elements()
		if size > loopLimit {
			return nil, errOnHost
		}
		e, key := elements[x.DType], expression{wgsl: "$1"}
		order := x.DType
		if order == tensor.F32 {
			order, key = tensor.I32, expression{"order_($1)", []string{"order_"}}
		}
		less := binaryExpressions[order][ir.Less]
		low, high := "own", "other"
		if op.Smallest {
			low, high = high, low
		}
		s := newShader("top_k", "u32", groupSize)
		s.use(key.needs...)
		s.use(less.needs...)
		m, step, length := s.bind(x.memory), s.u(inner), s.u(size)
		s.put("let t = %s * %du + lid;\nif (t >= %s) { return; }", linear, groupSize, s.u(x.Elements()))
		s.put("let position = t / %s %% %s;\nlet outer = t / %s / %s;\nlet column = t %% %s;", step, length, step, length, step)
		s.put("let first = %s + outer * %s * %s + column;", s.u(x.first()), length, step)
		s.put("let value = %s;\nlet own = %s;\nvar rank = 0u;", e.load(m, "first + position * "+step), key.of("value"))
		s.put("for (var j = 0u; j < %s; j++) {\nlet other = %s;", length, key.of(e.load(m, "first + j * "+step)))
		s.put("if (%s || j < position && !(%s)) { rank++; }\n}", less.of(low, high), less.of(high, low))
		s.put("if (rank >= %s) { return; }\nlet to = (outer * %s + rank) * %s + column;", s.u(op.K.Int()), s.u(op.K.Int()), step)
		s.store(values, e, s.u(values.first())+" + to", "value")
		s.store(indices, elements[tensor.I64], s.u(indices.first())+" + to", "vec2<u32>(position, 0u)")
		return []launch{{s, spread(ceil(x.Elements(), groupSize))}}, nil
	},
}
