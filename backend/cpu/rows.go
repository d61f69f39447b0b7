package cpu

import (
	"github.com/rlxc/rlxc/internal/ops"
	"github.com/rlxc/rlxc/ir"
)

// table is the list of kernels. An op without a row runs on the host.
func (d *processor) table() map[ir.Kind]row {
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
