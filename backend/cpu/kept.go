package cpu

import (
	"github.com/rlxc/rlxc/ir"
	"github.com/rlxc/rlxc/target"
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
		Row: target.Row{
			Runs: target.OnKernel,
			Supports: func(n *ir.Node) bool {
				r := of(n)
				return r.bind != nil && (r.Supports == nil || r.Supports(n))
			},
			Strided: func(n *ir.Node, i int, strides []int) bool {
				r := of(n)
				return r.Strided != nil && r.Strided(n, i, strides)
			},
			InPlace: func(n *ir.Node, i int) bool {
				r := of(n)
				return r.InPlace != nil && r.InPlace(n, i)
			},
			TakesStored: func(n *ir.Node, i int) bool {
				r := of(n)
				return r.TakesStored != nil && r.TakesStored(n, i)
			},
			Scratch: func(n *ir.Node) []int64 {
				if r := of(n); r.Scratch != nil {
					return r.Scratch(n)
				}
				return nil
			},
		},
		bind: func(b *binder, n *ir.Node) (step, error) { return of(n).bind(b, n) },
	}
}
