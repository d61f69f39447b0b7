package cuda

import (
	"github.com/rlxc/rlxc/internal/ops"
	"github.com/rlxc/rlxc/internal/target"
	"github.com/rlxc/rlxc/ir"
	"github.com/rlxc/rlxc/tensor"
)

// poolTaps is the most elements of a window.
const poolTaps = 1 << 12

// poolParams is Pool in _gen/opaque.cu, and its modes.
type poolParams struct {
	y, places, x                                     address
	total, image, channel                            int64
	axis, number                                     [mostSpatial]int64
	whole                                            int64
	size, out, kernel, stride, dilation, before, end [mostSpatial]int32
	channels, kind, mode, padded                     int32
	power                                            float32
	_                                                int32
}

const (
	poolMean = iota
	poolNorm
	poolMax
)

// poolEntry is the row of pools under the window that the op has; set fills in the rest.
func poolEntry(window func(ir.Op) ir.Window, bytes bool, set func(p *poolParams, op ir.Op)) entry {
	return entry{
		Supports: func(n *ir.Node) bool {
			w, d := window(n.Op), n.Inputs[0].Type.DType
			return (isFloat(d) || bytes && (d == tensor.U8 || d == tensor.I8)) && len(w.Kernel) <= mostSpatial && w.Taps() <= poolTaps
		},
		Strided: target.AllStrides,
		Bind: func(b *binder, n *ir.Node, in, out []*operand) ([]*launch, error) {
			x, y, w := in[0], out[0], window(n.Op)
			last := len(x.Shape) - 1
			spatial := x.Shape[1:last]
			before, after := w.Padding(spatial)
			p := poolParams{y: y.at, x: x.at, total: int64(y.Elements()), image: int64(x.Strides[0]), channel: int64(x.Strides[last]),
				whole:    int64(spatial.Elements()),
				channels: int32(x.Shape[last]), kind: kinds[x.DType]}
			if len(out) > 1 {
				p.places = out[1].at
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
			if o, ok := n.Op.(ops.MaxPool); ok {
				for k, step := range o.Steps(spatial) {
					p.number[mostSpatial-len(spatial)+k] = int64(step)
				}
			}
			set(&p, n.Op)
			return []*launch{newLaunch("pool", p, spread(ceil(y.Elements(), groupSize)), groupSize, 0)}, nil
		},
	}
}

var averagePoolEntry = poolEntry(func(op ir.Op) ir.Window { return op.(ops.AveragePool).Window }, false, func(p *poolParams, op ir.Op) {
	p.mode, p.padded = poolMean, boolean(op.(ops.AveragePool).CountIncludePad)
})

var lpPoolEntry = poolEntry(func(op ir.Op) ir.Window { return op.(ops.LpPool).Window }, false, func(p *poolParams, op ir.Op) {
	p.mode, p.power = poolNorm, float32(op.(ops.LpPool).P)
})

var maxPoolEntry = poolEntry(func(op ir.Op) ir.Window { return op.(ops.MaxPool).Window }, true,
	func(p *poolParams, _ ir.Op) { p.mode = poolMax })
