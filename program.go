package rlxc

import (
	"context"

	_ "github.com/rlxc/rlxc/backend/cpu" // the backend that every program has
	"github.com/rlxc/rlxc/internal/engine"
	"github.com/rlxc/rlxc/internal/options"
	"github.com/rlxc/rlxc/ir"
	"github.com/rlxc/rlxc/liveness"
	"github.com/rlxc/rlxc/planner"
	"github.com/rlxc/rlxc/tensor"
)

// CompileOptions are the options of a compilation. The zero value suits most uses. A file that was compiled for backend cpu keeps its
// Precision and Weights. docs/command-line.md lists the options and their flags.
type CompileOptions struct {
	// Backend runs the program: "cpu" if empty. Other backends are available if the program imports their packages.
	Backend string
	// Device chooses a device of the backend. Empty means the best.
	Device string
	// CPU is the instruction level of backend cpu: "avx512", "avx2" or "generic". Empty means the best. A program for a level that this
	// machine lacks, or for more threads than it has processors, can be planned and saved, but not run.
	CPU string
	// Level says how far to rewrite.
	Level Level
	// Exact skips rewrites that change more than rounding or that drop an error: docs/rewrites.md.
	Exact bool
	// Unpad skips padding tokens if the model allows it. Outputs at masked positions are 0. docs/unpad.md describes which models allow
	// it. Unpad has no effect on a compiled file.
	Unpad bool
	// Threads is the maximum number of CPU threads of a run. Concurrent runs share the processors. 0 means GOMAXPROCS, and on Apple
	// silicon at most the number of performance cores.
	Threads int
	// Precision is the type to which float32 products with constant weights round their operands: tensor.BF16 (cpu, cuda), tensor.F16
	// (wgpu, cuda) or tensor.TF32 (cuda, also in attention). Sums stay float32.
	Precision tensor.DType `json:",omitempty"`
	// Weights is the type in which float32 weights of products are stored. With tensor.I8, weights have a scale per column, and
	// activations are quantised by row in each run.
	Weights tensor.DType `json:",omitempty"`
	// Mode is the mode of the memory planner. With planner.Auto, the environment variable RLXC_MEMORY_PLANNER decides.
	Mode planner.Mode
	// Liveness is how long buffers live for late readers: kernels that still read after their step.
	Liveness Liveness
	// LateReads is the number of later steps during which a kernel may still read its operands, for a device that runs kernels late. Late
	// reads that kernels and custom operators declare are always respected.
	LateReads int `json:",omitempty"`
	// PinOutputAncestors keeps everything that the outputs depend on until the end, for executors that run steps out of order.
	PinOutputAncestors bool `json:",omitempty"`
	// Dims fixes symbolic dimensions at compile time.
	Dims map[string]int
	// MemoryLimit is the maximum working memory of a run, in bytes, without weights: arenas, results outside of them, and what steps on the
	// host allocate. 0 means half of the memory of the machine, or of the control group of the process (Linux). A run that needs more takes
	// its batch in slices, if each row is provably computed separately. Otherwise it fails with ErrMemory.
	MemoryLimit int64
	// DeviceWeights is the maximum size of the weights on a GPU in bytes. Weights that do not fit stay on the host, and each run copies
	// them to the device before the steps that read them. Results are the same. The limit includes the room for the copies in a session.
	// 0 means seven eighths of the device's free memory on cuda, and no limit on wgpu. Compile fails with ErrMemory if the limit is
	// too low for the step with the largest weights, and with ErrNoDevice on backend cpu.
	DeviceWeights int64 `json:",omitempty"`
	// MaxFlops is the maximum number of multiplications and additions in the products of a run, in all iterations of its loops. They are
	// counted before the products run. 0 means no limit.
	MaxFlops int64
	// CacheLimit is the approximate memory for plans of earlier shapes, in bytes. 0 means 64 MiB.
	CacheLimit int64
	// Profile records the times of the steps: see Session.Profile.
	Profile bool
	// Verify checks the graph after every pass and proves every memory plan safe, as RLXC_VERIFY=1 does.
	Verify bool
	// Taps names intermediate values of the model that become outputs too. They are computed at every level. AllValues means all values
	// that survive rewriting.
	Taps []string
}

// Level is how far a program is rewritten, in the notation of the command line's -O. Empty means O2.
type Level = options.Level

// The levels.
const (
	O0 = options.O0 // no rewrites: one operation for each node
	O1 = options.O1 // folding, common subexpressions, dead code
	O2 = options.O2 // all fusions
)

// Liveness is how far the lifetimes of buffers are extended.
type Liveness = liveness.Policy

// The values of CompileOptions.Liveness.
const (
	LivenessExact = liveness.Exact // to the last step that the target says still reads
	LivenessToEnd = liveness.ToEnd // whole chains of producers, to the end of the program
	LivenessOff   = liveness.Off   // not at all: right only where nothing reads late
)

// A Program is a model compiled for a device. Several goroutines may use a program.
type Program struct{ engine *engine.Program }

// CompileStats is what Compile did.
type CompileStats struct {
	// Level is how far the program was rewritten. For a compiled file, it is the level of its compilation.
	Level Level `json:"level"`
	// Compiled is true if Compile lowered and rewrote the program, and Prepared if it packed the weights. A compiled file needs neither.
	// Runs do neither, whatever their shapes.
	Compiled bool `json:"compiled"`
	Prepared bool `json:"prepared"`
	// Packed is the number of weights that were packed.
	Packed int `json:"packed"`
	// PackedFor is the target of the weights in a compiled file, if it differs from the requested target. Such weights are packed again.
	PackedFor string `json:"packed_for,omitempty"`
	// Padded is why runs do not skip padding tokens, if CompileOptions.Unpad was set and the model does not allow it.
	Padded string `json:"padded,omitempty"`
}

