package engine

import (
	"math"
	"slices"

	"github.com/rlxc/rlxc/internal/legalize"
	"github.com/rlxc/rlxc/internal/options"
	"github.com/rlxc/rlxc/internal/schedule"
	"github.com/rlxc/rlxc/ir"
	"github.com/rlxc/rlxc/liveness"
	"github.com/rlxc/rlxc/planner"
)

// An OptimalOrder compares the order of a plan's steps with all orders, in bytes.
type OptimalOrder struct {
	Steps int
	// Bound is what every order of the steps needs, with all or none of the results that can be written over parts of buffers.
	Bound int64
	Arena int64 // bytes of a plan with the best order found
}

// OptimalOrder searches for the order of the steps of Bind's plan that needs least, and for a bound. work limits the steps that the search
// looks at in each part of the program whose steps may change places.
func (p *plans) OptimalOrder(dims map[string]int, o planner.Options, work int) (*OptimalOrder, error) {
	if err := p.use(); err != nil {
		return nil, err
	}
	defer p.leave()
	sizes, main, err := p.sizes(dims)
	if err != nil {
		return nil, err
	}
	s := &p.main.stages[main]
	analyse := func() (*liveness.Memory, error) { // an analysis serves one order
		bound, err := s.graph.Bind(restrict(sizes, s.symbols), p.opts.Level != options.O0)
		if err != nil {
			return nil, bindError(err)
		}
		layouts, err := legalize.Graph(bound, p.target())
		if err == nil {
			layouts, _, err = legalize.Tile(bound, layouts, p.target())
		}
		if err != nil {
			return nil, bindError(err)
		}
		return liveness.New(bound, layouts, p.target(), liveness.Options{Policy: p.opts.Liveness,
			PinOutputAncestors: p.opts.PinOutputAncestors}), nil
	}
	m, err := analyse()
	if err != nil {
		return nil, err
	}
	program := (*schedule.Program)(&m.Footprint)
	order := schedule.Order(program)
	m.Analyze(order)
	forms := []*schedule.Program{program} // without results over parts of buffers, and with all that today's order allows
	if over, _ := m.Within(order); over != nil {
		forms = append(forms, (*schedule.Program)(over))
	}
	found := &OptimalOrder{Steps: len(order), Bound: math.MaxInt64, Arena: math.MaxInt64}
	for _, form := range forms {
		order, _, bound := schedule.Optimum(joined(form, m.Steps), work)
		found.Bound = min(found.Bound, bound)
		again, err := analyse()
		if err != nil {
			return nil, err
		}
		plan, err := planner.Solve(&again.Analyze(order).Problem, o)
		if err != nil {
			return nil, err
		}
		found.Arena = min(found.Arena, plan.Committed)
	}
	return found, nil
}

// joined returns a program that needs no more than p in any order, whether or not operands of a Concat are written where its result wants
// them: an operand stays as a part of the result, which counts only for the rest of its bytes.
func joined(p *schedule.Program, steps []*ir.Node) *schedule.Program {
	q := *p
	q.Bytes, q.Held, q.Reads = slices.Clone(p.Bytes), slices.Clone(p.Held), slices.Clone(p.Reads)
	for s, n := range steps {
		if _, ok := n.Op.(ir.Concat); !ok || len(p.Writes[s]) == 0 {
			continue
		}
		result := p.Writes[s][0]
		for _, operand := range q.Reads[s] { // with the parts of an operand that is itself joined
			if q.Bytes[operand] > q.Bytes[result] { // rounding: the operand does not stay
				q.Bytes[result] = 0
				continue
			}
			q.Bytes[result] -= q.Bytes[operand]
			q.Held[operand] = q.Held[operand] || q.Held[result]
			for r, reads := range q.Reads {
				if slices.Contains(reads, result) && !slices.Contains(reads, operand) {
					q.Reads[r] = append(slices.Clone(reads), operand)
				}
			}
		}
	}
	return &q
}
