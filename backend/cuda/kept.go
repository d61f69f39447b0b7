package cuda

import (
	"github.com/rlxc/rlxc/internal/target"
	"github.com/rlxc/rlxc/ir"
)

// keptRows are the kernels of operators of package ops, by their names. The others run by Eval.
var keptRows = map[string]row{
	"onnx.AveragePool": averagePoolRow,
	"onnx.LpPool":      lpPoolRow,
	"onnx.MaxPool":     maxPoolRow,
	"onnx.Resize":      resizeRow,
	"onnx.GridSample":  gridSampleRow,
	"onnx.TopK":        topKRow,
}

var keptRow = row{
	Row: target.Choose(func(n *ir.Node) target.Row { return keptRows[ir.OpName(n.Op)].Row }),
	bind: func(b *binder, n *ir.Node) ([]*launch, error) {
		return keptRows[ir.OpName(n.Op)].bind(b, n)
	},
}
