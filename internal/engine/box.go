package engine

import (
	"fmt"
	"slices"

	"github.com/rlxc/rlxc/internal/bind"
	"github.com/rlxc/rlxc/ir"
	"github.com/rlxc/rlxc/planner"
)

// A box is a plan of a stage and its bindings. A session plans a stage once for many sizes: for those of a run, package bind evaluates the
// decisions of the plan. Where one does not hold, the session makes another box.
type box struct {
	plan     *bind.Plan // what planning decided
	outside  ports      // device tensors of the plan's graph; nil if there are none
	grown    []int      // by output: as Binding.grown
	bindings []*Binding // the one used last in front
	last     *Binding   // the one made last; nil before the first one
	tables   []int      // IDs of constants of which sizes decide how much is in memory; nil unless the backend is cpu
	file     int64      // bytes of the file that runs read besides tables
	bytes    int64      // estimated heap bytes of one more binding
}

// open prepares a box for more bindings than its first one.
func (x *box) open(b *Binding) {
	x.bindings, x.bytes = []*Binding{b}, boundBytes(b)
	if b.Resident == nil {
		return
	}
	x.file = b.Resident.File
	for _, v := range distinct(b.Planned.Graph) {
		if v.Packed == nil && (isTable(v) || b.bound.Moves(v)) {
			x.tables = append(x.tables, v.ID)
			x.file -= touched(v)
		}
	}
}

// resize binds the graph of a box to other sizes.
func (p *Program) resize(x *box, g *ir.Graph, sizes ir.Binding) (*Binding, error) {
	old := x.last
	b, err := p.bound(x, g, sizes)
	if err != nil {
		return nil, err
	}
	if b.Host = old.Host; b.program == old.program {
		b.instance = old.instance
	}
	if old.Resident != nil {
		r := *old.Resident
		r.Arena, r.Inputs, r.File = b.arena, inputBytes(b.Planned.Graph), x.file
		for _, id := range x.tables {
			r.File += touched(b.bound.Value(id))
		}
		b.Resident = &r
	}
	return b, nil
}

func bytesOf(v *ir.Value) int64 { return int64(v.Type.DType.Bytes(v.Type.Elements())) }

// allow reports what of a plan is above the limits.
func (p *Program) allow(b *bind.Bound, plan *planner.Plan) error {
	needs := plan.Committed
	for _, u := range plan.Unplanned {
		needs += b.Planned.Problem.Buffers[u.Buffer].Size
	}
	if limit := p.opts.MemoryLimit; needs+b.Host > limit {
		return WithKind(ErrMemory, &tooMuch{b.Sizes, needs, b.Host, limit})
	}
	if most := p.opts.MaxFlops; most > 0 && b.Flops > most {
		return WithKind(ErrWork, fmt.Errorf("at %s the products need %d operations, the limit is %d", describe(b.Sizes), b.Flops,
			most))
	}
	return nil
}

// tooMuch is a plan above the memory limit.
type tooMuch struct {
	sizes              ir.Binding
	arena, host, limit int64
}

func (e *tooMuch) Error() string {
	beside := ""
	if e.host > 0 {
		beside = fmt.Sprintf(" with %d beside it for a step on the host", e.host)
	}
	return fmt.Sprintf("at %s the arena needs %d bytes%s, the limit is %d", describe(e.sizes), e.arena, beside, e.limit)
}

// boxed returns the binding for the sizes of the run of a stage that has boxes, and its instance.
func (f *frame) boxed(i int) (*Binding, error) {
	seg, p, prog := &f.stages[i], &f.parts[i], f.s.p
	if !slices.Equal(p.outside, p.boxesAt) {
		p.boxes, p.boxesAt = nil, p.outside
	}
	p.boxes = slices.DeleteFunc(p.boxes, func(e *entry) bool { return !prog.cache.has(e) })
	for _, e := range p.boxes {
		x := e.binding.box
		for k, b := range x.bindings {
			if slices.Equal(b.sizes, p.sizes) {
				x.bindings = slices.Insert(slices.Delete(x.bindings, k, k+1), 0, b)
				return b, nil
			}
		}
	}
	sizes, inOrder := restrict(f.sizes, seg.symbols), slices.Clone(p.sizes)
	for k, e := range p.boxes {
		x := e.binding.box
		most := prog.mostBindings(x)
		b, err := prog.resize(x, seg.graph, sizes)
		if err != nil { // the box made for these sizes says what is wrong with them, if something is
			continue
		}
		p.boxes = slices.Insert(slices.Delete(p.boxes, k, k+1), 0, e)
		b.sizes, x.bindings = inOrder, slices.Insert(x.bindings, 0, b)
		surplus := max(0, len(x.bindings)-most)
		x.bindings = slices.Delete(x.bindings, len(x.bindings)-surplus, len(x.bindings))
		prog.cache.add(e, x.bytes*int64(1-surplus))
		return b, nil
	}
	if n := len(p.boxes); n == mostBoxes {
		prog.cache.drop(p.boxes[n-1])
		p.boxes = p.boxes[:n-1]
	}
	f.s.boxes++
	key := cacheKey{stage: seg, of: f.s, box: f.s.boxes}
	e, err := prog.cache.bind(key, func() (*Binding, error) { return prog.plan(seg.graph, sizes, p.outside, seg.symbols) })
	if err != nil {
		prog.cache.drop(e)
		return nil, err
	}
	e.binding.sizes, p.boxes = inOrder, slices.Insert(p.boxes, 0, e)
	return e.binding, nil
}

// mostBoxes bounds the boxes that a session has of a stage.
const mostBoxes = 8

// mostBindings bounds the bindings of a box: all boxes together may fill a quarter of the cache with them. A device that does not
// resize has one program, which changes.
func (p *Program) mostBindings(x *box) int {
	if !p.device.Target().Resizes {
		return 1
	}
	return int(max(p.cache.share()/4/x.bytes, 1))
}
