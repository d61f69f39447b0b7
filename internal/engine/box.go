package engine

import (
	"fmt"

	"github.com/rlxc/rlxc/internal/bind"
	"github.com/rlxc/rlxc/ir"
)

// A box is a plan of a stage and its bindings. A session plans a stage once for many sizes: for those of a run, package bind evaluates the
// decisions of the plan. Where one does not hold, the session makes another box.
type box struct {
	plan     *bind.Plan // what planning decided
	outside  ports      // device tensors of the plan's graph; nil if there are none
	grown    []int      // Binding.grown of all bindings
	bindings []*Binding // the one used last in front
	last     *Binding   // the one made last; nil before the first one
	tables   []int      // IDs of constants of which sizes decide how much is in memory; nil unless the backend is cpu
	file     int64      // bytes of the file that runs read besides tables
	bytes    int64      // estimated heap bytes of one more binding
}

// open prepares a box for more bindings than its first one.
func (x *box) open(p *plans, b *Binding) {
	x.bindings, x.bytes = []*Binding{b}, boundBytes(b)
	if b.Resident == nil {
		return
	}
	x.file = b.Resident.File
	for _, v := range distinct(b.Planned.Graph) {
		if v.Packed == nil && (isTable(v) || b.bound.Moves(v)) {
			x.tables = append(x.tables, v.ID)
			x.file -= p.touched(b.Planned.Graph, v)
		}
	}
}

func bytesOf(v *ir.Value) int64 { return int64(v.Type.DType.Bytes(v.Type.Elements())) }

// allow reports what of a binding is above the limits.
func (p *plans) allow(b *bind.Bound) error {
	if needs, limit := b.Memory(), p.opts.MemoryLimit; needs+b.Host > limit {
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

// mostBindings bounds the bindings of a box: all boxes together may fill a quarter of the cache with them. A device that does not
// resize has one program, which changes.
func (p *plans) mostBindings(x *box) int {
	if !p.device.Target().Resizes {
		return 1
	}
	return int(max(p.cache.share()/4/x.bytes, 1))
}
