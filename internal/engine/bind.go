package engine

import (
	"fmt"
	"iter"
	"maps"
	"runtime/debug"
	"slices"
	"strings"
	"unsafe"

	"github.com/rlxc/rlxc/internal/backend"
	"github.com/rlxc/rlxc/internal/check"
	"github.com/rlxc/rlxc/internal/legalize"
	"github.com/rlxc/rlxc/internal/options"
	"github.com/rlxc/rlxc/internal/proof"
	"github.com/rlxc/rlxc/internal/schedule"
	"github.com/rlxc/rlxc/internal/sharing"
	"github.com/rlxc/rlxc/internal/target"
	"github.com/rlxc/rlxc/ir"
	"github.com/rlxc/rlxc/liveness"
	"github.com/rlxc/rlxc/planner"
	"github.com/rlxc/rlxc/tensor"
)

// A Binding is a stage's graph with all sizes fixed: planned, and ready to be attached to a session's memory.
type Binding struct {
	Dims     ir.Binding
	Planned  *backend.Planned
	Host     []backend.HostStep // the steps that run on the host
	Resident *Resident          // only backend cpu has it

	intact  []*ir.Value // what must be there after a run
	outside ports       // of which some are outside of the arena
	grown   []int       // by output: the input whose memory it has, with more after it, if they are one device tensor; −1 for none
	program backend.Program
	checked *check.Checked            // by which the bindings that keep its steps are checked
	made    []map[*ir.Value]ir.Layout // by step: the layouts for which its code was made; only with Verify
	arena   int64                     // bytes of the plan
	flops   int64                     // of a run's products
	host    int64                     // bytes that the hungriest step on the host takes beside the arena
	results []ir.Type                 // of the graph
	// box has this binding and others; nil if there are no others.
	box      *box
	sizes    []int            // in the order of the stage's symbols, of a box's binding
	instance backend.Instance // on the memory of the session whose box it is
}

// flopsOf counts the operations of a bound graph's products.
func flopsOf(g *ir.Graph) int64 {
	sum := ir.Dim{}
	for _, n := range g.Nodes {
		sum = sum.Add(ir.Flops(n))
	}
	flops, _ := sum.Const() // a bound graph has no symbols; sums saturate
	return int64(flops)
}

func nodeFlops(n *ir.Node) int64 {
	flops, _ := ir.Flops(n).Const()
	return int64(flops)
}

func resultsOf(g *ir.Graph) (types []ir.Type) {
	for _, v := range g.Outputs {
		types = append(types, v.Type)
	}
	return types
}

// hostBytes is what the hungriest step on the host allocates for its results: they are copied to the arena.
func (p *Program) hostBytes(steps []*ir.Node) int64 {
	var most int64
	for _, n := range steps {
		if p.device.Target().Where(n) != target.OnHost {
			continue
		}
		var bytes int64
		for _, v := range n.Outputs {
			bytes += bytesOf(v)
		}
		most = max(most, bytes)
	}
	return most
}

// Bind binds the first stage to sizes, one for each symbol of the inputs; of a program without padding the main part, to a number of
// tokens, which is batch times sequence if it is not given.
func (p *Program) Bind(dims map[string]int) (*Binding, error) {
	if err := p.use(); err != nil {
		return nil, err
	}
	defer p.leave()
	b, main, err := p.sizes(dims)
	if err != nil {
		return nil, err
	}
	e, err := p.bind(&p.main.stages[main], b, nil)
	return e.binding, err
}

// sizes returns the sizes that are known before a run, and the stage that a plan is of.
func (p *Program) sizes(dims map[string]int) (b ir.Binding, main int, err error) {
	b = ir.Binding{}
	names := p.graph.FreeSymbols()
	if k := p.packing; k != nil {
		if dims, err = k.sizes(dims); err != nil {
			return nil, 0, err
		}
		names, main = append(names, k.tokens), k.main
	}
	for _, name := range names {
		n, ok := dims[name]
		if !ok {
			return nil, 0, WithKind(ErrInput, fmt.Errorf("dimension %s has no size: the model has %s", name, strings.Join(names, ", ")))
		}
		if n < 0 {
			return nil, 0, WithKind(ErrInput, fmt.Errorf("dimension %s = %d is negative", name, n))
		}
		b[name] = n
	}
	for name := range dims {
		if _, ok := b[name]; !ok {
			return nil, 0, WithKind(ErrInput, noDimension(name, names))
		}
	}
	for p.packing == nil && p.main.stages[main].node != nil {
		grow(b, p.main.stages[main].node)
		main++
	}
	return b, main, nil
}

