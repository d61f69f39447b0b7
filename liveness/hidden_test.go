package liveness

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rlxc/rlxc/ir"
)

// neitherAddNorNorm are the ops that hold no Add and no LayerNorm of the model. A new op needs a row in sums or a place here.
var neitherAddNorNorm = [ir.NumKinds]bool{
	ir.KindUnary: true, ir.KindWhere: true, ir.KindCast: true, ir.KindClip: true,
	ir.KindReshape: true, ir.KindTranspose: true, ir.KindSlice: true, ir.KindExpand: true, ir.KindCopy: true, ir.KindMaterialize: true,
	ir.KindConcat: true, ir.KindAppend: true, ir.KindPad: true, ir.KindTile: true, ir.KindTrilu: true,
	ir.KindGather: true, ir.KindGatherElements: true, ir.KindGatherND: true, ir.KindScatterElements: true, ir.KindScatterND: true, ir.KindOneHot: true,
	ir.KindReduce: true, ir.KindArgReduce: true, ir.KindSoftmax: true, ir.KindCumSum: true, ir.KindDims: true, ir.KindRange: true,
	ir.KindAttention: true, ir.KindQAttention: true, ir.KindRotary: true, ir.KindSumRows: true, // the sums inside attention were never values of an encoder's hidden size
	ir.KindQuantize: true, ir.KindDequantize: true, ir.KindDynamicQuantize: true,
	ir.KindActCopy: true, ir.KindKept: true, ir.KindDynamic: true, ir.KindCustom: true,
}

func TestEveryOpSaysWhetherItHoldsASum(t *testing.T) {
	for k := ir.KindInvalid + 1; k < ir.NumKinds; k++ {
		require.NotEqual(t, sums[k] != nil, neitherAddNorNorm[k], "%s", k)
	}
}
