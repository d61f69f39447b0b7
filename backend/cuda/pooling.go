package cuda

import (
	"github.com/rlxc/rlxc/internal/gpu"
	"github.com/rlxc/rlxc/internal/ops"
	"github.com/rlxc/rlxc/internal/target"
	"github.com/rlxc/rlxc/ir"
)

// poolParams is Pool in _gen/opaque.cu, and its modes.
type poolParams struct {
	y, indices, x                                    address
	total, image, channel                            int64
	axis, number                                     [mostSpatial]int64
	whole                                            int64
	size, out, kernel, stride, dilation, before, end [mostSpatial]int32
	channels, kind, mode, padded                     int32
	power, start                                     float32
}

const (
	poolMean = iota
	poolNorm
	poolMax
)

var poolEntry = entry{
	Supports: func(n *ir.Node) bool {
		_, ok := gpu.Pooled(n.Op)
		d := n.Inputs[0].Type.DType
		return ok && (isFloat(d) || gpu.Is8Bit(d) && n.Op.Kind() == ops.MaxPool{}.Kind())
	},
	Strided: target.AllStrides,
	Bind: func(b *binder, n *ir.Node, in, out []*operand) ([]*launch, error) {
		x, y := in[0], out[0]
		w, _ := gpu.Pooled(n.Op)
		last := len(x.Shape) - 1
		spatial := x.Shape[1:last]
		before, after := w.Padding(spatial)
		p := poolParams{y: y.at, x: x.at, total: int64(y.Elements()), image: int64(x.Strides[0]), channel: int64(x.Strides[last]),
			whole:    int64(spatial.Elements()),
			channels: int32(x.Shape[last]), kind: kinds[x.DType]}
		if len(out) > 1 {
			p.indices = out[1].at
		}
		for i := range mostSpatial {
			p.size[i], p.out[i], p.kernel[i], p.stride[i], p.dilation[i], p.end[i] = 1, 1, 1, 1, 1, 1
			if k := i - (mostSpatial - len(spatial)); k >= 0 {
				p.axis[i] = int64(x.Strides[1+k])
				p.size[i], p.out[i], p.before[i], p.end[i] = int32(spatial[k]), int32(y.Shape[1+k]), int32(before[k]),
					int32(spatial[k]+after[k])
				p.kernel[i], p.stride[i], p.dilation[i] = int32(w.Kernel[k]), int32(w.Strides[k]), int32(w.Dilations[k])
			}
		}
		switch o := n.Op.(type) {
		case ops.AveragePool:
			p.mode, p.padded = poolMean, boolean(o.CountIncludePad)
		case ops.LpPool:
			p.mode, p.power = poolNorm, float32(o.P)
		case ops.MaxPool:
			p.mode, p.start = poolMax, float32(o.Least(x.DType))
			for k, step := range o.Steps(spatial) {
				p.number[mostSpatial-len(spatial)+k] = int64(step)
			}
		}
		return []*launch{perElement("pool", p, y.Elements())}, nil
	},
}