// Cuts lists the nodes that are separate stages, on the host.
func (p *Program) Cuts() (nodes []*ir.Node) {
	for _, s := range p.main.stages {
		if s.node != nil {
			nodes = append(nodes, s.node)
		}
	}
	return nodes
}

// bind returns the stage's binding for these sizes, planning it when it is not among the last ones used.
func (p *Program) bind(s *stage, b ir.Binding, at ports) (*entry, error) {
	return p.cache.bind(keyOf(s, b, at), func() (*Binding, error) { return p.plan(s.graph, restrict(b, s.symbols), at, nil) })
}

// target is the device's, under the options.
func (p *Program) target() *target.Target {
	if t := p.device.Target(); p.opts.LateReads <= 0 {
		return t
	}
	return p.late
}

// plan is Bind: numbers for symbols, legal layouts, an order, lives, offsets, steps. If there are symbols that move, it makes a box.
func (p *Program) plan(g *ir.Graph, sizes ir.Binding, at ports, moves []string) (_ *Binding, err error) {
	defer Guard(&err, debug.SetPanicOnFault(true))
	t := p.target()
	fold := p.opts.Level != options.O0
	var bound *ir.Graph
	var trace *ir.Trace
	if moves == nil {
		bound, err = g.Bind(sizes, fold)
	} else {
		bound, trace, err = g.BindTraced(sizes, fold, t.Resizes, moves)
	}
	if err != nil {
		return nil, bindError(err)
	}
	grown, err := at.front(bound, trace)
	if err != nil {
		return nil, bindError(err)
	}
	layouts, err := legalize.Graph(bound, t)
	if err != nil {
		return nil, bindError(err)
	}
	layouts, untiled, err := legalize.Tile(bound, layouts, t)
	if err != nil {
		return nil, err
	}
	memory := liveness.New(bound, layouts, t, liveness.Options{Policy: p.opts.Liveness, PinOutputAncestors: p.opts.PinOutputAncestors,
		DeviceTensors: at.of(bound), Fixed: func(concat *ir.Node) bool { return fixed(trace, concat) }})
	outside := at.only(bound, memory.IsDeviceTensor)
	if outside.growing() != at.growing() {
		return p.plan(g, sizes, outside, moves) // what is copied anyway is not moved
	}
	order := schedule.Order((*schedule.Program)(&memory.Footprint))
	lives := memory.Analyze(order)
	b := &Binding{Dims: sizes, results: resultsOf(bound), outside: outside, grown: grown, flops: flopsOf(bound),
		host:   p.hostBytes(lives.Steps),
		intact: append(lives.Held, outside.of(bound)...), // what feeds a run is there after it
		Planned: &backend.Planned{Graph: bound, Steps: lives.Steps, Layouts: lives.Layouts, Buffers: lives.Buffers,
			Scratch: lives.Scratch, Problem: &lives.Problem}}
	if err := p.assignOffsets(b); err != nil {
		return nil, err
	}
	if p.opts.Backend == "cpu" {
		parts := p.resident(bound, b.Planned.Plan.Committed)
		b.Resident = &parts
	}
	if trace != nil {
		newBox(b, trace, g, untiled, memory, order, t)
	}
	if err := p.check(b, nil, nil, b.symbolic(g, trace)); err != nil {
		return nil, err
	}
	if b.program, err = p.device.Load(b.Planned); err != nil {
		return nil, bindError(err)
	}
	b.Host = b.program.HostSteps()
	return b, nil
}

