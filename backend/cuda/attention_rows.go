package cuda

import (
	"github.com/rlxc/rlxc/ir"
	"github.com/rlxc/rlxc/target"
)

// sumRowsRow is the pooling over the tokens of each text.
var sumRowsRow = row{
	Row: target.Row{Runs: target.OnKernel, Supports: counted},
	bind: func(b *binder, n *ir.Node) ([]*launch, error) {
		in, out, err := b.operands(n)
		if err != nil {
			return nil, err
		}
		x, y := in[0], out[0]
		p := sumRowsParams{y: y.at, x: x.at, texts: in[1].at, total: int64(y.elements()), width: int64(y.shape[1:].Elements()), tokens: int32(x.shape[1]), kind: kinds[x.dtype]}
		return []*launch{newLaunch("sum_rows", p, spread(ceil(y.elements(), groupSize)), groupSize, 0)}, nil
	},
}

// sumRowsParams is SumRows in _gen/index.cu.
type sumRowsParams struct {
	y, x, texts  address
	total, width int64
	tokens, kind int32
}
