// Package frontend opens models of either kind: ONNX models, which it translates, and compiled files.
package frontend

import (
	"errors"
	"fmt"
	"io"
	"runtime/debug"

	"github.com/rlxc/rlxc/internal/artifact"
	"github.com/rlxc/rlxc/internal/engine"
	"github.com/rlxc/rlxc/internal/files"
	"github.com/rlxc/rlxc/internal/source"
	"github.com/rlxc/rlxc/ir"
	"github.com/rlxc/rlxc/lower"
	"github.com/rlxc/rlxc/onnx"
	"github.com/rlxc/rlxc/onnx/onnxpb"
)

// ONNX is an ONNX model.
type ONNX struct {
	*onnx.Model
	options lower.Options
}

// Retain implements engine.Source.
func (s ONNX) Retain() { s.Model.Retain() }

// Compiled implements engine.Source.
func (s ONNX) Compiled() *artifact.Info { return nil }

// Graph implements engine.Source.
func (s ONNX) Graph() (_ *ir.Graph, err error) {
	defer engine.Guard(&err, debug.SetPanicOnFault(true))
	g, err := s.options.Model(s.Model.Proto)
	return g, withKind(err)
}

// Overridable implements engine.Overridable.
func (s ONNX) Overridable() []*ir.Value { return lower.Overridable(s.Model.Proto) }

// With returns the model with independent sizes, or with overridable inputs: see lower.Options. A compiled file was proven and rewritten
// by the names of sizes and the constants that it has, and takes no others.
func With(s engine.Source, independent bool, overridable []string) (engine.Source, error) {
	if !independent && len(overridable) == 0 {
		return s, nil
	}
	m, ok := s.(ONNX)
	switch {
	case !ok && independent:
		return nil, engine.WithKind(engine.ErrInput,
			errors.New("a compiled file keeps the names of its sizes: compile the model again with independent sizes"))
	case !ok:
		return nil, engine.WithKind(engine.ErrInput,
			errors.New("a compiled file keeps its constants: compile the model again with overridable inputs"))
	}
	m.options.Independent, m.options.Overridable = independent, overridable
	return m, nil
}

// Open opens a model file of either kind in a system of files.
func Open(system files.System, path string, ops []*ir.OpDef) (_ engine.Source, err error) {
	defer engine.Guard(&err, debug.SetPanicOnFault(true))
	if info, err := system.Stat(path); err == nil && info.IsDir() {
		return nil, fmt.Errorf("%s is a folder; name the .onnx file in it", path)
	}
	m, err := system.Map(path)
	if err != nil {
		return nil, err
	}
	return either(m, path, ops, func() (*onnx.Model, error) { return onnx.FromMapping(m, system, path) })
}

// Read reads a model of either kind, of size bytes.
func Read(r io.ReaderAt, size int64, name string, ops []*ir.OpDef) (_ engine.Source, err error) {
	defer engine.Guard(&err, debug.SetPanicOnFault(true))
	data, err := onnx.ReadAll(r, size, name)
	if err != nil {
		return nil, err
	}
	return either(files.InMemory(data), name, ops, func() (*onnx.Model, error) { return onnx.FromBytes(data, name) })
}

// either opens a compiled file, or else an ONNX model.
func either(m *files.Mapping, name string, ops []*ir.OpDef, open func() (*onnx.Model, error)) (engine.Source, error) {
	s, err := source.FromMapping(m, name, ops, lower.NewDeferred)
	switch {
	case err == nil:
		return s, nil
	case !errors.Is(err, source.ErrNotCompiled):
		m.Close()
		return nil, err
	}
	f, err := open()
	return model(f, ops, err)
}

// FromProto takes over an ONNX model that was built in memory.
func FromProto(p *onnxpb.ModelProto, name string, ops []*ir.OpDef) (_ engine.Source, err error) {
	defer engine.Guard(&err, debug.SetPanicOnFault(true))
	f, err := onnx.New(p, name)
	return model(f, ops, err)
}

func model(f *onnx.Model, ops []*ir.OpDef, err error) (engine.Source, error) {
	if err != nil {
		return nil, withKind(err)
	}
	return ONNX{Model: f, options: lower.Options{Custom: ops}}, nil
}

// withKind finds the kind of what reading and lowering report.
func withKind(err error) error {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, lower.ErrOverridable):
		return engine.WithKind(engine.ErrInput, err)
	case errors.Is(err, lower.ErrUnsupported):
		return engine.WithKind(engine.ErrUnsupportedOp, err)
	case errors.Is(err, onnx.ErrInvalid), errors.Is(err, lower.ErrInvalid):
		return engine.WithKind(engine.ErrInvalidModel, err)
	}
	return err
}
