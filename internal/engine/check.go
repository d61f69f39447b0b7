package engine

import (
	"fmt"
	"slices"

	"github.com/rlxc/rlxc/internal/bind"
	"github.com/rlxc/rlxc/internal/check"
	"github.com/rlxc/rlxc/ir"
	"github.com/rlxc/rlxc/liveness"
)

// check accepts or rejects a binding before its program is made, and proves it if the options ask for that. The steps in made are new, and
// the others are those of the binding from. If from is nil, all steps are new, and of is the symbolic graph, or nil if no other binding
// will come from this one.
func (p *plans) check(b, from *Binding, made []int, of *check.Symbolic) (err error) {
	pl := b.Planned
	plan := &check.Plan{Graph: pl.Graph, Sizes: b.Dims, Steps: pl.Steps, Layouts: pl.Layouts, Buffers: pl.Buffers, Scratch: pl.Scratch,
		Like: pl.Like, Problem: pl.Problem, Memory: pl.Plan, Held: b.intact, Grown: b.grown, Target: p.target(),
		NoLateReads: p.opts.Liveness == liveness.Off}
	if from != nil {
		b.checked, err = from.checked.Next(plan, made)
	} else {
		b.checked, err = check.First(plan, of)
	}
	if err == nil && p.opts.Verify {
		b.madeFrom(from, made)
		err = p.prove(b)
	}
	if err != nil {
		p.cache.rejected()
		return WithKind(ErrInternal, fmt.Errorf("internal error: the plan at %s is not safe: %w", describe(b.Dims), err))
	}
	return nil
}

// madeFrom notes the layouts from which the steps of a binding are made.
func (b *Binding) madeFrom(from *Binding, made []int) {
	pl := b.Planned
	if from != nil {
		b.made = slices.Clone(from.made)
	} else {
		b.made = make([]map[int]ir.Layout, len(pl.Steps))
	}
	for i, n := range pl.Steps {
		if from != nil && !slices.Contains(made, i) {
			continue
		}
		b.made[i] = map[int]ir.Layout{}
		for _, v := range slices.Concat(n.Inputs, n.Outputs) {
			if v != nil {
				b.made[i][v.ID] = pl.Layout(v)
			}
		}
	}
}

// symbolic returns the symbolic graph from which a bound graph comes; nil if no other sizes follow.
func (x *box) symbolic(g *ir.Graph, bound *bind.Bound) *check.Symbolic {
	if !x.plan.Resizes() {
		return nil
	}
	at := make(map[*ir.Node]int, len(bound.Planned.Graph.Nodes))
	for i, n := range bound.Planned.Graph.Nodes {
		at[n] = i
	}
	return &check.Symbolic{Inputs: x.outside.inputs(g), Source: func(n *ir.Node) *ir.Node { return x.plan.Source(at[n]) }}
}
