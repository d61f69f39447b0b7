package cuda

import (
	"github.com/rlxc/rlxc/internal/target"
	"github.com/rlxc/rlxc/ir"
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
		x, scale, bias, residual, y := in[ir.LayerNormX], option(in, ir.LayerNormScale), option(in, ir.LayerNormBias),
			option(in, ir.LayerNormResidual), out[0]
		var sum *operand
		if op.Sum {
			sum = out[1]
		}
		cols := x.shape[len(x.shape)-op.Axes:].Elements()
		p := normParams{x: x.at, residual: residual.pointer(), scale: scale.pointer(), bias: bias.pointer(), y: y.at, sum: sum.pointer(),
			rows: int32(x.elements() / cols),
			cols: int32(cols), rms: boolean(op.RMS), vector: boolean(fours(cols, x, scale, bias, residual, y, sum)), eps: op.Eps}
		return []*launch{newLaunch("norm_"+floats[x.dtype], p, line(ceil(int(p.rows), 4)), 128, 0)}, nil
	},
}
