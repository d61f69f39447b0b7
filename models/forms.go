package models

import (
	"fmt"
	"math"

	"github.com/rlxc/rlxc/ir"
	"github.com/rlxc/rlxc/lower"
	"github.com/rlxc/rlxc/onnx"
	"github.com/rlxc/rlxc/onnx/onnxpb"
	"github.com/rlxc/rlxc/quantize"
	"github.com/rlxc/rlxc/tensor"
)

// quantised are the forms that package quantize writes.
var quantised = map[Form]quantize.Form{Int8: quantize.Dynamic, QDQ: quantize.QDQ, Int4: quantize.Int4}

// quantise writes a model in another form.
func quantise(p *onnxpb.ModelProto, c Config, form quantize.Form) (*onnxpb.ModelProto, error) {
	var ranges quantize.Ranges
	if form == quantize.QDQ {
		var err error
		if ranges, err = calibrate(p, c); err != nil {
			return nil, err
		}
	}
	p, _, err := quantize.Model(p, form, ranges)
	return p, err
}

// calibrate finds the ranges of activations by interpreting the model for a few made-up rows, which is slow and the same
// everywhere but for the last bits: ranges are widened to whole steps, so that equal configurations give equal bytes.
func calibrate(p *onnxpb.ModelProto, c Config) (quantize.Ranges, error) {
	names, err := quantize.Activations(p)
	if err != nil {
		return nil, err
	}
	if _, err := onnx.New(p, "model"); err != nil { // sorts and checks
		return nil, err
	}
	g, err := lower.Model(p)
	if err != nil {
		return nil, err
	}
	values := map[string]*ir.Value{}
	for _, n := range g.Nodes {
		for _, v := range n.Outputs {
			values[v.Name] = v
		}
	}
	g.Outputs = nil
	for _, name := range names {
		if values[name] == nil {
			return nil, fmt.Errorf("the model computes no %q", name)
		}
		g.Outputs = append(g.Outputs, values[name])
	}
	const rows = 16
	seq := min(4, c.Positions)
	ids, mask, types := tensor.New(tensor.I64, rows, seq), tensor.New(tensor.I64, rows, seq), tensor.New(tensor.I64, rows, seq)
	for i := range ids.Len() {
		ids.SetInt64(i, int64(i*i*7919%c.Vocabulary))
		mask.SetInt64(i, 1)
		types.SetInt64(i, int64(i%c.Types))
	}
	out, err := ir.Interpret(g, []*tensor.Tensor{ids, mask, types})
	if err != nil {
		return nil, err
	}
	var seen quantize.Calibrator
	for i, name := range names {
		if err := seen.Add(name, out[i]); err != nil {
			return nil, err
		}
	}
	ranges := seen.Ranges()
	for name, r := range ranges {
		const step = 1. / 16
		ranges[name] = quantize.Range{
			Low:  float32(math.Floor(float64(r.Low)/step) * step),
			High: float32(math.Ceil(float64(r.High)/step) * step),
		}
	}
	return ranges, nil
}
