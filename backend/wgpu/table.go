package wgpu

import (
	"github.com/rlxc/rlxc/internal/gpu"
	"github.com/rlxc/rlxc/internal/ops"
	"github.com/rlxc/rlxc/ir"
)

// The kernel table of the backend.
type (
	entry = gpu.Entry[*binder, operand, launch]
	table = gpu.Table[*binder, operand, launch]
)

// errOnHost is what Bind returns if its kernel does not take these sizes.
var errOnHost = gpu.ErrOnHost

func kernelTable(d *Device) table {
	return table{
		ir.KindUnary: elementwiseEntry, ir.KindBinary: elementwiseEntry, ir.KindWhere: elementwiseEntry, ir.KindCast: elementwiseEntry,
		ir.KindClip: elementwiseEntry, ir.KindMap: elementwiseEntry,
		ir.KindCopy: copyEntry, ir.KindConcat: concatEntry, ir.KindPad: padEntry, ir.KindTile: tileEntry, ir.KindTrilu: triluEntry,
		ir.KindGather: gatherEntry, ir.KindGatherElements: gatherElementsEntry, ir.KindGatherND: gatherNDEntry,
		ir.KindScatterElements: scatterEntry, ir.KindScatterND: scatterEntry, ir.KindUnpack: unpackEntry, ir.KindOneHot: oneHotEntry,
		ir.KindReduce: withHalf(reduceEntry), ir.KindArgReduce: argReduceEntry, ir.KindSoftmax: withHalf(softmaxEntry),
		ir.KindCumSum: cumSumEntry,
		ir.KindMatMul: withHalf(d.matMulEntry()), ir.KindLayerNorm: withHalf(layerNormEntry),
		ir.KindAttention: withHalf(d.attentionEntry()), ir.KindRotary: withHalf(rotaryEntry), ir.KindEmbedding: withHalf(embeddingEntry),
		ir.KindSumSequences: sumSequencesEntry, ir.KindConv: withHalf(d.convEntry()),
		ir.KindQuantize: quantizeEntry, ir.KindDequantize: dequantizeEntry, ir.KindDynamicQuantize: dynamicQuantizeEntry,
		ir.KindQMatMul: qMatMulEntry, ir.KindMatMulNBits: withHalf(d.matMulNBitsEntry()),
		ir.KindActCopy: copyEntry, ir.KindCustom: customEntry,
		ops.AveragePool{}.Kind(): withHalf(poolEntry), ops.LpPool{}.Kind(): withHalf(poolEntry),
		ops.MaxPool{}.Kind(): withHalf(poolEntry), ops.Resize{}.Kind(): withHalf(resizeEntry),
		ops.GridSample{}.Kind(): withHalf(gridSampleEntry), ops.TopK{}.Kind(): withHalf(topKEntry),
		ops.RNN{}.Kind(): withHalf(recurrentEntry), ops.GRU{}.Kind(): withHalf(recurrentEntry),
		ops.LSTM{}.Kind(): withHalf(recurrentEntry),
	}
}
