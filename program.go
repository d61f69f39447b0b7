package rlxc

import (
	"context"
	"fmt"
	"os"
	"strconv"

	_ "github.com/rlxc/rlxc/backend/cpu" // the backend that every program has
	"github.com/rlxc/rlxc/internal/backend"
	"github.com/rlxc/rlxc/internal/engine"
	"github.com/rlxc/rlxc/internal/rewrite"
	"github.com/rlxc/rlxc/ir"
	"github.com/rlxc/rlxc/liveness"
	"github.com/rlxc/rlxc/planner"
)

// Level says how far a program is rewritten, in the notation of the command line's -O. Empty means O2.
type Level string

// The levels.
const (
	O0 Level = "0" // as the model says
	O1 Level = "1" // folding, common subexpressions, dead code
	O2 Level = "2" // all fusions
)

// CompileOptions say how a model is compiled. The zero value suits most uses. A file that was compiled for backend cpu keeps its
// Precision and Weights.
type CompileOptions struct {
	// Backend runs the program: "cpu" if empty. Others are available if the program imports their packages.
	Backend string
	// Device chooses one of the backend's devices. Empty means the best.
	Device string
	// CPU is the instruction level of backend cpu: "avx512", "avx2" or "generic". Empty means the best.
	CPU string
	// Level says how far to rewrite.
	Level Level
	// Exact leaves out the rewrites that change more than roundings or drop an error: docs/rewrites.md.
	Exact bool
	// Unpad takes the padding of texts out where the model allows it: runs take time and memory for the tokens that the attention
	// mask keeps, and outputs are 0 where it keeps none. Which models allow it, and what becomes of the others: docs/unpad.md. A compiled
	// file is as it was compiled.
	Unpad bool
	// Threads is the number of threads of the host. 0 means GOMAXPROCS, on Apple silicon at most the number of performance cores.
	Threads int
	// Precision is the type to which float32 products with constant weights round their operands: tensor.BF16 (cpu, cuda),
	// tensor.F16 (wgpu, cuda) or tensor.TF32 (cuda, attention too). Sums stay float32.
	Precision DType
	// Weights is the type in which such weights are stored. With tensor.I8, weights have a scale per column, and activations are
	// quantised by row in each run.
	Weights DType
	// Mode is the memory planner's. With planner.Auto, the environment variable RLXC_MEMORY_PLANNER decides.
	Mode planner.Mode
	// Liveness says how long buffers are kept for readers that the steps do not show, such as kernels that run late.
	Liveness liveness.Policy
	// Dims fixes symbolic dimensions at compile time.
	Dims map[string]int
	// MemoryLimit bounds the arenas of a run, and its results outside of them, in bytes. 0 means half of what the process may have: of
	// the machine's memory, or of its control group's (Linux).
	MemoryLimit int64
	// MaxFlops bounds the multiplications and additions of a run's products, those of all trips of its loops together. They are
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

// A Program is a model compiled for a device. It may be used by several goroutines.
type Program struct{ engine *engine.Program }

// CompileStats say what Compile did.
type CompileStats struct {
	Rewrites *rewrite.Stats `json:"rewrites"`
	// Level is how far the program is rewritten. For a compiled file it is the level that the file was compiled at.
	Level Level `json:"level"`
	// Compiled is 1 if the program was lowered and rewritten, and Prepared is 1 if its weights were packed. A compiled file needs
	// neither. Runs never do either again, whatever their shapes.
	Compiled int `json:"compiled"`
	Prepared int `json:"prepared"`
	// Packed is the number of weights that were laid out for the kernels.
	Packed int `json:"packed"`
	// PackedFor is the target that a compiled file holds these weights packed for, if it is not the one asked for.
	PackedFor string `json:"packed_for,omitempty"`
}

// EnvVerify is the name of the environment variable that sets CompileOptions.Verify.
const EnvVerify = "RLXC_VERIFY"

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
	if err := o.check(); err != nil {
		return nil, engine.WithKind(engine.ErrInput, err)
	}
	if o.Backend == "" {
		o.Backend = "cpu"
	}
	p, err := engine.Compile(ctx, m.file, m.graph, engine.Options{
		Backend: o.Backend,
		Device: backend.Options{Device: o.Device, Threads: o.Threads, Level: o.CPU, Profile: o.Profile, Precision: o.Precision,
			Weights: o.Weights},
		Level: rewriteLevels[o.Level], Exact: o.Exact, Unpad: o.Unpad, Mode: o.Mode, Liveness: o.Liveness, Dims: o.Dims, MemoryLimit: o.MemoryLimit,
		MaxFlops: o.MaxFlops, CacheLimit: o.CacheLimit,
		Verify: o.Verify || os.Getenv(EnvVerify) == "1", Taps: o.Taps,
	})
	if err != nil {
		return nil, err
	}
	return &Program{p}, nil
}

// check finds values that their types do not define; the backend checks the rest.
func (o *CompileOptions) check() error {
	if _, ok := rewriteLevels[o.Level]; !ok {
		return fmt.Errorf("invalid level %q: want 0, 1 or 2", string(o.Level))
	}
	if _, err := o.Mode.MarshalText(); err != nil {
		return err
	}
	_, err := liveness.ParsePolicy(o.Liveness.String())
	return err
}

var rewriteLevels = map[Level]int{"": rewrite.O2, O0: rewrite.O0, O1: rewrite.O1, O2: rewrite.O2}

// ByReference lists the nodes of Graph, and of the branches and loop bodies in it, that run by reference code, the plain Eval of their op,
// because the backend has no kernel for them. It is slow.
func (p *Program) ByReference() (nodes []*ir.Node) {
	var look func(g *ir.Graph)
	look = func(g *ir.Graph) {
		for _, n := range g.Nodes {
			if p.engine.ByReference(n) {
				nodes = append(nodes, n)
			}
			for _, body := range n.Subgraphs {
				look(body)
			}
		}
	}
	look(p.engine.Graph())
	return nodes
}

// Stats returns what Compile did.
func (p *Program) Stats() CompileStats {
	s := p.engine.Stats()
	return CompileStats{s.Rewrites, Level(strconv.Itoa(s.Level)), s.Compiled, s.Prepared, s.Packed, s.PackedFor}
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
func (p *Program) Inputs() []ValueInfo { return inputInfo(p.Graph()) }

// Outputs describes the outputs of a run: those of the model in its order, then the taps.
func (p *Program) Outputs() []ValueInfo { return outputInfo(p.Graph()) }

// Unpadded reports whether runs leave out the padding of texts: CompileOptions.Unpad asked for it, and the model allows it. Then Plan takes
// a size for "tokens" too, the number of tokens that are no padding; without the length of the longest text, the texts are then as long as each other.
func (p *Program) Unpadded() bool { return p.engine.Unpadded() }

// Graph returns the rewritten program, for inspection: it must not be changed.
func (p *Program) Graph() *ir.Graph { return p.engine.Graph() }

// Save writes the program as a compiled file. Opening it packs nothing, and processes that open it share its pages. The file is
// replaced atomically. Save fails with ErrClosed or an error of the file system.
func (p *Program) Save(path string) error { return p.engine.Save(path) }

// Close releases the program. Its sessions stay valid. It fails with ErrClosed if the program is closed.
func (p *Program) Close() error { return p.engine.Close() }
