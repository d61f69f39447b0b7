package cuda

import (
	"github.com/rlxc/rlxc/internal/gpu"
	"github.com/rlxc/rlxc/internal/ops"
	"github.com/rlxc/rlxc/ir"
)

// The kernel table of the backend.
type (
	entry = gpu.Entry[*binder, operand, *launch]
	table = gpu.Table[*binder, operand, *launch]
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
		ir.KindReduce: reduceEntry, ir.KindArgReduce: argReduceEntry, ir.KindSoftmax: softmaxEntry, ir.KindCumSum: cumSumEntry,
		ir.KindMatMul: d.matMulEntry(), ir.KindLayerNorm: layerNormEntry, ir.KindAttention: d.attentionEntry(),
		ir.KindRotary: rotaryEntry, ir.KindEmbedding: embeddingEntry, ir.KindSumSequences: sumSequencesEntry, ir.KindConv: d.convEntry(),
		ir.KindQuantize: quantizeEntry, ir.KindDequantize: dequantizeEntry, ir.KindDynamicQuantize: dynamicQuantizeEntry,
		ir.KindQMatMul: qMatMulEntry, ir.KindMatMulNBits: d.matMulNBitsEntry(),
		ir.KindActCopy: copyEntry, ir.KindCustom: customEntry,
		ops.AveragePool{}.Kind(): poolEntry, ops.LpPool{}.Kind(): poolEntry, ops.MaxPool{}.Kind(): poolEntry,
		ops.Resize{}.Kind(): resizeEntry, ops.GridSample{}.Kind(): gridSampleEntry, ops.TopK{}.Kind(): topKEntry,
	}
}
