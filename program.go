package rlxc

import (
	"errors"
	"fmt"
	"os"
	"runtime/debug"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/rlxc/rlxc/backend"
	_ "github.com/rlxc/rlxc/backend/cpu" // the backend that every program has
	"github.com/rlxc/rlxc/ir"
	"github.com/rlxc/rlxc/legalize"
	"github.com/rlxc/rlxc/liveness"
	"github.com/rlxc/rlxc/planner"
	"github.com/rlxc/rlxc/proof"
	"github.com/rlxc/rlxc/rewrite"
	"github.com/rlxc/rlxc/schedule"
	"github.com/rlxc/rlxc/target"
)

// Level says how far a program is rewritten. The zero value is all the way.
type Level uint8

// The levels, as the command line has them.
const (
	O2 Level = iota // all fusions
	O1              // folding, common subexpressions, dead code
	O0              // as the model says
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
	Profile     bool           // keep the times of the steps: Session.Profile
	Verify      bool           // check the graph after every pass and prove every plan, as RLXC_VERIFY=1 does
	Taps        []string       // names in the model of inner values to give as outputs too, kept whatever the level; AllValues is for all that survive

	Liveness liveness.Policy // how far buffers are kept for readers that the steps do not show, such as kernels that run late
}

// A Program is a model compiled for a device. It may be used by several goroutines.
type Program struct {
	opts   CompileOptions
	file   source
	device backend.Device
	graph  *ir.Graph
	stages []stage
	// regions are the bodies of If, Loop and Scan: programs of their own, on the same device.
	regions map[*ir.Graph]*Program
	symbols []string // of a region: the sizes around it that it needs
	stats   CompileStats
	tables  [][]byte // large constants that runs look rows up in

	mu     sync.Mutex
	bound  []*lru[*binding] // by stage
	users  int              // its sessions, and itself until it is closed
	closed atomic.Bool
}

