package cpu

import (
	"fmt"
	"slices"

	"github.com/rlxc/rlxc/internal/backend"
	"github.com/rlxc/rlxc/internal/ops"
	"github.com/rlxc/rlxc/internal/target"
	"github.com/rlxc/rlxc/ir"
	"github.com/rlxc/rlxc/tensor"
)

// A row says how the processor runs an op: what the passes before planning need to know, and how a node becomes a step.
type row struct {
	target.Row
	// bind makes the step of a bound node; nil where Runs is not OnKernel.
	bind func(b *binder, n *ir.Node) (step, error)
	// anyAddress reports whether the kernel reads operand i, bytes or rows that it copies, from any address; nil means no.
	anyAddress func(n *ir.Node, i int) bool
}

// table is the list of kernels. An op without a row runs on the host.
func (d *Device) table() map[ir.Kind]row {
	recurrent := d.recurrentRow()
	return map[ir.Kind]row{
		ir.KindUnary:  withHalf(unaryRow),
		ir.KindBinary: withHalf(binaryRow),
		ir.KindWhere:  whereRow,
		ir.KindCast:   withHalf(castRow),
		ir.KindMap:    d.mapRow(),

		ir.KindCopy:   copyRow,
		ir.KindConcat: concatRow,
		ir.KindAppend: appendRow,
		ir.KindPad:    padRow,
		ir.KindTile:   tileRow,
		ir.KindTrilu:  triluRow,

		ir.KindGather:          gatherRow,
		ir.KindGatherElements:  gatherElementsRow,
		ir.KindGatherND:        gatherNDRow,
		ir.KindScatterElements: scatterElementsRow,
		ir.KindScatterND:       scatterNDRow,
		ir.KindOneHot:          oneHotRow,

		ir.KindReduce:    withHalf(reduceRow),
		ir.KindArgReduce: argReduceRow,
		ir.KindSoftmax:   withHalf(softmaxRow),
		ir.KindCumSum:    cumSumRow,

		ir.KindRange: rangeRow,

		ir.KindMatMul:    d.halfMatMulRow(d.matMulRow()),
		ir.KindConv:      d.convRow(),
		ir.KindLayerNorm: withHalf(layerNormRow),
		ir.KindAttention: withHalf(d.attentionRow()),
		ir.KindRotary:    rotaryRow,
		ir.KindEmbedding: embeddingRow,
		ir.KindSumRows:   sumRowsRow,

		ir.KindQuantize:        quantizeRow,
		ir.KindDequantize:      dequantizeRow,
		ir.KindDynamicQuantize: dynamicQuantizeRow,
		ir.KindQMatMul:         d.qMatMulRow(),
		ir.KindQConv:           d.qConvRow(),
		ir.KindQAttention:      d.qAttentionRow(),
		ir.KindQLayerNorm:      d.qLayerNormRow(),
		ir.KindQEmbedding:      d.qEmbeddingRow(),
		ir.KindMatMulNBits:     d.matMulNBitsRow(),

		ir.KindActCopy: copyRow,

		ops.RNN{}.Kind():                    recurrent,
		ops.GRU{}.Kind():                    recurrent,
		ops.LSTM{}.Kind():                   recurrent,
		ops.DynamicQuantizeLSTM{}.Kind():    recurrent,
		ops.Resize{}.Kind():                 withHalf(d.resizeRow()),
		ops.AveragePool{}.Kind():            withHalf(d.averagePoolRow()),
		ops.MaxPool{}.Kind():                withHalf(d.maxPoolRow()),
		ops.DFT{}.Kind():                    d.dftRow(),
		ops.STFT{}.Kind():                   d.stftRow(),
		ops.LpPool{}.Kind():                 withHalf(d.lpPoolRow()),
		ops.LRN{}.Kind():                    withHalf(lrnRow),
		ops.GridSample{}.Kind():             withHalf(gridSampleRow),
		ops.TopK{}.Kind():                   d.topKRow(),
		ops.TreeEnsemble{}.Kind():           forestRow,
		ops.TreeEnsembleClassifier{}.Kind(): forestRow,
		ops.TreeEnsembleRegressor{}.Kind():  forestRow,
	}
}

// bind makes the step of a node.
func (d *Device) bind(b *binder, n *ir.Node) (step, error) {
	if isEmpty(n) {
		return bindEmpty(b, n), nil
	}
	switch d.target.Where(n) {
	case target.OnKernel:
		return d.rows[n.Op.Kind()].bind(b, n)
	case target.OnHost:
		return bindHost(b, n)
	}
	return step{}, fmt.Errorf("%s is no step", ir.OpName(n.Op))
}

// isEmpty reports whether no result of a node has an element. Its operands may have axes of any size then, beside one of none,
// which no kernel should walk along.
func isEmpty(n *ir.Node) bool {
	return !slices.ContainsFunc(n.Outputs, func(v *ir.Value) bool { return v.Type.Sizes().Elements() > 0 })
}

// bindEmpty makes nothing but the strings that are no bytes of the arena.
func bindEmpty(b *binder, n *ir.Node) step {
	_, out := b.operands(n)
	return step{parts: 1, run: func(m *machine, _, _ int) {
		for i, v := range n.Outputs {
			if v.Type.DType == tensor.String {
				m.objects[out[i].root] = tensor.New(tensor.String, v.Type.Sizes()...)
			}
		}
	}}
}

// bindHost runs a node by its op's Eval, which allocates what it needs.
func bindHost(b *binder, n *ir.Node) (step, error) {
	in, out := b.operands(n)
	return step{parts: 1, run: func(m *machine, _, _ int) {
		args := make([]*tensor.Tensor, len(in))
		for i := range in {
			if n.Inputs[i] != nil {
				args[i] = in[i].tensor(m)
			}
		}
		results, err := backend.Eval(m.env, n, args)
		if err != nil {
			m.fail(n, err)
			return
		}
		for i, t := range results {
			if t.DType() == tensor.String {
				m.objects[out[i].root] = t
				continue
			}
			copy(out[i].bytes(m), t.Bytes())
		}
	}}, nil
}
