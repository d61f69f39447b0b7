// Package engine compiles graphs for a device and runs them. It is what the root package, which is the API, is made of.
//
// Compile rewrites a graph and packs its weights, once. Bind puts numbers to its symbols and plans its memory; a program keeps the
// bindings used last. A Session runs a program in separate memory. The engine knows no file format: what it compiles comes from
// a Source.
package engine

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"runtime/debug"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/rlxc/rlxc/internal/artifact"
	"github.com/rlxc/rlxc/internal/backend"
	"github.com/rlxc/rlxc/internal/files"
	"github.com/rlxc/rlxc/internal/memory"
	"github.com/rlxc/rlxc/internal/options"
	"github.com/rlxc/rlxc/internal/rewrite"
	"github.com/rlxc/rlxc/internal/target"
	"github.com/rlxc/rlxc/ir"
)

// A Source is the file that a program is made of. It counts its users.
type Source interface {
	Name() string
	// Graph makes the program again: the caller may change it.
	Graph() (*ir.Graph, error)
	// Compiled describes the program of a compiled file; nil where the source is a model.
	Compiled() *artifact.Info
	// Evict advises the system that the file's pages are not needed for now; EvictPart those around some bytes, and reports whether
	// they are in the file.
	Evict()
	EvictPart(part []byte) bool
	// Stamps are the states of the files when they were opened.
	Stamps() []files.Stamp
	// Retain adds a user, Close takes one away; the last one closes the file.
	Retain()
	Close() error
}

// Leveled is a Source with programs for several devices.
type Leveled interface {
	// For returns the source with the program for a device, and false if it has that one already or none.
	For(target string) (Source, bool)
}

// Overridable is a Source whose programs may have inputs with a default.
type Overridable interface {
	// Overridable lists names and types of these inputs, whether the program has them or constants.
	Overridable() []*ir.Value
}

// A Program is a model compiled for a device. It may be used by several goroutines. It is the home of the first of three stages: compile.
// The second, bind, is that of plans, and the third, run, that of Session.
type Program struct {
	plans
	file   Source
	bodies map[*ir.Graph]*unit // subgraphs of If, Loop and Scan, cut into stages
	stats  Stats
	tables [][]byte // large constants of which runs look rows up

	measured      sync.Once // see Process
	runtime, peak int64
}

// Stats say what compiling did.
type Stats struct {
	Rewrites           *rewrite.Stats
	Level              options.Level
	Compiled, Prepared bool
	Packed             int
	PackedFor          string
}

// Compile makes a program of a graph that comes from a file. When ctx ends it returns before the next pass or subgraph.
func Compile(ctx context.Context, file Source, graph func() (*ir.Graph, error), o options.Compile) (*Program, error) {
	return CompileExtended(ctx, file, graph, Part{}, nil, o)
}

// CompileExtended is Compile of a part of the graph. extend appends nodes, inputs and outputs to the rewritten graph; nil for none.
func CompileExtended(ctx context.Context, file Source, graph func() (*ir.Graph, error), part Part, extend func(*ir.Graph) error,
	o options.Compile) (*Program, error) {
	o, err := options.Resolve(o)
	if err != nil {
		return nil, WithKind(ErrInput, err)
	}
	if err := rewrite.DumpOptions(o); err != nil {
		return nil, err
	}
	o.MemoryLimit = memory.Limit(o.MemoryLimit)
	dev, err := backend.Open(o)
	if err != nil {
		return nil, WithKind(ErrNoDevice, err)
	}
	if several, ok := file.(Leveled); ok {
		if chosen, ok := several.For(dev.Target().Name); ok {
			file, graph = chosen, chosen.Graph
		}
	}
	if r, ok := dev.(backend.Releaser); ok {
		r.OnRelease(releaser(file))
	}
	p, err := compile(ctx, file, graph, part, extend, dev, o)
	if err != nil {
		dev.Close()
		return nil, fmt.Errorf("%s: %w", file.Name(), err)
	}
	return p, nil
}

