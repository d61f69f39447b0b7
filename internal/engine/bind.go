package engine

import (
	"errors"
	"fmt"
	"iter"
	"maps"
	"runtime/debug"
	"slices"
	"strings"
	"unsafe"

	"github.com/rlxc/rlxc/internal/backend"
	"github.com/rlxc/rlxc/internal/bind"
	"github.com/rlxc/rlxc/internal/check"
	"github.com/rlxc/rlxc/internal/options"
	"github.com/rlxc/rlxc/internal/proof"
	"github.com/rlxc/rlxc/internal/sharing"
	"github.com/rlxc/rlxc/internal/target"
	"github.com/rlxc/rlxc/ir"
	"github.com/rlxc/rlxc/planner"
	"github.com/rlxc/rlxc/tensor"
)

// A Binding is a stage's graph with all sizes fixed: planned, and ready to be attached to a session's memory.
type Binding struct {
	Dims     ir.Binding         // the numbers of the stage's symbols
	Planned  *backend.Planned   // nil once the box has made another binding
	Host     []backend.HostStep // the steps that run on the host
	Resident *Resident          // nil unless the backend is cpu
	Streamed int64              // bytes of weights that a run copies to the device
	Stream   int64              // bytes of device memory, beside the plan, to which it copies them

	latest
	outside  ports            // inputs and outputs, of which some are outside of the arena; nil if all are inside
	grown    []int            // for each output, the input that it extends in the same device tensor; −1 for none
	program  backend.Program  // runs the steps
	steps    int              // number of steps
	arena    int64            // bytes of the plan
	flops    int64            // operations of a run's products
	host     int64            // bytes that the hungriest step on the host takes beside the arena
	results  []ir.Type        // types of the graph's outputs
	box      *box             // the plan, with this binding and others that come from it; nil if no others can
	sizes    []int            // Dims in the order of the stage's symbols; nil unless a session's box lists the binding
	instance backend.Instance // on the memory of the session whose box it is; nil before its first run, and where no session has the box
}

// latest is what the next binding of a box compares itself with. It is zero in all bindings but the one made last, since it has a graph.
type latest struct {
	bound   *bind.Bound         // the decisions at these sizes
	intact  []*ir.Value         // what must be there after a run
	checked *check.Checked      // result of the check; a binding that keeps these steps is checked against it
	made    []map[int]ir.Layout // layouts for which the code of each step was made, by value ID; nil without Verify
}

func resultsOf(g *ir.Graph) (types []ir.Type) {
	for _, v := range g.Outputs {
		types = append(types, v.Type)
	}
	return types
}