// AllValues taps every value that has a name in the model and that survives rewriting.
const AllValues = engine.AllValues

// Compile compiles the model for a device. When ctx ends, Compile returns its error before the next pass.
//
// It fails with ErrInput (an invalid option, dimension or tap, or a compiled file that does not fit the options), ErrNoDevice, ErrShape
// or ErrClosed. If the model has to be read again, it also fails as Open does.
func (m *Model) Compile(ctx context.Context, o CompileOptions) (*Program, error) {
	if ctx == nil {
		return nil, engine.WithKind(engine.ErrInput, engine.ErrNoContext)
	}
	return m.compile(ctx, engine.Part{}, nil, o)
}

// compile is Compile of a part of the model. extend appends nodes to the rewritten graph; nil for none.
func (m *Model) compile(ctx context.Context, part engine.Part, extend func(*ir.Graph) error, o CompileOptions) (*Program, error) {
	done, err := m.use()
	if err != nil {
		return nil, err
	}
	defer done()
	p, err := engine.CompileExtended(ctx, m.file, m.graph, part, extend, options.Compile(o))
	if err != nil {
		return nil, err
	}
	return &Program{p}, nil
}

// Returning returns a program that computes only some outputs of p, given by their names. It takes only the inputs from which these
// outputs follow. Both programs share the weights and the cache of plans, and each is closed alone. Returning fails with ErrClosed, or
// with ErrInput if p has no such output.
func (p *Program) Returning(outputs ...string) (*Program, error) {
	e, err := p.engine.Returning(outputs)
	if err != nil {
		return nil, err
	}
	return &Program{e}, nil
}

// Stats returns what Compile did.
func (p *Program) Stats() CompileStats {
	s := p.engine.Stats()
	return CompileStats{s.Level, s.Compiled, s.Prepared, s.Packed, s.PackedFor, s.Rewrites.Padded}
}

// CacheStats describes the cached memory plans of a program. One plan serves all sizes for which a separate plan would not be much
// smaller. On a CPU each session has separate plans.
type CacheStats struct {
	Plans   int   `json:"plans"`   // number of plans
	Bytes   int64 `json:"bytes"`   // their estimated size, with what sizes that were used lately and each session add to a plan
	Limit   int64 `json:"limit"`   // upper bound of Bytes; the plan used last is always kept
	Planned int   `json:"planned"` // how often a plan was made
	Evicted int   `json:"evicted"` // how often a plan was dropped to keep within Limit
	// Rejected is how often the check before the first run at new sizes found a plan unsafe. Such a plan never runs: another is made. A
	// number above 0 is a fault of rlxc.
	Rejected int `json:"rejected"`
}

// CacheStats returns the state of the plan cache, which all sessions of the program share.
func (p *Program) CacheStats() CacheStats {
	s := p.engine.CacheStats()
	return CacheStats{s.Plans, s.Bytes, s.Limit, s.Planned, s.Evicted, s.Rejected}
}

// Inputs describes the inputs of a run, in the model's order.
func (p *Program) Inputs() []ValueInfo { return inputInfo(p.engine.Graph().Inputs) }

// Outputs describes the outputs of a run: those of the model in its order, then the taps.
func (p *Program) Outputs() []ValueInfo { return outputInfo(p.engine.Graph()) }

// Unpadded reports whether runs skip padding tokens: CompileOptions.Unpad was set, and the model allows it. Plan then also takes a size
// for "tokens", the number of unpadded tokens. Without the length of the longest sequence, it assumes that all sequences have the same
// length.
func (p *Program) Unpadded() bool { return p.engine.Unpadded() }

// Save writes the program as a compiled file. Opening the file packs nothing, and processes that open it share its pages. Save replaces
// an existing file atomically.
//
// The file may also hold other programs of the same model, for other instruction levels (CompileOptions.CPU) or backends. Each device
// takes the program for it. If there is none, it takes the first program for its backend and packs the weights again
// (CompileStats.PackedFor). Data that programs share is stored once.
//
// Save fails with ErrClosed, with ErrInput if the programs cannot share a file, with ErrFileChanged as CheckFiles does, or with an error
// of the file system. If it fails, the file at path stays as it was.
func (p *Program) Save(path string, others ...*Program) error {
	return p.SaveWith(path, nil, others...)
}

// SaveWith is Save with files in the compiled file, by their paths with slashes, such as "tokenizer.json". Package pipeline opens a
// compiled file with the files of pipeline.Description.Files as it opens the model's folder. SaveWith fails as Save does: with ErrClosed,
// with ErrInput, with ErrFileChanged, or with an error of the file system.
func (p *Program) SaveWith(path string, beside map[string][]byte, others ...*Program) error {
	programs := make([]*engine.Program, len(others))
	for i, o := range others {
		programs[i] = o.engine
	}
	return p.engine.Save(path, beside, programs...)
}

// Files returns the paths of the files that the program reads weights from: the model's file and its external data, or a compiled file. A
// model that was not opened from files of the operating system has none.
func (p *Program) Files() []string {
	var paths []string
	for _, s := range p.engine.Files() {
		paths = append(paths, s.Path)
	}
	return paths
}

// CheckFiles fails with ErrFileChanged, and names the file, if one of Files was written to or truncated since it was opened. Results of a
// program whose files changed are those of no model. A file that was deleted, or that another file was renamed to, stays as it was for the
// program.
func (p *Program) CheckFiles() error { return p.engine.CheckFiles() }

// Close releases the program. Its sessions stay valid. It fails with ErrClosed if the program is closed.
func (p *Program) Close() error { return p.engine.Close() }
