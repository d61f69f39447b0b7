package cuda

import (
	"github.com/rlxc/rlxc/internal/backend"
	"github.com/rlxc/rlxc/internal/ops"
	"github.com/rlxc/rlxc/internal/target"
	"github.com/rlxc/rlxc/ir"
)

// mostResized is the number of axes that the kernel may change.
const mostResized = 3

// resizeParams is Resize in _gen/opaque.cu.
type resizeParams struct {
	y, x, table address
	total       int64
	stride      [maxRank]int64
	at          [mostResized]int64
	rank, kind  int32
	size        [maxRank]int32
	axis, taps  [mostResized]int32
	outside     float32
	_           int32
}

var resizeEntry = entry{
	Supports: func(n *ir.Node) bool {
		op, x, changed := n.Op.(ops.Resize), n.Inputs[0].Type, 0
		for axis := range x.Shape {
			if !op.Keeps(axis, x.Shape) {
				changed++
			}
		}
		return isFloat(x.DType) && len(x.Shape) <= maxRank && changed <= mostResized
	},
	Strided: target.AllStrides,
	Bind: func(b *binder, n *ir.Node, in, out []*operand) ([]*launch, error) {
		op, x, y := n.Op.(ops.Resize), in[0], out[0]
		mixed, words := backend.MixTable(op, x.Shape, y.Shape)
		if words == nil {
			return nil, errOnHost
		}
		p := resizeParams{y: y.at, x: x.at, total: int64(y.Elements()), rank: int32(len(y.Shape)), kind: kinds[x.DType],
			outside: float32(op.Extrapolation)}
		var err error
		if p.table, err = b.constant(words); err != nil {
			return nil, err
		}
		for k := range y.Shape {
			p.size[k], p.stride[k] = int32(y.Shape[k]), int64(x.Strides[k])
		}
		for i := range mostResized {
			if p.axis[i], p.taps[i] = -1, 1; i < len(mixed) {
				p.axis[i], p.taps[i], p.at[i] = int32(mixed[i].Axis), int32(mixed[i].Taps), int64(mixed[i].At)
			}
		}
		return []*launch{perElement("resize", p, y.Elements())}, nil
	},
}
