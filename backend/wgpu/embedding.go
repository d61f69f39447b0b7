package wgpu

import (
	"fmt"

	"github.com/rlxc/rlxc/ir"
	"github.com/rlxc/rlxc/tensor"
)

// embeddingEntry adds rows of tables and normalises the sum.
var embeddingEntry = entry{
	Supports: func(n *ir.Node) bool {
		cols, known := n.Inputs[ir.EmbeddingTable].Type.Shape[1].Const()
		return known && cols <= heldRow && n.Inputs[ir.EmbeddingTable].Type.DType == tensor.F32
	},
	Pieces: func(i int) bool { return i >= ir.EmbeddingTable && i%2 == 0 },
	Bind: func(b *binder, n *ir.Node, in, out []*operand) ([]launch, error) {
		op := n.Op.(ir.Embedding)
		y, index := out[0], in[ir.EmbeddingIndex]
		scale, bias := ir.Operand(in, ir.EmbeddingScale), ir.Operand(in, ir.EmbeddingBias)
		aligned := []*operand{scale, bias, y}
		for i := ir.EmbeddingTable; i < len(in); i += 2 {
			aligned = append(aligned, in[i])
			if !b.whole(n.Inputs[i], in[i]) {
				return nil, errOnHost
			}
		}
		cols, rows := y.Shape[len(y.Shape)-1], index.Elements()
		s := b.d.newNorm("embedding", rows, cols, aligned...)
		var parts []func(to, c string)
		for i := ir.EmbeddingTable; i < len(in); i += 2 {
			table, name := in[i], fmt.Sprintf("i%d", i)
			switch {
			case n.HasOperand(i + 1):
				s.index(name, in[i+1], "row")
				b.inRange(s.shader, name, 0, table.Shape[0], name+" = 0;")
			case table.Shape[0] == 1:
				s.put("let %s = 0;", name)
			default:
				s.put("let %s = i32(row %% %s);", name, s.u(index.Shape[len(index.Shape)-1]))
			}
			parts = append(parts, s.row(table, fmt.Sprintf("u32(%s)", name), s.count))
		}
		s.rows(func(to string) {
			s.put("%[1]s = %[2]s();\nvar part = %[1]s;", to, s.word)
			for _, part := range parts {
				part("part", "c")
				s.put("%s += part;", to)
			}
		}, ir.LayerNorm{Eps: op.Eps, RMS: op.RMS}, y, scale, bias, nil)
		return []launch{{s.shader, spread(rows)}}, nil
	},
}
