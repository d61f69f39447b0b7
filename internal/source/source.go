// Package source opens compiled files. It needs nothing that reads or translates ONNX.
package source

import (
	"errors"
	"fmt"
	"path/filepath"
	"runtime/debug"
	"slices"

	"github.com/rlxc/rlxc/internal/artifact"
	"github.com/rlxc/rlxc/internal/engine"
	"github.com/rlxc/rlxc/internal/files"
	"github.com/rlxc/rlxc/internal/ops"
	"github.com/rlxc/rlxc/ir"
)

// Compiled is a compiled file, mapped. It implements engine.Source.
type Compiled struct {
	*files.Mapping
	file     *artifact.File
	name     string
	ops      []*ir.OpDef
	lowering func() ops.Lowering
}

// Name implements engine.Source.
func (s *Compiled) Name() string { return s.name }

// Compiled implements engine.Source.
func (s *Compiled) Compiled() *artifact.Info { return &s.file.Info }

// For implements engine.Leveled.
func (s *Compiled) For(target string) (engine.Source, bool) {
	file := s.file.For(target)
	if file.Target == s.file.Target {
		return nil, false
	}
	chosen := *s
	chosen.file = file
	return &chosen, true
}

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

// Graph implements engine.Source. It decodes the program and restores the functions that a file cannot hold: users' kernels, and lowerings
// of operators that are lowered in each run.
func (s *Compiled) Graph() (*ir.Graph, error) {
	g, err := s.file.Graph()
	if err != nil { // of a program for another device than the first's, which opening has not read
		return nil, withKind(fmt.Errorf("%w: %w", artifact.ErrInvalid, err))
	}
	return g, s.restore(g)
}

// restore fills in what files do not hold: functions of the program that reads them.
func (s *Compiled) restore(g *ir.Graph) error {
	for _, n := range g.Nodes {
		switch op := n.Op.(type) {
		case ir.Custom:
			i := slices.IndexFunc(s.ops, func(d *ir.OpDef) bool { return d.Name == op.Name })
			if i < 0 {
				return engine.WithKind(engine.ErrUnsupportedOp,
					fmt.Errorf("unsupported operator %s at node %s: define a custom operator of that name", op.Name, n.Label()))
			}
			op.Def = s.ops[i]
			n.Op = op
		case ops.Deferred:
			if s.lowering == nil {
				return engine.WithKind(engine.ErrUnsupportedOp,
					fmt.Errorf("operator %s at node %s takes its form from the data of a run: open the file with package rlxc, which "+
						"translates it then", op, n.Label()))
			}
			op.Lowering = s.lowering()
			n.Op = op
		}
		for _, r := range n.Subgraphs {
			if err := s.restore(r); err != nil {
				return err
			}
		}
	}
	return nil
}

// compiledExt is the extension of compiled files. Others are known by how they begin.
const compiledExt = ".rlxc"

// ErrNotCompiled is the error of opening what is not a compiled file: a folder, or a file of another format.
var ErrNotCompiled = errors.New("not a compiled file: rlxc compile writes one")

// FromMapping reads a compiled file with the definitions of users' operators. The source takes over the mapping unless FromMapping fails.
// lowering makes what computes an ops.Deferred; if it is nil, a file with such nodes is an error. FromMapping fails with ErrNotCompiled
// if the file neither begins as a compiled file does nor is named as one, and with engine.ErrInvalidModel.
func FromMapping(m *files.Mapping, path string, custom []*ir.OpDef, lowering func() ops.Lowering) (_ *Compiled, err error) {
	defer engine.Guard(&err, debug.SetPanicOnFault(true))
	if !artifact.IsArtifact(m.Bytes()) && filepath.Ext(path) != compiledExt {
		return nil, fmt.Errorf("%s: %w", path, ErrNotCompiled)
	}
	file, err := artifact.Read(m.Bytes(), path)
	if err != nil {
		return nil, withKind(err)
	}
	return &Compiled{m, file, path, custom, lowering}, nil
}

// withKind finds the kind of what reading reports.
func withKind(err error) error {
	if errors.Is(err, artifact.ErrInvalid) {
		return engine.WithKind(engine.ErrInvalidModel, err)
	}
	return err
}