// Bind binds the first stage to sizes, one for each symbol of the inputs; of a program without padding the main part, to a number of
// tokens, which is batch times sequence if it is not given.
func (p *plans) Bind(dims map[string]int) (*Binding, error) {
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

// Cuts lists the nodes that are separate stages, on the host.
func (p *plans) Cuts() (nodes []*ir.Node) {
	for _, s := range p.main.stages {
		if s.node != nil {
			nodes = append(nodes, s.node)
		}
	}
	return nodes
}

// worthCollecting is how many bytes the planning of a run allocates before its garbage is collected at once. Steps that run by tiles
// allocate megabytes, which a heap with a large arena would keep until it has doubled. Runs at all sizes share some ten plans; a report
// makes a plan for each size, and collects nothing.
const worthCollecting = 512 << 10

// plan plans a stage's graph and binds it to sizes. If there are symbols that move, the binding has a box.
func (p *plans) plan(g *ir.Graph, sizes ir.Binding, at ports, moves []string) (_ *Binding, err error) {
	defer Guard(&err, debug.SetPanicOnFault(true))
	x, before := &box{}, Allocated()
	options := bind.Options{Target: p.target(), Fold: p.opts.Level != options.O0, Symbols: moves, Policy: p.opts.Liveness,
		PinOutputAncestors: p.opts.PinOutputAncestors, MemoryLimit: p.opts.MemoryLimit}
	if options.Planner, err = planner.FromEnv(planner.Activations()); err != nil {
		return nil, err
	}
	if p.opts.Mode != planner.Auto {
		options.Planner.Mode = p.opts.Mode
	}
	options.Planner.Alignment, options.Planner.Segment = p.target().Align, p.target().Segment
	options.Edit = func(bound *ir.Graph, trace *ir.Trace) (device []*ir.Value, inputs []ir.Type, err error) {
		x.grown, err = at.front(bound, trace)
		return at.of(bound), at.inputs(g), err
	}
	if x.plan, err = bind.New(g, sizes, options); err != nil {
		return nil, bindError(err)
	}
	x.outside = at.only(x.plan.Graph(), x.plan.IsDeviceTensor)
	if x.outside.growing() != at.growing() {
		return p.plan(g, sizes, x.outside, moves) // what is copied anyway is not moved
	}
	b, err := p.bound(x, g, sizes)
	if unfit := (*bind.Unfit)(nil); errors.As(err, &unfit) {
		return nil, WithKind(ErrInternal, fmt.Errorf("internal error: a plan does not hold at its own sizes, %s: %w", describe(sizes), err))
	} else if err != nil {
		return nil, bindError(err)
	}
	if p.uploaded != nil {
		p.uploaded()
	}
	if s, ok := b.program.(backend.Streamer); ok {
		b.Streamed, b.Stream = s.Streamed()
	}
	if b.Host = b.program.HostSteps(); p.opts.Backend == "cpu" {
		parts := p.resident(b.Planned.Graph, b.arena)
		b.Resident = &parts
	}
	if moves != nil {
		x.open(p, b)
		if p.opts.Backend == "cpu" && Allocated()-before > worthCollecting {
			debug.FreeOSMemory()
		}
	} else {
		b.box, b.latest = nil, latest{} // no other sizes follow
	}
	return b, nil
}

// bound binds a plan to sizes. Steps that the binding made last has as well are kept. g is the symbolic graph.
func (p *plans) bound(x *box, g *ir.Graph, sizes ir.Binding) (_ *Binding, err error) {
	old := x.last
	var before *bind.Bound
	if old != nil {
		before = old.bound
	}
	bound, err := x.plan.Bind(sizes, before)
	if err != nil {
		return nil, err
	}
	if err := p.allow(bound); err != nil {
		return nil, err
	}
	if bound.Replanned {
		p.cache.plannedAgain()
	}
	pl := bound.Planned
	b := &Binding{Dims: sizes, Planned: pl, steps: len(pl.Steps), box: x, outside: x.outside, grown: x.grown, arena: pl.Plan.Committed,
		flops: bound.Flops, host: bound.Host, results: resultsOf(pl.Graph)}
	b.bound, b.intact = bound, slices.Concat(bound.Held, x.outside.of(pl.Graph)) // what feeds a run is there after it
	if old == nil {
		if err = p.check(b, nil, nil, x.symbolic(g, bound)); err == nil {
			b.program, err = p.device.Load(b.Planned)
		}
	} else if err = p.check(b, old, bound.Made, nil); err == nil {
		b.program, err = old.program.Refit(b.Planned, bound.Made)
	}
	if err != nil {
		return nil, err
	}
	if x.last = b; old == nil {
		return b, nil
	}
	if b.Host = old.Host; b.program == old.program {
		b.instance = old.instance
	}
	if old.Resident != nil {
		r := *old.Resident
		r.Arena, r.Inputs, r.File = b.arena, inputBytes(pl.Graph), x.file
		for _, id := range x.tables {
			r.File += p.touched(pl.Graph, bound.Value(id))
		}
		b.Resident = &r
	}
	old.Planned, old.latest = nil, latest{}
	return b, nil
}

// Explained returns the planning problem with all that a report shows besides: values that are in another's memory, the names of the
// steps, and constants, which have separate memory unless the problem is planned with other options.
func (b *Binding) Explained() (*planner.Problem, *planner.Plan) {
	planned := b.Planned
	p := *planned.Problem
	p.Buffers = slices.Clone(p.Buffers)
	for step, n := range planned.Steps {
		for _, v := range n.Inputs {
			if i := bufferOf(planned, v); i >= 0 {
				addUse(&p.Buffers[i], &p.Buffers[i].Reads, step)
			}
		}
		for _, v := range n.Outputs {
			if i := bufferOf(planned, v); i >= 0 {
				addUse(&p.Buffers[i], &p.Buffers[i].Writes, step)
			}
		}
	}
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
			l := planned.Layout(v)
			if l.Root == v || planned.Buffers[l.Root.ID] < 0 {
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
				Strides: stridesOf(v.Type.DType, l),
			})
		}
	}
	for _, n := range planned.Steps {
		p.Steps = append(p.Steps, ir.OpName(n.Op)+" "+n.Label())
	}
	return &p, planned.Plan.WithUnplanned(&p)
}

