package cuda

import (
	"github.com/rlxc/rlxc/internal/target"
	"github.com/rlxc/rlxc/ir"
)

// rotaryParams is Rotary in _gen/rows.cu.
type rotaryParams struct {
	x, cosine, sine, y                           address
	total                                        int64
	stride                                       [4]int64
	angles                                       int64
	length, heads, size, half, interleaved, kind int32
}

// rotaryRow turns pairs of a head's elements.
var rotaryRow = row{
	Row: target.Row{
		Runs:     target.OnKernel,
		Supports: func(n *ir.Node) bool { return isFloat(n.Inputs[0].Type.DType) },
		Strided:  func(_ *ir.Node, i int, _ []int) bool { return i == 0 },
	},
	bind: func(b *binder, n *ir.Node) ([]*launch, error) {
		in, out, err := b.operands(n)
		if err != nil {
			return nil, err
		}
		x, cos, sin, y := in[0], in[1], in[2], out[0]
		p := rotaryParams{x: x.at, cosine: cos.at, sine: sin.at, y: y.at, total: int64(y.elements()),
			angles: int64(cos.shape[0] * cos.shape[1]), length: int32(x.shape[1]),
			heads: int32(x.shape[2]), size: int32(x.shape[3]), half: int32(cos.shape[2]),
			interleaved: boolean(n.Op.(ir.Rotary).Interleaved), kind: kinds[x.dtype]}
		for i, s := range x.strides {
			p.stride[i] = int64(s)
		}
		return []*launch{newLaunch("rotary", p, spread(ceil(y.elements(), groupSize)), groupSize, 0)}, nil
	},
}
