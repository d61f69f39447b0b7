package wgpu

import (
	"github.com/rlxc/rlxc/internal/target"
	"github.com/rlxc/rlxc/ir"
)

// keptRows are the kernels of operators of package ops, by their names. The others run by Eval.
var keptRows = map[string]row{
	"onnx.AveragePool": withHalf(averagePoolRow),
	"onnx.LpPool":      withHalf(lpPoolRow),
	"onnx.MaxPool":     withHalf(maxPoolRow),
	"onnx.Resize":      withHalf(resizeRow),
	"onnx.GridSample":  withHalf(gridSampleRow),
	"onnx.TopK":        withHalf(topKRow),
	"onnx.RNN":         withHalf(recurrentRow),
	"onnx.GRU":         withHalf(recurrentRow),
	"onnx.LSTM":        withHalf(recurrentRow),
}

var keptRow = row{
	Row: target.Choose(func(n *ir.Node) target.Row { return keptRows[ir.OpName(n.Op)].Row }),
	bind: func(b *binder, n *ir.Node) ([]launch, error) {
		return keptRows[ir.OpName(n.Op)].bind(b, n)
	},
}