func compile(ctx context.Context, file Source, graph func() (*ir.Graph, error), part Part, extend func(*ir.Graph) error,
	dev backend.Device, o options.Compile) (_ *Program, err error) {
	defer Guard(&err, debug.SetPanicOnFault(true))
	g, err := graph()
	if err != nil {
		return nil, err
	}
	if err := fixDims(g, o.Dims); err != nil {
		return nil, err
	}
	if err := part.reduce(g); err != nil {
		return nil, err
	}
	if err := tap(g, o.Taps); err != nil {
		return nil, err
	}
	p := &Program{plans: plans{common: common{opts: o, device: dev, cache: newCache(o.CacheLimit)}, graph: g}, file: file,
		bodies: map[*ir.Graph]*unit{}}
	p.users, p.left = 1, p.idle
	p.stats.Level, p.stats.Compiled = o.Level, true
	if o.LateReads > 0 {
		p.late = dev.Target().Late(o.LateReads)
	}
	packedFor := ""
	if f := file.Compiled(); f != nil {
		if err := serves(f, o); err != nil {
			return nil, WithKind(ErrInput, err)
		}
		p.stats.Level, p.stats.Compiled = levelOf(f), false
		o.Level, o.Unpad = options.O0, false // it has been rewritten
		if f.Target != dev.Target().Name {
			packedFor = f.Target // else only weights that extend appended are packed
		}
	}
	if p.stats.Rewrites, err = rewrite.Run(ctx, g, dev.Target(), o); err != nil {
		return nil, bindError(err)
	}
	if extend != nil {
		if err := extend(g); err != nil {
			return nil, err
		}
	}
	if slices.Contains(o.Taps, AllValues) {
		TapAll(g)
	}
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	copySmall(file, g)
	if err := p.fits(g, memory.Available()); err != nil {
		return nil, err
	}
	if err := p.prepare(ctx, g, o); err != nil {
		return nil, unavailable(err)
	}
	if p.stats.Packed > 0 {
		p.stats.Prepared, p.stats.PackedFor = true, packedFor
	}
	p.filePacked = !p.stats.Compiled && packedFor == ""
	if o.Backend != "cpu" { // a step on the host brings back the pages that it reads
		p.uploaded = sync.OnceFunc(file.Evict)
	}
	if len(p.bodies) > 0 {
		g.Renumber() // each subgraph was numbered separately
	}
	p.main = newUnit(g, false, p.device.Target())
	p.independent = sync.OnceValues(p.findIndependent)
	for body := range p.bodies {
		p.bodies[body] = newUnit(body, true, p.device.Target())
		p.bodies[body].symbols = symbolsOf(body)
	}
	p.packing = findPacking(p.main)
	if p.opts.Unpad && file.Compiled() != nil && p.packing == nil {
		p.stats.Rewrites.Padded = "the file was compiled without --unpad"
	}
	file.Retain()
	p.tidy()
	return p, nil
}

// unavailable gives the error of a device that cannot be used its kind.
func unavailable(err error) error {
	if u := new(backend.Unavailable); errors.As(err, &u) {
		return WithKind(ErrNoDevice, err)
	}
	return err
}

// prepare packs the weights of a graph, and rewrites and prepares the subgraphs in it. They are closed graphs, and sizes of what is around
// them come to them with each call.
func (p *Program) prepare(ctx context.Context, g *ir.Graph, o options.Compile) error {
	packed, err := p.device.Prepare(g)
	if over := (*memory.Error)(nil); errors.As(err, &over) {
		err = WithKind(ErrMemory, err)
	}
	if err != nil {
		return err
	}
	p.stats.Packed += packed
	for _, n := range g.Nodes {
		for _, body := range n.Subgraphs {
			body.Isolate()
			if _, err := rewrite.RunSubgraph(ctx, body, p.device.Target(), o); err != nil {
				return bindError(err)
			}
			p.bodies[body] = nil // until nothing changes the graphs any more
			if err := p.prepare(ctx, body, o); err != nil {
				return err
			}
		}
	}
	return nil
}

// serves reports why a compiled file cannot be run as if the model had been compiled with these options.
func serves(f *artifact.Info, o options.Compile) error {
	if device, _, _ := strings.Cut(f.Target, "/"); device != o.Backend {
		return fmt.Errorf("the file was compiled for %s: run it on backend %s, or compile the model again for backend %s", f.Target,
			device, o.Backend)
	}
	level := levelOf(f)
	if o.Level < level {
		return fmt.Errorf("the file was compiled at -O %s: for -O %s compile the model again", level, o.Level)
	}
	if o.Exact && level > options.O1 {
		return fmt.Errorf("the file was compiled at -O %s and does not record whether --exact was set: "+
			"compile the model again, and run the file without asking for it", level)
	}
	return nil
}

// levelOf is the level of a compiled file.
func levelOf(f *artifact.Info) options.Level { return options.Level(strconv.Itoa(f.Level)) }

