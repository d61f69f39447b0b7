package rlxc

import (
	"context"

	_ "github.com/rlxc/rlxc/backend/cpu" // the backend that every program has
	"github.com/rlxc/rlxc/internal/engine"
	"github.com/rlxc/rlxc/internal/options"
	"github.com/rlxc/rlxc/liveness"
	"github.com/rlxc/rlxc/planner"
	"github.com/rlxc/rlxc/tensor"
)

// CompileOptions say how a model is compiled. The zero value suits most uses. A file that was compiled for backend cpu keeps its
// Precision and Weights. docs/command-line.md lists the options with the flags that set them.
type CompileOptions struct {
	// Backend runs the program: "cpu" if empty. Others are available if the program imports their packages.
	Backend string
	// Device chooses one of the backend's devices. Empty means the best.
	Device string
	// CPU is the instruction level of backend cpu: "avx512", "avx2" or "generic". Empty means the best. Programs for a level that this
	// machine lacks, or for more threads than it has processors, can be planned and saved, and runs fail.
	CPU string
	// Level says how far to rewrite.
	Level Level
	// Exact leaves out the rewrites that change more than roundings or drop an error: docs/rewrites.md.
	Exact bool
	// Unpad skips padding tokens where the model allows it. Outputs at masked positions are 0. Which models allow it, and what becomes of
	// the others: docs/unpad.md. A compiled file is as it was compiled.
	Unpad bool
	// Threads is the number of threads of the host that a run has at most; the runs under way share out the processors. 0 means
	// GOMAXPROCS, on Apple silicon at most the number of performance cores.
	Threads int
	// Precision is the type to which float32 products with constant weights round their operands: tensor.BF16 (cpu, cuda),
	// tensor.F16 (wgpu, cuda) or tensor.TF32 (cuda, attention too). Sums stay float32.
	Precision tensor.DType `json:",omitempty"`
	// Weights is the type in which such weights are stored. With tensor.I8, weights have a scale per column, and activations are
	// quantised by row in each run.
	Weights tensor.DType `json:",omitempty"`
	// Mode is the memory planner's. With planner.Auto, the environment variable RLXC_MEMORY_PLANNER decides.
	Mode planner.Mode
	// Liveness says how long buffers are kept for readers that the steps do not show, such as kernels that run late.
	Liveness Liveness
	// LateReads is the number of steps after its own during which any kernel may still read its operands, for a device that runs kernels
	// late. What kernels of a backend and custom operators declare counts in any case.
	LateReads int `json:",omitempty"`
	// PinOutputAncestors keeps all that the outputs are computed from to the end, for executors that run steps out of order.
	PinOutputAncestors bool `json:",omitempty"`
	// Dims fixes symbolic dimensions at compile time.
	Dims map[string]int
	// MemoryLimit bounds the arenas of a run, and its results outside of them, in bytes. 0 means half of what the process may have: of
	// the machine's memory, or of its control group's (Linux). A run that needs more takes its batch in slices, where each row is
	// provably computed separately, and else fails with ErrMemory.
	MemoryLimit int64
	// MaxFlops bounds the multiplications and additions of a run's products, those of all iterations of its loops together. They are
	// counted before they begin. 0 means no limit.
	MaxFlops int64
	// CacheLimit bounds, roughly, the memory plans that are kept for shapes seen before, in bytes. 0 means 64 MiB.
	CacheLimit int64
	// Profile records the times of the steps: see Session.Profile.
	Profile bool
	// Verify checks the graph after every pass and proves every memory plan safe, as RLXC_VERIFY=1 does.
	Verify bool
	// Taps names intermediate values of the model that become outputs too; they are computed at every level. AllValues stands
	// for all that survive rewriting.
	Taps []string
}

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
	p, err := engine.Compile(ctx, m.file, m.graph, options.Compile(o))
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

// CacheStats describe the memory plans that a program holds. A plan serves all sizes for which it is not much larger than a plan of their
// own; on a CPU each session has its own plans.
type CacheStats struct {
	Plans   int   `json:"plans"`   // number of plans
	Bytes   int64 `json:"bytes"`   // their estimated size, with what sizes that were used lately and each session add to a plan
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
