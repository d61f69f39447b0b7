package cpu

import (
	"github.com/rlxc/rlxc/internal/target"
	"github.com/rlxc/rlxc/ir"
)

// keptRow is the rows of operators of package ops, by their names. Those of others run by Eval.
func (d *Device) keptRow() row {
	recurrent := d.recurrentRow()
	rows := map[string]row{
		"onnx.RNN":                 recurrent,
		"onnx.GRU":                 recurrent,
		"onnx.LSTM":                recurrent,
		"onnx.DynamicQuantizeLSTM": recurrent,
		"onnx.Resize":              withHalf(d.resizeRow()),
		"onnx.AveragePool":         withHalf(d.averagePoolRow()),
		"onnx.MaxPool":             withHalf(d.maxPoolRow()),
		"onnx.DFT":                 d.dftRow(),
		"onnx.STFT":                d.stftRow(),
		"onnx.LpPool":              withHalf(d.lpPoolRow()),
		"onnx.LRN":                 withHalf(lrnRow),
		"onnx.GridSample":          withHalf(gridSampleRow),
		"onnx.TopK":                d.topKRow(),

		"ai.onnx.ml.TreeEnsemble":           forestRow,
		"ai.onnx.ml.TreeEnsembleClassifier": forestRow,
		"ai.onnx.ml.TreeEnsembleRegressor":  forestRow,
	}
	of := func(n *ir.Node) row { return rows[ir.OpName(n.Op)] }
	return row{
		Row:  target.Choose(func(n *ir.Node) target.Row { return of(n).Row }),
		bind: func(b *binder, n *ir.Node) (step, error) { return of(n).bind(b, n) },
	}
}
