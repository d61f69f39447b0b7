package cuda

import (
	"math"

	"github.com/rlxc/rlxc/internal/ops"
	"github.com/rlxc/rlxc/ir"
)

// topKParams is TopK in _gen/opaque.cu.
type topKParams struct {
	y, indices, x           address
	total, inner            int64
	size, k, kind, smallest int32
}

// topKEntry counts, for each element of a line, how many come before it.
var topKEntry = entry{
	Supports: counted,
	Bind: func(b *binder, n *ir.Node, in, out []*operand) ([]*launch, error) {
		op, x := n.Op.(ops.TopK), in[0]
		if x.Shape[op.Axis] > math.MaxInt32 {
			return nil, errOnHost
		}
		p := topKParams{y: out[0].at, indices: out[1].at, x: x.at, total: int64(x.Elements()), inner: int64(x.Shape[op.Axis+1:].Elements()),
			size: int32(x.Shape[op.Axis]), k: int32(op.K.Int()), kind: kinds[x.DType], smallest: boolean(op.Smallest)}
		return []*launch{perElement("top_k", p, x.Elements())}, nil
	},
}
