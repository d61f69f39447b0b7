package rlxc

import (
	"context"
	"fmt"
	"os"
	"strconv"

	"github.com/rlxc/rlxc/backend"
	_ "github.com/rlxc/rlxc/backend/cpu" // the backend that every program has
	"github.com/rlxc/rlxc/internal/engine"
	"github.com/rlxc/rlxc/ir"
	"github.com/rlxc/rlxc/liveness"
	"github.com/rlxc/rlxc/planner"
	"github.com/rlxc/rlxc/rewrite"
)

// Level says how far a program is rewritten, as the command line's -O takes it. Empty means O2.
type Level string

// The levels.
const (
	O0 Level = "0" // as the model says
	O1 Level = "1" // folding, common subexpressions, dead code
	O2 Level = "2" // all fusions
)

// CompileOptions say how a model is compiled. The zero value is what most want. A file that was compiled for backend cpu keeps its
// Precision and Weights.
type CompileOptions struct {
	Backend     string         // "cpu" when empty
	Device      string         // which device of the backend; empty for the best
	CPU         string         // the instruction level of backend cpu; empty for the best
	Level       Level          // how far to rewrite
	Threads     int            // of the host; 0 for as many as GOMAXPROCS
	Precision   DType          // in which float32 products with constant weights take their operands, if the backend has it: tensor.BF16 (cpu), tensor.F16 (wgpu); sums stay float32
	Weights     DType          // in which such weights are stored: tensor.I8 for codes with a scale a column; activations are then quantised row by row
	Mode        planner.Mode   // of the memory planner; RLXC_MEMORY_PLANNER decides where it is planner.Auto
	Dims        map[string]int // numbers for symbols, fixed at compile time
	MemoryLimit int64          // bytes that an arena, or a result computed outside one, may take; 0 for half of the machine's
	CacheLimit  int64          // bytes, about, that the plans kept for sizes seen before may take; 0 for 64 MiB
	Profile     bool           // keep the times of the steps: Session.Profile
	Verify      bool           // check the graph after every pass and prove every plan, as RLXC_VERIFY=1 does
	Taps        []string       // names in the model of inner values to give as outputs too, kept whatever the level; AllValues is for all that survive

	Liveness liveness.Policy // how far buffers are kept for readers that the steps do not show, such as kernels that run late
}

// A Program is a model compiled for a device. It may be used by several goroutines.
type Program struct{ engine *engine.Program }

// CompileStats say what compiling did.
type CompileStats struct {
	Rewrites *rewrite.Stats `json:"rewrites"`
	// Level is how far the program is rewritten. A compiled file has its own.
	Level Level `json:"level"`
	// Compiled and Prepared count how often the program was lowered and rewritten, and its weights packed: at most once each,
	// whatever shapes it ran at. A compiled file needs neither.
	Compiled int `json:"compiled"`
	Prepared int `json:"prepared"`
	// Packed is the number of weights laid out for the kernels, once for all shapes.
	Packed int `json:"packed"`
	// PackedFor is what a compiled file holds these weights packed for, where that is another target or type than was asked for.
	PackedFor string `json:"packed_for,omitempty"`
}

// EnvVerify names the environment variable that sets CompileOptions.Verify.
const EnvVerify = "RLXC_VERIFY"

// AllValues is the tap of every value that has a name in the model and that rewriting leaves.
const AllValues = engine.AllValues

// Compile makes a program of the model.
func (m *Model) Compile(ctx context.Context, o CompileOptions) (*Program, error) {
	if m.closed.Load() {
		return nil, engine.ClosedError("model")
	}
	if err := o.check(); err != nil {
		return nil, err
	}
	if o.Backend == "" {
		o.Backend = "cpu"
	}
	p, err := engine.Compile(ctx, m.file, m.graph, engine.Options{
		Backend: o.Backend,
		Device: backend.Options{Device: o.Device, Threads: o.Threads, Level: o.CPU, Profile: o.Profile, Precision: o.Precision,
			Weights: o.Weights},
		Level: rewriteLevels[o.Level], Mode: o.Mode, Liveness: o.Liveness, Dims: o.Dims, MemoryLimit: o.MemoryLimit, CacheLimit: o.CacheLimit,
		Verify: o.Verify || os.Getenv(EnvVerify) == "1", Taps: o.Taps,
	})
	if err != nil {
		return nil, err
	}
	return &Program{p}, nil
}

// check finds values that no constant of their types has; what a backend must have is its own to check.
func (o *CompileOptions) check() error {
	if _, ok := rewriteLevels[o.Level]; !ok {
		return fmt.Errorf("unknown level %q: use O0, O1 or O2", string(o.Level))
	}
	if _, err := o.Mode.MarshalText(); err != nil {
		return err
	}
	_, err := liveness.ParsePolicy(o.Liveness.String())
	return err
}

var rewriteLevels = map[Level]int{"": rewrite.O2, O0: rewrite.O0, O1: rewrite.O1, O2: rewrite.O2}

// Stats says what compiling did.
func (p *Program) Stats() CompileStats {
	s := p.engine.Stats()
	return CompileStats{s.Rewrites, Level(strconv.Itoa(s.Level)), s.Compiled, s.Prepared, s.Packed, s.PackedFor}
}

// CacheStats say what a program keeps of the sizes that it ran at.
type CacheStats struct {
	Plans   int   `json:"plans"`   // kept
	Bytes   int64 `json:"bytes"`   // that they take, about, with what sessions keep beside each
	Limit   int64 `json:"limit"`   // of Bytes; the plan used last is kept, however large
	Planned int   `json:"planned"` // how often sizes were planned
	Evicted int   `json:"evicted"` // how often a plan was dropped because Bytes was above Limit
}

// CacheStats returns the state of the cache of plans, which all sessions share.
func (p *Program) CacheStats() CacheStats {
	s := p.engine.CacheStats()
	return CacheStats{s.Plans, s.Bytes, s.Limit, s.Planned, s.Evicted}
}

// Inputs describes what a run takes, in the model's order.
func (p *Program) Inputs() []ValueInfo { return inputInfo(p.Graph()) }

// Outputs describes what a run gives, in the model's order, marked values last.
func (p *Program) Outputs() []ValueInfo { return outputInfo(p.Graph()) }

// Graph is the rewritten program, for inspection; it must not be changed.
func (p *Program) Graph() *ir.Graph { return p.engine.Graph() }

// Save writes the program as a compiled file, which opens without packing and whose pages processes share. The file appears
// whole or not at all.
func (p *Program) Save(path string) error { return p.engine.Save(path) }

// Close ends the use of the program. Sessions go on.
func (p *Program) Close() error { return p.engine.Close() }
