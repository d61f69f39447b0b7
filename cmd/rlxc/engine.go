package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"os"

	"github.com/spf13/cobra"

	"github.com/rlxc/rlxc"
	"github.com/rlxc/rlxc/internal/inside"
	"github.com/rlxc/rlxc/internal/onnxruntime"
	"github.com/rlxc/rlxc/ir"
	"github.com/rlxc/rlxc/tensor"
)

// An engine is a loaded model that runs: in rlxc or in onnxruntime.
type engine interface {
	Inputs() []rlxc.ValueInfo
	Outputs() []rlxc.ValueInfo
	runner // Run returns tensors that hold until the next run
}

// referenceLevels are the settings of -O in onnxruntime.
var referenceLevels = map[rlxc.Level]onnxruntime.Level{rlxc.O0: onnxruntime.None, rlxc.O1: onnxruntime.Basic, rlxc.O2: onnxruntime.All}

// load opens a model in the engine that the flags name.
func (o *modelFlags) load(ctx context.Context, s *source) (engine, error) {
	if o.Backend == onnxRuntime {
		if lower := max(o.Precision, tensor.F32) != tensor.F32 || max(o.Weights, tensor.F32) != tensor.F32; lower || o.Device != "" {
			return nil, usagef("--precision, --weights and --device do not apply to onnxruntime, which runs the model unchanged on the CPU")
		}
		taps, err := o.ortTaps(ctx, s)
		if err != nil {
			return nil, err
		}
		return o.loadReference(s, referenceLevels[o.Level], taps)
	}
	return o.loadOwn(ctx, s, false)
}

// An own engine is rlxc itself.
type own struct {
	*rlxc.Session
	program *rlxc.Program
	model   *rlxc.Model
}

// loadOwn compiles a model; with taps, every intermediate value that survives is an output.
func (o *modelFlags) loadOwn(ctx context.Context, s *source, taps bool) (*own, error) {
	opts := o.CompileOptions
	if taps {
		opts.Taps = append(opts.Taps, rlxc.AllValues)
	}
	m, err := s.open()
	if err != nil {
		return nil, err
	}
	p, err := m.Compile(ctx, opts)
	if err != nil {
		m.Close()
		return nil, err
	}
	warnRepacked(s.name, p)
	session, err := p.NewSession()
	if err != nil {
		p.Close()
		m.Close()
		return nil, err
	}
	return &own{session, p, m}, nil
}

// warn prints what the model's file contradicts, beside the results of what runs it.
func warn(c *cobra.Command, e engine) {
	if self, ok := e.(*own); ok {
		printWarnings(c.ErrOrStderr(), self.model.Warnings())
	}
}

// warnRepacked warns if a compiled file holds weights for another device.
func warnRepacked(name string, p *rlxc.Program) {
	if st := p.Stats(); st.PackedFor != "" {
		fmt.Fprintf(&printer{to: os.Stderr}, "rlxc: %s has no weights for this processor and these flags, and %d of %s were packed "+
			"again; to avoid this, compile the model on this machine with these flags, or name its level in --cpu\n",
			name, st.Packed, st.PackedFor)
	}
}

func (e *own) Inputs() []rlxc.ValueInfo  { return e.program.Inputs() }
func (e *own) Outputs() []rlxc.ValueInfo { return e.program.Outputs() }
func (e *own) Close() error {
	return errors.Join(e.Session.Close(), e.program.Close(), e.model.Close())
}

// Run runs the session. It fails if a file that the program reads weights from was changed: then the outputs are those of no model.
func (e *own) Run(ctx context.Context, in rlxc.Tensors) (rlxc.Tensors, error) {
	out, err := e.Session.Run(ctx, in)
	if err = intact(e.program, err); err != nil {
		return nil, err
	}
	return out, nil
}

// intact returns err, the error of a run of tensors, or the error of a file that the program reads weights from if the file was changed
// meanwhile: a changed file makes other numbers, or NaN. Package pipeline checks the files after its own runs, those of texts.
func intact(p *rlxc.Program, err error) error { return cmp.Or(p.CheckFiles(), err) }