// fixDims puts numbers to symbols before anything else looks at them.
func fixDims(g *ir.Graph, dims map[string]int) error {
	if len(dims) == 0 {
		return nil
	}
	m := map[string]ir.Dim{}
	free := g.FreeSymbols()
	for name, n := range dims {
		if !slices.Contains(free, name) {
			return WithKind(ErrInput, noDimension(name, free))
		}
		if n < 0 {
			return WithKind(ErrInput, fmt.Errorf("dimension %s = %d is negative", name, n))
		}
		m[name] = ir.N(n)
	}
	return bindError(g.Subst(m))
}

// Stats says what compiling did.
func (p *Program) Stats() Stats { return p.stats }

// Graph is the rewritten program; it must not be changed.
func (p *Program) Graph() *ir.Graph { return p.graph }

// Reference lists the nodes of the program, and of the branches and loop bodies in it, that run ByReference.
func (p *Program) Reference() (nodes []*ir.Node) {
	var look func(g *ir.Graph)
	look = func(g *ir.Graph) {
		for _, n := range g.Nodes {
			if p.ByReference(n) {
				nodes = append(nodes, n)
			}
			for _, body := range n.Subgraphs {
				look(body)
			}
		}
	}
	look(p.graph)
	return nodes
}

// ByReference reports whether a node runs by its op's Eval, without a kernel. A node with subgraphs runs those as programs, one that
// is lowered in each run as what it becomes then, and sizes and padding are only written.
func (p *Program) ByReference(n *ir.Node) bool {
	k := n.Op.Kind()
	return p.device.Target().Where(n) == target.OnHost && len(n.Subgraphs) == 0 && (!k.Has(ir.Typed) || k == ir.KindCustom) &&
		k != ir.KindDims && k != ir.KindUnpack
}

// Save writes the program, others of the same model for other devices, and files beside it as a compiled file.
func (p *Program) Save(path string, beside map[string][]byte, others ...*Program) (err error) {
	defer Guard(&err, debug.SetPanicOnFault(true))
	if err := p.use(); err != nil {
		return err
	}
	defer p.leave()
	level, err := strconv.Atoi(string(p.stats.Level))
	if err != nil {
		return err
	}
	targets := []artifact.Target{{Name: p.device.Target().Name, Graph: p.graph}}
	for _, other := range others {
		if err := other.use(); err != nil {
			return err
		}
		defer other.leave()
		if other.stats.Level != p.stats.Level || other.file.Name() != p.file.Name() {
			return WithKind(ErrInput, fmt.Errorf("programs of %s at -O %s and of %s at -O %s cannot be saved together", p.file.Name(),
				p.stats.Level, other.file.Name(), other.stats.Level))
		}
		name := other.device.Target().Name
		if slices.ContainsFunc(targets, func(t artifact.Target) bool { return t.Name == name }) {
			return WithKind(ErrInput, fmt.Errorf("two programs for %s cannot be saved together", name))
		}
		targets = append(targets, artifact.Target{Name: name, Graph: other.graph})
	}
	return files.ReplaceFile(path, func(w io.Writer) error {
		err := artifact.Write(w, p.file.Name(), level, beside, targets...)
		return cmp.Or(p.CheckFiles(), err)
	})
}

// Files are the states of the program's files when they were opened.
func (p *Program) Files() []files.Stamp { return p.file.Stamps() }

// CheckFiles fails with ErrFileChanged if one of Files was changed.
func (p *Program) CheckFiles() error { return Unchanged(p.file) }

// Unchanged fails with ErrFileChanged, and names the file, if a file of the source was written to or truncated since it was opened.
func Unchanged(s Source) error {
	for _, stamp := range s.Stamps() {
		if stamp.Changed() {
			return WithKind(ErrFileChanged, fmt.Errorf("the file %s was changed while in use: to replace it, rename another file to its "+
				"name", stamp.Path))
		}
	}
	return nil
}

// Unpadded reports whether the program skips padding tokens.
func (p *Program) Unpadded() bool { return p.packing != nil }

// idle releases everything after the last use of the program. When the program alone is left, it does not run, and the rows that runs
// have looked up leave memory.
func (p *Program) idle(users int) error {
	switch users {
	case 0:
		return errors.Join(p.device.Close(), p.file.Close())
	case 1:
		p.evictTables()
	}
	return nil
}

// evictTables advises the system that the rows that runs have looked up are not needed for now.
func (p *Program) evictTables() {
	for _, t := range p.tables {
		p.file.EvictPart(t)
	}
}
