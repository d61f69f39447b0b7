package cuda

import (
	"slices"

	"github.com/rlxc/rlxc/internal/ops"
	"github.com/rlxc/rlxc/internal/target"
	"github.com/rlxc/rlxc/ir"
)

// sampleParams is Sample in _gen/opaque.cu.
type sampleParams struct {
	y, x, grid                                   address
	total, image, channel                        int64
	axis                                         [mostSpatial]int64
	line                                         [mostSpatial + 2]int64
	size, out                                    [mostSpatial]int32
	channels, axes, mode, padding, corners, kind int32
}

// The modes and paddings in the order that the kernel has.
var (
	sampleModes    = []string{"nearest", "linear", "cubic"}
	samplePaddings = []string{"zeros", "border", "reflection"}
)

// gridSampleEntry reads images between their elements: every element of the result separately.
var gridSampleEntry = entry{
	Supports: func(n *ir.Node) bool {
		d := n.Inputs[0].Type.DType
		return isFloat(d) && n.Inputs[1].Type.DType == d && len(n.Inputs[0].Type.Shape)-2 <= mostSpatial
	},
	Strided: target.AllStrides,
	Bind: func(b *binder, n *ir.Node, in, out []*operand) ([]*launch, error) {
		op, x, grid, y := n.Op.(ops.GridSample), in[0], in[1], out[0]
		axes := len(x.Shape) - 2
		p := sampleParams{y: y.at, x: x.at, grid: grid.at, total: int64(y.Elements()), image: int64(x.Strides[0]),
			channel: int64(x.Strides[1]), channels: int32(y.Shape[1]),
			axes: int32(axes), mode: int32(slices.Index(sampleModes, op.Mode)), padding: int32(slices.Index(samplePaddings, op.Padding)),
			corners: boolean(op.Corners), kind: kinds[x.DType]}
		p.line[0], p.line[1+mostSpatial] = int64(grid.Strides[0]), int64(grid.Strides[1+axes])
		for i := range mostSpatial {
			p.size[i], p.out[i] = 1, 1
			if k := i - (mostSpatial - axes); k >= 0 {
				p.axis[i], p.line[1+i] = int64(x.Strides[2+k]), int64(grid.Strides[1+k])
				p.size[i], p.out[i] = int32(x.Shape[2+k]), int32(y.Shape[2+k])
			}
		}
		return []*launch{perElement("grid_sample", p, y.Elements())}, nil
	},
}
