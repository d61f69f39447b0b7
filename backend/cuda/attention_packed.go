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
		places, count     int32
	}
	rowsAttentionParams struct {
		attentionParams
		rows, positions address
		byQuery, byKey  relativeParams
		texts, places   int32
	}
)

// relative reports whether attention adds scores by relative position, which only the kernel for heads of any size does.
func (p *rowsAttentionParams) relative() bool {
	return p != nil && (p.byQuery.scores != 0 || p.byKey.scores != 0)
}

// rowsAttention adds the parameters of attention within sequences. It returns nil if the kernels do not take these operands.
func (b *binder) rowsAttention(p attentionParams, in []*operand) *rowsAttentionParams {
	rows, positions, mask := in[ir.AttentionSequences], ir.Operand(in, ir.AttentionPositions), ir.Operand(in, ir.AttentionMask)
	if !rows.aligned(16) {
		return nil
	}
	r := &rowsAttentionParams{attentionParams: p, rows: rows.at, positions: positions.pointer(), texts: int32(rows.Shape[0]),
		places: math.MaxInt32}
	r.guard = 1
	if mask != nil {
		for _, n := range mask.Shape[max(0, len(mask.Shape)-2):] {
			if n > 1 {
				r.places = min(r.places, int32(n))
			}
		}
	}
	pair := func(at int) (y relativeParams) {
		scores, index := ir.Operand(in, at), ir.Operand(in, at+1)
		if scores != nil {
			y = relativeParams{scores.at, int64(scores.Strides[1]), int64(scores.Strides[2]), int64(scores.Strides[3]), index.at,
				b.report(3, scores.Shape[3]), int32(index.Shape[0]), int32(scores.Shape[3])}
			r.places = min(r.places, y.places)
		}
		return y
	}
	r.byQuery, r.byKey = pair(ir.AttentionQueryScores), pair(ir.AttentionKeyScores)
	return r
}

// sumSequencesEntry adds up the tokens of each sequence.
var sumSequencesEntry = entry{
	Supports: counted,
	Bind: func(b *binder, n *ir.Node, in, out []*operand) ([]*launch, error) {
		x, y := in[0], out[0]
		p := sumRowsParams{y: y.at, x: x.at, texts: in[1].at, total: int64(y.Elements()), width: int64(y.Shape[1:].Elements()),
			tokens: int32(x.Shape[1]), kind: kinds[x.DType]}
		return []*launch{perElement("sum_rows", p, y.Elements())}, nil
	},
}

// sumRowsParams is SumSequences in _gen/index.cu.
type sumRowsParams struct {
	y, x, texts  address
	total, width int64
	tokens, kind int32
}
