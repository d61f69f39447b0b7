package cuda

import (
	"github.com/rlxc/rlxc/internal/gpu"
	"github.com/rlxc/rlxc/internal/ops"
	"github.com/rlxc/rlxc/internal/target"
	"github.com/rlxc/rlxc/ir"
)

// A row says how the device runs an op: what the passes before planning need to know, and how a node becomes launches.
type row struct {
	target.Row
	// bind makes the launches of a bound node, or returns errOnHost; nil where Runs is not OnKernel.
	bind func(b *binder, n *ir.Node) ([]*launch, error)
}

// errOnHost is what a row's bind returns when its kernel does not take these sizes: the node then runs on the host.
var errOnHost = gpu.ErrOnHost

// table is the list of kernels. An op without a row runs on the host.
func (d *Device) table() map[ir.Kind]row {
	return map[ir.Kind]row{
		ir.KindUnary:  elementwiseRow,
		ir.KindBinary: elementwiseRow,
		ir.KindWhere:  elementwiseRow,
		ir.KindCast:   elementwiseRow,
		ir.KindClip:   elementwiseRow,
		ir.KindMap:    elementwiseRow,

		ir.KindCopy:   copyRow,
		ir.KindConcat: concatRow,
		ir.KindPad:    padRow,
		ir.KindTile:   tileRow,
		ir.KindTrilu:  triluRow,

		ir.KindGather:          gatherRow,
		ir.KindGatherElements:  gatherElementsRow,
		ir.KindGatherND:        gatherNDRow,
		ir.KindScatterElements: scatterElementsRow,
		ir.KindScatterND:       scatterNDRow,
		ir.KindOneHot:          oneHotRow,

		ir.KindReduce:    reduceRow,
		ir.KindArgReduce: argReduceRow,
		ir.KindSoftmax:   softmaxRow,
		ir.KindCumSum:    cumSumRow,

		ir.KindMatMul:    d.matMulRow(),
		ir.KindLayerNorm: layerNormRow,
		ir.KindAttention: d.attentionRow(),
		ir.KindRotary:    rotaryRow,
		ir.KindEmbedding: embeddingRow,
		ir.KindSumRows:   sumRowsRow,
		ir.KindConv:      d.convRow(),

		ir.KindQuantize:        quantizeRow,
		ir.KindDequantize:      dequantizeRow,
		ir.KindDynamicQuantize: dynamicQuantizeRow,
		ir.KindQMatMul:         qMatMulRow,
		ir.KindMatMulNBits:     d.matMulNBitsRow(),

		ir.KindActCopy: copyRow,
		ir.KindCustom:  customRow,

		ops.AveragePool{}.Kind(): averagePoolRow,
		ops.LpPool{}.Kind():      lpPoolRow,
		ops.MaxPool{}.Kind():     maxPoolRow,
		ops.Resize{}.Kind():      resizeRow,
		ops.GridSample{}.Kind():  gridSampleRow,
		ops.TopK{}.Kind():        topKRow,
	}
}
