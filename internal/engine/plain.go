package engine

import (
	"github.com/rlxc/rlxc/internal/legalize"
	"github.com/rlxc/rlxc/internal/options"
	"github.com/rlxc/rlxc/internal/schedule"
	"github.com/rlxc/rlxc/liveness"
	"github.com/rlxc/rlxc/planner"
)

// PlainBound is what Bind's plan would need at least without tiles, and with all results row-major.
func (p *plans) PlainBound(dims map[string]int, o planner.Options) (int64, error) {
	if err := p.use(); err != nil {
		return 0, err
	}
	defer p.leave()
	b, main, err := p.sizes(dims)
	if err != nil {
		return 0, err
	}
	s := &p.main.stages[main]
	bound, err := s.graph.Bind(restrict(b, s.symbols), p.opts.Level != options.O0)
	if err != nil {
		return 0, bindError(err)
	}
	t := p.target()
	layouts, err := legalize.Graph(bound, t)
	if err != nil {
		return 0, bindError(err)
	}
	m := liveness.New(bound, layouts, t, liveness.Options{Policy: p.opts.Liveness, PinOutputAncestors: p.opts.PinOutputAncestors,
		RowMajor: true})
	return planner.LowerBound(&m.Analyze(schedule.Order((*schedule.Program)(&m.Footprint))).Problem, o)
}
