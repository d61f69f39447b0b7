package cuda

import (
	"math"

	"github.com/rlxc/rlxc/ir"
)

// The parameters of attention within sequences: Relative and RowsAttention in _gen/attention.cuh.
type (
	relativeParams struct {
		scores            address
		head, token, step int64
		index, status     address
		size, count       int32
	}
	packedAttentionParams struct {
		attentionParams
		list, positions  address
		byQuery, byKey   relativeParams
		sequences, limit int32
	}
)

// relative reports whether attention adds scores by relative position, which only the kernel for heads of any size does.
func (p *packedAttentionParams) relative() bool {
	return p != nil && (p.byQuery.scores != 0 || p.byKey.scores != 0)
}

// packedAttention adds the parameters of attention within sequences. It returns nil if the kernels do not take these operands.
func (b *binder) packedAttention(p attentionParams, in []*operand) *packedAttentionParams {
	list, positions, mask := in[ir.AttentionSequences], ir.Operand(in, ir.AttentionPositions), ir.Operand(in, ir.AttentionMask)
	if !list.aligned(16) {
		return nil
	}
	r := &packedAttentionParams{attentionParams: p, list: list.at, positions: positions.pointer(), sequences: int32(list.Shape[0]),
		limit: math.MaxInt32}
	r.guard = 1
	if mask != nil {
		for _, n := range mask.Shape[max(0, len(mask.Shape)-2):] {
			if n > 1 {
				r.limit = min(r.limit, int32(n))
			}
		}
	}
	pair := func(at int) (y relativeParams) {
		scores, index := ir.Operand(in, at), ir.Operand(in, at+1)
		if scores != nil {
			y = relativeParams{scores.at, int64(scores.Strides[1]), int64(scores.Strides[2]), int64(scores.Strides[3]), index.at,
				b.report(3, scores.Shape[3]), int32(index.Shape[0]), int32(scores.Shape[3])}
			r.limit = min(r.limit, y.size)
		}
		return y
	}
	r.byQuery, r.byKey = pair(ir.AttentionQueryScores), pair(ir.AttentionKeyScores)
	return r
}

// sumSequencesEntry pools the tokens of each sequence.
var sumSequencesEntry = entry{
	Supports: counted,
	Bind: func(b *binder, n *ir.Node, in, out []*operand) ([]*launch, error) {
		x, y := in[0], out[0]
		p := sumSequencesParams{y: y.at, x: x.at, list: in[1].at, total: int64(y.Elements()), width: int64(y.Shape[1:].Elements()),
			tokens: int32(x.Shape[1]), kind: kinds[x.DType]}
		if n.Op.(ir.SumSequences).Largest {
			p.largest = 1
		}
		return []*launch{perElement("sum_rows", p, y.Elements())}, nil
	},
}

// sumSequencesParams is SumSequences in _gen/index.cu.
type sumSequencesParams struct {
	y, x, list   address
	total, width int64
	tokens, kind int32
	largest      int32
}
