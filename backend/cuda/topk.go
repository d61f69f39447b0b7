package cuda

import (
	"math"

	"github.com/rlxc/rlxc/internal/ops"
	"github.com/rlxc/rlxc/internal/target"
	"github.com/rlxc/rlxc/ir"
)

// topKParams is TopK in _gen/opaque.cu.
type topKParams struct {
	y, places, x            address
	total, inner            int64
	size, k, kind, smallest int32
}

// topKRow counts, for each element of a line, how many come before it.
var topKRow = row{
	Row: target.Row{Runs: target.OnKernel, Supports: counted},
	bind: func(b *binder, n *ir.Node) ([]*launch, error) {
		in, out, err := b.operands(n)
		if err != nil {
			return nil, err
		}
		op, x := n.Op.(ops.TopK), in[0]
		if x.shape[op.Axis] > math.MaxInt32 {
			return nil, errOnHost
		}
		p := topKParams{y: out[0].at, places: out[1].at, x: x.at, total: int64(x.elements()), inner: int64(x.shape[op.Axis+1:].Elements()),
			size: int32(x.shape[op.Axis]), k: int32(op.K.Int()), kind: kinds[x.dtype], smallest: boolean(op.Smallest)}
		return []*launch{newLaunch("top_k", p, spread(ceil(x.elements(), groupSize)), groupSize, 0)}, nil
	},
}
