package cuda

import (
	"github.com/rlxc/rlxc/internal/gpu"
	"github.com/rlxc/rlxc/ir"
)

// normParams is Norm in _gen/rows.cu.
type normParams struct {
	x, residual, scale, bias, y, sum address
	rows, cols, rms, vector          int32
	eps                              float32
	fixed                            int32
}

// fours reports whether a kernel can read four elements at a time of rows of cols elements.
func fours(cols int, operands ...*operand) bool {
	for _, o := range operands {
		if o != nil && !o.aligned(4*o.Width) {
			return false
		}
	}
	return cols%4 == 0
}

var layerNormEntry = entry{
	Supports: func(n *ir.Node) bool { return isFloat(n.Inputs[ir.LayerNormX].Type.DType) && gpu.Normalizes(n) },
	// A lane reads and writes separate positions.
	InPlace: gpu.Writes(ir.LayerNormX, ir.LayerNormResidual),
	Bind: func(b *binder, n *ir.Node, in, out []*operand) ([]*launch, error) {
		op := n.Op.(ir.LayerNorm)
		x, scale, bias, residual, y := in[ir.LayerNormX], ir.Operand(in, ir.LayerNormScale), ir.Operand(in, ir.LayerNormBias),
			ir.Operand(in, ir.LayerNormResidual), out[0]
		var sum *operand
		if op.Sum {
			sum = out[1]
		}
		cols := x.Shape[len(x.Shape)-op.Axes:].Elements()
		p := normParams{x: x.at, residual: residual.pointer(), scale: scale.pointer(), bias: bias.pointer(), y: y.at, sum: sum.pointer(),
			rows: int32(x.Elements() / cols),
			cols: int32(cols), rms: boolean(op.RMS), vector: boolean(fours(cols, x, scale, bias, residual, y, sum)), eps: op.Eps,
			fixed: boolean(scale.fixed() && bias.fixed())}
		return []*launch{newLaunch("norm_"+floats[x.DType], p, line(ceil(int(p.rows), 4)), 128, 0)}, nil
	},
}