// bufferOf returns the index of the buffer that a value is in, and -1 for constants and absent operands.
func bufferOf(planned *backend.Planned, v *ir.Value) int {
	if v == nil {
		return -1
	}
	root := planned.Layout(v).Root
	if root.IsConst() || root.ID >= len(planned.Buffers) {
		return -1
	}
	return planned.Buffers[root.ID]
}

// addUse adds a step to the reads or writes of a buffer, which are those between its first and its last step.
func addUse(b *planner.Buffer, steps *[]int, step int) {
	if n := len(*steps); b.First < step && step < b.Last-1 && (n == 0 || (*steps)[n-1] != step) {
		*steps = append(*steps, step)
	}
}

// stridesOf returns the axes of a layout along which its contiguous pieces follow each other, without axes of size 1. It returns nil for a
// layout of one piece.
func stridesOf(d tensor.DType, l ir.Layout) (list []planner.Stride) {
	if l.Shape.Elements() == 0 {
		return nil
	}
	piece, axis := 1, len(l.Shape)-1 // elements of a piece
	for ; axis >= 0 && (l.Shape[axis] == 1 || l.Strides[axis] == piece); axis-- {
		piece *= l.Shape[axis]
	}
	for ; axis >= 0; axis-- {
		count, step := int64(l.Shape[axis]), int64(d.Bytes(l.Strides[axis]))
		switch {
		case count == 1:
		case len(list) > 0 && step == list[0].Count*list[0].Step:
			list[0].Count *= count
		default:
			list = slices.Insert(list, 0, planner.Stride{Count: count, Step: step})
		}
	}
	return list
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
func (p *plans) Identify(b *Binding, problem *planner.Problem) (err error) {
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
		b.Form = v.Packed.Layout.String()
		b.Kind, b.Detail, b.Boundary = "packed", b.Detail+" as "+b.Form, planner.Param
	default:
		b.Elements = int64(v.Const.Len())
		if d := v.Type.DType; v.Const.Len() > 1 && (d.IsFloat() || d.Size() <= 1 && d != tensor.Bool) {
			b.Boundary = planner.Param
		}
	}
	return b
}

// prove proves a plan, and the stack that it is of for all sizes.
func (p *plans) prove(b *Binding) error {
	if err := planner.Check(b.Planned.Problem, b.Planned.Plan); err != nil {
		return err
	}
	c := claim(b.Planned, p.target(), b.intact)
	c.Made = func(step int, v *ir.Value) ir.Layout {
		l := b.made[step][v.ID]
		if now := b.Planned.Layout(v).Root; l.Root != nil && l.Root.ID == now.ID {
			l.Root = now // it was the root's copy in the graph of another binding
		}
		return l
	}
	if err := proof.Verify(c); err != nil {
		return err
	}
	below, ok := b.box.plan.Stack()
	if !ok {
		return nil
	}
	if err := proof.Verify(stacked(c, b.Planned, below)); err != nil {
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
	c.Layout = p.Layout
	c.Region = func(v *ir.Value) (proof.Region, bool) {
		if i := bufferOf(p, v); i >= 0 {
			return region(i)
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
