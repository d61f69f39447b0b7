package cuda

import "github.com/rlxc/rlxc/ir"

// mostTables is the maximum number of tables of an embedding, which embeddingParams holds.
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

// embeddingEntry adds rows of tables and normalises the sum.
var embeddingEntry = entry{
	Supports: func(n *ir.Node) bool {
		return isFloat(n.Inputs[ir.EmbeddingTable].Type.DType) && len(n.Inputs)-ir.EmbeddingTable <= 2*mostTables
	},
	Bind: func(b *binder, n *ir.Node, in, out []*operand) ([]*launch, error) {
		op := n.Op.(ir.Embedding)
		y, index := out[0], in[ir.EmbeddingIndex]
		scale, bias := in[ir.EmbeddingScale], in[ir.EmbeddingBias]
		cols := y.Shape[len(y.Shape)-1]
		p := embeddingParams{scale: scale.pointer(), bias: bias.pointer(), y: y.at, rows: int32(index.Elements()), cols: int32(cols),
			rms:       boolean(op.RMS),
			positions: int32(index.Shape[len(index.Shape)-1]), eps: op.Eps}
		aligned := []*operand{scale, bias, y}
		for i := ir.EmbeddingTable; i < len(in); i += 2 {
			t := &p.table[p.tables]
			p.tables++
			t.at, t.size = in[i].at, int64(in[i].Shape[0])
			if in[i+1] != nil {
				t.index, t.kind, t.status = in[i+1].at, kinds[in[i+1].DType], b.report(0, in[i].Shape[0])
			}
			aligned = append(aligned, in[i])
		}
		p.vector = boolean(fours(cols, aligned...))
		return []*launch{newLaunch("embed_"+floats[y.DType], p, line(ceil(int(p.rows), 4)), 128, 0)}, nil
	},
}
