package rlxc

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"

	"google.golang.org/protobuf/proto"

	"github.com/rlxc/rlxc/internal/engine"
	"github.com/rlxc/rlxc/onnx/onnxpb"
	"github.com/rlxc/rlxc/quantize"
)

// QuantizeOptions are the options of Model.Quantize.
type QuantizeOptions struct {
	// Form is which operators express the quantised products.
	Form quantize.Form
	// Calibration holds typical inputs, from which quantize.QDQ measures the ranges of activations. A few dozen runs are enough. Other
	// forms need none.
	Calibration []Tensors
}

// Quantize returns the model with 8-bit or 4-bit weights, as an ONNX ModelProto, and a report on each product. FromProto opens the
// result. Its bytes (proto.Marshal) are a file that other engines read too. Tensors that are not quantised still belong to m, which must
// stay open.
//
// It fails with ErrInvalidModel, ErrInput (no calibration for quantize.QDQ), ErrFileChanged, ErrClosed, or as Compile and Run do.
func (m *Model) Quantize(ctx context.Context, o QuantizeOptions) (_ proto.Message, _ *quantize.Report, err error) {
	defer engine.Guard(&err, debug.SetPanicOnFault(true)) // weights are read where they are
	done, err := m.use()
	if err != nil {
		return nil, nil, err
	}
	defer done()
	p := m.proto()
	if p == nil {
		return nil, nil, engine.WithKind(ErrInvalidModel,
			fmt.Errorf("%s is a compiled file: quantise the .onnx file that it was made from", m.Name()))
	}
	var ranges quantize.Ranges
	if o.Form == quantize.QDQ {
		if ranges, err = m.calibrate(ctx, p, o.Calibration); err != nil {
			return nil, nil, err
		}
	}
	out, report, err := quantize.Model(p, o.Form, ranges)
	if changed := engine.Unchanged(m.file); changed != nil {
		return nil, nil, changed
	}
	if err != nil {
		return nil, nil, engine.WithKind(ErrInvalidModel, fmt.Errorf("%s: %w", m.Name(), err))
	}
	return out, report, nil
}

// calibrate runs the model and observes the activations of its products.
func (m *Model) calibrate(ctx context.Context, p *onnxpb.ModelProto, runs []Tensors) (quantize.Ranges, error) {
	if len(runs) == 0 {
		return nil, engine.WithKind(ErrInput,
			errors.New("quantize.QDQ needs calibration: typical inputs, from which it learns the ranges of activations"))
	}
	all, err := quantize.Activations(p)
	if err != nil {
		return nil, engine.WithKind(ErrInvalidModel, fmt.Errorf("%s: %w", m.Name(), err))
	}
	g, err := m.inspect()
	if err != nil {
		return nil, err
	}
	var names []string
	for _, name := range all {
		if engine.FindValue(g, name) != nil { // one that is a constant in disguise has no range
			names = append(names, name)
		}
	}
	program, err := m.Compile(ctx, CompileOptions{Taps: names})
	if err != nil {
		return nil, err
	}
	defer program.Close()
	s, err := program.NewSession()
	if err != nil {
		return nil, err
	}
	defer s.Close()
	var seen quantize.Calibrator
	for i, in := range runs {
		out, err := s.Run(ctx, in)
		if err != nil {
			return nil, fmt.Errorf("calibration run %d: %w", i, err)
		}
		for _, name := range names {
			if err := seen.Add(name, out[name]); err != nil {
				return nil, engine.WithKind(ErrInput, fmt.Errorf("calibration run %d: %w", i, err))
			}
		}
	}
	return seen.Ranges(), nil
}
