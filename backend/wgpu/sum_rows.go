package wgpu

import (
	"fmt"

	"github.com/rlxc/rlxc/ir"
	"github.com/rlxc/rlxc/target"
	"github.com/rlxc/rlxc/tensor"
)

// sumRowsRow is the pooling over the tokens of each text. An invocation adds up one column of a text, in order; its neighbours read beside it.
var sumRowsRow = row{
	Row: target.Row{
		Runs:     target.OnKernel,
		Supports: func(n *ir.Node) bool { return n.Inputs[0].Type.DType == tensor.F32 },
	},
	bind: func(b *binder, n *ir.Node) ([]launch, error) {
		in, out, err := b.operands(n)
		if err != nil {
			return nil, err
		}
		x, texts, y := &in[0], &in[1], &out[0]
		e := elements[tensor.F32]
		return []launch{produce("sum_rows", y, e, func(s *shader, i string) (value, to string) {
			width := s.u(y.shape[1:].Elements())
			field := func(k int) string {
				return s.wordAt(texts.memory, fmt.Sprintf("%s + %s / %s * %du + %du", s.u(texts.first()), i, width, ir.RowFields, k))
			}
			s.put("var sum = 0.0;\nlet end = min(%s, %s);", field(1), s.u(x.shape[1]))
			s.put("for (var token = %s; token < end; token++) {", field(0))
			s.put("sum += %s;\n}", e.load(s.bind(x.memory), fmt.Sprintf("%s + token * %s + %s %% %s", s.u(x.first()), width, i, width)))
			return "sum", s.u(y.first()) + " + " + i
		})}, nil
	},
}