// Explained returns the planning problem with all that a report shows besides: values that are in another's memory, the names of the
// steps, and constants, which have separate memory unless the problem is planned with other options.
func (b *Binding) Explained() (*planner.Problem, *planner.Plan) {
	planned := b.Planned
	p := *planned.Problem
	p.Buffers = slices.Clip(p.Buffers)
	for _, v := range planned.Graph.Consts() {
		p.Buffers = append(p.Buffers, constantBuffer(v, len(p.Buffers), len(planned.Steps)))
	}
	p.Views, p.Steps = nil, nil
	steps := make(map[*ir.Node]int, len(planned.Steps))
	for i, n := range planned.Steps {
		steps[n] = i
	}
	for _, n := range planned.Graph.Nodes {
		for _, v := range n.Outputs {
			l := planned.Layouts[v.ID]
			if l.Root == nil || l.Root == v || planned.Buffers[l.Root.ID] < 0 {
				continue
			}
			name := v.Name
			if name == "" {
				name = n.Label()
			}
			first, last := livesOf(v, steps, planned.Graph)
			p.Views = append(p.Views, planner.View{
				Name: name, Kind: n.Op.Kind().String(), Detail: v.Type.String(), Buffer: planned.Buffers[l.Root.ID],
				First: first, Last: last,
				Offset: int64(v.Type.DType.Bytes(l.Offset)), Size: int64(v.Type.DType.Bytes(v.Type.Elements())),
			})
		}
	}
	for _, n := range planned.Steps {
		p.Steps = append(p.Steps, ir.OpName(n.Op)+" "+n.Label())
	}
	return &p, planned.Plan.WithUnplanned(&p)
}

// livesOf returns the step that writes a value, and the step after the last that reads it. A view is there as soon as what it shows, and
// its views read it.
func livesOf(v *ir.Value, steps map[*ir.Node]int, g *ir.Graph) (first, last int) {
	for at := v; at.Def != nil; at = at.Def.Inputs[0] {
		if step, ok := steps[at.Def]; ok {
			first = step
			break
		}
	}
	last = first + 1
	if slices.Contains(g.Outputs, v) {
		last = len(steps)
	}
	for _, u := range v.Uses {
		if step, ok := steps[u.Node]; ok {
			last = max(last, step+1)
			continue
		}
		for _, shown := range u.Node.Outputs {
			_, until := livesOf(shown, steps, g)
			last = max(last, until)
		}
	}
	return first, last
}

// Identify names the content of each constant of an explained problem, by which programs share weights.
func (p *Program) Identify(b *Binding, problem *planner.Problem) (err error) {
	defer Guard(&err, debug.SetPanicOnFault(true))
	if err := p.use(); err != nil {
		return err
	}
	defer p.leave()
	first := len(b.Planned.Problem.Buffers)
	for i, v := range b.Planned.Graph.Consts() {
		problem.Buffers[first+i].Content = sharing.Digest(stored(v))
	}
	return nil
}

// stored is the bytes of a constant, packed or as the file has them; strings have none.
func stored(v *ir.Value) []byte {
	if v.Packed != nil {
		return v.Packed.Data.Bytes()
	}
	return v.Const.Bytes()
}

// Weights lists the bytes of all constants, each once however many values show them.
func (b *Binding) Weights() iter.Seq2[[]byte, *ir.Value] { return distinct(b.Planned.Graph) }

func distinct(g *ir.Graph) iter.Seq2[[]byte, *ir.Value] {
	return func(yield func([]byte, *ir.Value) bool) {
		seen := map[*byte]bool{}
		for _, v := range g.Consts() {
			data := stored(v)
			if at := unsafe.SliceData(data); len(data) == 0 || seen[at] {
				continue
			} else {
				seen[at] = true
			}
			if !yield(data, v) {
				return
			}
		}
	}
}

// constantBuffer is a constant as a buffer that lives throughout a run. Tensors of numbers that stand for real ones are parameters;
// single numbers, sizes and indices are not.
func constantBuffer(v *ir.Value, id, steps int) planner.Buffer {
	b := planner.Buffer{ID: id, Name: v.Name, Kind: "constant", Detail: v.Type.String(), Boundary: planner.Constant,
		DType: uint8(v.Type.DType), Last: steps + 1, LastLevel: steps + 1}
	b.Size = int64(len(stored(v)))
	switch {
	case v.Packed != nil:
		b.Kind, b.Detail, b.Boundary = "packed", b.Detail+" as "+v.Packed.Layout.String(), planner.Param
	default:
		b.Elements = int64(v.Const.Len())
		if d := v.Type.DType; v.Const.Len() > 1 && (d.IsFloat() || d.Size() <= 1 && d != tensor.Bool) {
			b.Boundary = planner.Param
		}
	}
	return b
}

