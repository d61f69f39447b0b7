package rlxc

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime/debug"
	"strings"

	"github.com/rlxc/rlxc/artifact"
	"github.com/rlxc/rlxc/ir"
	"github.com/rlxc/rlxc/lower"
	"github.com/rlxc/rlxc/onnx"
	"github.com/rlxc/rlxc/tensor"
)

// A source is an opened file: an ONNX model, or a compiled one. It counts its users.
type source interface {
	Name() string
	Close() error
	// Evict tells the system that the file's pages are not needed for now; EvictPart those around some bytes, and reports whether
	// they lie in the file.
	Evict()
	EvictPart(part []byte) bool
	retain()
	// graph makes the program anew: the caller may change it.
	graph() (*ir.Graph, error)
}

// onnxSource is an ONNX model.
type onnxSource struct {
	*onnx.Model
	ops []lower.Custom
}

func (s onnxSource) retain() { s.Model.Retain() }

func (s onnxSource) graph() (_ *ir.Graph, err error) {
	defer guard(&err, debug.SetPanicOnFault(true))
	return lower.Model(s.Model.Proto, s.ops...)
}

// compiledSource is a compiled file, mapped.
type compiledSource struct {
	*tensor.Mapping
	file *artifact.File
	name string
	ops  []lower.Custom
}

func (s *compiledSource) Name() string { return s.name }

func (s *compiledSource) retain() { s.Mapping.Retain() }

func (s *compiledSource) Evict() { s.Mapping.Evict(s.Bytes()) }

func (s *compiledSource) EvictPart(part []byte) bool { return s.Mapping.Evict(part) }

// graph decodes the program and gives its kept operators their meaning.
func (s *compiledSource) graph() (*ir.Graph, error) {
	g, err := s.file.Graph()
	if err != nil {
		return nil, err
	}
	return g, restore(g, s.ops)
}

// serves reports why a file cannot be run on a backend as if the model had been rewritten to a level.
func (s *compiledSource) serves(backend string, level int) error {
	if device, _, _ := strings.Cut(s.file.Target, "/"); device != backend {
		return fmt.Errorf("the file was compiled for %s: run it on backend %s, or compile the model again for backend %s", s.file.Target, device, backend)
	}
	if level < s.file.Level {
		return fmt.Errorf("the file was compiled at -O %d: for -O %d compile the model again", s.file.Level, level)
	}
	return nil
}

func restore(g *ir.Graph, ops []lower.Custom) error {
	for _, n := range g.Nodes {
		if c, ok := n.Op.(ir.Custom); ok {
			c, err := lower.Restore(c, n.Label(), ops...)
			if err != nil {
				return err
			}
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

// openFile opens a model file of either kind.
func openFile(path string, ops []lower.Custom) (_ source, err error) {
	defer guard(&err, debug.SetPanicOnFault(true))
	if s, err := openCompiled(path, ops); s != nil || err != nil {
		return s, err
	}
	f, err := onnx.Open(path)
	return onnxSource{f, ops}, err
}

// compiledExt is the extension of compiled files. Others are known by how they begin.
const compiledExt = ".rlxc"

// openCompiled opens a file that Program.Save wrote; nil when the file is none.
func openCompiled(path string, ops []lower.Custom) (source, error) {
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
	return &compiledSource{m, file, path, ops}, nil
}

// VerifyFile checks the checksums of all sections of a compiled file, which opening it does not; of an ONNX file there is
// nothing more to check.
func (m *Model) VerifyFile() (err error) {
	defer guard(&err, debug.SetPanicOnFault(true))
	if m.closed.Load() {
		return closedError("model")
	}
	s, ok := m.file.(*compiledSource)
	if !ok {
		return nil
	}
	if err := s.file.Verify(); err != nil {
		return modelError(fmt.Errorf("%s: %w", s.name, err))
	}
	return nil
}

// Save writes the program as a compiled file, which opens without packing and whose pages processes share. The file appears
// whole or not at all.
func (p *Program) Save(path string) (err error) {
	defer guard(&err, debug.SetPanicOnFault(true))
	if p.closed.Load() {
		return closedError("program")
	}
	info := artifact.Info{Target: p.device.Target().Name, Source: p.file.Name(), Level: p.stats.Level}
	return tensor.ReplaceFile(path, func(w io.Writer) error { return artifact.Write(w, p.graph, info) })
}
