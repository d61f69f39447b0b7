package cuda

import (
	"github.com/rlxc/rlxc/ir"
	"github.com/rlxc/rlxc/target"
)

// normParams is Norm in _gen/rows.cu.
type normParams struct {
	x, residual, scale, bias, y, sum address
	rows, cols, rms, vector          int32
	eps                              float32
}

// fours reports whether rows of so many elements, of these operands, can be read by fours.
func fours(cols int, operands ...*operand) bool {
	for _, o := range operands {
		if o != nil && !o.aligned(4*o.width) {
			return false
		}
	}
	return cols%4 == 0
}

var layerNormRow = row{
	Row: target.Row{
		Runs: target.OnKernel,
		Supports: func(n *ir.Node) bool {
			x := n.Inputs[ir.LayerNormX].Type
			inner := x.Shape[len(x.Shape)-n.Op.(ir.LayerNorm).Axes:]
			for _, i := range []int{ir.LayerNormScale, ir.LayerNormBias} {
				if n.HasOperand(i) && !n.Inputs[i].Type.Shape.Equal(inner) {
					return false
				}
			}
			return isFloat(x.DType)
		},
		// A lane reads and writes places of its own.
		InPlace: func(_ *ir.Node, i int) bool { return i == ir.LayerNormX || i == ir.LayerNormResidual },
	},
	bind: func(b *binder, n *ir.Node) ([]*launch, error) {
		op := n.Op.(ir.LayerNorm)
		in, out, err := b.operands(n)
		if err != nil {
			return nil, err
		}
		x, scale, bias, residual, y := in[ir.LayerNormX], option(in, ir.LayerNormScale), option(in, ir.LayerNormBias), option(in, ir.LayerNormResidual), out[0]
		var sum *operand
		if op.Sum {
			sum = out[1]
		}
		cols := x.shape[len(x.shape)-op.Axes:].Elements()
		p := normParams{x: x.at, residual: residual.pointer(), scale: scale.pointer(), bias: bias.pointer(), y: y.at, sum: sum.pointer(), rows: int32(x.elements() / cols),
			cols: int32(cols), rms: boolean(op.RMS), vector: boolean(fours(cols, x, scale, bias, residual, y, sum)), eps: op.Eps}
		return []*launch{newLaunch("norm_"+floats[x.dtype], p, line(ceil(int(p.rows), 4)), 128, 0)}, nil
	},
}

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
		p := embeddingParams{scale: scale.pointer(), bias: bias.pointer(), y: y.at, rows: int32(index.elements()), cols: int32(cols), rms: boolean(op.RMS),
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