// prove proves a plan, and the stack that it is of for all sizes.
func (p *Program) prove(b *Binding) error {
	if err := planner.Check(b.Planned.Problem, b.Planned.Plan); err != nil {
		return err
	}
	c := claim(b.Planned, p.target(), b.intact)
	c.Made = func(step int, v *ir.Value) ir.Layout { return b.made[step][v] }
	if err := proof.Verify(c); err != nil {
		return err
	}
	if b.box == nil || len(b.box.stacks) == 0 {
		return nil
	}
	if err := proof.Verify(stacked(c, b.Planned, b.box.stacks[0].Below)); err != nil {
		return fmt.Errorf("the plan is not safe at all sizes: %w", err)
	}
	return nil
}

// stacked is a claim about a plan as one for all sizes.
func stacked(c proof.Claim, p *backend.Planned, below [][]int) proof.Claim {
	c.Below = below
	at := func(buffer int) proof.Region {
		region := proof.Region{Offset: int64(buffer), Size: p.Problem.Buffers[buffer].Size}
		if p.Plan.Slots[buffer].Arena == planner.NoArena {
			region.Arena = 1 + buffer // in separate memory
		}
		return region
	}
	c.Region = func(v *ir.Value) (proof.Region, bool) {
		buffer := p.Buffers[p.Layout(v).Root.ID]
		return at(max(buffer, 0)), buffer >= 0
	}
	c.Scratch = func(step int) (regions []proof.Region) {
		for _, buffer := range p.Scratch[step] {
			regions = append(regions, at(buffer))
		}
		return regions
	}
	return c
}

// claim states a plan in the words of package proof.
func claim(p *backend.Planned, t *target.Target, held []*ir.Value) proof.Claim {
	c := proof.Claim{Graph: p.Graph, Steps: p.Steps, Align: t.Align, InPlace: t.InPlace, StridedResult: t.StridedResult,
		LateReads: t.LateReads, Held: held}
	for _, a := range p.Plan.Arenas {
		c.Arenas = append(c.Arenas, a.Size)
	}
	alone := map[int]proof.Region{} // results that no stage reads and device tensors have separate memory
	for _, u := range p.Plan.Unplanned {
		if b := &p.Problem.Buffers[u.Buffer]; t.Segment > 0 || b.Boundary == planner.DeviceTensor {
			alone[u.Buffer] = proof.Region{Arena: len(c.Arenas), Size: b.Size}
			c.Arenas = append(c.Arenas, b.Size)
		}
	}
	region := func(buffer int) (proof.Region, bool) {
		if own, ok := alone[buffer]; ok {
			return own, true
		}
		slot := p.Plan.Slots[buffer]
		return proof.Region{Arena: slot.Arena, Offset: slot.Offset, Size: slot.Size}, slot.Arena != planner.NoArena
	}
	c.Layout = func(v *ir.Value) ir.Layout {
		if l := p.Layouts[v.ID]; l.Root != nil {
			return l
		}
		return ir.OwnLayout(v)
	}
	c.Region = func(v *ir.Value) (proof.Region, bool) {
		if r := p.Layouts[v.ID].Root; r != nil {
			v = r
		}
		if b := p.Buffers[v.ID]; b >= 0 {
			return region(b)
		}
		return proof.Region{}, false
	}
	c.Scratch = func(step int) []proof.Region {
		var out []proof.Region
		for _, b := range p.Scratch[step] {
			if s, ok := region(b); ok {
				out = append(out, s)
			}
		}
		return out
	}
	return c
}

// describe prints sizes as "batch=2 seq=16".
func describe(b ir.Binding) string {
	var parts []string
	for _, name := range slices.Sorted(maps.Keys(b)) {
		parts = append(parts, fmt.Sprintf("%s=%d", name, b[name]))
	}
	if len(parts) == 0 {
		return "the model's sizes"
	}
	return strings.Join(parts, " ")
}
