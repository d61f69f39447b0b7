package cuda

import (
	"github.com/rlxc/rlxc/internal/gpu"
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

// rotaryEntry rotates pairs of a head's elements.
var rotaryEntry = entry{
	Supports: func(n *ir.Node) bool { return isFloat(n.Inputs[0].Type.DType) },
	Strided:  gpu.First,
	Bind: func(b *binder, n *ir.Node, in, out []*operand) ([]*launch, error) {
		x, cos, sin, y := in[0], in[1], in[2], out[0]
		p := rotaryParams{x: x.at, cosine: cos.at, sine: sin.at, y: y.at, total: int64(y.Elements()),
			angles: int64(cos.Shape[0] * cos.Shape[1]), length: int32(x.Shape[1]),
			heads: int32(x.Shape[2]), size: int32(x.Shape[3]), half: int32(cos.Shape[2]),
			interleaved: boolean(n.Op.(ir.Rotary).Interleaved), kind: kinds[x.DType]}
		for i, s := range x.Strides {
			p.stride[i] = int64(s)
		}
		return []*launch{perElement("rotary", p, y.Elements())}, nil
	},
}
