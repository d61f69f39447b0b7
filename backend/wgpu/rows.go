package wgpu

import (
	"github.com/rlxc/rlxc/internal/target"
	"github.com/rlxc/rlxc/ir"
)

// A row says how the device runs an op: what the passes before planning need to know, and how a node becomes launches.
type row struct {
	target.Row
	// bind makes the launches of a bound node, or returns errOnHost; nil where Runs is not OnKernel.
	bind func(b *binder, n *ir.Node) ([]launch, error)
	// pieces reports whether operand i may be a constant above the largest binding.
	pieces func(i int) bool
}

var (
	onHost = row{Row: target.Row{Runs: target.OnHost}}
	asView = row{Row: target.Row{Runs: target.AsView}}
)

// table is the list of kernels. An op without a row fails when a device is opened.
func (d *Device) table() [ir.NumKinds]row {
	return [ir.NumKinds]row{
		ir.KindUnary:  elementwiseRow,
		ir.KindBinary: elementwiseRow,
		ir.KindWhere:  elementwiseRow,
		ir.KindCast:   elementwiseRow,
		ir.KindClip:   elementwiseRow,
		ir.KindMap:    elementwiseRow,

		ir.KindReshape:     asView,
		ir.KindTranspose:   asView,
		ir.KindSlice:       asView,
		ir.KindExpand:      asView,
		ir.KindCopy:        copyRow,
		ir.KindMaterialize: onHost,
		ir.KindConcat:      concatRow,
		ir.KindAppend:      onHost, // rewritten: see rewrite/append.go
		ir.KindPad:         padRow,
		ir.KindTile:        tileRow,
		ir.KindTrilu:       triluRow,

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

		ir.KindDims:  onHost,
		ir.KindRange: onHost,

		ir.KindMatMul:    withHalf(d.matMulRow()),
		ir.KindLayerNorm: withHalf(layerNormRow),
		ir.KindAttention: withHalf(d.attentionRow()),
		ir.KindRotary:    withHalf(rotaryRow),
		ir.KindEmbedding: withHalf(embeddingRow),
		ir.KindSumRows:   sumRowsRow,
		ir.KindConv:      withHalf(d.convRow()),

		ir.KindQuantize:        quantizeRow,
		ir.KindDequantize:      dequantizeRow,
		ir.KindDynamicQuantize: dynamicQuantizeRow,
		ir.KindQMatMul:         qMatMulRow,
		ir.KindQConv:           onHost, // rewritten as products: see rewrite/conv.go
		ir.KindQAttention:      onHost,
		ir.KindQLayerNorm:      onHost,
		ir.KindQEmbedding:      onHost,
		ir.KindMatMulNBits:     withHalf(d.matMulNBitsRow()),

		ir.KindActCopy: copyRow,
		ir.KindKept:    keptRow,
		ir.KindDynamic: onHost,
		ir.KindCustom:  customRow,
	}
}
