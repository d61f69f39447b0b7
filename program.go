package rlxc

import (
	"context"

	_ "github.com/rlxc/rlxc/backend/cpu" // the backend that every program has
	"github.com/rlxc/rlxc/internal/engine"
	"github.com/rlxc/rlxc/internal/options"
	"github.com/rlxc/rlxc/liveness"
)

// CompileOptions say how a model is compiled. The zero value suits most uses. A file that was compiled for backend cpu keeps its
// Precision and Weights. docs/command-line.md lists the options with the flags that set them.
type CompileOptions = options.Compile

// Level says how far a program is rewritten, in the notation of the command line's -O. Empty means O2.
type Level = options.Level

// The levels.
const (
	O0 = options.O0 // as the model says
	O1 = options.O1 // folding, common subexpressions, dead code
	O2 = options.O2 // all fusions
)

// Liveness says how far the lives of buffers are made longer.
type Liveness = liveness.Policy

// The values of CompileOptions.Liveness.
const (
	LivenessExact = liveness.Exact // to the last step that the target says still reads
	LivenessToEnd = liveness.ToEnd // whole chains of producers, to the end of the program
	LivenessOff   = liveness.Off   // not at all: right only where nothing reads late
)

// A Program is a model compiled for a device. It may be used by several goroutines.
type Program struct{ engine *engine.Program }

// CompileStats say what Compile did.
type CompileStats struct {
	// Level is how far the program is rewritten. For a compiled file it is the level that the file was compiled at.
	Level Level `json:"level"`
	// Compiled says that the program was lowered and rewritten, and Prepared that its weights were packed. A compiled file needs
	// neither. Runs never do either again, whatever their shapes.
	Compiled bool `json:"compiled"`
	Prepared bool `json:"prepared"`
	// Packed is the number of weights that were laid out for the kernels.
	Packed int `json:"packed"`
	// PackedFor is the target that a compiled file holds these weights packed for, if it is not the one asked for.
	PackedFor string `json:"packed_for,omitempty"`
}

// AllValues taps every value that has a name in the model and that survives rewriting.
const AllValues = engine.AllValues

// Compile compiles the model for a device. When ctx ends, Compile returns its error before the next pass.
//
// It fails with ErrInput (an option, dimension or tap that cannot be, or a compiled file that does not fit the options),
// ErrNoDevice, ErrShape, ErrClosed, or as Open does if the model has to be read again.
func (m *Model) Compile(ctx context.Context, o CompileOptions) (*Program, error) {
	if ctx == nil {
		return nil, engine.WithKind(engine.ErrInput, engine.ErrNoContext)
	}
	done, err := m.use()
	if err != nil {
		return nil, err
	}
	defer done()
	p, err := engine.Compile(ctx, m.file, m.graph, o)
	if err != nil {
		return nil, err
	}
	return &Program{p}, nil
}

// Stats returns what Compile did.
func (p *Program) Stats() CompileStats {
	s := p.engine.Stats()
	return CompileStats{s.Level, s.Compiled, s.Prepared, s.Packed, s.PackedFor}
}

// CacheStats describe the memory plans that a program keeps for shapes that it has seen.
type CacheStats struct {
	Plans   int   `json:"plans"`   // number of plans kept
	Bytes   int64 `json:"bytes"`   // their estimated size, with what each session adds to a plan
	Limit   int64 `json:"limit"`   // upper bound of Bytes; the plan used last is always kept
	Planned int   `json:"planned"` // how often a plan was made
	Evicted int   `json:"evicted"` // how often a plan was dropped to keep within Limit
}

// CacheStats returns the state of the plan cache, which all sessions of the program share.
func (p *Program) CacheStats() CacheStats {
	s := p.engine.CacheStats()
	return CacheStats{s.Plans, s.Bytes, s.Limit, s.Planned, s.Evicted}
}

// Inputs describes the inputs of a run, in the model's order.
func (p *Program) Inputs() []ValueInfo { return inputInfo(p.engine.Graph()) }

// Outputs describes the outputs of a run: those of the model in its order, then the taps.
func (p *Program) Outputs() []ValueInfo { return outputInfo(p.engine.Graph()) }

// Unpadded reports whether runs leave out the padding of texts: CompileOptions.Unpad asked for it, and the model allows it. Then Plan takes
// a size for "tokens" too, the number of tokens that are no padding; without the length of the longest text, the texts are then as long as
// each other.
func (p *Program) Unpadded() bool { return p.engine.Unpadded() }

// Save writes the program as a compiled file. Opening it packs nothing, and processes that open it share its pages. The file is
// replaced atomically. It may hold other programs of the same model besides, for other instruction levels (CompileOptions.CPU) or
// backends: each device takes its own, and where it has none the first for its backend, whose weights are packed again
// (CompileStats.PackedFor). What is equal is in the file once. Save fails with ErrClosed, with ErrInput where programs do not go
// together, or with an error of the file system.
func (p *Program) Save(path string, others ...*Program) error {
	programs := make([]*engine.Program, len(others))
	for i, o := range others {
		programs[i] = o.engine
	}
	return p.engine.Save(path, programs...)
}

// Close releases the program. Its sessions stay valid. It fails with ErrClosed if the program is closed.
func (p *Program) Close() error { return p.engine.Close() }
