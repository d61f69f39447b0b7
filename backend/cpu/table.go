package cpu

import (
	"github.com/rlxc/rlxc/internal/ops"
	"github.com/rlxc/rlxc/ir"
)

// kernelTable is the list of kernels. An op without an entry runs on the host.
func (d *processor) kernelTable() map[ir.Kind]entry {
	recurrent := d.recurrentEntry()
	return map[ir.Kind]entry{
		ir.KindUnary:  d.halfByTiles(unaryEntry, outer),
		ir.KindBinary: d.halfByTiles(binaryEntry, outer),
		ir.KindWhere:  whereEntry,
		ir.KindCast:   d.halfByTiles(castEntry, outer),
		ir.KindMap:    d.mapEntry(),

		ir.KindCopy:   copyEntry,
		ir.KindConcat: concatEntry,
		ir.KindAppend: appendEntry,
		ir.KindPad:    padEntry,
		ir.KindTile:   tileEntry,
		ir.KindTrilu:  triluEntry,

		ir.KindGather:          gatherEntry,
		ir.KindGatherElements:  gatherElementsEntry,
		ir.KindGatherND:        gatherNDEntry,
		ir.KindScatterElements: scatterElementsEntry,
		ir.KindScatterND:       scatterNDEntry,
		ir.KindOneHot:          oneHotEntry,

		ir.KindReduce:    withHalf(reduceEntry),
		ir.KindArgReduce: argReduceEntry,
		ir.KindSoftmax:   d.halfByTiles(softmaxEntry, func(n *ir.Node) int { return n.Op.(ir.Softmax).Axis }),
		ir.KindCumSum:    cumSumEntry,

		ir.KindRange: rangeEntry,

		ir.KindMatMul: d.links[ir.KindMatMul],
		ir.KindChain:  d.chainEntry(),
		ir.KindConv:   d.links[ir.KindConv],
		ir.KindLayerNorm: d.halfByTiles(layerNormEntry, func(n *ir.Node) int {
			return len(n.Outputs[0].Type.Shape) - n.Op.(ir.LayerNorm).Axes
		}),
		ir.KindAttention:    d.halfAttentionEntry(),
		ir.KindRotary:       rotaryEntry,
		ir.KindEmbedding:    embeddingEntry,
		ir.KindSumSequences: sumSequencesEntry,

		ir.KindQuantize:        quantizeEntry,
		ir.KindDequantize:      dequantizeEntry,
		ir.KindDynamicQuantize: dynamicQuantizeEntry,
		ir.KindQMatMul:         d.qMatMulEntry(),
		ir.KindQConv:           d.qConvEntry(),
		ir.KindQAttention:      d.qAttentionEntry(),
		ir.KindQLayerNorm:      d.qLayerNormEntry(),
		ir.KindQEmbedding:      d.qEmbeddingEntry(),
		ir.KindMatMulNBits:     d.matMulNBitsEntry(mostTiles),

		ir.KindActCopy: copyEntry,

		ops.RNN{}.Kind():                    recurrent,
		ops.GRU{}.Kind():                    recurrent,
		ops.LSTM{}.Kind():                   recurrent,
		ops.DynamicQuantizeLSTM{}.Kind():    recurrent,
		ops.Resize{}.Kind():                 withHalf(d.resizeEntry()),
		ops.AveragePool{}.Kind():            withHalf(d.averagePoolEntry()),
		ops.MaxPool{}.Kind():                withHalf(d.maxPoolEntry()),
		ops.DFT{}.Kind():                    d.dftEntry(),
		ops.STFT{}.Kind():                   d.stftEntry(),
		ops.LpPool{}.Kind():                 withHalf(d.lpPoolEntry()),
		ops.LRN{}.Kind():                    withHalf(lrnEntry),
		ops.GridSample{}.Kind():             withHalf(gridSampleEntry),
		ops.TopK{}.Kind():                   d.topKEntry(),
		ops.TreeEnsemble{}.Kind():           forestEntry,
		ops.TreeEnsembleClassifier{}.Kind(): forestEntry,
		ops.TreeEnsembleRegressor{}.Kind():  forestEntry,
	}
}
