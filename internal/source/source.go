// Package source opens what programs are made of: ONNX models and compiled files. The engine knows neither.
package source

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"runtime/debug"
	"slices"

	"github.com/rlxc/rlxc/artifact"
	"github.com/rlxc/rlxc/internal/engine"
	"github.com/rlxc/rlxc/ir"
	"github.com/rlxc/rlxc/lower"
	"github.com/rlxc/rlxc/onnx"
	"github.com/rlxc/rlxc/onnx/onnxpb"
	"github.com/rlxc/rlxc/tensor"
)

// ONNX is an ONNX model. It implements engine.Source.
type ONNX struct {
	*onnx.Model
	ops []*ir.OpDef
}

// Retain implements engine.Source.
func (s ONNX) Retain() { s.Model.Retain() }

// Compiled implements engine.Source.
func (s ONNX) Compiled() *artifact.Info { return nil }

// Graph implements engine.Source.
func (s ONNX) Graph() (_ *ir.Graph, err error) {
	defer engine.Guard(&err, debug.SetPanicOnFault(true))
	g, err := lower.Model(s.Model.Proto, s.ops...)
	return g, withKind(err)
}

// Compiled is a compiled file, mapped. It implements engine.Source.
type Compiled struct {
	*tensor.Mapping
	file *artifact.File
	name string
	ops  []*ir.OpDef
}

// Name implements engine.Source.
func (s *Compiled) Name() string { return s.name }

// Compiled implements engine.Source.
func (s *Compiled) Compiled() *artifact.Info { return &s.file.Info }

// Retain implements engine.Source.
func (s *Compiled) Retain() { s.Mapping.Retain() }

// Evict implements engine.Source.
func (s *Compiled) Evict() { s.Mapping.Evict(s.Bytes()) }

// EvictPart implements engine.Source.
func (s *Compiled) EvictPart(part []byte) bool { return s.Mapping.Evict(part) }

// Verify checks the checksums of all sections, which opening the file does not.
func (s *Compiled) Verify() (err error) {
	defer engine.Guard(&err, debug.SetPanicOnFault(true))
	if err := s.file.Verify(); err != nil {
		return withKind(fmt.Errorf("%s: %w", s.name, err))
	}
	return nil
}

// Graph implements engine.Source: it decodes the program and gives users' operators their definitions.
func (s *Compiled) Graph() (*ir.Graph, error) {
	g, err := s.file.Graph()
	if err != nil {
		return nil, withKind(err)
	}
	return g, restore(g, s.ops)
}

// restore gives users' operators in a graph that was read their definitions.
func restore(g *ir.Graph, ops []*ir.OpDef) error {
	for _, n := range g.Nodes {
		if c, ok := n.Op.(ir.Custom); ok {
			i := slices.IndexFunc(ops, func(d *ir.OpDef) bool { return d.Name == c.Name })
			if i < 0 {
				return engine.WithKind(engine.ErrUnsupportedOp, fmt.Errorf("unsupported operator %s at node %s: define a custom operator of that name", c.Name, n.Label()))
			}
			c.Def = ops[i]
			n.Op = c
		}
		for _, r := range n.Regions {
			if err := restore(r, ops); err != nil {
				return err
			}
		}
	}
	return nil
}

// Open opens a model file of either kind.
func Open(path string, ops []*ir.OpDef) (_ engine.Source, err error) {
	defer engine.Guard(&err, debug.SetPanicOnFault(true))
	if s, err := openCompiled(path, ops); s != nil || err != nil {
		return s, withKind(err)
	}
	f, err := onnx.Open(path)
	return model(f, ops, err)
}

// OpenFS opens an ONNX file of a file system.
func OpenFS(fsys fs.FS, name string, ops []*ir.OpDef) (_ engine.Source, err error) {
	defer engine.Guard(&err, debug.SetPanicOnFault(true))
	f, err := onnx.OpenFS(fsys, name)
	return model(f, ops, err)
}

// Read reads an ONNX model of size bytes.
func Read(r io.ReaderAt, size int64, name string, ops []*ir.OpDef) (_ engine.Source, err error) {
	defer engine.Guard(&err, debug.SetPanicOnFault(true))
	f, err := onnx.Read(r, size, name)
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
	return ONNX{f, ops}, nil
}

// compiledExt is the extension of compiled files. Others are known by how they begin.
const compiledExt = ".rlxc"

// openCompiled opens a compiled file; nil when the file is none.
func openCompiled(path string, ops []*ir.OpDef) (engine.Source, error) {
	if info, err := os.Stat(path); err != nil || !info.Mode().IsRegular() { // opening a pipe would wait for a writer
		return nil, nil // package onnx says what is wrong
	}
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	start := make([]byte, 8)
	if n, _ := f.Read(start); !artifact.IsArtifact(start[:n]) && filepath.Ext(path) != compiledExt {
		return nil, nil
	}
	m, err := tensor.Map(f)
	if err != nil {
		return nil, err
	}
	file, err := artifact.Read(m.Bytes(), path)
	if err != nil {
		m.Close()
		return nil, err
	}
	return &Compiled{m, file, path, ops}, nil
}

// withKind finds the kind of what reading and lowering report.
func withKind(err error) error {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, lower.ErrUnsupported):
		return engine.WithKind(engine.ErrUnsupportedOp, err)
	case errors.Is(err, onnx.ErrInvalid), errors.Is(err, lower.ErrInvalid), errors.Is(err, artifact.ErrInvalid):
		return engine.WithKind(engine.ErrInvalidModel, err)
	}
	return err
}
