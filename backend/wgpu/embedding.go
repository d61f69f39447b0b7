package wgpu

import (
	"fmt"

	"github.com/rlxc/rlxc/internal/target"
	"github.com/rlxc/rlxc/ir"
	"github.com/rlxc/rlxc/tensor"
)

// embeddingRow adds rows of tables and normalises the sum.
var embeddingRow = row{
	Row: target.Row{
		Runs: target.OnKernel,
		Supports: func(n *ir.Node) bool {
			cols, known := n.Inputs[ir.EmbeddingTable].Type.Shape[1].Const()
			return known && cols <= heldRow && n.Inputs[ir.EmbeddingTable].Type.DType == tensor.F32
		},
	},
	pieces: func(i int) bool { return i >= ir.EmbeddingTable && i%2 == 0 },
	bind: func(b *binder, n *ir.Node) ([]launch, error) {
		op := n.Op.(ir.Embedding)
		in, out, err := b.operands(n)
		if err != nil {
			return nil, err
		}
		y, index := &out[0], &in[ir.EmbeddingIndex]
		scale, bias := option(n, in, ir.EmbeddingScale), option(n, in, ir.EmbeddingBias)
		aligned := []*operand{scale, bias, y}
		for i := ir.EmbeddingTable; i < len(in); i += 2 {
			aligned = append(aligned, &in[i])
			if !b.whole(n.Inputs[i], &in[i]) {
				return nil, errOnHost
			}
		}
		cols, rows := y.shape[len(y.shape)-1], index.elements()
		s := b.d.newNorm("embedding", rows, cols, aligned...)
		var parts []func(to, c string)
		for i := ir.EmbeddingTable; i < len(in); i += 2 {
			table, name := &in[i], fmt.Sprintf("i%d", i)
			switch {
			case n.HasOperand(i + 1):
				s.index(name, &in[i+1], "row")
				b.inRange(s.shader, name, 0, table.shape[0], name+" = 0;")
			case table.shape[0] == 1:
				s.put("let %s = 0;", name)
			default:
				s.put("let %s = i32(row %% %s);", name, s.u(index.shape[len(index.shape)-1]))
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
