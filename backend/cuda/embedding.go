package cuda

import (
	"github.com/rlxc/rlxc/internal/target"
	"github.com/rlxc/rlxc/ir"
)

// mostTables is the number of tables that the kernel has room for.
const mostTables = 6

// embeddingParams is Embedding in _gen/rows.cu.
type embeddingParams struct {
	scale, bias, y                             address
	rows, cols, rms, vector, tables, positions int32
	eps                                        float32
	table                                      [mostTables]struct {
		at, index, status address
		size              int64
		kind, _           int32
	}
}

// embeddingRow adds rows of tables and normalises the sum.
var embeddingRow = row{
	Row: target.Row{
		Runs: target.OnKernel,
		Supports: func(n *ir.Node) bool {
			return isFloat(n.Inputs[ir.EmbeddingTable].Type.DType) && len(n.Inputs)-ir.EmbeddingTable <= 2*mostTables
		},
	},
	bind: func(b *binder, n *ir.Node) ([]*launch, error) {
		op := n.Op.(ir.Embedding)
		in, out, err := b.operands(n)
		if err != nil {
			return nil, err
		}
		y, index := out[0], in[ir.EmbeddingIndex]
		scale, bias := in[ir.EmbeddingScale], in[ir.EmbeddingBias]
		cols := y.shape[len(y.shape)-1]
		p := embeddingParams{scale: scale.pointer(), bias: bias.pointer(), y: y.at, rows: int32(index.elements()), cols: int32(cols),
			rms:       boolean(op.RMS),
			positions: int32(index.shape[len(index.shape)-1]), eps: op.Eps}
		aligned := []*operand{scale, bias, y}
		for i := ir.EmbeddingTable; i < len(in); i += 2 {
			t := &p.table[p.tables]
			p.tables++
			t.at, t.size = in[i].at, int64(in[i].shape[0])
			if in[i+1] != nil {
				t.index, t.kind, t.status = in[i+1].at, kinds[in[i+1].dtype], b.report(0, in[i].shape[0])
			}
			aligned = append(aligned, in[i])
		}
		p.vector = boolean(fours(cols, aligned...))
		return []*launch{newLaunch("embed_"+floats[y.dtype], p, line(ceil(int(p.rows), 4)), 128, 0)}, nil
	},
}