// CompileStats say what compiling did.
type CompileStats struct {
	Rewrites *rewrite.Stats `json:"rewrites"`
	// Level is how far the program is rewritten, as -O counts: from 0 to 2. A compiled file has its own.
	Level int `json:"level"`
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

// maxBindings bounds the plans that a program keeps: the ones used last.
const maxBindings = 32

// Compile makes a program of the model.
func (m *Model) Compile(o CompileOptions) (*Program, error) {
	if m.closed.Load() {
		return nil, closedError("model")
	}
	if err := o.check(); err != nil {
		return nil, err
	}
	if o.Backend == "" {
		o.Backend = "cpu"
	}
	o.MemoryLimit = memoryLimit(o.MemoryLimit)
	o.Verify = o.Verify || os.Getenv(EnvVerify) == "1"
	dev, err := backend.Open(o.Backend, backend.Options{Device: o.Device, Threads: o.Threads, Level: o.CPU, Profile: o.Profile,
		Precision: o.Precision, Weights: o.Weights, Release: m.releaser()})
	if err != nil {
		return nil, withKind(ErrNoDevice, err)
	}
	p, err := m.compile(dev, o)
	if err != nil {
		dev.Close()
		return nil, fmt.Errorf("%s: %w", m.Name(), err)
	}
	return p, nil
}

// check finds values that no constant of their types has; what a backend must have is its own to check.
func (o *CompileOptions) check() error {
	if int(o.Level) >= len(rewriteLevels) {
		return fmt.Errorf("unknown level %d: use O0, O1 or O2", o.Level)
	}
	if _, err := o.Mode.MarshalText(); err != nil {
		return err
	}
	_, err := liveness.ParsePolicy(o.Liveness.String())
	return err
}

func (m *Model) compile(dev backend.Device, o CompileOptions) (_ *Program, err error) {
	defer guard(&err, debug.SetPanicOnFault(true))
	g, err := m.graph()
	if err != nil {
		return nil, modelError(err)
	}
	if err := fixDims(g, o.Dims); err != nil {
		return nil, err
	}
	if err := tap(g, o.Taps); err != nil {
		return nil, err
	}
	p := &Program{opts: o, device: dev, graph: g, users: 1}
	level := rewriteLevels[o.Level]
	p.stats.Level, p.stats.Compiled = level, 1
	packedFor := ""
	if f, ok := m.file.(*compiledSource); ok {
		if err := f.serves(o.Backend, level); err != nil {
			return nil, withKind(ErrInput, err)
		}
		p.stats.Level, p.stats.Compiled = f.file.Level, 0
		level, packedFor = rewrite.O0, f.file.Target // it has been rewritten
	}
	if p.stats.Rewrites, err = rewrite.Run(g, level, dev.Target(), rewrite.Options{Verify: o.Verify}); err != nil {
		return nil, bindError(err)
	}
	if slices.Contains(o.Taps, AllValues) {
		markAll(g)
	}
	m.copySmall(g)
	if p.stats.Packed, err = dev.Prepare(g); err != nil {
		return nil, err
	}
	if err := p.compileRegions(level); err != nil {
		return nil, err
	}
	if p.stats.Packed > 0 {
		p.stats.Prepared, p.stats.PackedFor = 1, packedFor
	}
	if len(p.regions) > 0 {
		g.Renumber() // each region was numbered by itself
	}
	p.cut()
	p.file = m.file
	p.file.retain()
	p.tidy()
	return p, nil
}

var rewriteLevels = [...]int{O2: rewrite.O2, O1: rewrite.O1, O0: rewrite.O0}

// fixDims puts numbers to symbols before anything else looks at them.
func fixDims(g *ir.Graph, dims map[string]int) error {
	if len(dims) == 0 {
		return nil
	}
	m := map[string]ir.Dim{}
	free := g.FreeSymbols()
	for name, n := range dims {
		if !slices.Contains(free, name) {
			return withKind(ErrInput, noDimension(name, free))
		}
		if n < 0 {
			return withKind(ErrInput, fmt.Errorf("dimension %s = %d is negative", name, n))
		}
		m[name] = ir.N(n)
	}
	return bindError(g.Subst(m))
}

func noDimension(name string, free []string) error {
	if len(free) == 0 {
		return fmt.Errorf("the model has no dimension %q: all its sizes are fixed", name)
	}
	return fmt.Errorf("the model has no dimension %q: it has %s", name, strings.Join(free, ", "))
}

// Stats says what compiling did.
func (p *Program) Stats() CompileStats { return p.stats }

// Inputs describes what a run takes, in the model's order.
func (p *Program) Inputs() []ValueInfo { return inputInfo(p.graph) }

// Outputs describes what a run gives, in the model's order, marked values last.
func (p *Program) Outputs() []ValueInfo { return outputInfo(p.graph) }

// Graph is the rewritten program, for inspection; it must not be changed.
func (p *Program) Graph() *ir.Graph { return p.graph }

// Close ends the use of the program. Sessions go on.
func (p *Program) Close() error {
	if p.closed.Swap(true) {
		return closedError("program")
	}
	return p.leave()
}

// leave ends one use; the last one gives all back.
func (p *Program) leave() error {
	p.mu.Lock()
	p.users--
	last := p.users == 0
	p.mu.Unlock()
	if !last {
		return nil
	}
	return errors.Join(p.device.Close(), p.file.Close())
}

// A binding is a stage with all sizes fixed: planned, and ready to be attached to a session's memory.
type binding struct {
	planned *backend.Planned
	program backend.Program
	report  *Report
}

// bind gives the stage's binding for these sizes, planning it when it is not among the last ones used.
func (p *Program) bind(s int, b ir.Binding) (*binding, error) {
	key := b.Key(p.stages[s].symbols)
	p.mu.Lock()
	e := p.bound[s].get(key)
	p.mu.Unlock()
	return e.make(func() (*binding, error) { return p.plan(p.stages[s].graph, restrict(b, p.stages[s].symbols)) })
}

// plan is Bind: numbers for symbols, legal layouts, an order, lives, offsets, steps.
func (p *Program) plan(g *ir.Graph, b ir.Binding) (_ *binding, err error) {
	defer guard(&err, debug.SetPanicOnFault(true))
	t := p.device.Target()
	bound, err := g.Bind(b, p.opts.Level != O0)
	if err != nil {
		return nil, bindError(err)
	}
	layouts, err := legalize.Graph(bound, t)
	if err != nil {
		return nil, bindError(err)
	}
	memory := liveness.New(bound, layouts, t, liveness.Options{Policy: p.opts.Liveness})
	lives := memory.Analyze(schedule.Order((*schedule.Program)(&memory.Footprint)))
	options, err := planner.FromEnv(planner.Activations())
	if err != nil {
		return nil, err
	}
	if p.opts.Mode != planner.Auto {
		options.Mode = p.opts.Mode
	}
	options.Alignment, options.Segment = t.Align, t.Segment
	plan, err := planner.Solve(&lives.Problem, options)
	if err != nil {
		return nil, err
	}
	needs := plan.Committed
	for _, u := range plan.Unplanned {
		needs += lives.Problem.Buffers[u.Buffer].Size
	}
	if limit := p.opts.MemoryLimit; needs > limit {
		return nil, withKind(ErrMemory, fmt.Errorf("at %s the arena needs %d bytes, the limit is %d", describe(b), needs, limit))
	}
	planned := &backend.Planned{Graph: bound, Steps: lives.Steps, Layouts: lives.Layouts, Buffers: lives.Buffers,
		Scratch: lives.Scratch, Problem: &lives.Problem, Plan: plan}
	if p.opts.Verify {
		if err := planner.Check(&lives.Problem, plan); err != nil {
			return nil, fmt.Errorf("the plan is wrong: %w", err)
		}
		if err := proof.Verify(claim(planned, t, lives.Held)); err != nil {
			return nil, fmt.Errorf("the plan is not safe: %w", err)
		}
	}
	prog, err := p.device.Load(planned)
	if err != nil {
		return nil, bindError(err)
	}
	report := newReport(b, planned, prog.HostSteps())
	if p.opts.Backend == "cpu" {
		parts := p.resident(bound, plan.Committed)
		report.Resident, report.ResidentParts = parts.sum(), &parts
	}
	return &binding{planned: planned, program: prog, report: report}, nil
}

// claim states a plan in the words of package proof.
func claim(p *backend.Planned, t *target.Target, held []*ir.Value) proof.Claim {
	c := proof.Claim{Graph: p.Graph, Steps: p.Steps, Align: t.Align, InPlace: t.InPlace, LateReads: t.LateReads, Held: held}
	for _, a := range p.Plan.Arenas {
		c.Arenas = append(c.Arenas, a.Size)
	}
	alone := map[int]proof.Place{} // what no segment takes lies on the host, in memory of its own
	if t.Segment > 0 {
		for _, u := range p.Plan.Unplanned {
			size := p.Problem.Buffers[u.Buffer].Size
			alone[u.Buffer] = proof.Place{Arena: len(c.Arenas), Size: size}
			c.Arenas = append(c.Arenas, size)
		}
	}
	place := func(buffer int) (proof.Place, bool) {
		if own, ok := alone[buffer]; ok {
			return own, true
		}
		slot := p.Plan.Slots[buffer]
		return proof.Place{Arena: slot.Arena, Offset: slot.Offset, Size: slot.Size}, slot.Arena != planner.NoArena
	}
	c.Place = func(v *ir.Value) (proof.Place, bool) {
		if r := p.Layouts[v.ID].Root; r != nil {
			v = r
		}
		if b := p.Buffers[v.ID]; b >= 0 {
			return place(b)
		}
		return proof.Place{}, false
	}
	c.Scratch = func(step int) []proof.Place {
		var out []proof.Place
		for _, b := range p.Scratch[step] {
			if s, ok := place(b); ok {
				out = append(out, s)
			}
		}
		return out
	}
	return c
}