// again prepares repetitions of a run that returned out: they copy no cache of a decoder. The cache stays with the device, each run
// appends to it, and what it appended is taken back. close ends that. run checks no files,
// because its time is measured: callers call intact after the last run.
func (e *own) again(ctx context.Context, in, out rlxc.Tensors) (run, close func() error, err error) {
	in = maps.Clone(in)
	cache, err := inside.Session(e.Session).HoldCache(in, out)
	if err != nil {
		return nil, nil, err
	}
	run = func() error {
		_, err := e.Session.Run(ctx, in)
		return errors.Join(err, cache.Rewind())
	}
	if cache.Len() > 0 {
		err = run() // plans again
	}
	return run, cache.Close, err
}

// An ortEngine is onnxruntime.
type ortEngine struct{ *onnxruntime.Session }

// compiledError reports that onnxruntime cannot read a compiled file.
func compiledError(s *source) error {
	return usagef("%s is a compiled file, which onnxruntime cannot read: use the .onnx file that it was made from, or add --reference "+
		"FILE", s.name)
}

// referenceOptions returns how onnxruntime opens a model.
func (o *modelFlags) referenceOptions(s *source, level onnxruntime.Level, taps []onnxruntime.Tap) onnxruntime.Options {
	return onnxruntime.Options{Library: o.library, Threads: o.Threads, Level: level, Taps: taps, Overridable: s.overridable}
}

func (o *modelFlags) loadReference(s *source, level onnxruntime.Level, taps []onnxruntime.Tap) (*ortEngine, error) {
	if s.compiled() {
		return nil, compiledError(s)
	}
	opts := o.referenceOptions(s, level, taps)
	if s.path != "" {
		r, err := onnxruntime.Open(s.path, opts)
		return &ortEngine{r}, err
	}
	m, err := s.openFile()
	if err != nil {
		return nil, err
	}
	defer m.Close()
	r, err := onnxruntime.New(m, opts)
	return &ortEngine{r}, err
}

// ortTaps returns the tapped values as onnxruntime wants them, which needs their types: those that rlxc finds.
func (o *modelFlags) ortTaps(ctx context.Context, s *source) ([]onnxruntime.Tap, error) {
	if len(o.Taps) == 0 {
		return nil, nil
	}
	m, err := s.open()
	if err != nil {
		return nil, err
	}
	defer m.Close()
	p, err := m.Compile(ctx, rlxc.CompileOptions{Level: rlxc.O0, Taps: o.Taps})
	if err != nil {
		return nil, err
	}
	defer p.Close()
	var taps []onnxruntime.Tap
	for _, v := range p.Outputs()[len(m.Outputs()):] {
		taps = append(taps, onnxruntime.Tap{Name: v.Name, DType: v.DType})
	}
	return taps, nil
}

func (e *ortEngine) Inputs() []rlxc.ValueInfo  { return infos(e.Session.Inputs()) }
func (e *ortEngine) Outputs() []rlxc.ValueInfo { return infos(e.Session.Outputs()) }
func (e *ortEngine) Run(ctx context.Context, in rlxc.Tensors) (rlxc.Tensors, error) {
	out, err := e.Session.Run(ctx, in)
	return out, err
}

func infos(list []onnxruntime.ValueInfo) []rlxc.ValueInfo {
	out := make([]rlxc.ValueInfo, len(list))
	for i, v := range list {
		out[i] = rlxc.ValueInfo{Name: v.Name, DType: v.DType, Shape: v.Shape, Default: v.Default}
	}
	return out
}

// An oracle is the reference implementation of every operator, one after the other: slow and plain.
type oracle struct {
	graph *ir.Graph
	model *rlxc.Model // owns the graph's weights
}

func (e *oracle) Close() error { return e.model.Close() }

func (e *oracle) Run(_ context.Context, in rlxc.Tensors) (rlxc.Tensors, error) {
	inputs := make([]*tensor.Tensor, len(e.graph.Inputs))
	for i, v := range e.graph.Inputs {
		if inputs[i] = in[v.Name]; inputs[i] == nil {
			inputs[i] = v.Default
		}
	}
	values, err := ir.Interpret(e.graph, inputs)
	if err != nil {
		return nil, err
	}
	out := rlxc.Tensors{}
	for i, name := range e.graph.OutputNames {
		out[name] = values[i]
	}
	return out, nil
}
