// Package compiled runs compiled files: those that rlxc.Program.Save and the command rlxc compile write. It links nothing that
// reads or translates ONNX models, and thus makes programs smaller than package rlxc does.
//
//	p, err := compiled.Open(ctx, "model.rlxc", compiled.Options{})
//	s, err := p.NewSession()
//	out, err := s.Run(ctx, map[string]*tensor.Tensor{"input_ids": ids, "attention_mask": mask})
package compiled

import (
	"context"
	"errors"

	"github.com/rlxc/rlxc/backend"
	_ "github.com/rlxc/rlxc/backend/cpu" // the default
	"github.com/rlxc/rlxc/internal/engine"
	"github.com/rlxc/rlxc/internal/source"
	"github.com/rlxc/rlxc/ir"
	"github.com/rlxc/rlxc/tensor"
)

// Options say how a file is run. The zero value suits most uses.
type Options struct {
	// Backend runs the program: the one that the file was compiled for, "cpu" if empty. Others are available if the program imports
	// their packages.
	Backend string
	// Device chooses one of the backend's devices. Empty means the best.
	Device string
	// CPU is the instruction level of backend cpu: "avx512", "avx2" or "generic". Empty means the best.
	CPU string
	// Threads is the number of threads of the host. 0 means GOMAXPROCS.
	Threads int
	// MemoryLimit bounds the arenas of a run, and its results outside of them, in bytes. 0 means half of what the process may have.
	MemoryLimit int64
	// CacheLimit bounds, roughly, the memory plans that are kept for shapes seen before, in bytes. 0 means 64 MiB.
	CacheLimit int64
	// Ops define the custom operators of the file.
	Ops []Op
}

// Op defines a custom operator.
type Op = ir.OpDef

// Value describes an input or output of a program.
type Value struct {
	Name  string
	DType tensor.DType
	// Shape holds a number or a symbolic expression, such as "batch", for each axis.
	Shape []string
}

// The kinds of errors, for errors.Is: those of package rlxc, which are the same values.
var (
	ErrInvalidModel  = engine.ErrInvalidModel
	ErrUnsupportedOp = engine.ErrUnsupportedOp
	ErrShape         = engine.ErrShape
	ErrInput         = engine.ErrInput
	ErrNoDevice      = engine.ErrNoDevice
	ErrMemory        = engine.ErrMemory
	ErrBusy          = engine.ErrBusy
	ErrClosed        = engine.ErrClosed
)

// A Program is a compiled file, mapped and ready to run. It may be used by several goroutines.
type Program struct{ engine *engine.Program }

// Open opens a compiled file for a device. It fails with ErrInvalidModel if the file is damaged or not a compiled file, with
// ErrUnsupportedOp if the file has a custom operator that Options.Ops does not define or an operator that only package rlxc can
// run (one whose form depends on data), with ErrInput if the file was compiled for another backend, with ErrNoDevice, or with an
// error of the file system.
func Open(ctx context.Context, path string, o Options) (*Program, error) {
	if ctx == nil {
		return nil, engine.WithKind(ErrInput, engine.ErrNoContext)
	}
	var ops []*ir.OpDef
	for _, op := range o.Ops {
		var err error
		if ops, err = ir.AddOp(ops, op); err != nil {
			return nil, engine.WithKind(ErrUnsupportedOp, err)
		}
	}
	f, err := source.Open(path, ops, nil)
	if errors.Is(err, source.ErrNotCompiled) {
		err = engine.WithKind(ErrInvalidModel, err)
	}
	if err != nil {
		return nil, err
	}
	defer f.Close() // the program keeps it
	if o.Backend == "" {
		o.Backend = "cpu"
	}
	p, err := engine.Compile(ctx, f, f.Graph, engine.Options{
		Backend: o.Backend, Device: backend.Options{Device: o.Device, Threads: o.Threads, Level: o.CPU},
		Level: f.Compiled().Level, MemoryLimit: o.MemoryLimit, CacheLimit: o.CacheLimit,
	})
	if err != nil {
		return nil, err
	}
	return &Program{p}, nil
}

// Inputs describes the inputs of a run, in the model's order.
func (p *Program) Inputs() []Value {
	g := p.engine.Graph()
	values := make([]Value, len(g.Inputs))
	for i, v := range g.Inputs {
		values[i] = Value{v.Name, v.Type.DType, engine.Sizes(v.Type)}
	}
	return values
}

// Outputs describes the outputs of a run, in the model's order.
func (p *Program) Outputs() []Value {
	g := p.engine.Graph()
	values := make([]Value, len(g.Outputs))
	for i, v := range g.Outputs {
		values[i] = Value{g.OutputNames[i], v.Type.DType, engine.Sizes(v.Type)}
	}
	return values
}

// Close releases the program. Its sessions stay valid. It fails with ErrClosed if the program is closed.
func (p *Program) Close() error { return p.engine.Close() }

// A Session runs a program in memory of its own. Only one goroutine at a time may use a session; any number of sessions may share
// a program.
type Session struct{ engine *engine.Session }

// NewSession returns a session, which allocates its memory on the first run. It fails with ErrClosed.
func (p *Program) NewSession() (*Session, error) {
	s, err := p.engine.NewSession()
	if err != nil {
		return nil, err
	}
	return &Session{s}, nil
}

// Run executes the program. The session owns the returned map and tensors; they are valid until its next Run. When ctx ends, Run
// returns its error after the current step. It fails with ErrInput, ErrShape, ErrMemory, ErrBusy, ErrClosed, or the error of ctx.
func (s *Session) Run(ctx context.Context, inputs map[string]*tensor.Tensor) (map[string]*tensor.Tensor, error) {
	return s.engine.Run(ctx, inputs)
}

// MemoryBytes returns the size of the arenas that the session holds, in bytes.
func (s *Session) MemoryBytes() int64 { return s.engine.MemoryBytes() }

// Close releases the session and the tensors that Run returned. It fails with ErrBusy during a run, and with ErrClosed if the
// session is closed.
func (s *Session) Close() error { return s.engine.Close() }
